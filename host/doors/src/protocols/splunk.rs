//! `/services/collector`: the HTTP Event Collector of Splunk, for events in JSON and for raw lines.

use super::fields::{Fields, as_text, event, flat, query_parameters};
use crate::answer::Answer;
use crate::door::{Delivered, Door, Profile};
use crate::service::DoorService;
use bytes::Bytes;
use http::request::Parts;
use http::{StatusCode, header};
use serde_json::{Value, json};
use tidegate_model::{Code, Failure};
use tidegate_service::failures::text;

use super::documents::{Documents, Read};
use super::lines::lines;
use crate::credentials::KeyPlace;
use crate::events::Events;
use crate::logged::told;

/// The door for senders of Splunk.
#[derive(Debug)]
pub(super) struct Splunk;

impl Door for Splunk {
    fn profile(&self) -> &Profile {
        &Profile {
            name: "splunk",
            paths: &[
                "/services/collector",
                "/services/collector/event",
                "/services/collector/event/1.0",
                "/services/collector/raw",
                "/services/collector/raw/1.0",
            ],
            keys: &[KeyPlace::Scheme("Splunk")],
            // `source` is a field of the events here.
            source_parameters: &["source_name"],
            naming: "?source_name=NAME, ?index=NAME, or the header x-source-name",
            ..Profile::USUAL
        }
    }

    /// Some senders always name an index, such as `main`.
    fn suggested_source(&self, head: &Parts) -> Option<String> {
        query_parameters(head, &["index"]).map(|(_, index)| index).find(|index| !index.is_empty())
    }

    fn read(&self, head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure> {
        if head.uri.path().contains("/raw") {
            let shared = query_parameters(head, &["host", "source", "sourcetype"]).take(3);
            return lines(body, &shared.map(|(name, value)| (name, value.into())).collect(), &mut events.own);
        }
        Documents { event: &of_event, has_envelope: false, by_line: false }.read(body, events)
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Answer {
        let mut body = Fields::from_iter([("text".to_owned(), "Success".into()), ("code".to_owned(), 0.into())]);
        body.extend(told(delivered.own()).unwrap_or_default());
        Answer::json(StatusCode::OK, &body)
    }

    fn refused(&self, head: &Parts, failure: Failure) -> Answer {
        let has_token = head.headers.contains_key(header::AUTHORIZATION) || head.headers.contains_key("x-api-key");
        let code = |failure: &Failure| match failure.code.status() {
            401 if !has_token => 2,
            401 | 403 => 4,
            400 if failure.code == Code::InvalidParameter => 7,
            status if status < 429 => 6,
            429 | 503 => 9,
            _ => 8,
        };
        Answer::refused_json(failure, |failure| json!({"text": text(failure), "code": code(failure)}))
    }
}

/// An event of the collector: the record of its `event` with the fields about it in `metadata`.
fn of_event(mut fields: Fields) -> Read {
    let Some(own) = fields.shift_remove("event").filter(|own| !own.is_null() && own != "") else {
        return Some(Err("Event field is required, and cannot be blank".to_owned()));
    };
    let time = fields.shift_remove("time").filter(|time| !time.is_null());
    let extra = fields.shift_remove("fields");
    let mut metadata = fields;
    if let Some(Value::Object(extra)) = extra {
        metadata.extend(extra);
    }
    let project = metadata.get("project").cloned();
    let made = match own {
        Value::Object(mut own) => {
            // The text of a record is what was sent as the event, without the time of its envelope.
            let message = as_text(&own);
            if let Some(time) = time {
                own.insert("timestamp".to_owned(), time);
            }
            let Value::Object(mut made) = flat(own) else { return None };
            let has_message = ["event_message", "message"].iter().any(|name| made.contains_key(*name));
            if let Some(message) = message.filter(|_| !has_message) {
                made.insert("event_message".to_owned(), message.into());
            }
            match made.get_mut("metadata") {
                Some(Value::Object(theirs)) => theirs.extend(metadata),
                _ => drop(made.insert("metadata".to_owned(), Value::Object(metadata))),
            }
            Value::Object(made)
        }
        other => event([("timestamp", time), ("event_message", Some(other)), ("project", project)], metadata),
    };
    Some(Ok(made))
}

/// `GET /services/collector/health`, which senders ask before they send.
pub(super) fn health(_: &dyn DoorService, _: &Parts) -> Answer {
    Answer::json(StatusCode::OK, &json!({"text": "HEC is healthy", "code": 17}))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn read(record: Value) -> Read {
        of_event(record.as_object().cloned().unwrap())
    }

    #[test]
    fn events_are_texts_or_records() {
        let text = json!({"time": "1763633702.123", "host": "h", "sourcetype": "s", "event": "m", "fields": {"a": 1}});
        let expected = json!({"timestamp": "1763633702.123", "event_message": "m", "metadata": {"host": "h", "sourcetype": "s", "a": 1}});
        assert_eq!(read(text), Some(Ok(expected)));
        let record = json!({"time": 1_763_633_702, "host": "h", "event": {"msg": "m", "level": "info"}});
        let expected =
            json!({"level": "info", "event_message": "m", "timestamp": 1_763_633_702, "metadata": {"host": "h"}});
        assert_eq!(read(record), Some(Ok(expected)));
        let record = json!({"time": 1_763_633_702, "event": {"a": 1}});
        let expected = json!({"a": 1, "timestamp": 1_763_633_702, "event_message": "{\"a\":1}", "metadata": {}});
        assert_eq!(read(record), Some(Ok(expected)));
        for bad in [json!({}), json!({"event": ""}), json!({"event": null})] {
            assert!(read(bad).unwrap().is_err());
        }
    }
}
