//! `tidegate tail`: the newest rows of an endpoint's table, and then each new one, in the terminal.
//!
//! The command reads the events of the route of queries. Where the connection breaks off, it asks again with the id of the
//! last event, so that no row is lost or shown twice as far as the server still has them; what it does not have is told.

use std::error::Error;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::thread::sleep;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use crate::client::{Client, ServerArguments, plain, segment};
use crate::outcome::Outcome;

/// The pauses before the next try while the server cannot be reached.
const PAUSES: [u64; 5] = [1, 2, 4, 8, 15];
/// The longest line of a stream, in bytes: a row.
const LONGEST: u64 = 64 << 20;
/// The fields in which logs have their severity, and those with the text of an event.
const SEVERITIES: [&str; 6] = ["level", "severity", "severity_text", "error_severity", "metadata_level", "status"];
const TEXTS: [&str; 3] = ["event_message", "message", "msg"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Time, severity, message and the other fields
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The endpoint
    endpoint: String,
    /// Filters in LQL; without them every row of the first granted table
    lql: Option<String>,
    /// A query in SQL instead: SELECT columns FROM table WHERE condition
    #[arg(long, conflicts_with = "lql")]
    sql: Option<String>,
    /// A parameter of the endpoint
    #[arg(short = 'p', long = "parameter", value_name = "NAME=VALUE")]
    parameters: Vec<String>,
    /// How rows are shown
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Begin with all rows since then: 30s, 10m, 2h, 1d ago, or a time such as 2026-01-31T12:00:00Z
    #[arg(long)]
    since: Option<String>,
    /// Begin with so many of the newest rows
    #[arg(short = 'n', long)]
    rows: Option<u32>,
    #[command(flatten)]
    server: ServerArguments,
}

/// What one event says.
#[derive(Debug, Default)]
struct Event {
    id: Option<String>,
    name: String,
    data: String,
}

/// Why a stream was left.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    /// It broke off, or the server stops: it can go on.
    Again,
    /// It is over, for this reason.
    Over(String),
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let client = Client::new(&arguments.server, "a token that may query the endpoint")?;
    let path = path(arguments)?;
    let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let (mut last, mut tries, mut begun) = (None::<String>, 0, false);
    loop {
        let left = match client.events(&path, last.as_deref()) {
            Ok(stream) => {
                (tries, begun) = (0, true);
                read(stream, &mut last, arguments.format, colours)?
            }
            Err(error) if error.is_final || !begun => return Err(error.message.into()),
            Err(error) => {
                eprintln!("tidegate: {}", plain(&error.message, 500));
                Left::Again
            }
        };
        if let Left::Over(reason) = left {
            return Err(reason.into());
        }
        let pause = PAUSES.get(tries).or(PAUSES.last()).copied().unwrap_or(1);
        tries += 1;
        sleep(Duration::from_secs(pause));
    }
}

fn path(arguments: &Arguments) -> Result<String, Box<dyn Error>> {
    let Arguments { endpoint, lql, sql, parameters, format: _, since, rows, server: _ } = arguments;
    let mut query = form_urlencoded::Serializer::new(String::new());
    for parameter in parameters {
        let Some((name, value)) = parameter.split_once('=') else {
            return Err(format!("{parameter}: a parameter is written NAME=VALUE").into());
        };
        query.append_pair(name, value);
    }
    let rows = rows.map(|rows| rows.to_string());
    for (name, value) in [("lql", lql), ("sql", sql), ("follow_since", since), ("follow_rows", &rows)] {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    Ok(format!("/api/endpoints/query/{}?{}", segment(endpoint), query.finish()))
}

/// Shows the events of a stream until it ends. `last` is the id of the last event.
fn read(
    stream: impl std::io::Read,
    last: &mut Option<String>,
    format: Format,
    colours: bool,
) -> Result<Left, Box<dyn Error>> {
    let (mut lines, mut line, mut event) = (BufReader::new(stream), Vec::new(), Event::default());
    let mut out = std::io::stdout().lock();
    loop {
        line.clear();
        // A stream that breaks off ends with an error or in the middle of an event. Its id does not count then, so that it
        // is sent again.
        let read = std::io::Read::take(&mut lines, LONGEST).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) || line.pop() != Some(b'\n') {
            return Ok(Left::Again);
        }
        let text = String::from_utf8_lossy(&line);
        if let Some(id) = text.strip_prefix("id: ") {
            event.id = Some(id.to_owned());
        } else if let Some(name) = text.strip_prefix("event: ") {
            name.clone_into(&mut event.name);
        } else if let Some(data) = text.strip_prefix("data: ") {
            event.data.push_str(data);
        } else if text.is_empty() {
            let Event { id, name, data } = std::mem::take(&mut event);
            let left = show(&mut out, &name, &data, format, colours)?;
            if id.is_some() {
                *last = id;
            }
            if let Some(left) = left {
                return Ok(left);
            }
        }
    }
}

