//! The fields of an event where a protocol has none of its own for the message and the time.
//!
//! The message is the first of [`MESSAGES`] that is there, the time the first of [`TIMES`] that is a moment. The store
//! reads most of these names itself; here are those that it leaves alone, because at `/api/logs` they are ordinary
//! fields.

use http::request::Parts;
use serde_json::{Map, Value};
use tidegate_store::event_time;

/// The names of the message, in the order in which they are tried. `MESSAGE` is that of syslog-ng and of the systemd journal.
const MESSAGES: [&str; 7] = ["event_message", "message", "msg", "log", "body", "MESSAGE", "line"];
/// The names of the time, in the order in which they are tried. `timestamp` is used if it is there at all.
const TIMES: [&str; 5] = ["timestamp", "@timestamp", "time", "ts", "date"];
/// 2001-09-09 in seconds. A smaller number in a field `time` is rather a duration, in a field `date` rather a date.
const MOMENTS_FROM: f64 = 1e9;
/// The most bytes of a record that become its message where it has none.
const LONGEST_TEXT: usize = 4 << 10;

pub(super) type Fields = Map<String, Value>;

/// Takes the message out of the fields. The first two names may hold any value, the others text only: a field `body`
/// that is a record is data. A `message` that is a record or a list stays, so that what is in it can be read by its name.
fn take_message(fields: &mut Fields) -> Option<Value> {
    let is_message = |name: &&&str| match fields.get(**name) {
        None | Some(Value::Null) => false,
        Some(value) => value.is_string() || matches!(**name, "event_message" | "message"),
    };
    let name = MESSAGES.iter().find(is_message)?;
    match fields.get(*name) {
        Some(data @ (Value::Object(_) | Value::Array(_))) if *name == "message" => Some(data.clone()),
        _ => fields.shift_remove(*name),
    }
}

/// The value of the field with the time. `timestamp` is taken out of the fields, the others stay.
fn take_time(fields: &mut Fields) -> Option<Value> {
    let [timestamp, at_timestamp, ..] = TIMES;
    if let Some(time) = fields.shift_remove(timestamp).filter(|time| !time.is_null()) {
        return Some(time);
    }
    let certain = TIMES.iter().find_map(|name| fields.get(*name).filter(|value| is_certain(value)));
    // What no time can be made of is counted by the store, under the name that it has.
    certain.or_else(|| fields.get(at_timestamp)).cloned()
}

/// Whether a field that may also have another meaning is a moment.
fn is_certain(value: &Value) -> bool {
    let may_be = match value {
        Value::Number(number) => number.as_f64().is_some_and(|number| number >= MOMENTS_FROM),
        Value::String(text) if text.contains(':') => true,
        Value::String(text) => text.trim().parse().is_ok_and(|number: f64| number >= MOMENTS_FROM),
        _ => false,
    };
    may_be && event_time(value).is_some()
}

/// Makes the first of these fields that is there the time of a record that has none.
pub(super) fn set_time(fields: &mut Fields, names: &[&str]) {
    let time = names.iter().find_map(|name| fields.get(*name).filter(|time| !time.is_null())).cloned();
    if let Some(time) = time.filter(|_| !fields.contains_key("timestamp")) {
        fields.insert("timestamp".to_owned(), time);
    }
}

/// The parameters with these names in the query string of a request.
pub(super) fn query_parameters(head: &Parts, names: &[&str]) -> impl Iterator<Item = (String, String)> {
    let query = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()).into_owned();
    query.filter(|(name, _)| names.contains(&name.as_str()))
}

/// An event whose fields stay where they are, as at `/api/logs`.
pub(super) fn flat(mut fields: Fields) -> Value {
    let is_there = |fields: &Fields, name: &str| fields.get(name).is_some_and(|value| !value.is_null());
    if !is_there(&fields, "event_message")
        && let Some(message) = take_message(&mut fields)
    {
        fields.insert("event_message".to_owned(), message);
    }
    if !is_there(&fields, "timestamp")
        && let Some(time) = take_time(&mut fields)
    {
        fields.insert("timestamp".to_owned(), time);
    }
    Value::Object(fields)
}

