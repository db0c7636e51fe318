//! Events in the one form in which they are stored.
//!
//! Normalising happens before the write-ahead log, so that a replay after a crash gives the same ids and times. The
//! form is a JSON object: `id` (text), `timestamp` (microseconds), `event_message` (text) if there is one, then the
//! event's own keys. What these three could not represent is in `_overflow`, by JSON pointer. Empty values (NULL, `{}`,
//! `[]`) are removed, and an array of exactly one object is replaced by the object.

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    field_names::{ID, MESSAGE, OVERFLOW, TIMESTAMP},
    ingest::{
        event_time,
        json_tree::{MAX_VALUES, too_many_values},
    },
};

/// An event whose time is later than its arrival by more than this many microseconds is counted: it would be the newest
/// for long.
const AHEAD: i64 = 24 * 3600 * 1_000_000;

/// Counts of unusual times in a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TimeCounts {
    /// Events whose time cannot be read. They get the time of their arrival.
    pub(crate) unread: usize,
    /// Events with a time more than a day after their arrival.
    pub(crate) ahead: usize,
}

/// The most levels of nesting of an event, itself included. A write-ahead row is read by a parser whose limit is 127,
/// and the row and the overflow add a level each.
pub const MAX_NESTING: usize = 100;

/// The JSON parser interprets an object whose first key begins like this as a marker of its own. Such data could not be
/// read back unchanged.
const RESERVED: &str = "$serde_json::private::";

/// Whether an event can be stored: bounded in nesting and in number of values, without a reserved key.
///
/// # Errors
/// What is wrong with it, in words for its sender.
pub(crate) fn check(event: &Value) -> Result<(), String> {
    let mut values = 0;
    check_value(event, MAX_NESTING, &mut values)
}

fn check_value(value: &Value, levels: usize, values: &mut usize) -> Result<(), String> {
    *values += 1;
    if *values > MAX_VALUES {
        return Err(too_many_values());
    }
    if levels == 0 && (value.is_object() || value.is_array()) {
        return Err(format!(
            "the event nests deeper than {MAX_NESTING} levels; flatten it, or send the deep part as text"
        ));
    }
    match value {
        Value::Object(map) => map.iter().try_for_each(|(key, value)| {
            if key.starts_with(RESERVED) {
                return Err(format!("the key `{key}` is reserved; send it under another name"));
            }
            check_value(value, levels - 1, values)
        }),
        Value::Array(items) => items.iter().try_for_each(|item| check_value(item, levels - 1, values)),
        _ => Ok(()),
    }
}

/// The event in the form in which it is stored. `now` is the time of arrival in microseconds.
pub(crate) fn normalise(event: Map<String, Value>, now: i64, times: &mut TimeCounts) -> Map<String, Value> {
    let mut overflow = Map::new();
    let mut out = Map::with_capacity(event.len() + 2);
    // The reserved fields come first, in the order of the columns.
    out.insert(ID.to_owned(), Value::Null);
    out.insert(TIMESTAMP.to_owned(), Value::from(now));
    let mut message = None;
    let mut fallback = None;
    let mut timed = false;

    for (key, mut value) in event {
        prune(&mut value);
        if value.is_null() {
            continue;
        }
        match key.as_str() {
            ID => match value {
                Value::String(text) if !text.is_empty() => {
                    out.insert(key, Value::String(text));
                }
                Value::Number(number) => {
                    out.insert(key, Value::String(number.to_string()));
                }
                Value::String(_) => {}
                other => {
                    overflow.insert(format!("/{ID}"), other);
                }
            },
            TIMESTAMP => {
                timed = true;
                match event_time::micros(&value) {
                    Some(micros) => {
                        out.insert(key, Value::from(micros));
                    }
                    None => {
                        times.unread += 1;
                        overflow.insert(format!("/{TIMESTAMP}"), value);
                    }
                }
            }
            MESSAGE => message = Some(value),
            "message" => fallback = Some(value),
            OVERFLOW => {
                overflow.insert(format!("/{OVERFLOW}"), value);
            }
            _ => {
                out.insert(key, value);
            }
        }
    }

    if !timed {
        let (found, unread) = event_time::of_others(&out);
        times.unread += usize::from(unread);
        if let Some(micros) = found {
            out.insert(TIMESTAMP.to_owned(), Value::from(micros));
        }
    }
    let time = out.get(TIMESTAMP).and_then(Value::as_i64);
    times.ahead += usize::from(time.is_some_and(|time| time > now.saturating_add(AHEAD)));
    if let (Some(_), Some(value)) = (&message, &fallback) {
        out.insert("message".to_owned(), value.clone());
    }
    if let Some(value) = message.or(fallback) {
        out.insert(MESSAGE.to_owned(), Value::String(into_text(value)));
    }
    if let Some(id) = out.get_mut(ID)
        && id.is_null()
    {
        *id = Value::String(Uuid::new_v4().to_string());
    }
    if !overflow.is_empty() {
        out.insert(OVERFLOW.to_owned(), Value::Object(overflow));
    }
    out
}

