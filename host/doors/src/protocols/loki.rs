//! `/loki/api/v1/push`: the push API of Loki, in Protocol Buffers packed with Snappy and in JSON.

use crate::answer::{Answer, PLAIN};
use crate::batch::Batch;
use crate::door::{Delivered, Door, Profile, content_type, plain_if};
use http::StatusCode;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use prost::Message;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tidegate_model::{Code, Failure};
use tidegate_store::{MAX_VALUES, read_event, too_many_values};

use super::fields::Fields;
use super::loki_entry::{Entry, Labels, add, labels};
use crate::body::Encoding;
use crate::elements::{each_element, object};
use crate::events::Events;
use crate::logged::remarks;
use crate::nanoseconds::of_nanos;
use crate::text::Text;
use crate::wire;

const WHAT: &str = "PushRequest";
const STREAMS: u64 = 1;
const LABELS: u64 = 1;
const ENTRIES: u64 = 2;

/// The door for senders of Loki.
#[derive(Debug)]
pub(super) struct Loki;

impl Door for Loki {
    fn profile(&self) -> &Profile {
        &Profile {
            name: "loki",
            paths: &["/loki/api/v1/push", "/api/v1/push"],
            naming: "?source_name=NAME, the header x-source-name, or the tenant (x-scope-orgid)",
            ..Profile::USUAL
        }
    }

    /// Loki's senders have a header for the tenant.
    fn named_source(&self, head: &Parts) -> Option<String> {
        let tenant = head.headers.get("x-scope-orgid")?.to_str().ok()?;
        // The tenant that senders are given where there is only one.
        (!tenant.is_empty() && tenant != "fake").then(|| tenant.to_owned())
    }

    fn check(&self, head: &Parts) -> Result<Encoding, Failure> {
        match content_type(head).as_str() {
            // What senders of Protocol Buffers do not declare.
            "application/x-protobuf" | "application/protobuf" => Ok(Encoding::Snappy),
            kind => plain_if(
                kind == "application/json",
                format!("send entries as application/json or application/x-protobuf, not as {kind:?}"),
            ),
        }
    }

    fn read(&self, head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure> {
        match content_type(head).as_str() {
            "application/json" => json(body, &mut events.own),
            _ => protobuf(body, &mut events.own),
        }
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Answer {
        let own = delivered.own();
        let remarks = remarks(own, ("entry", "entries"));
        if remarks.is_empty() {
            return Answer::of(StatusCode::NO_CONTENT);
        }
        // Loki has the status 400 for refused entries. Some senders send the stored ones again then.
        let counts = format!("{} entries are stored, {} are refused", own.stored, own.refused.len());
        let told = std::iter::once(counts).chain(remarks).map(|line| line + "\n").collect::<String>();
        Answer::with(StatusCode::OK, PLAIN, told)
    }

    fn refused(&self, _head: &Parts, failure: Failure) -> Answer {
        Answer::refused_line(failure)
    }
}

/// `{"streams": [{"stream": {...}, "values": [["NANOSECONDS", "LINE", {...}], ...]}, ...]}`.
#[derive(Deserialize)]
struct Push<'a> {
    #[serde(borrow)]
    streams: &'a RawValue,
}

#[derive(Deserialize)]
struct Stream<'a> {
    #[serde(borrow, default)]
    stream: Option<&'a RawValue>,
    #[serde(borrow)]
    values: &'a RawValue,
}

fn json(body: &[u8], batch: &mut Batch) -> Result<(), Failure> {
    let bad = |error: &dyn std::fmt::Display| {
        let message = format!("the body is no push request in JSON: {error}; nothing of it was stored");
        Failure::new(Code::InvalidBody, message)
    };
    std::str::from_utf8(body).map_err(|error| bad(&error))?;
    let text = Text::json(body);
    batch.hold_more(text.held());
    let push: Push<'_> = object(text.as_str()).map_err(|error| bad(&error))?;
    let mut failed = None;
    let read = each_element(push.streams.get(), |stream| {
        failed = stream_of(stream, batch).err();
        failed.is_none() && !batch.has_failed()
    });
    match failed {
        Some(failure) => Err(failure),
        None => read.map_err(|error| bad(&error)),
    }
}

