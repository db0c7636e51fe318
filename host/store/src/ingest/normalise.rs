//! Events in the one form in which they are stored.
//!
//! Normalising happens before the write-ahead log, so that a replay after a crash gives the same ids and times. The
//! form is a JSON object: `id` (text), `timestamp` (microseconds), `event_message` (text) if there is one, then the
//! event's own keys. What these three could not represent is in `_overflow`, by JSON pointer. Empty values (NULL, `{}`,
//! `[]`) are removed, and an array of exactly one object is replaced by the object.

use std::{io, ops::Range};

use uuid::Uuid;

use crate::{
    field_names::{ID, MESSAGE, OVERFLOW, TIMESTAMP},
    ingest::{
        event_time::{self, EventTime, Moment},
        json_text::write_json,
        json_tree::{MAX_VALUES, too_many_values},
        tape::{Item, Tape, View},
    },
};

/// An event whose time is later than its arrival by more than this many microseconds is counted: it would be the newest
/// for long.
const AHEAD: i64 = 24 * 3600 * 1_000_000;

/// The year 1970, in microseconds. A time in it is rather one in a smaller unit than its sender meant, and no query over the
/// last hours finds it.
const FIRST_YEAR: Range<i64> = 0..365 * 24 * 3600 * 1_000_000;

/// Counts of unusual times in a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TimeCounts {
    /// Events whose time cannot be read. They get the time of their arrival.
    pub(crate) unread: usize,
    /// Events with a time more than a day after their arrival.
    pub(crate) ahead: usize,
    /// Events with a time in 1970.
    pub(crate) early: usize,
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
pub(crate) fn check(event: &Tape<'_>) -> Result<(), String> {
    match event.bounds() {
        (..=MAX_VALUES, ..=MAX_NESTING, false) => Ok(()),
        _ => check_value(event.root(), MAX_NESTING, &mut 0),
    }
}

fn check_value(value: Item<'_>, levels: usize, values: &mut usize) -> Result<(), String> {
    *values += 1;
    if *values > MAX_VALUES {
        return Err(too_many_values());
    }
    let view = value.view();
    if levels == 0 && matches!(view, View::Object(_) | View::Array(_)) {
        return Err(format!(
            "the event nests deeper than {MAX_NESTING} levels; flatten it, or send the deep part as text"
        ));
    }
    match view {
        View::Object(mut entries) => entries.try_for_each(|(key, value)| {
            if key.starts_with(RESERVED) {
                return Err(format!("the key `{key}` is reserved; send it under another name"));
            }
            check_value(value, levels - 1, values)
        }),
        View::Array(mut items) => items.try_for_each(|item| check_value(item, levels - 1, values)),
        _ => Ok(()),
    }
}

/// What the reserved fields of an event come from.
#[derive(Default)]
struct Reserved<'e> {
    id: Option<Item<'e>>,
    /// There is a field `timestamp`.
    timed: bool,
    timestamp: Option<EventTime>,
    event_message: Option<Item<'e>>,
    message: Option<Item<'e>>,
    /// Values that these fields cannot hold, under their names.
    overflow: Vec<(&'static str, Item<'e>)>,
}

impl<'e> Reserved<'e> {
    /// Of the fields of an event that are not blank.
    fn of(fields: impl Iterator<Item = (&'e str, Item<'e>)>, times: &mut TimeCounts) -> Reserved<'e> {
        let mut found = Reserved::default();
        for (key, value) in fields {
            match key {
                ID => match value.view() {
                    View::Text("") => {}
                    View::Text(_) | View::Int(_) | View::Huge(_) | View::Float(_) => found.id = Some(value),
                    _ => found.overflow.push((ID, value)),
                },
                TIMESTAMP => {
                    found.timed = true;
                    found.timestamp = event_time::of_moment(Moment::of_item(value));
                    if found.timestamp.is_none() {
                        times.unread += 1;
                        found.overflow.push((TIMESTAMP, value));
                    }
                }
                MESSAGE => found.event_message = Some(value),
                OTHER_MESSAGE => found.message = Some(value),
                OVERFLOW => found.overflow.push((OVERFLOW, value)),
                _ => {}
            }
        }
        found
    }
}

/// What some senders call the message. It is an ordinary field where there is an `event_message`.
const OTHER_MESSAGE: &str = "message";

