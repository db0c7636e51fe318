//! `tidegate rollback`: an earlier version becomes the newest, through the gate like any other.

use clap::Args;
use serde_json::Value;

use super::versions;
use crate::client::{Client, ServerArguments, endpoint_path, plain};
use crate::outcome::Outcome;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The endpoint, by name or id
    name: String,
    /// The version to go back to; the newest that differs from the current one unless given
    version: Option<i64>,
    #[command(flatten)]
    server: ServerArguments,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let client = Client::new(&arguments.server, "a private token")?;
    let name = &arguments.name;
    let versions = versions::all(&client, name)?;
    let current = versions.first();
    let before = versions.iter().find(|version| current.is_some_and(|current| version.digest != current.digest));
    let Some(wanted) = arguments.version.or(before.map(|version| version.number)) else {
        return Err(format!("{name} was never anything else; tidegate versions shows what there is").into());
    };
    let path = format!("{}/versions/{wanted}/restore", endpoint_path(name));
    let now = client.call("POST", &path, None)?.json()?;
    let number = now.get("version").and_then(Value::as_i64).unwrap_or_default();
    if current.is_some_and(|current| current.number == number) {
        println!("{name}: version {number}, the current one, is what version {wanted} was already");
    } else {
        println!("{name}: version {number} is now what version {wanted} was");
    }
    for warning in now.get("warnings").and_then(Value::as_array).into_iter().flatten() {
        println!("  warning: {}", plain(warning.as_str().unwrap_or_default(), 500));
    }
    Ok(())
}
