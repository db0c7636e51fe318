//! `/upload`: what `systemd-journal-upload` sends, entries of the journal in its export format. The server's address may have
//! `/journal/NAME` before that, which names the source.
//!
//! It sends all that is new in one request, and ends when that fails; systemd starts it again, and it goes on behind the last entry of the
//! last request that went well. So a request is stored in parts, the cursor of an entry is the name under which it is stored once,
//! and an entry that cannot be stored is counted and passed over: it would come again for ever.

use crate::answer::{Answer, PLAIN};
use crate::door::{Delivered, Door, Profile, content_type, plain_if};
use http::StatusCode;
use std::borrow::Cow;

use bytes::Bytes;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use tidegate_model::{Code, Failure};
use tidegate_store::too_long;

use super::fields::{Fields, as_text, event};
use super::journal_format::{EntryCutter, entry_fields};
use crate::body::Encoding;
use crate::body_parts::Cutter;
use crate::events::Events;
use crate::nanoseconds::of_nanos;

/// The door for the journal of systemd.
#[derive(Debug)]
pub(super) struct Journal;

const EXPORT: &str = "application/vnd.fdo.journal";
/// The fields that are not those of `metadata` alone.
const CURSOR: &str = "__CURSOR";
const TIME: &str = "__REALTIME_TIMESTAMP";
const MESSAGE: &str = "MESSAGE";

/// The event of an entry, and its cursor. Other fields are texts, a list where a name is there twice.
fn read_entry(entry: &[u8]) -> Result<(Value, Option<String>), String> {
    let mut fields = Fields::new();
    for (name, value) in entry_fields(entry)? {
        // Programs write what they like; a text that is none would keep the whole entry out.
        let (name, value): (Cow<'_, str>, _) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        let value = Value::from(value.into_owned());
        match fields.get_mut(&*name) {
            None => drop(fields.insert(name.into_owned(), value)),
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    let cursor = fields.get(CURSOR).and_then(Value::as_str).map(str::to_owned);
    let micros = fields.get(TIME).and_then(|time| time.as_str()?.parse::<i64>().ok());
    let time = micros.and_then(|micros| of_nanos(i128::from(micros) * 1000));
    let message = match fields.get(MESSAGE) {
        Some(Value::String(_)) => fields.shift_remove(MESSAGE),
        _ => as_text(&fields).map(Value::from),
    };
    Ok((event([("timestamp", time), ("event_message", message)], fields), cursor))
}

fn read(body: &[u8], events: &mut Events) -> Result<(), Failure> {
    let mut cutter = EntryCutter::default();
    let mut rest = body;
    while !rest.is_empty() && !events.own.has_failed() {
        let (length, is_end) = cutter.advance(rest)?;
        let (entry, later) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        rest = later;
        // Blank lines between entries are none.
        if entry.iter().all(|byte| *byte == b'\n') {
            continue;
        }
        if !is_end {
            return Err(Failure::new(Code::InvalidBody, "the body ends within an entry of the journal"));
        }
        let longest = events.own.max_event();
        let read = if entry.len() > longest { Err(too_long(entry.len(), longest)) } else { read_entry(entry) };
        match read {
            Ok((event, cursor)) => match cursor.and_then(|cursor| events.name_of(CURSOR, &cursor)) {
                Some(name) => events.own.take_named(event, name.with(entry)),
                None => events.own.take(event),
            },
            Err(reason) => events.own.refuse(reason),
        }
    }
    Ok(())
}

impl Door for Journal {
    fn profile(&self) -> &Profile {
        &Profile {
            name: "journal",
            paths: &["/upload", "/journal/{source}/upload"],
            naming: "the address, http://any:TOKEN@HOST:PORT/journal/NAME",
            passes_over_refused: true,
            ..Profile::USUAL
        }
    }

    fn named_source(&self, head: &Parts) -> Option<String> {
        let name = head.uri.path().strip_prefix("/journal/")?.strip_suffix("/upload")?;
        Some(percent_decode_str(name).decode_utf8_lossy().into_owned())
    }

    fn check(&self, head: &Parts) -> Result<Encoding, Failure> {
        let kind = content_type(head);
        plain_if(kind.is_empty() || kind == EXPORT, format!("{kind} is not read here; send {EXPORT}"))
    }

    fn cutter(&self) -> Option<Box<dyn Cutter>> {
        Some(Box::new(EntryCutter::default()))
    }

    fn read(&self, _head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure> {
        read(body, events)
    }

    fn accepted(&self, _head: &Parts, _delivered: &Delivered) -> Answer {
        Answer::with(StatusCode::ACCEPTED, PLAIN, "OK.\n")
    }

    /// It writes the answer into its log.
    fn refused(&self, _head: &Parts, failure: Failure) -> Answer {
        Answer::refused_line(failure)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_are_events() {
        let body = b"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1763633702123456\nPRIORITY=6\nMESSAGE=hello = world\n\n\
            __CURSOR=s=1;i=3\nMESSAGE\n\x05\0\0\0\0\0\0\0a\n\nb\xff\nX=1\nX=2\nX=3\n\n\n\
            PRIORITY=7\n\n";
        let mut events = Events::for_tests(1000);
        read(body, &mut events).unwrap();
        let found = events.own.events();
        assert_eq!(
            found.first(),
            Some(&json!({
                "timestamp": 1_763_633_702_123_456_000_u64, "event_message": "hello = world",
                "metadata": {"__CURSOR": "s=1;i=2", "__REALTIME_TIMESTAMP": "1763633702123456", "PRIORITY": "6"},
            }))
        );
        assert_eq!(
            found.get(1),
            Some(
                &json!({"event_message": "a\n\nb\u{fffd}", "metadata": {"__CURSOR": "s=1;i=3", "X": ["1", "2", "3"]}})
            )
        );
        assert_eq!(
            found.get(2),
            Some(&json!({"event_message": "{\"PRIORITY\":\"7\"}", "metadata": {"PRIORITY": "7"}}))
        );
        assert_eq!((found.len(), events.own.refused().len()), (3, 0));
    }

    #[test]
    fn an_entry_that_cannot_be_read_costs_only_itself() {
        let long = "x".repeat(2000);
        let body = format!("MESSAGE={long}\n\nMESSAGE=a\n\n=b\n\nMESSAGE=c\n\n");
        let mut events = Events::for_tests(1000);
        read(body.as_bytes(), &mut events).unwrap();
        assert_eq!((events.own.events().len(), events.own.refused().len()), (2, 2));
        for bad in [&b"MESSAGE=a\n"[..], b"MESSAGE\n\x05\0\0\0\0\0\0\0ab", b"M\n\x01\0\0\0\0\0\0\0abc\n\n"] {
            assert_eq!(read(bad, &mut Events::for_tests(1000)).unwrap_err().code, Code::InvalidBody, "{bad:?}");
        }
    }
}
