//! `/logs/logplex`: the drains of Heroku, which send syslog messages over HTTP, each after its length.

use crate::answer::Answer;
use crate::door::{Delivered, Door, Profile, content_type, plain_if};
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use serde_json::Value;
use tidegate_model::{Code, Failure};

use tidegate_store::too_long;

use super::fields::{Fields, event};
use crate::batch::Batch;
use crate::body::Encoding;
use crate::events::Events;
use crate::logged::told;
use crate::syslog::{frames::Length, message::Message, rfc5424};

/// The door for drains of Heroku.
#[derive(Debug)]
pub(super) struct Logplex;

impl Door for Logplex {
    fn profile(&self) -> &Profile {
        &Profile {
            name: "logplex",
            paths: &["/logs/logplex", "/api/logs/logplex"],
            // A drain sends the same frame again, under the same id, until it gets an answer.
            request_name: "logplex-frame-id",
            ..Profile::USUAL
        }
    }

    fn check(&self, head: &Parts) -> Result<Encoding, Failure> {
        let kind = content_type(head);
        let is_read = ["application/logplex-1", "text/plain", ""].contains(&kind.as_str());
        plain_if(is_read, format!("{kind} is not read here; send syslog messages as application/logplex-1"))
    }

    fn read(&self, _head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure> {
        messages(body, &mut events.own)
    }

    /// A drain reads the status only; the body is for those who send by hand.
    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Answer {
        match told(delivered.own()) {
            Some(told) => Answer::json(StatusCode::OK, &told),
            None => Answer::of(StatusCode::NO_CONTENT),
        }
    }
}

/// Reads messages that each follow their length in bytes. What follows a length that is wrong cannot be read, and
/// counts as one refused message.
///
/// # Errors
/// [`Code::InvalidBody`] if the body begins with no length.
fn messages(body: &[u8], batch: &mut Batch) -> Result<(), Failure> {
    let mut rest = body;
    while !rest.is_empty() && !batch.has_failed() {
        let Length::Counted { header, length } = Length::read(rest) else {
            let message = "a syslog message follows its length in bytes and a blank; what comes here has none";
            if batch.count() == 0 {
                return Err(Failure::new(Code::InvalidBody, message));
            }
            batch.refuse(message.to_owned());
            break;
        };
        let after = rest.get(header..).unwrap_or_default();
        let Some((message, next)) = after.split_at_checked(length) else {
            batch.refuse(format!("the message has {length} bytes by its length, and only {} came", after.len()));
            break;
        };
        rest = next;
        if message.len() > batch.max_event() {
            batch.refuse(too_long(message.len(), batch.max_event()));
            continue;
        }
        let read = rfc5424::read(&String::from_utf8_lossy(message)).map(record).map_err(|reason| reason.to_string());
        batch.take_read(read);
    }
    Ok(())
}

/// The event of a message: the text as its message, the header and the structured data in `metadata`.
fn record(message: Message<'_>) -> Value {
    let mut metadata = Fields::new();
    for (name, value) in [
        ("level", message.level().map(Value::from)),
        ("priority", message.priority.map(Value::from)),
        ("facility", message.facility().map(Value::from)),
        ("hostname", message.hostname.map(Value::from)),
        ("appname", message.app_name.map(Value::from)),
        ("procid", message.proc_id.map(Value::from)),
        ("msgid", message.msg_id.map(Value::from)),
        ("structured_data", message.data.values(|_| true)),
    ] {
        if let Some(value) = value {
            metadata.insert(name.to_owned(), value);
        }
    }
    event([("timestamp", message.time.map(Value::from)), ("event_message", Some(message.text.into()))], metadata)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: &[u8]) -> Result<(Vec<Value>, Vec<String>), Code> {
        let mut batch = Batch::for_tests(1000);
        messages(body, &mut batch).map_err(|failure| failure.code)?;
        let texts = batch.events().iter().map(|event| event.get("event_message").cloned().unwrap()).collect();
        Ok((texts, batch.refused().iter().map(|refused| refused.reason.clone()).collect()))
    }

    fn framed(text: &str) -> String {
        let message = format!("<190>1 2025-11-20T10:15:02Z host app web.1 - {text}");
        format!("{} {message}", message.len())
    }

    #[test]
    fn messages_are_cut_by_their_lengths() {
        let body = [framed("one\n"), framed("\u{20ac} two"), framed("")].concat();
        let (texts, refused) = read(body.as_bytes()).unwrap();
        assert_eq!((texts, refused.len()), (vec!["one".into(), "\u{20ac} two".into(), "".into()], 0));
        assert_eq!(read(b"").unwrap().0.len(), 0);
    }

    #[test]
    fn what_cannot_be_read_costs_only_itself_as_far_as_possible() {
        let long = framed(&"x".repeat(1000));
        let body =
            [framed("one"), "4 what".to_owned(), long, framed("two"), "99999999999999999999999 x".to_owned()].concat();
        let (texts, refused) = read(body.as_bytes()).unwrap();
        assert_eq!((texts.len(), refused.len()), (2, 3));
        let mut cut = framed("one") + &framed("two");
        cut.pop();
        let (texts, refused) = read(cut.as_bytes()).unwrap();
        assert_eq!((texts.len(), refused.len()), (1, 1));
        for bad in ["<190>1 -", "x", " ", "5"] {
            assert_eq!(read(bad.as_bytes()), Err(Code::InvalidBody), "{bad}");
        }
    }

    #[test]
    fn messages_of_heroku_are_read() {
        let message = "<40>1 2025-11-20T10:15:02.123456+00:00 host app web.3 - State changed from starting to up\n";
        let expected = json!({
            "timestamp": "2025-11-20T10:15:02.123456+00:00", "event_message": "State changed from starting to up",
            "metadata": {"level": "emergency", "priority": 40, "facility": 5, "hostname": "host", "appname": "app", "procid": "web.3"},
        });
        assert_eq!(rfc5424::read(message).map(record), Ok(expected));
    }

    #[test]
    fn structured_data_is_read() {
        let read = |rest: &str| record(rfc5424::read(&format!("<14>1 - - - - {rest}")).unwrap());
        let with = |data: Value, message: &str| {
            let mut metadata = json!({"level": "info", "priority": 14, "facility": 1});
            if !data.is_null() {
                metadata.as_object_mut().unwrap().insert("structured_data".to_owned(), data);
            }
            json!({"event_message": message, "metadata": metadata})
        };
        assert_eq!(read("- - text"), with(Value::Null, "text"));
        let data = json!({"a@1": {"x": "1", "y": "q\"]\\z"}, "b": {}});
        assert_eq!(read("- [a@1 x=\"1\" y=\"q\\\"\\]\\\\z\"][b] text"), with(data, "text"));
        assert_eq!(read("- [a@1 x=\"\"]"), with(json!({"a@1": {"x": ""}}), ""));
        for message in ["[info] started", "[a x=\"1]", "[", "[a", "[a b]", "[a]b"] {
            assert_eq!(read(&format!("- {message}")), with(Value::Null, message));
        }
    }
}
