//! `tidegate access`: which rows and columns of which sources a token reads, and who reads a source. The server plans it.

mod table;

use clap::{ArgGroup, Args};

use crate::client::{Client, ServerArguments, plain, segment};
use crate::outcome::Outcome;

/// The longest line that is printed.
const LONGEST_LINE: usize = 4_000;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("whose").required(true).args(["token", "all", "rule"])))]
pub(crate) struct Arguments {
    /// The token, by its id, as `tidegate token list` shows it; or `current`, the one in TIDEGATE_TOKEN
    #[arg(value_name = "TOKEN-ID")]
    token: Option<String>,
    /// All who read: tokens by classes, which are those with the same scopes, names of pinned values and limits; rules of
    /// issuers; alerts
    #[arg(long)]
    all: bool,
    /// The tokens of an issuer to which this rule applies, as ISSUER/RULE: main/1 is the first rule of main, unless it has a
    /// name
    #[arg(long, value_name = "ISSUER/RULE")]
    rule: Option<String>,
    /// Only what reads this source, by name or id
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Print JSON, sorted and without times where all are told, so that it can be kept in a repository
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { token, all: _, rule, source, json, server } = arguments;
    let is_own = token.as_deref() == Some("current");
    if is_own && source.is_some() {
        return Err(
            "--source is for those who may know who reads a source; `current` tells of all that the token reads".into(),
        );
    }
    let client = Client::new(server, if is_own { "the token" } else { "a private token" })?;
    let path = match token {
        Some(token) => format!("/api/access-tokens/{}/access", segment(token)),
        None => "/api/access".to_owned(),
    };
    let narrowed = [("source", source), ("rule", rule)].into_iter();
    let narrowed: Vec<String> =
        narrowed.filter_map(|(name, value)| Some(format!("{name}={}", segment(value.as_deref()?)))).collect();
    let path = if narrowed.is_empty() { path } else { format!("{path}?{}", narrowed.join("&")) };
    let report = client.json("GET", &path)?;
    if *json {
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    let lines = match report.get("classes") {
        Some(_) => table::of_all(&report),
        None => table::of_token(&report),
    };
    for line in lines {
        println!("{}", plain(&line, LONGEST_LINE).trim_end());
    }
    Ok(())
}
