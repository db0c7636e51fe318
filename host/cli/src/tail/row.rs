//! A row as a line for people.

use serde_json::{Map, Value};

use crate::client::plain;

/// The fields in which logs have their severity, and those with the text of an event.
const SEVERITIES: [&str; 6] = ["level", "severity", "severity_text", "error_severity", "metadata_level", "status"];
const TEXTS: [&str; 3] = ["event_message", "message", "msg"];

/// A row as one line: time, severity, message, and the other fields as `name=value`.
pub(super) fn text(row: &Map<String, Value>, colours: bool) -> String {
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
}
