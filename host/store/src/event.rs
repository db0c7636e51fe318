//! From what a shipper sent to the one form in which an event is stored.
//!
//! Normalising comes before the write-ahead log, so that a replay after a crash gives the same
//! ids and times as the first run. The form is an ordinary JSON object: `id` (text), `timestamp`
//! (microseconds), `event_message` (text) when there is one, then the event's own keys; what those
//! three could not take over stands in `_overflow`, keyed by JSON pointer. Absent things (NULL,
//! `{}`, `[]`) are gone, and an array with exactly one object *is* that object.

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    error::{Result, StoreError},
    timestamp,
};

pub(crate) const ID: &str = "id";
pub(crate) const TIMESTAMP: &str = "timestamp";
pub(crate) const MESSAGE: &str = "event_message";
pub(crate) const METADATA: &str = "metadata";
pub(crate) const OVERFLOW: &str = "_overflow";

/// Normalises one call; `now` is the time of arrival in microseconds.
pub(crate) fn normalise(events: Vec<Value>, now: i64) -> Result<Vec<Value>> {
    events
        .into_iter()
        .enumerate()
        .map(|(index, event)| match event {
            Value::Object(event) => Ok(Value::Object(one(event, now))),
            other => Err(StoreError::InvalidEvent {
                index,
                reason: format!("an event must be a JSON object, not {}", kind_name(&other)),
            }),
        })
        .collect()
}

fn one(event: Map<String, Value>, now: i64) -> Map<String, Value> {
    let mut overflow = Map::new();
    let mut out = Map::with_capacity(event.len() + 2);
    // Reserved first, in the order of the columns.
    out.insert(ID.to_owned(), Value::Null);
    out.insert(TIMESTAMP.to_owned(), Value::from(now));
    let mut message = None;
    let mut fallback = None;

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
            TIMESTAMP => match timestamp::micros(&value) {
                Some(micros) => {
                    out.insert(key, Value::from(micros));
                }
                None => {
                    overflow.insert(format!("/{TIMESTAMP}"), value);
                }
            },
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

/// Turns what means "absent" (`null`, `{}`, `[]`) into NULL, drops it from what holds it, and
/// unwraps singletons; all in place, since most events need few changes. Arrays that are neither
/// all records nor all scalars stay word for word: they are kept as JSON.
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

/// What the array is to be replaced by, if it is.
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

fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// One call as the body of its write-ahead row.
pub(crate) fn encode(events: &[Value]) -> Result<Vec<u8>> {
    serde_json::to_vec(events).map_err(|e| StoreError::corrupt("an event", e))
}

/// The events of a write-ahead row.
pub(crate) fn decode(body: &[u8], seq: i64) -> Result<Vec<Value>> {
    serde_json::from_slice(body).map_err(|e| StoreError::corrupt(format!("write-ahead row {seq}"), e))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn norm(event: Value) -> Value {
        normalise(vec![event], 7).unwrap().remove(0)
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
    fn only_objects_are_events() {
        let error = normalise(vec![json!({}), json!([1])], 0).unwrap_err();
        assert_eq!(error.to_string(), "event 1: an event must be a JSON object, not an array");
    }
}