/// An event whose fields are those of `metadata`. `message` makes the message of fields that have none. Fields that
/// have a record `metadata` already are such an event and stay as they are.
pub(super) fn nested(mut fields: Fields, message: impl FnOnce(&Fields) -> Option<String>) -> Value {
    if fields.get("metadata").is_some_and(Value::is_object) {
        return flat(fields);
    }
    let made = take_message(&mut fields).or_else(|| message(&fields).map(Value::String));
    let time = take_time(&mut fields);
    let id = fields.shift_remove("id");
    let project = fields.get("project").cloned();
    event([("id", id), ("timestamp", time), ("event_message", made), ("project", project)], fields)
}

/// An event of these fields and this metadata.
pub(super) fn event<const N: usize>(own: [(&str, Option<Value>); N], metadata: Fields) -> Value {
    let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let mut event: Fields = own.collect();
    if !metadata.is_empty() {
        event.insert("metadata".to_owned(), Value::Object(metadata));
    }
    Value::Object(event)
}

/// The record as JSON, for one that has no message; its beginning if it is long.
pub(super) fn as_text(fields: &Fields) -> Option<String> {
    let mut text = serde_json::to_string(fields).ok()?;
    let end = (0..=LONGEST_TEXT.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.truncate(end);
    Some(text)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> Fields {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn the_message_is_the_first_that_is_there() {
        let message = |value| take_message(&mut fields(value));
        assert_eq!(message(json!({"log": "l", "body": "b", "msg": "m"})), Some(json!("m")));
        assert_eq!(message(json!({"log": {"file": 1}, "body": "b"})), Some(json!("b")));
        assert_eq!(message(json!({"message": {"a": 1}, "log": "l"})), Some(json!({"a": 1})));
        assert_eq!(message(json!({"message": null, "event_message": "e"})), Some(json!("e")));
        assert_eq!(message(json!({"body": {"a": 1}})), None);
        assert_eq!(message(json!({"MESSAGE": "M", "line": "l"})), Some(json!("M")));
        assert_eq!(message(json!({"line": "l"})), Some(json!("l")));
        assert_eq!(message(json!({"line": 42})), None);
    }

    #[test]
    fn a_message_that_is_a_record_stays_one() {
        let record = json!({"message": {"a": 1}, "severity": "info"});
        let expected = json!({"message": {"a": 1}, "severity": "info", "event_message": {"a": 1}});
        assert_eq!(flat(fields(record.clone())), expected);
        let expected = json!({"event_message": {"a": 1}, "metadata": {"message": {"a": 1}, "severity": "info"}});
        assert_eq!(nested(fields(record), as_text), expected);
    }

    #[test]
    fn the_time_is_the_first_that_is_a_moment() {
        let time = |value| take_time(&mut fields(value));
        assert_eq!(time(json!({"date": 1_763_633_702, "ts": 1_763_633_703.5})), Some(json!(1_763_633_703.5)));
        assert_eq!(time(json!({"time": 17, "date": "2025-11-20T10:15:02Z"})), Some(json!("2025-11-20T10:15:02Z")));
        assert_eq!(time(json!({"timestamp": "soon", "ts": 1_763_633_703})), Some(json!("soon")));
        assert_eq!(time(json!({"timestamp": null, "@timestamp": "soon"})), Some(json!("soon")));
        assert_eq!(time(json!({"time": "soon", "ts": 5, "date": 20_251_120})), None);
    }

    #[test]
    fn a_record_becomes_metadata_unless_it_has_its_own() {
        let sent = json!({"id": "1", "message": "m", "project": "p", "ts": 1_763_633_703, "a": {"b": 1}});
        let expected = json!({
            "id": "1", "timestamp": 1_763_633_703, "event_message": "m", "project": "p",
            "metadata": {"project": "p", "ts": 1_763_633_703, "a": {"b": 1}},
        });
        assert_eq!(nested(fields(sent), as_text), expected);
        let own = json!({"log": "m", "metadata": {"a": 1}});
        assert_eq!(nested(fields(own), as_text), json!({"event_message": "m", "metadata": {"a": 1}}));
        let none = nested(fields(json!({"a": 1})), as_text);
        assert_eq!(none, json!({"event_message": "{\"a\":1}", "metadata": {"a": 1}}));
        let long = as_text(&fields(json!({"a": "\u{20ac}".repeat(5000)}))).unwrap();
        assert!((LONGEST_TEXT - 2..=LONGEST_TEXT).contains(&long.len()));
    }
}
