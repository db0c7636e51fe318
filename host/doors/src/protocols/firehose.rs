//! `/logs/firehose`: an HTTP endpoint as destination of Amazon Data Firehose.
//!
//! A request has records in Base64, each with one object or several, or lines of text. Objects may be deliveries of CloudWatch.

use crate::answer::Answer;
use crate::door::{Delivered, Door, Profile};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tidegate_model::{Code, Failure};
use tidegate_service::failures::text;

use super::cloudwatch;
use super::documents::document;
use super::fields::{Fields, flat};
use super::lines::lines;
use crate::batch::Batch;
use crate::credentials::KeyPlace;
use crate::elements::{each_element, object};
use crate::events::Events;
use crate::text::Text;

const GZIP: &[u8] = &[0x1f, 0x8b];

/// The door for Amazon Data Firehose.
#[derive(Debug)]
pub(super) struct Firehose;

impl Door for Firehose {
    fn profile(&self) -> &Profile {
        &Profile {
            name: "firehose",
            paths: &["/logs/firehose", "/api/logs/firehose"],
            keys: &[KeyPlace::Header("x-amz-firehose-access-key")],
            naming: "?source_name=NAME, or the attribute source_name of the stream",
            ..Profile::USUAL
        }
    }

    /// A stream can be given attributes, which come in a header.
    fn named_source(&self, head: &Parts) -> Option<String> {
        let attributes = head.headers.get("x-amz-firehose-common-attributes")?.to_str().ok()?;
        let attributes: Value = serde_json::from_str(attributes).ok()?;
        attributes.pointer("/commonAttributes/source_name")?.as_str().map(str::to_owned)
    }

    fn read(&self, _head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure> {
        records(body, &mut events.own)
    }

    fn accepted(&self, head: &Parts, _delivered: &Delivered) -> Answer {
        Answer::json(StatusCode::OK, &acknowledgement(head))
    }

    fn refused(&self, head: &Parts, failure: Failure) -> Answer {
        Answer::refused_json(failure, |failure| {
            let mut body = acknowledgement(head);
            if let Some(fields) = body.as_object_mut() {
                fields.insert("errorMessage".to_owned(), text(failure).into());
            }
            body
        })
    }
}

/// The id of the request and the time, which the sender wants in every answer.
fn acknowledgement(head: &Parts) -> Value {
    let id = head.headers.get("x-amz-firehose-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    json!({"requestId": id, "timestamp": u64::try_from(now).unwrap_or_default()})
}

#[derive(Deserialize)]
struct Delivery<'a> {
    #[serde(borrow)]
    records: &'a RawValue,
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    data: std::borrow::Cow<'a, str>,
}

fn records(body: &[u8], batch: &mut Batch) -> Result<(), Failure> {
    let bad = |error: &dyn std::fmt::Display| {
        let message = format!("the body is no delivery of Firehose: {error}; nothing of it was stored");
        Failure::new(Code::InvalidBody, message)
    };
    let text = std::str::from_utf8(body).map_err(|error| bad(&error))?;
    let delivery: Delivery<'_> = object(text).map_err(|error| bad(&error))?;
    // The bytes of one record at a time, at most those of all.
    batch.hold_more(body.len() / 4 * 3);
    let mut read = Ok(());
    each_element(delivery.records.get(), |record| {
        let decoded = object::<Record<'_>>(record).map_err(|error| error.to_string());
        match decoded.and_then(|record| BASE64_STANDARD.decode(&*record.data).map_err(|error| error.to_string())) {
            Ok(data) => read = self::record(&data, batch),
            Err(error) => batch.refuse(format!("the record cannot be read: {error}")),
        }
        read.is_ok() && !batch.has_failed()
    })
    .map_err(|error| bad(&error))?;
    read
}

/// Reads a record: objects behind each other, or lines of text.
fn record(data: &[u8], batch: &mut Batch) -> Result<(), Failure> {
    if data.starts_with(GZIP) {
        batch.refuse("the record is gzip; turn on decompression in the delivery stream".to_owned());
        return Ok(());
    }
    let text = Text::json(data);
    batch.hold_more(text.held());
    let text = if text.is_valid() { text.as_str() } else { "" };
    if !text.trim_start().starts_with('{') {
        return lines(data, &Fields::new(), batch);
    }
    let mark = batch.mark();
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        if let Some(delivery) = value.as_ref().ok().and_then(|value| cloudwatch::Delivery::of(value.get())) {
            delivery.read(batch)?;
            if batch.has_failed() {
                break;
            }
            continue;
        }
        let read = |fields| Some(Ok(flat(fields)));
        match value.map(|value| document(value.get(), batch.max_event(), &read)) {
            Ok(Some(read)) => batch.take_read(read),
            Ok(None) => {}
            Err(_) => {
                // A text that begins like an object is a text.
                batch.take_back(mark);
                return lines(data, &Fields::new(), batch);
            }
        }
        if batch.has_failed() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn records_are_objects_or_lines() {
        let body = |texts: &[&[u8]]| {
            let records: Vec<Value> = texts.iter().map(|text| json!({"data": BASE64_STANDARD.encode(text)})).collect();
            json!({"requestId": "r", "timestamp": 1, "records": records}).to_string()
        };
        let mut batch = Batch::for_tests(100);
        let long = "x".repeat(200);
        let texts: [&[u8]; 6] = [
            b"{\"msg\": \"one\"}\n{\"msg\": \"two\"}",
            b"a line\nanother\n",
            b"{a text",
            b"\x1f\x8b\x08",
            b"\xff",
            long.as_bytes(),
        ];
        records(body(&texts).as_bytes(), &mut batch).unwrap();
        let found: Vec<Value> =
            batch.events().iter().map(|event| event.get("event_message").cloned().unwrap()).collect();
        assert_eq!(found, ["one", "two", "a line", "another", "{a text"]);
        assert_eq!(batch.refused().len(), 3);
        for bad in ["", "{}", "[]", "{\"records\": 5}"] {
            assert_eq!(records(bad.as_bytes(), &mut batch).unwrap_err().code, Code::InvalidBody, "{bad}");
        }
        records(br#"{"records": [5, {}, {"data": "*"}]}"#, &mut batch).unwrap();
        assert_eq!(batch.refused().len(), 6);
    }
}