/// Replaces empty values (`null`, `{}`, `[]`) by NULL, removes them from what contains them, and unwraps arrays of one
/// object. Everything happens in place, because most events need few changes. Arrays that have neither only objects nor
/// only scalars stay unchanged; they are stored as JSON.
fn prune(value: &mut Value) {
    let replacement = match value {
        Value::Object(map) => {
            let mut absent = false;
            for value in map.values_mut() {
                prune(value);
                absent |= value.is_null();
            }
            if absent {
                map.retain(|_, value| !value.is_null());
            }
            map.is_empty().then_some(Value::Null)
        }
        Value::Array(items) => prune_array(items),
        _ => None,
    };
    if let Some(replacement) = replacement {
        *value = replacement;
    }
}

/// The value by which the array is to be replaced, if it is.
fn prune_array(items: &mut Vec<Value>) -> Option<Value> {
    let records = items.iter().all(|item| matches!(item, Value::Null | Value::Object(_)));
    let scalars = items.iter().all(|item| !matches!(item, Value::Array(_) | Value::Object(_)));
    if !records && !scalars {
        return None;
    }
    items.iter_mut().for_each(prune);
    items.retain(|item| !item.is_null());
    match items.len() {
        0 => Some(Value::Null),
        1 if records => items.pop(),
        _ => None,
    }
}

fn into_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

