//! From what a shipper sent to the one form in which an event is stored.
//!
//! Normalising comes before the write-ahead log, so that a replay after a crash gives the same
//! ids and times as the first run. The form is an ordinary JSON object: `id` (text), `timestamp`
//! (microseconds), `event_message` (text) when there is one, then the event's own keys; what those
//! three could not take over stands in `_overflow`, keyed by JSON pointer. Absent things (NULL,
//! `{}`, `[]`) are gone, and an array with exactly one object *is* that object.
//!
//! An event that cannot be stored is refused alone: the others of its call are stored.

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

/// The time of an event in what some shippers send, used where there is no `timestamp`.
const DATE: &str = "date";

/// Levels of nesting that an event may have, itself included. A write-ahead row is read back by a
/// parser that ends at 127, and the row and the overflow each add a level.
pub const MAX_NESTING: usize = 100;

/// What became of the events of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ingested {
    /// Events on stable storage.
    pub stored: usize,
    /// Events that cannot be stored, in the order of the call.
    pub refused: Vec<RefusedEvent>,
}

/// An event that cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedEvent {
    /// Its position in the call, from 0.
    pub index: usize,
    /// What is wrong with it and what would be right.
    pub reason: String,
}

/// A call, ready to be written.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) events: Vec<Value>,
    /// The body of the write-ahead row: the events as a JSON array.
    pub(crate) body: Vec<u8>,
    pub(crate) refused: Vec<RefusedEvent>,
}

/// Normalises and encodes one call; `now` is the time of arrival in microseconds, `max_bytes` the
/// longest that an event may be as JSON.
pub(crate) fn prepare(events: Vec<Value>, now: i64, max_bytes: usize) -> Result<Prepared> {
    let mut prepared = Prepared { events: Vec::with_capacity(events.len()), body: vec![b'['], refused: Vec::new() };
    for (index, event) in events.into_iter().enumerate() {
        if let Err(reason) = prepared.add(event, now, max_bytes)? {
            prepared.refused.push(RefusedEvent { index, reason });
        }
    }
    prepared.body.push(b']');
    Ok(prepared)
}

impl Prepared {
    /// The inner error says why this event cannot be stored.
    fn add(&mut self, event: Value, now: i64, max_bytes: usize) -> Result<Result<(), String>> {
        if !event.is_object() {
            return Ok(Err(format!("an event must be a JSON object, not {}", kind_name(&event))));
        }
        if !nests_within(&event, MAX_NESTING) {
            return Ok(Err(format!(
                "the event nests deeper than {MAX_NESTING} levels; flatten it, or send the deep part as text"
            )));
        }
        let Value::Object(event) = event else { return Ok(Ok(())) };
        let event = Value::Object(one(event, now));
        let before = self.body.len();
        if before > 1 {
            self.body.push(b',');
        }
        let start = self.body.len();
        serde_json::to_writer(&mut self.body, &event).map_err(|e| StoreError::corrupt("an event", e))?;
        let bytes = self.body.len() - start;
        if bytes > max_bytes {
            self.body.truncate(before);
            return Ok(Err(too_long(bytes, max_bytes)));
        }
        self.events.push(event);
        Ok(Ok(()))
    }
}

/// Why an event of so many bytes is refused.
pub fn too_long(bytes: usize, max_bytes: usize) -> String {
    format!("the event has {bytes} bytes as JSON, {max_bytes} are allowed; send less with it, or in several events")
}

fn nests_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Object(map) => levels > 0 && map.values().all(|value| nests_within(value, levels - 1)),
        Value::Array(items) => levels > 0 && items.iter().all(|item| nests_within(item, levels - 1)),
        _ => true,
    }
}

fn one(event: Map<String, Value>, now: i64) -> Map<String, Value> {
    let mut overflow = Map::new();
    let mut out = Map::with_capacity(event.len() + 2);
    // Reserved first, in the order of the columns.
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
                match timestamp::micros(&value) {
                    Some(micros) => {
                        out.insert(key, Value::from(micros));
                    }
                    None => {
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

    if !timed && let Some(micros) = out.get(DATE).and_then(timestamp::of_date) {
        out.insert(TIMESTAMP.to_owned(), Value::from(micros));
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

/// The events of a write-ahead row.
pub(crate) fn decode(body: &[u8], seq: i64) -> Result<Vec<Value>> {
    serde_json::from_slice(body).map_err(|e| StoreError::corrupt(format!("write-ahead row {seq}"), e))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;

    const ROOM: usize = 1 << 20;

    fn norm(event: Value) -> Value {
        let mut prepared = prepare(vec![event], 7, ROOM).unwrap();
        assert_eq!(prepared.refused, []);
        assert_eq!(decode(&prepared.body, 1).unwrap(), prepared.events);
        prepared.events.remove(0)
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
        // A day is not a moment, and a small number is not a time.
        assert_eq!(norm(json!({"date": "2025-11-20"}))["timestamp"], 7);
        assert_eq!(norm(json!({"date": 20_251_120}))["timestamp"], 7);
    }

    fn nested(levels: usize) -> Value {
        (1..levels)
            .fold(json!({"a": 1}), |inner, level| if level % 2 == 0 { json!({"a": inner}) } else { json!([inner, 1]) })
    }

    #[test]
    fn what_cannot_be_stored_is_refused_alone() {
        let long = json!({"id": "long", "event_message": "x".repeat(200)});
        let events = vec![
            json!([1]),
            json!({"id": "a"}),
            long,
            json!({"id": "deep", "a": nested(MAX_NESTING)}),
            json!({"id": "b"}),
            Value::Null,
        ];
        let prepared = prepare(events, 0, 100).unwrap();
        assert_eq!(prepared.events, [json!({"id": "a", "timestamp": 0}), json!({"id": "b", "timestamp": 0})]);
        assert_eq!(decode(&prepared.body, 1).unwrap(), prepared.events);
        let refused: Vec<(usize, &str)> =
            prepared.refused.iter().map(|refused| (refused.index, refused.reason.as_str())).collect();
        assert_eq!(refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 2, 3, 5]);
        assert_eq!(refused[0].1, "an event must be a JSON object, not an array");
        assert!(refused[1].1.contains("100 are allowed"), "{refused:?}");
        assert!(refused[2].1.contains("100 levels"), "{refused:?}");
        let none = prepare(vec![Value::Null], 0, 100).unwrap();
        assert_eq!((none.events.len(), none.body.as_slice()), (0, &b"[]"[..]));
    }

    #[test]
    fn the_deepest_event_is_read_back() {
        // An id that is no id goes to the overflow, one level further down.
        norm(json!({"id": nested(MAX_NESTING - 1)}));
    }
}