fn show(
    out: &mut impl Write,
    name: &str,
    data: &str,
    format: Format,
    colours: bool,
) -> Result<Option<Left>, Box<dyn Error>> {
    if data.is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_str(data).unwrap_or_default();
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    match name {
        "" => {
            match (format, &value) {
                (Format::Text, Value::Object(row)) => writeln!(out, "{}", text(row, colours))?,
                _ => writeln!(out, "{data}")?,
            }
            out.flush()?;
        }
        "missed" => {
            let rows = value.get("rows").and_then(Value::as_u64).unwrap_or(0);
            eprintln!("tidegate: {rows} rows were missed: they came faster than they could be read");
        }
        "gap" => eprintln!("tidegate: {}", plain(field("message"), 500)),
        "end" => {
            let failure = value.get("error").and_then(|error| error.get("message")).and_then(Value::as_str);
            let reason = plain(failure.unwrap_or(field("message")), 500);
            return Ok(Some(match field("reason") {
                "shutdown" | "endpoint_changed" => {
                    eprintln!("tidegate: {reason}");
                    Left::Again
                }
                _ => Left::Over(reason),
            }));
        }
        _ => {}
    }
    Ok(None)
}

/// A row as one line: time, severity, message, and the other fields as `name=value`.
fn text(row: &Map<String, Value>, colours: bool) -> String {
    let first = |names: &[&str]| names.iter().find(|name| row.contains_key(**name)).map(|name| (*name).to_owned());
    let (level, message) = (severity(row), first(&TEXTS));
    let mut line = String::new();
    let mut add = |part: &str| {
        if !line.is_empty() && !part.is_empty() {
            line.push(' ');
        }
        line.push_str(part);
    };
    if let Some(time) = row.get("timestamp") {
        add(&moment(time));
    }
    if let Some(name) = &message {
        if let Some(level) = &level {
            add(level);
        }
        add(&row.get(name).map(shown).unwrap_or_default());
    }
    for (name, value) in row.iter().filter(|(name, value)| *name != "timestamp" && !value.is_null()) {
        if Some(name) != message.as_ref() {
            add(&format!("{}={}", plain(name, 200), shown(&filled(value))));
        }
    }
    match colours.then(|| colour(level.as_deref().unwrap_or_default())).flatten() {
        Some(colour) => format!("\u{1b}[{colour}m{line}\u{1b}[0m"),
        None => line,
    }
}

/// The severity of a row, in its columns or one record below them.
fn severity(row: &Map<String, Value>) -> Option<String> {
    let of = |record: &Map<String, Value>| {
        let value = SEVERITIES.iter().find_map(|name| record.get(*name).filter(|value| !value.is_null()))?;
        Some(shown(value))
    };
    let record = |value: &Value| match value {
        Value::Object(record) => of(record),
        Value::Array(items) => of(items.first()?.as_object()?),
        _ => None,
    };
    of(row).or_else(|| record(row.get("metadata")?))
}

/// The colour of a severity, as the number of the terminal; of an HTTP status by its class.
fn colour(severity: &str) -> Option<u8> {
    let lower = severity.to_ascii_lowercase();
    match lower.as_str() {
        "fatal" | "panic" | "critical" | "emergency" | "alert" | "error" | "err" => Some(31),
        "warn" | "warning" => Some(33),
        "debug" | "trace" | "verbose" => Some(90),
        status if status.len() == 3 && status.starts_with('5') => Some(31),
        status if status.len() == 3 && status.starts_with('4') => Some(33),
        _ => None,
    }
}

/// A time for people: answers have it as microseconds since 1970.
fn moment(time: &Value) -> String {
    match time.as_i64().and_then(chrono::DateTime::from_timestamp_micros) {
        Some(time) => time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
        None => shown(time),
    }
}

/// A value without the fields that are NULL: records have all fields that any record of their source had.
fn filled(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name.clone(), filled(value))).collect())
        }
        Value::Array(items) => items.iter().map(filled).collect(),
        other => other.clone(),
    }
}

/// A value without its quotes. Control characters of logs do not reach the terminal.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    plain(&text, 10_000).replace('\n', " ")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn shown_as(row: &str, colours: bool) -> String {
        text(serde_json::from_str::<Value>(row).unwrap().as_object().unwrap(), colours)
    }

    #[test]
    fn a_row_is_a_line_for_people() {
        let row = r#"{"timestamp": "2026-01-01", "event_message": "it\u001b[2J broke\n", "level": "error", "n": 1, "x": null}"#;
        assert_eq!(shown_as(row, false), "2026-01-01 error it [2J broke  level=error n=1");
        assert!(shown_as(row, true).starts_with("\u{1b}[31m2026-01-01"));
        assert_eq!(shown_as(r#"{"a": {"b": 1}}"#, true), r#"a={"b":1}"#);
        let row = r#"{"timestamp": 1769860800123456, "m": [{"a": null, "b": [{"c": null, "d": 0}]}]}"#;
        assert_eq!(shown_as(row, false), r#"2026-01-31T12:00:00.123Z m=[{"b":[{"d":0}]}]"#);
        assert!(
            shown_as(r#"{"metadata": [{"level": "warning"}], "event_message": "m"}"#, true).starts_with("\u{1b}[33m")
        );
    }

    #[test]
    fn a_stream_is_read_event_by_event() {
        let mut last = None;
        let stream = ": alive\nid: 5\n\nid: 5.0.0\ndata: {\"a\":1}\n\nevent: end\nid: 6\ndata: {\"reason\":\"token_revoked\",\"message\":\"it was revoked\"}\n\n";
        let left = read(stream.as_bytes(), &mut last, Format::Json, false).unwrap();
        assert_eq!((left, last.as_deref()), (Left::Over("it was revoked".to_owned()), Some("6")));
        let left = read("id: 7.0.0\ndata: {\"a\"".as_bytes(), &mut last, Format::Json, false).unwrap();
        assert_eq!((left, last.as_deref()), (Left::Again, Some("6")), "the row that broke off is sent again");
    }
}