/// Reads a stream of JSON. One that is none counts as a refused entry.
///
/// # Errors
/// Those of [`add`].
fn stream_of(text: &str, batch: &mut Batch) -> Result<(), Failure> {
    let stream = object::<Stream<'_>>(text);
    let Some(stream) = stream.ok().filter(|stream| stream.values.get().starts_with('[')) else {
        batch.refuse("the stream is no object with a list of values".to_owned());
        return Ok(());
    };
    let own = stream.stream.map_or("{}", RawValue::get);
    let labels = if own.len() > batch.max_event() {
        // Each of its entries is refused, for it is too long.
        Labels { bytes: own.len(), ..Labels::default() }
    } else {
        match read_event(own) {
            Ok(Value::Object(values)) => Labels { values: Arc::new(values), bytes: own.len(), refused: None },
            Ok(_) => Labels::refused("the labels of the stream are no object".to_owned()),
            Err(reason) => Labels::refused(format!("the labels of the stream cannot be read: {reason}")),
        }
    };
    let mut failed = None;
    // The text was read as JSON before, so there is no error.
    let _ = each_element(stream.values.get(), |entry| {
        failed = add(batch, &labels, entry.len(), || entry_of(entry)).err();
        failed.is_none() && !batch.has_failed()
    });
    failed.map_or(Ok(()), Err)
}

fn entry_of(text: &str) -> Result<Entry, String> {
    let bad = "an entry is [\"NANOSECONDS\", \"LINE\"], with an object of structured metadata if there is any";
    let Value::Array(parts) = read_event(text)? else { return Err(bad.to_owned()) };
    let mut parts = parts.into_iter();
    let (Some(time), Some(Value::String(line))) = (parts.next(), parts.next()) else { return Err(bad.to_owned()) };
    let nanos = match &time {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_i64().map(i128::from),
        _ => return Err(bad.to_owned()),
    };
    // Other texts and numbers are read as times of events are; of what is none (`pino-loki` 3.0 sends "NaN" for times in ISO
    // 8601) the store tells, and keeps the entry.
    let time = nanos.map_or(Some(time), of_nanos);
    let structured = match parts.next() {
        None | Some(Value::Null) => Fields::new(),
        Some(Value::Object(structured)) => structured,
        Some(_) => return Err(bad.to_owned()),
    };
    Ok(Entry { time, line, structured })
}

/// `google.protobuf.Timestamp`.
#[derive(Clone, PartialEq, Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// `LabelPairAdapter` of Loki.
#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// `EntryAdapter` of Loki.
#[derive(Clone, PartialEq, Message)]
struct WireEntry {
    #[prost(message, optional, tag = "1")]
    timestamp: Option<Timestamp>,
    #[prost(string, tag = "2")]
    line: String,
    #[prost(message, repeated, tag = "3")]
    structured: Vec<Pair>,
}

