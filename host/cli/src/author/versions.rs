//! `tidegate versions`: what an endpoint was, and since when.

use std::error::Error;

use clap::Args;
use serde_json::Value;

use crate::client::{Client, ServerArguments, endpoint_path, plain};
use crate::outcome::Outcome;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The endpoint, by name or id
    name: String,
    #[command(flatten)]
    server: ServerArguments,
}

/// A version on record.
pub(super) struct Version {
    pub(super) number: i64,
    saved: String,
    author: String,
    pub(super) digest: String,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let client = Client::new(&arguments.server, "a private token")?;
    let versions = all(&client, &arguments.name)?;
    let width = versions.iter().map(|version| version.author.chars().count()).max().unwrap_or(0).max("AUTHOR".len());
    println!("  VERSION  SAVED                {:width$}  SHA-256", "AUTHOR");
    for (i, Version { number, saved, author, digest }) in versions.iter().enumerate() {
        let mark = if i == 0 { '*' } else { ' ' };
        println!("{mark} {number:>7}  {saved:<19}  {author:width$}  {}", digest.get(..12).unwrap_or_default());
    }
    Ok(())
}

/// All versions, the newest and current one first.
///
/// # Errors
/// The server's; an answer that is none.
pub(super) fn all(client: &Client, name: &str) -> Result<Vec<Version>, Box<dyn Error>> {
    let answer = client.json("GET", &format!("{}/versions", endpoint_path(name)))?;
    let text = |version: &Value, field: &str| plain(version.get(field).and_then(Value::as_str).unwrap_or_default(), 80);
    let read = |version: &Value| {
        Some(Version {
            number: version.get("version")?.as_i64()?,
            // To the second.
            saved: text(version, "inserted_at").chars().take(19).collect(),
            author: text(version, "author"),
            digest: text(version, "digest"),
        })
    };
    let versions = answer.as_array().and_then(|versions| versions.iter().map(read).collect::<Option<Vec<_>>>());
    versions.ok_or_else(|| "the answer is no list of versions; is a Tidegate server at that address?".into())
}