pub(crate) fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::ingest::{intake::Intake, json_tree::stored_events};

    /// The event as it is read back.
    fn norm(event: Value) -> Value {
        let mut intake = Intake::new(7, 1 << 20);
        assert!(intake.add(event), "{:?}", intake.refused());
        stored_events(&intake.finish().body, 1).next().unwrap().unwrap()
    }

    #[test]
    fn ids() {
        assert_eq!(norm(json!({"id": "x"}))["id"], "x");
        assert_eq!(norm(json!({"id": 17}))["id"], "17");
        assert!(Uuid::parse_str(norm(json!({}))["id"].as_str().unwrap()).is_ok());
        assert!(Uuid::parse_str(norm(json!({"id": null}))["id"].as_str().unwrap()).is_ok());
        let odd = norm(json!({"id": true}));
        assert!(Uuid::parse_str(odd["id"].as_str().unwrap()).is_ok());
        assert_eq!(odd["_overflow"], json!({"/id": true}));
    }

    #[test]
    fn times() {
        assert_eq!(norm(json!({}))["timestamp"], 7);
        assert_eq!(norm(json!({"timestamp": null}))["timestamp"], 7);
        assert_eq!(norm(json!({"timestamp": 1_763_633_702}))["timestamp"], 1_763_633_702_000_000_i64);
        let odd = norm(json!({"timestamp": "soon"}));
        assert_eq!(odd["timestamp"], 7);
        assert_eq!(odd["_overflow"], json!({"/timestamp": "soon"}));
    }

    #[test]
    fn messages() {
        assert_eq!(norm(json!({"event_message": "a", "message": "b"}))["event_message"], "a");
        assert_eq!(norm(json!({"event_message": "a", "message": "b"}))["message"], "b");
        assert_eq!(norm(json!({"message": "b"}))["event_message"], "b");
        assert_eq!(norm(json!({"message": "b"})).get("message"), None);
        assert_eq!(norm(json!({"event_message": null, "message": "b"}))["event_message"], "b");
        assert_eq!(norm(json!({"event_message": ""}))["event_message"], "");
        assert_eq!(norm(json!({"event_message": {"a": 1}}))["event_message"], "{\"a\":1}");
        assert_eq!(norm(json!({})).get("event_message"), None);
    }

    #[test]
    fn absence_and_singletons() {
        let event = norm(json!({
            "a": null, "b": {}, "c": [], "d": [null], "e": [{}], "f": {"g": {"h": null}},
            "i": [{"j": [{"k": 1}, null]}], "l": [1, null, 2], "m": [{"n": 1}, {"n": 2}],
            "o": [[1], {"p": null}], "_overflow": 3,
        }));
        let event = event.as_object().unwrap();
        for gone in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(event.get(gone), None, "{gone}");
        }
        assert_eq!(event["i"], json!({"j": {"k": 1}}));
        assert_eq!(event["l"], json!([1, 2]));
        assert_eq!(event["m"], json!([{"n": 1}, {"n": 2}]));
        assert_eq!(event["o"], json!([[1], {"p": null}]));
        assert_eq!(event["_overflow"], json!({"/_overflow": 3}));
    }

    #[test]
    fn a_date_is_the_time_where_there_is_no_other() {
        let at = 1_763_633_702_123_456_i64;
        let event = norm(json!({"date": 1_763_633_702.123456, "log": "x"}));
        assert_eq!((&event["timestamp"], &event["date"]), (&json!(at), &json!(1_763_633_702.123456)));
        assert_eq!(norm(json!({"date": "2025-11-20T10:15:02.123456Z"}))["timestamp"], at);
        assert_eq!(
            norm(json!({"date": "2025-11-20T10:15:02.123456Z", "timestamp": 1_763_633_702}))["timestamp"],
            at - 123_456
        );
        assert_eq!(norm(json!({"date": 1_763_633_702, "timestamp": "soon"}))["timestamp"], 7);
        for (other, value) in [
            ("@timestamp", json!("2025-11-20T10:15:02.123456Z")),
            ("@timestamp", json!("2025-11-20 10:15:02,123456")),
            ("time", json!(1_763_633_702_123.456)),
            ("time", json!("1763633702.123456")),
        ] {
            let event = norm(json!({other: value, "log": "x"}));
            assert_eq!((&event["timestamp"], &event[other]), (&json!(at), &value), "{other}");
        }
        let event = norm(json!({"date": 1_763_633_702, "time": "12 ms", "@timestamp": 1_763_633_702.123456}));
        assert_eq!(event["timestamp"], at);
        assert_eq!(norm(json!({"time": "12:30 at noon", "date": 1_763_633_702}))["timestamp"], at - 123_456);
        // A day is not a moment, and a small number is not a time.
        assert_eq!(norm(json!({"time": 12.5}))["timestamp"], 7);
        assert_eq!(norm(json!({"date": "2025-11-20"}))["timestamp"], 7);
        assert_eq!(norm(json!({"date": 20_251_120}))["timestamp"], 7);
    }

    fn nested(levels: usize) -> Value {
        (1..levels)
            .fold(json!({"a": 1}), |inner, level| if level % 2 == 0 { json!({"a": inner}) } else { json!([inner, 1]) })
    }

    #[test]
    fn the_deepest_event_is_read_back() {
        // An id that is no id goes to the overflow, one level further down.
        norm(json!({"id": nested(MAX_NESTING - 1)}));
    }
}
