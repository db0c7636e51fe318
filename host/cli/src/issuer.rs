//! `tidegate issuer`: the deny list of a server, by which tokens of issuers are refused before they end.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::{Client, ServerArguments, plain, segment};
use crate::outcome::Outcome;
use crate::token::expiry;

const LIST: &str = "/api/issuers/denied";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Refuse the tokens of a subject, or one token, until a time
    Deny {
        /// The issuer: its name in the configuration, or its iss
        issuer: String,
        /// The sub of the tokens
        #[arg(long, required_unless_present = "jti", conflicts_with = "jti")]
        subject: Option<String>,
        /// The jti of one token
        #[arg(long)]
        jti: Option<String>,
        /// Until when: in days, as 30d, or an ISO 8601 time; at most 366 days ahead
        #[arg(long, value_parser = expiry)]
        until: i64,
        /// Why, for people
        #[arg(long, default_value = "")]
        reason: String,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// List the tokens that are refused
    Denied {
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Refuse tokens no longer
    Allow {
        /// The entry's id, as `denied` shows it
        id: String,
        #[command(flatten)]
        server: ServerArguments,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::Deny { issuer, subject, jti, until, reason, server } => {
            let until = chrono::DateTime::from_timestamp_micros(*until).ok_or("--until is no time that there is")?;
            let until = until.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
            let sent = json!({"issuer": issuer, "subject": subject, "jti": jti, "until": until, "reason": reason});
            let client = Client::new(server, "a private token")?;
            let sent = sent.to_string();
            let entry = client.call("POST", LIST, Some(("application/json", sent.as_bytes())))?.json()?;
            println!("{}", plain(&line(&entry), 4_000));
        }
        Command::Denied { server } => {
            let entries = Client::new(server, "a private token")?.json("GET", LIST)?;
            let entries = entries.as_array().ok_or("the answer is no list; is a Tidegate server at that address?")?;
            for entry in entries {
                println!("{}", plain(&line(entry), 4_000));
            }
        }
        Command::Allow { id, server } => {
            let path = format!("{LIST}/{}", segment(id));
            Client::new(server, "a private token")?.call("DELETE", &path, None)?;
            eprintln!("{} is allowed.", plain(id, 100));
        }
    }
    Ok(())
}

/// An entry on one line.
fn line(entry: &Value) -> String {
    let text = |field: &str| entry.get(field).and_then(Value::as_str);
    let issuer = text("name").or_else(|| text("issuer")).unwrap_or_default();
    let (claim, value) = match (text("subject"), text("jti")) {
        (None, Some(jti)) => ("jti", jti),
        (subject, _) => ("subject", subject.unwrap_or_default()),
    };
    let (id, until) = (text("id").unwrap_or_default(), text("until").unwrap_or_default());
    let mut line = format!("{id}  {issuer}  {claim} {value}  until {until}");
    if let Some(reason) = text("reason").filter(|reason| !reason.is_empty()) {
        line.push_str(&format!("  {reason}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_line() {
        let entry = json!({
            "id": "1", "name": null, "issuer": "https://id.example.com/", "subject": null, "jti": "t1",
            "until": "2027-01-31T12:00:00Z", "reason": "lost",
        });
        assert_eq!(line(&entry), "1  https://id.example.com/  jti t1  until 2027-01-31T12:00:00Z  lost");
        let entry = json!({"id": "1", "name": "main", "subject": "u1", "jti": null, "until": "t", "reason": ""});
        assert_eq!(line(&entry), "1  main  subject u1  until t");
    }
}
