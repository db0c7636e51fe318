//! `POST /`: the intake of Better Stack's libraries, which have the name of the service before it, Logtail.

use super::fields::{Fields, as_text, nested, set_time};
use crate::answer::{Answer, as_unavailable};
use crate::door::{Delivered, Door, Profile, content_type, is_by_line, plain_if};
use crate::logged::logged;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use serde_json::Value;
use tidegate_model::{Code, Failure};
use tidegate_store::too_long;

use super::documents::{Documents, Read, document};
use super::msgpack::{Broken, Values};
use crate::batch::Batch;
use crate::body::Encoding;
use crate::events::Events;

/// The door for senders of Better Stack.
#[derive(Debug)]
pub(super) struct Logtail;

/// The fields of a record become those of `metadata`; `dt` is its time.
fn event(mut fields: Fields) -> Read {
    // Without the time that is added.
    let message = if fields.get("message").is_none_or(Value::is_null) { as_text(&fields) } else { None };
    set_time(&mut fields, &["dt"]);
    Some(Ok(nested(fields, |_| message)))
}

fn is_msgpack(head: &Parts) -> bool {
    ["application/msgpack", "application/x-msgpack", "application/vnd.msgpack"].contains(&content_type(head).as_str())
}

/// Reads MessagePack: records behind each other, or lists of them.
fn read(body: &[u8], batch: &mut Batch) -> Result<(), Broken> {
    let mut values = Values::of(body);
    while !values.is_empty() && !batch.has_failed() {
        let Some(count) = values.list()? else {
            take(&mut values, batch)?;
            continue;
        };
        for _ in 0..count {
            take(&mut values, batch)?;
            if batch.has_failed() {
                break;
            }
        }
    }
    Ok(())
}

fn take(values: &mut Values<'_>, batch: &mut Batch) -> Result<(), Broken> {
    let longest = batch.max_event();
    let json = values.next_json(longest)?;
    let read = match (json.refused, json.text()) {
        (Some(reason), _) => Err(reason.to_owned()),
        (None, None) => Err(too_long(json.length, longest)),
        (None, Some(text)) => document(text, longest, &event).unwrap_or_else(|| Err("it is no event".to_owned())),
    };
    batch.take_read(read);
    Ok(())
}

impl Door for Logtail {
    fn profile(&self) -> &Profile {
        const { &Profile { name: "logtail", paths: &["/"], ..Profile::USUAL } }
    }

    fn check(&self, head: &Parts) -> Result<Encoding, Failure> {
        let kind = content_type(head);
        plain_if(
            kind.is_empty() || kind.contains("json") || is_msgpack(head),
            format!(
                "{kind} is not read here; send logs as application/json, application/x-ndjson or application/msgpack"
            ),
        )
    }

    fn read(&self, head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure> {
        if is_msgpack(head) {
            if body.is_empty() {
                return Err(Failure::new(Code::InvalidBody, "the body is empty; send logs as MessagePack"));
            }
            return read(body, &mut events.own).map_err(|Broken| {
                Failure::new(Code::InvalidBody, "the body is not valid MessagePack; nothing of it was stored")
            });
        }
        Documents { event: &event, has_envelope: false, by_line: is_by_line(head) }.read(body, events)
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Answer {
        Answer::json(StatusCode::ACCEPTED, &logged(delivered.own()))
    }

    /// Its library for Python tries again after 5xx only, and throws away what is refused with 429.
    fn refused(&self, _head: &Parts, failure: Failure) -> Answer {
        let mut failure = as_unavailable(failure);
        if failure.code == Code::TooManyRequests {
            failure.retry_after = failure.retry_after.or(failure.code.retry_after());
            failure.code = Code::Overloaded;
        }
        Answer::refused(failure)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_are_events_whatever_they_are_sent_in() {
        // {"dt": 2025-11-20T10:15:02Z, "message": "m", "level": "info"}
        let record = b"\x83\xa2dt\xd6\xff\x69\x1e\xea\x26\xa7message\xa1m\xa5level\xa4info";
        let dt = "2025-11-20T10:15:02Z";
        let expected = json!({"timestamp": dt, "event_message": "m", "metadata": {"dt": dt, "level": "info"}});
        for body in [record.to_vec(), [&b"\x91"[..], record].concat(), [&b"\xdd\x00\x00\x00\x01"[..], record].concat()]
        {
            let mut batch = Batch::for_tests(1000);
            read(&body, &mut batch).unwrap();
            assert_eq!((batch.events(), batch.refused().len()), (vec![expected.clone()], 0));
        }
        let long = [b"\x81\xa1a\xda\x10\x00".as_slice(), &[b'x'; 4096]].concat();
        let mut batch = Batch::for_tests(1000);
        read(&[&b"\x94"[..], record, b"\x05", &long, record].concat(), &mut batch).unwrap();
        assert_eq!((batch.events(), batch.refused().len()), (vec![expected.clone(), expected], 2));
        assert_eq!(read(&[&b"\x92"[..], record].concat(), &mut Batch::for_tests(1000)), Err(Broken));
    }

    #[test]
    fn a_record_without_a_message_is_its_own() {
        let event = event(json!({"dt": 1_763_633_702, "a": 1}).as_object().cloned().unwrap()).unwrap().unwrap();
        assert_eq!(event.get("timestamp"), Some(&json!(1_763_633_702)));
        assert_eq!(event.get("event_message"), Some(&json!("{\"dt\":1763633702,\"a\":1}")));
    }
}