/// The event, an object, in the form in which it is stored. `now` is the time of arrival in microseconds.
///
/// A tape instead of the JSON, so that the log's text and the columns are made of the same values, and a text is parsed
/// once. Reading the text gives the same values again.
///
/// # Errors
/// Those of writing to memory, which has none.
pub(crate) fn normalise<'e>(event: Item<'e>, now: i64, times: &mut TimeCounts) -> io::Result<Normalised<'e>> {
    let mut out = Tape::with_capacity(event.nodes() + SPARE_NODES);
    let View::Object(fields) = event.view() else { return Ok(Normalised { event: out, micros: now, nanos: 0 }) };
    let present = || fields.clone().filter(|(_, value)| !value.is_blank());
    let found = Reserved::of(present(), times);
    let mut time = found.timestamp;
    if !found.timed {
        let (other, unread) = event_time::of_others(present());
        times.unread += usize::from(unread);
        time = other;
    }
    let EventTime { micros: time, nanos } = time.unwrap_or(EventTime { micros: now, nanos: 0 });
    times.ahead += usize::from(time > now.saturating_add(AHEAD));
    times.early += usize::from(FIRST_YEAR.contains(&time));

    // The reserved fields come first, in the order of the columns.
    let whole = out.open();
    let mut count = 2;
    out.push_plain(ID);
    match found.id.map(|id| (id, id.text())) {
        Some((id, Some(_))) => out.push_pruned(id),
        Some((number, None)) => out.push_unescaped(&text_of(number)?),
        None => {
            let mut text = Uuid::encode_buffer();
            out.push_unescaped(Uuid::new_v4().hyphenated().encode_lower(&mut text));
        }
    }
    out.push_plain(TIMESTAMP);
    out.push_int(time);
    for (key, value) in fields.pairs() {
        let reserved = [ID, TIMESTAMP, MESSAGE, OTHER_MESSAGE, OVERFLOW];
        if !value.is_blank() && !key.text().is_some_and(|key| reserved.contains(&key)) {
            out.push_pruned(key);
            out.push_pruned(value);
            count += 1;
        }
    }
    if let (Some(_), Some(value)) = (found.event_message, found.message) {
        out.push_plain(OTHER_MESSAGE);
        out.push_pruned(value);
        count += 1;
    }
    if let Some(value) = found.event_message.or(found.message) {
        out.push_plain(MESSAGE);
        if value.text().is_some() {
            out.push_pruned(value);
        } else {
            let mut pruned = Tape::default();
            pruned.push_pruned(value);
            out.push_unescaped(&text_of(pruned.root())?);
        }
        count += 1;
    }
    if !found.overflow.is_empty() {
        out.push_plain(OVERFLOW);
        let overflow = out.open();
        for (field, value) in &found.overflow {
            out.push_unescaped(&format!("/{field}"));
            out.push_pruned(*value);
        }
        out.close_distinct(overflow, found.overflow.len());
        count += 1;
    }
    out.close_distinct(whole, count);
    Ok(Normalised { event: out, micros: time, nanos })
}

/// An event as it is stored, and its time: in microseconds, and what was sent finer than that.
pub(crate) struct Normalised<'e> {
    pub(crate) event: Tape<'e>,
    pub(crate) micros: i64,
    pub(crate) nanos: u16,
}

/// Nodes that normalising adds to those of an event: the reserved fields.
const SPARE_NODES: usize = 8;

fn text_of(value: Item<'_>) -> io::Result<String> {
    let mut text = Vec::new();
    write_json(value, &mut text)?;
    String::from_utf8(text).map_err(io::Error::other)
}

pub(crate) fn kind_name(value: Item<'_>) -> &'static str {
    match value.view() {
        View::Null => "null",
        View::Bool(_) => "a boolean",
        View::Int(_) | View::Huge(_) | View::Float(_) => "a number",
        View::Text(_) => "a string",
        View::Array(_) => "an array",
        View::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;
    use crate::{ingest::tape_reader::stored_events, intake::Intake};

    /// The event as it is read back.
    fn norm(event: Value) -> Value {
        let mut intake = Intake::new(7, 1 << 20, tidegate_model::Audience::All);
        assert!(intake.add(event), "{:?}", intake.refused());
        stored_events(&intake.finish().body, 1).next().unwrap().unwrap().root().to_value()
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
