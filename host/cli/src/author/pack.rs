//! `tidegate pack`: packs onto a server, endpoint by endpoint, through the server's gate.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tidegate_service::workbench::{Scene, TrialError, Workbench};

use super::packs::{Pack, Packed, SHIPPED};
use super::push::{Saved, save, warn};
use crate::client::{Client, ServerArguments, plain, segment};
use crate::outcome::Outcome;
use crate::runtime::runtime;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the packs that this program has inside, and their endpoints
    List,
    /// Save the endpoints of a pack on a server; what is there already is no new version
    Install(Install),
}

#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The pack: its name, or the path of a folder of endpoint folders
    pack: String,
    #[command(flatten)]
    server: ServerArguments,
}

pub(super) fn run(command: &Command) -> Outcome {
    match command {
        Command::List => list(),
        Command::Install(arguments) => install(arguments),
    }
}

fn list() -> Outcome {
    for shipped in SHIPPED {
        println!("{}: {}", shipped.name, shipped.description);
        let manifests = shipped.manifests()?;
        let width = manifests.iter().map(|manifest| manifest.name.as_str().len()).max().unwrap_or(0);
        for manifest in manifests {
            println!("  {:width$}  {}", manifest.name.as_str(), manifest.description);
        }
    }
    Ok(())
}

fn install(arguments: &Install) -> Outcome {
    // What is missing is told before a long build.
    let client = Client::new(&arguments.server, "a private token")?;
    let pack = Pack::find(&arguments.pack)?;
    try_all(&pack)?;
    let (mut saved, mut replaced) = (0, None);
    for Packed { manifest, component } in &pack.endpoints {
        let name = manifest.name.as_str();
        let Saved { before, version, answer } =
            save(&client, name, component, "?make_sources=true").map_err(|error| {
                format!(
                    "{name}: {error}\n  {saved} of {} endpoints of the pack were saved before",
                    pack.endpoints.len()
                )
            })?;
        saved += 1;
        let made = answer.get("made_sources").and_then(serde_json::Value::as_array).into_iter().flatten();
        for source in made.filter_map(serde_json::Value::as_str) {
            println!("the source {} is made", plain(source, 255));
        }
        match before {
            0 => println!("{name}: new, version {version}"),
            before if before == version => println!("{name}: unchanged, version {version}"),
            before => {
                println!("{name}: version {version}, before it {before}");
                replaced.get_or_insert(name);
            }
        }
        warn(&answer);
    }
    declare(&client, &pack)?;
    println!("{}: {saved} endpoints are on {}", pack.name, client.base());
    if let Some(name) = replaced {
        println!("  what an endpoint was before comes back with: tidegate rollback {name}");
    }
    Ok(())
}

/// Has sources say whose their rows are, where they do not say it yet.
fn declare(client: &Client, pack: &Pack) -> Outcome {
    if pack.sources.is_empty() {
        return Ok(());
    }
    let listed = client.json("GET", "/api/sources")?;
    for (name, tenant) in &pack.sources {
        let shown = plain(name, 255);
        let of_name = |source: &&Value| source.get("name").and_then(Value::as_str) == Some(name);
        let Some(source) = listed.as_array().and_then(|all| all.iter().find(of_name)) else {
            println!("the source {shown} does not exist, so nothing says whose its rows are; the pack says {tenant}");
            continue;
        };
        match source.get("tenant").filter(|there| !there.is_null()) {
            Some(there) if *there == json!(tenant) => {}
            Some(there) => println!(
                "the source {shown} says {}, which stays; the pack says {tenant}",
                plain(&there.to_string(), 500)
            ),
            None => {
                let sent = json!({"tenant": tenant}).to_string();
                let path = format!("/api/sources/{}", segment(name));
                let answer = client.call("PATCH", &path, Some(("application/json", sent.as_bytes())))?.json()?;
                println!("the source {shown} says whose its rows are: {tenant}");
                warn(&answer);
            }
        }
    }
    Ok(())
}

/// Passes every endpoint through the gate on this machine, so that a mistake in the last is told before the first is saved.
fn try_all(pack: &Pack) -> Outcome {
    let workbench = Workbench::start()?;
    runtime()?.block_on(async {
        for Packed { manifest, component } in &pack.endpoints {
            let scene = Scene { logs: Default::default(), now: super::case::DEFAULT_NOW, others: Scene::none };
            match workbench.trial(component, scene).await {
                Ok(trial) => trial.close().await?,
                Err(TrialError::Refused(failure)) => {
                    return Err(format!("{}: {failure}; nothing is saved", manifest.name).into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    })
}