fn protobuf(body: &Bytes, batch: &mut Batch) -> Result<(), Failure> {
    wire::each(WHAT, body, STREAMS, &mut |stream| {
        let mut own = Labels::default();
        let longest = batch.max_event();
        wire::each(WHAT, &stream, LABELS, &mut |text| {
            own = if text.len() > longest {
                Labels { bytes: text.len(), ..Labels::default() }
            } else {
                let text = std::str::from_utf8(&text).map_err(|error| format!("the labels are no text: {error}"));
                text.and_then(labels).unwrap_or_else(Labels::refused)
            };
            Ok(())
        })?;
        wire::each(WHAT, &stream, ENTRIES, &mut |entry| {
            if batch.has_failed() {
                return Ok(());
            }
            let bytes = entry.len();
            add(batch, &own, bytes, || {
                let entry = WireEntry::decode(entry).map_err(|error| format!("the entry cannot be read: {error}"))?;
                if entry.structured.len() > MAX_VALUES {
                    return Err(too_many_values());
                }
                let time = entry.timestamp.unwrap_or_default();
                let structured = entry.structured.into_iter().map(|pair| (pair.name, Value::String(pair.value)));
                Ok(Entry {
                    time: of_nanos(i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos)),
                    line: entry.line,
                    structured: structured.collect(),
                })
            })
        })
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// `StreamAdapter` of Loki.
    #[derive(Clone, PartialEq, Message)]
    struct WireStream {
        #[prost(string, tag = "1")]
        labels: String,
        #[prost(message, repeated, tag = "2")]
        entries: Vec<WireEntry>,
        #[prost(uint64, tag = "3")]
        hash: u64,
    }

    #[derive(Clone, PartialEq, Message)]
    struct WirePush {
        #[prost(message, repeated, tag = "1")]
        streams: Vec<WireStream>,
    }

    fn request() -> Bytes {
        let entry = |line: &str| WireEntry {
            timestamp: Some(Timestamp { seconds: 1_763_633_702, nanos: 123_456_789 }),
            line: line.to_owned(),
            structured: vec![Pair { name: "trace_id".to_owned(), value: "t".to_owned() }],
        };
        let stream =
            |labels: &str| WireStream { labels: labels.to_owned(), entries: vec![entry("a"), entry("b")], hash: 7 };
        WirePush { streams: vec![stream("{job=\"x\"}"), stream("{job=\"y\"}")] }.encode_to_vec().into()
    }

    fn read(body: &Bytes, is_json: bool) -> Result<Batch, Failure> {
        let mut batch = Batch::for_tests(1000);
        if is_json {
            json(body, &mut batch)?
        } else {
            protobuf(body, &mut batch)?
        }
        Ok(batch)
    }

    #[test]
    fn both_encodings_come_out_alike() {
        let values =
            json!([["1763633702123456789", "a", {"trace_id": "t"}], ["1763633702123456789", "b", {"trace_id": "t"}]]);
        let sent = json!({"streams": [{"stream": {"job": "x"}, "values": values}, {"values": values, "stream": {"job": "y"}}]});
        let one = read(&request(), false).unwrap().events();
        assert_eq!(one, read(&Bytes::from(sent.to_string()), true).unwrap().events());
        let first = json!({"timestamp": 1_763_633_702_123_456_789_u64, "event_message": "a", "metadata": {"job": "x", "trace_id": "t"}});
        assert_eq!((one.len(), one.first()), (4, Some(&first)));
    }

    #[test]
    fn a_bad_entry_costs_only_itself_and_a_bad_body_everything() {
        let long = "x".repeat(1000);
        let values = json!([
            ["1", "a"],
            ["x", "b"],
            ["1"],
            ["1", 5],
            ["1", "c", 5],
            7,
            ["1", long],
            [2, "d", null],
            ["NaN", "e"],
            [null, "f"],
            [{}, "g"]
        ]);
        let batch = read(&Bytes::from(json!({"streams": [{"values": values}]}).to_string()), true).unwrap();
        let times: Vec<_> = batch.events().iter().map(|event| event["timestamp"].clone()).collect();
        let first = json!("1970-01-01T00:00:00.000000001+00:00");
        assert_eq!(times, [first, json!("x"), json!("1970-01-01T00:00:00.000000002+00:00"), json!("NaN")]);
        assert_eq!((batch.events().len(), batch.refused().len()), (4, 7));
        for bad in ["", "{}", "[]", "[[]]", "{\"streams\": 5}", "{\"streams\": []"] {
            assert_eq!(read(&Bytes::from(bad), true).unwrap_err().code, Code::InvalidBody, "{bad}");
        }
        assert_eq!(read(&Bytes::from("{\"streams\": []}"), true).unwrap().events().len(), 0);
    }

    #[test]
    fn a_stream_that_cannot_be_read_refuses_itself_alone() {
        let values = json!([["1763633702123456789", "a"], ["1763633702123456789", "b"]]);
        let good = json!({"stream": {"job": "x"}, "values": values});
        let streams = json!([good, {"stream": 5, "values": values}, [{}, []], {"values": 5}, good]);
        let batch = read(&Bytes::from(json!({"streams": streams}).to_string()), true).unwrap();
        let refused: Vec<usize> = batch.refused().iter().map(|refused| refused.index).collect();
        assert_eq!((batch.events().len(), refused.as_slice()), (4, &[2, 3, 4, 5][..]));
        let entry = WireEntry { timestamp: None, line: "a".to_owned(), structured: Vec::new() };
        let stream = |labels: &str| WireStream {
            labels: labels.to_owned(),
            entries: vec![entry.clone(), entry.clone()],
            hash: 7,
        };
        let push = WirePush { streams: vec![stream("{job=\"x\"}"), stream("{a}"), stream("{job=\"y\"}")] };
        let batch = read(&push.encode_to_vec().into(), false).unwrap();
        assert_eq!((batch.events().len(), batch.refused().len()), (4, 2));
        assert!(batch.refused().iter().all(|refused| refused.reason.contains("\"{a}\"")), "{:?}", batch.refused());
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..100_usize, byte: u8) {
            let _ = read(&Bytes::from(bytes.clone()), false);
            let _ = read(&Bytes::from(bytes), true);
            let mut body = request().to_vec();
            if let Some(place) = body.get_mut(at) {
                *place = byte;
            }
            let _ = read(&Bytes::from(body), false);
        }
    }
}
