//! `tidegate check`: what can be known of an endpoint before anyone calls it. Its statements are planned
//! over their grants, with the columns of sample logs and of the folder's own cases; what each of them
//! reads is told, for whoever reviews it.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use tidegate_compiler::{Folder, Source, inspect};
use tidegate_model::Position;
use tidegate_service::workbench::{Checked, Finding, Logs, Part, Scene, TrialError, Workbench};
use tidegate_sql::Reads;

use super::build::built;
use super::case::{Case, DEFAULT_NOW};
use super::push::{self, Refusing};
use super::test::unknown_source;
use crate::client::{Client, ServerArguments};
use crate::outcome::Outcome;
use crate::runtime::runtime;
use crate::sample;

/// Sample logs of each source: enough for all their columns.
const SAMPLES: usize = 200;
const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The endpoint's folder
    folder: PathBuf,
    /// The module or component that is checked, for an endpoint with code that was built already
    #[arg(long)]
    module: Option<PathBuf>,
    /// Ask the server, too, and exit with 1 if tokens would read more than before
    #[arg(long)]
    refuse_wider: bool,
    /// Exit with 1 if there are warnings
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    server: ServerArguments,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folder = Folder::read(&arguments.folder)?;
    let computed = folder.source != Source::Sql;
    // What takes a toolchain is not built for this.
    let is_built = arguments.module.is_some() || matches!(folder.source, Source::Sql | Source::Component(_));
    let component = if is_built { Some(built(&folder, arguments.module.as_deref())?) } else { None };
    let scene = Scene { logs: logs_of_cases(&folder)?, now: DEFAULT_NOW, others: samples };
    let workbench = Workbench::start()?;
    let mut checked = runtime()?.block_on(async {
        let mut checked = workbench.check(&folder.manifest, computed, scene.clone()).await?;
        // What only the gate can tell of a component whose statements are sound.
        if let (Some(component), true) = (&component, checked.errors.is_empty()) {
            match workbench.trial(component, scene).await {
                Ok(trial) => trial.close().await?,
                Err(TrialError::Refused(failure)) => {
                    checked.errors.push(Finding { part: Part::Manifest, failure });
                }
                Err(error) => return Err(error),
            }
        }
        Ok::<_, TrialError>(checked)
    })?;
    let errors = std::mem::take(&mut checked.errors);
    print(&folder, &checked);
    match &component {
        Some(component) => {
            let inspection = inspect(component)?;
            println!(
                "  component: {} bytes, world {}, imports {}",
                component.len(),
                inspection.world.name(),
                inspection.imports.join(", ")
            );
        }
        None => println!("  component: not built; tidegate build, test and push check what is built"),
    }
    for finding in &checked.warnings {
        eprintln!("warning: {}", told(&folder.path, finding));
    }
    for source in &checked.unknown_sources {
        eprintln!("note: {}", unknown_source(source));
    }
    for finding in &errors {
        eprintln!("error: {}", told(&folder.path, finding));
    }
    match errors.len() {
        0 if arguments.strict && !checked.warnings.is_empty() => Err("there are warnings, and --strict".into()),
        0 if arguments.refuse_wider => refuse_wider(arguments, &folder, component.as_deref()),
        0 => Ok(()),
        1 => Err("1 error".into()),
        errors => Err(format!("{errors} errors").into()),
    }
}

/// Asks a server whether tokens would read more through the endpoint than before.
fn refuse_wider(arguments: &Arguments, folder: &Folder, component: Option<&[u8]>) -> Outcome {
    let client = Client::new(&arguments.server, "a private token")?;
    let component = component.ok_or("--refuse-wider is about what is built: give it with --module")?;
    let refusing = Refusing { wider: true, warnings: arguments.strict };
    let answer = push::checked(&client, folder.manifest.name.as_str(), component, refusing)?;
    push::warn(&answer);
    println!("  no token of {} reads more than before", client.base());
    Ok(())
}

fn samples(source: &str, now: i64) -> Vec<Value> {
    sample::events(source, SAMPLES, now, DAY, 1).collect()
}

/// The logs of all cases, beside sample logs of the same sources: they tell what columns there are.
fn logs_of_cases(folder: &Folder) -> Result<Logs, super::case::CaseError> {
    let mut logs = Logs::new();
    for path in &folder.tests {
        let (case, _) = Case::read(path)?;
        for (source, events) in case.logs() {
            logs.entry(source).or_default().extend(events);
        }
    }
    for (source, events) in &mut logs {
        events.extend(samples(source, DEFAULT_NOW));
    }
    Ok(logs)
}

fn print(folder: &Folder, checked: &Checked) {
    println!("{}", folder.manifest.name);
    for (what, reading) in [("grant", &checked.grants), ("statement", &checked.statements)] {
        for (name, reads) in reading {
            println!("  {what} {name} reads {}", listed(reads));
        }
    }
}

fn listed(reads: &Reads) -> String {
    let of_table = |(table, columns): (&String, &std::collections::BTreeSet<String>)| {
        format!("{table}: {}", columns.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    };
    match reads.is_empty() {
        true => "no columns".to_owned(),
        false => reads.iter().map(of_table).collect::<Vec<_>>().join("; "),
    }
}

/// A finding with its place, as compilers write it.
fn told(folder: &Path, finding: &Finding) -> String {
    let Finding { part, failure } = finding;
    let file = match part {
        Part::Manifest => folder.join("endpoint.toml"),
        Part::Query => folder.join("query.sql"),
        Part::Statement(name) => folder.join("statements").join(format!("{name}.sql")),
    };
    match failure.position {
        Some(Position { line, column }) => format!("{}:{line}:{column}: {}", file.display(), failure.message),
        None => format!("{}: {}", file.display(), failure.message),
    }
}
