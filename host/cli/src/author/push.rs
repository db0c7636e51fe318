//! `tidegate push`: a folder onto a server, through the server's gate.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use tidegate_compiler::Folder;
use tidegate_model::{EndpointName, Manifest};

use super::build::built;
use crate::client::{Client, ServerArguments, endpoint_path, plain, segment};
use crate::outcome::Outcome;

/// The kind of content that a component is.
const WASM: &str = "application/wasm";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The endpoint's folder
    folder: PathBuf,
    /// Another name than the folder's, e.g. for a copy to try
    #[arg(long)]
    name: Option<String>,
    /// A module or component that was built already
    #[arg(long)]
    module: Option<PathBuf>,
    /// Ask the server whether it would take the endpoint, and save nothing
    #[arg(long)]
    dry_run: bool,
    /// Save nothing, and exit with 1, if tokens would read more than before
    #[arg(long)]
    refuse_wider: bool,
    /// Save nothing, and exit with 1, if there are warnings
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    server: ServerArguments,
}

/// What a server refuses beside what it always does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusing {
    /// A change through which tokens would read more than before.
    pub(super) wider: bool,
    /// One with warnings.
    pub(super) warnings: bool,
}

impl Refusing {
    /// The query string that says so.
    fn query(self) -> String {
        format!("?refuse_wider={}&strict={}", self.wider, self.warnings)
    }
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    // What is missing is told before a long build.
    let client = Client::new(&arguments.server, "a private token")?;
    let mut folder = Folder::read(&arguments.folder)?;
    if let Some(name) = &arguments.name {
        folder.manifest.name = EndpointName::try_from(name.clone())?;
    }
    let component = built(&folder, arguments.module.as_deref())?;
    let name = folder.manifest.name.as_str();
    let refusing = Refusing { wider: arguments.refuse_wider, warnings: arguments.strict };
    if arguments.dry_run {
        let checked = checked(&client, name, &component, refusing)?;
        let unchanged = checked.get("unchanged").and_then(Value::as_bool) == Some(true);
        let would = match (unchanged, checked.get("version").and_then(Value::as_i64)) {
            (true, Some(version)) => format!("unchanged, it is version {version}"),
            (_, Some(version)) => format!("would follow version {version}"),
            (_, None) => "would be new".to_owned(),
        };
        println!("{name}: {would}, {} bytes; nothing is saved", component.len());
        warn(&checked);
        return Ok(());
    }
    let Saved { before, version, answer } = save(&client, name, &component, &refusing.query())?;
    let same = if version == before { ", unchanged" } else { "" };
    println!("{name}: version {version}, {} bytes{same}", component.len());
    warn(&answer);
    if !folder.manifest.alerts.is_empty() {
        let names: Vec<&str> = folder.manifest.alerts.iter().map(|alert| alert.name.as_str()).collect();
        println!("  alerts: {} (tidegate alert list {name})", names.join(", "));
    }
    println!("  {}", call(client.base(), &folder.manifest));
    Ok(())
}

/// What a server says of a component without saving it.
///
/// # Errors
/// As [`Client::call`].
pub(super) fn checked(
    client: &Client,
    name: &str,
    component: &[u8],
    refusing: Refusing,
) -> Result<Value, Box<dyn Error>> {
    let path = format!("{}/component/check{}", endpoint_path(name), refusing.query());
    client.call("POST", &path, Some((WASM, component)))?.json()
}

/// What became of a component on a server.
pub(super) struct Saved {
    /// The version that was there; 0 if none was.
    pub(super) before: i64,
    /// The version that is there now.
    pub(super) version: i64,
    /// What the server says of it.
    pub(super) answer: Value,
}

/// Saves a component under its endpoint's name; `how` is the query string of that.
///
/// # Errors
/// As [`Client::call`].
pub(super) fn save(client: &Client, name: &str, component: &[u8], how: &str) -> Result<Saved, Box<dyn Error>> {
    let own = endpoint_path(name);
    let version = |answer: &Value| answer.get("version").and_then(Value::as_i64).unwrap_or_default();
    // What is wrong with the token or the address is told by the call after it.
    let there = client.send("GET", &own, None).ok().filter(|reply| reply.status == 200);
    let before = there.as_ref().and_then(|reply| reply.json().ok()).map_or(0, |endpoint| version(&endpoint));
    // What was saved after that is not what is told here, so it is not replaced.
    let tag = there.as_ref().and_then(|reply| reply.tag.as_deref());
    // A proxy that compresses makes a tag weak, which the server does not take.
    let only = tag.map(|tag| ("if-match", tag.strip_prefix("W/").unwrap_or(tag)));
    let body = Some((WASM, component));
    let answer = client.call_with(only, "PUT", &format!("{own}/component{how}"), body)?.json()?;
    Ok(Saved { before, version: version(&answer), answer })
}

/// What the server remarks.
pub(super) fn warn(answer: &Value) {
    for warning in answer.get("warnings").and_then(Value::as_array).into_iter().flatten() {
        println!("  warning: {}", plain(warning.as_str().unwrap_or_default(), 500));
    }
}

/// A line to paste that calls an endpoint; what it must be given stands in capitals.
fn call(base: &str, manifest: &Manifest) -> String {
    let required = manifest.parameters.iter().filter(|parameter| parameter.required && parameter.default.is_none());
    let given: Vec<String> = required
        .map(|parameter| {
            let value = parameter.allowed.first().map_or_else(|| parameter.name.to_uppercase(), |value| segment(value));
            format!("{}={value}", parameter.name)
        })
        .collect();
    let mark = if given.is_empty() { "" } else { "?" };
    let path = format!("/api/endpoints/query/{}", segment(manifest.name.as_str()));
    format!("curl -H \"X-API-KEY: $TIDEGATE_TOKEN\" '{base}{path}{mark}{}'", given.join("&"))
}
