//! `tidegate source`: the sources of a server, and whose their rows are.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tidegate_model::{KeyPath, SourceTenancy};

use crate::client::{Client, ServerArguments, plain, segment};
use crate::outcome::Outcome;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the sources, with whose their rows are
    List {
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Show one source: how much it holds, whose its rows are, how long they are kept
    Show {
        /// The source, by name or id
        name: String,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Delete a source with all its rows; refused while an endpoint reads it
    Delete {
        /// The source, by name or id
        name: String,
        /// It is meant that tokens read more of other sources after it
        #[arg(long)]
        widens: bool,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Say whose the rows of a source are. A token that pins a key reads those rows only that have its value there
    Tenant {
        /// The source, by name or id
        name: String,
        /// Keys with the field that holds each, as project=metadata.project; or `shared`: all tenants may read all rows; or
        /// `none`: nobody says it, and tokens of tenants are refused
        #[arg(required = true, value_name = "KEY=PATH | shared | none")]
        keys: Vec<String>,
        /// It is meant that tokens read more by that. Without it, the server changes nothing and tells what they would read
        #[arg(long)]
        widens: bool,
        #[command(flatten)]
        server: ServerArguments,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::List { server } => list(server),
        Command::Show { name, server } => {
            let source = Client::new(server, "a private token")?.json("GET", &path(name))?;
            for line in lines(&source) {
                println!("{}", plain(&line, 2_000));
            }
            Ok(())
        }
        Command::Tenant { name, keys, widens, server } => tenant(name, keys, *widens, server),
        Command::Delete { name, widens, server } => delete(name, *widens, server),
    }
}

fn path(name: &str) -> String {
    format!("/api/sources/{}", segment(name))
}

fn list(server: &ServerArguments) -> Outcome {
    let sources = Client::new(server, "a private token")?.json("GET", "/api/sources")?;
    let sources =
        sources.as_array().ok_or("the answer is no list of sources; is a Tidegate server at that address?")?;
    let width = sources.iter().map(|source| text(source, "name").chars().count()).max().unwrap_or_default();
    for source in sources {
        let name = text(source, "name");
        println!("{}", plain(&format!("{name:<width$}  {}", tenancy(source)), 2_000));
    }
    Ok(())
}

fn tenant(name: &str, keys: &[String], widens: bool, server: &ServerArguments) -> Outcome {
    let mut sent = json!({"tenant": parsed(keys)?});
    if let (true, Some(fields)) = (widens, sent.as_object_mut()) {
        fields.insert("widens".to_owned(), true.into());
    }
    let sent = sent.to_string();
    let client = Client::new(server, "a private token")?;
    let answer = client.call("PATCH", &path(name), Some(("application/json", sent.as_bytes())));
    let source = answer.map_err(|error| with_flag(error.to_string()))?.json()?;
    println!("{}", plain(&format!("{}: {}", text(&source, "name"), tenancy(&source)), 2_000));
    for warning in source.get("warnings").and_then(Value::as_array).into_iter().flatten() {
        println!("  warning: {}", plain(warning.as_str().unwrap_or_default(), 2_000));
    }
    Ok(())
}

fn delete(name: &str, widens: bool, server: &ServerArguments) -> Outcome {
    let how = if widens { "?widens=true" } else { "" };
    let client = Client::new(server, "a private token")?;
    client.call("DELETE", &format!("{}{how}", path(name)), None).map_err(|error| with_flag(error.to_string()))?;
    println!("{}: deleted, with all its rows", plain(name, 255));
    Ok(())
}

/// A refusal, with the flag that says that what it tells is meant.
fn with_flag(error: String) -> String {
    if error.contains("set widens to true") { format!("{error}\n  --widens says that this is meant") } else { error }
}

/// What a source is to say, as it is typed: one word, or keys with paths.
fn parsed(keys: &[String]) -> Result<Option<SourceTenancy>, String> {
    match keys {
        [word] if word == "none" => return Ok(None),
        [word] if word == "shared" => return Ok(Some(SourceTenancy::Shared)),
        _ => {}
    }
    let mut paths: BTreeMap<String, KeyPath> = BTreeMap::new();
    for key in keys {
        let (name, path) = key.split_once('=').ok_or_else(|| {
            format!("'{key}' is no key with its field: write project=metadata.project, or shared or none alone")
        })?;
        if paths.insert(name.to_owned(), path.parse()?).is_some() {
            return Err(format!("the key {name} is given twice"));
        }
    }
    Ok(Some(SourceTenancy::Keyed(paths)))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Whose the rows of a source are, for readers.
fn tenancy(source: &Value) -> String {
    let tenant = source.get("tenant").filter(|tenant| !tenant.is_null());
    match tenant.map(|tenant| serde_json::from_value::<SourceTenancy>(tenant.clone())) {
        None => "nobody says whose its rows are; tokens of tenants are refused".to_owned(),
        Some(Ok(SourceTenancy::Shared)) => "shared by all tenants".to_owned(),
        Some(Ok(keys)) => format!("tenant keys {keys}"),
        Some(Err(_)) => "says of its tenants what this program does not know".to_owned(),
    }
}

fn lines(source: &Value) -> Vec<String> {
    let mut lines = vec![format!("{}  {}", text(source, "name"), text(source, "id"))];
    lines.push(format!("  {}", tenancy(source)));
    let shown = |field: &str| match source.get(field) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    for field in ["rows", "bytes", "oldest", "newest", "fields", "retention_days", "retention_bytes"] {
        lines.push(format!("  {field} {}", shown(field)));
    }
    lines
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn read(keys: &[&str]) -> Result<Value, String> {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        parsed(&keys).map(|tenancy| json!(tenancy))
    }

    #[test]
    fn tenant_keys_are_read_as_they_are_typed() {
        assert_eq!(read(&["none"]).unwrap(), Value::Null);
        assert_eq!(read(&["shared"]).unwrap(), json!("shared"));
        let keys = json!({"project": "metadata.project", "team": "team"});
        assert_eq!(read(&["team=team", "project=metadata.project"]).unwrap(), keys);
        for wrong in
            [&["project"][..], &["shared", "project=project"], &["a=b", "a=c"], &["project="], &["none", "none"]]
        {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_a_source_says_is_told() {
        assert_eq!(tenancy(&json!({"tenant": {"project": "a.b"}})), "tenant keys project=a.b");
        assert!(tenancy(&json!({"tenant": "shared"})).contains("shared"));
        assert!(tenancy(&json!({"tenant": null})).contains("refused"));
        assert!(tenancy(&json!({"tenant": 5})).contains("does not know"));
    }
}
