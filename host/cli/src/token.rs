//! `tidegate token`: creates, lists and revokes tokens in a data folder, whether or not a server runs on it. No token
//! is needed: a user with write access to the folder could change the catalog anyway. Over HTTP a private token is
//! needed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::{Args, Subcommand};
use tidegate_model::{Errors, LimitSet};
use tidegate_service::catalog::{TokenRecord, TokenTable};
use tidegate_service::tokens::{Access, NOTICED, NewToken};
use tidegate_store::{Catalog, StoreError};
use uuid::Uuid;

use crate::outcome::Outcome;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder that holds everything
    #[arg(long, env = "TIDEGATE_DATA_DIR", default_value = "tidegate-data", global = true)]
    data_dir: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a token and print it, this once
    Create {
        /// What it may do, separated by blanks: ingest, ingest:source:NAME, query,
        /// query:endpoint:NAME, private
        #[arg(long)]
        scopes: String,
        /// A parameter that it fixes, as NAME=VALUE: --pin project=abc makes it a token of that tenant
        #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
        pin: Vec<(String, String)>,
        /// What a request with it may use at most, as NAME=VALUE: --limit rows=100, --limit request_time=5s;
        /// names as under [limits] in `tidegate serve --help`
        #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
        limit: Vec<(String, String)>,
        /// With which status errors of its queries are answered: status (their own) or ok (200, for log viewers such
        /// as Supabase Studio); as the endpoint or the server says unless given
        #[arg(long, value_parser = errors)]
        errors: Option<Errors>,
        /// What it is for
        #[arg(long, default_value = "")]
        description: String,
        /// When it stops working: in days, as 30d, or an ISO 8601 time
        #[arg(long, value_parser = expiry)]
        expires: Option<i64>,
    },
    /// List the tokens that are not revoked
    List,
    /// Revoke a token by its id; a server that runs refuses it from then on
    Revoke {
        /// The token's id, as `list` shows it
        id: Uuid,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let catalog = Catalog::open_beside(&arguments.data_dir)?;
    let tokens = TokenTable(&catalog);
    match &arguments.command {
        Command::Create { scopes, pin, limit, errors, description, expires } => {
            let mut pinned = BTreeMap::new();
            for (name, value) in pin {
                if pinned.insert(name.clone(), value.clone()).is_some() {
                    return Err(format!("--pin {name} is given twice").into());
                }
            }
            let mut limits = LimitSet::new();
            for (name, text) in limit {
                if limits.iter().any(|(known, _)| known == name) {
                    return Err(format!("--limit {name} is given twice").into());
                }
                limits.set(name, text).map_err(|error| format!("--limit: {error}"))?;
            }
            let new = NewToken {
                description: description.clone(),
                pinned,
                limits,
                errors: *errors,
                expires_at: *expires,
                ..NewToken::new(scopes)
            };
            for warning in new.warnings(&catalog)? {
                eprintln!("warning: {warning}");
            }
            let is_first = is_first_of_its_kind(&catalog, &new)?;
            let (token, record) = new.make(&catalog)?;
            eprintln!("Token {} was made. It is shown this once; keep it:", record.id);
            println!("{token}");
            if is_first {
                eprintln!(
                    "No other token has these scopes, names of pinned values and limits. What it reads stands in the log of a \
                     server that runs on this folder, and is told by: tidegate access {}",
                    record.id
                );
            }
            wait();
        }
        Command::List => {
            for record in tokens.all()?.iter().filter(|record| record.revoked_at.is_none()) {
                println!("{}", line(record));
            }
        }
        Command::Revoke { id } => {
            if !tokens.all()?.iter().any(|record| record.id == *id) {
                return Err(format!("there is no token {id}; tidegate token list shows those there are").into());
            }
            tokens.revoke(*id)?;
            wait();
            eprintln!("Token {id} is revoked.");
        }
    }
    Ok(())
}

/// Whether no token that counts has the rights of one that is about to be made. Private tokens read everything, as is known.
fn is_first_of_its_kind(catalog: &Catalog, new: &NewToken) -> Result<bool, StoreError> {
    let own = Access::of_record(&new.record(""));
    let now = Utc::now().timestamp_micros();
    let counts = |record: &TokenRecord| record.revoked_at.is_none() && record.expires_at.is_none_or(|end| now < end);
    let of_its_kind = |record: &TokenRecord| Access::of_record(record).class() == own.class();
    let tokens = TokenTable(catalog).all()?;
    Ok(!own.is_private() && !tokens.iter().any(|record| counts(record) && of_its_kind(record)))
}

/// Waits until a server on the same folder has noticed the change. Servers check for changes at short intervals.
fn wait() {
    std::thread::sleep(NOTICED);
}

fn line(record: &TokenRecord) -> String {
    let mut line = format!("{}  {}", record.id, record.scopes);
    if record.pinned != "{}" {
        line.push_str(&format!("  {}", record.pinned));
    }
    if record.limits != "{}" {
        line.push_str(&format!("  limits {}", record.limits));
    }
    if let Some(errors) = &record.errors {
        line.push_str(&format!("  errors {}", errors.escape_debug()));
    }
    if let Some(time) = record.expires_at.and_then(DateTime::from_timestamp_micros) {
        let word = if time < Utc::now() { "expired" } else { "expires" };
        line.push_str(&format!("  {word} {}", time.to_rfc3339_opts(SecondsFormat::Secs, true)));
    }
    if let Some(time) = record.last_used.and_then(DateTime::from_timestamp_micros) {
        line.push_str(&format!("  used {}", time.to_rfc3339_opts(SecondsFormat::Secs, true)));
    }
    if !record.description.is_empty() {
        // Descriptions are escaped, because any user that may create tokens could otherwise send control characters to
        // the terminal.
        line.push_str(&format!("  {}", record.description.escape_debug()));
    }
    line
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, e.g. project=abc or rows=100")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn errors(text: &str) -> Result<Errors, String> {
    Errors::named(text).ok_or_else(|| format!("write {}", Errors::CHOICES))
}

pub(crate) fn expiry(text: &str) -> Result<i64, String> {
    if let Some(days) = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok()) {
        let age = Duration::from_secs(u64::from(days) * 86_400);
        return Ok((Utc::now() + age).timestamp_micros());
    }
    tidegate_model::parse_timestamp(text).ok_or_else(|| "write 30d, or a time as 2027-01-31T12:00:00Z".to_owned())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn pins_and_expiries_are_read() {
        assert_eq!(pair("project=a=b").unwrap(), ("project".to_owned(), "a=b".to_owned()));
        assert!(pair("project").is_err());
        let day = 86_400_000_000;
        let away = expiry("2d").unwrap() - Utc::now().timestamp_micros();
        assert!((2 * day - 60_000_000..=2 * day).contains(&away), "{away}");
        assert_eq!(expiry("1970-01-02T00:00:00Z").unwrap(), day);
        assert!(expiry("soon").is_err() && expiry("-1d").is_err());
    }
}
