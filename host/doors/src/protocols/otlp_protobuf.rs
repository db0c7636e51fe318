//! Parses OTLP in Protocol Buffers.
//!
//! A request is parsed layer by layer, and a record is decoded only when it is reached. If all were decoded at once,
//! sixteen megabytes of empty records would take gigabytes of memory. A record that cannot be decoded is refused alone.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use serde_json::{Map, Value};
use tidegate_model::{Code, Failure};

use super::otlp_record::{Common, Record, Values, add, double, scope};
use crate::batch::Batch;
use crate::wire;

/// The message that a body is.
const WHAT: &str = "ExportLogsServiceRequest";

/// The field numbers of the nested lists, which are parsed by hand: the logs of each resource in a request, the logs of
/// each scope of a resource, and the log records of a scope.
const RESOURCE_LOGS: u64 = 1;
const SCOPE_LOGS: u64 = 2;
const LOG_RECORDS: u64 = 2;
/// The field number of what the records of a layer share: the resource, or the scope.
const COMMON: u64 = 1;

/// The events of an `ExportLogsServiceRequest`.
///
/// # Errors
/// [`Code::InvalidBody`] for a body that is not such a request, [`Code::TooLarge`] when its records expand to too many
/// bytes.
pub(super) fn parse(body: &Bytes, batch: &mut Batch) -> Result<(), Failure> {
    let max_event = batch.max_event();
    each(body, RESOURCE_LOGS, &mut |logs| {
        let resource = common(&logs, max_event, |bytes, values| {
            Resource::decode(bytes).map_err(decode_error).and_then(|own| plain_list(own.attributes, values))
        })?;
        each(&logs, SCOPE_LOGS, &mut |logs| {
            let scope = common(&logs, max_event, |bytes, values| {
                let own = InstrumentationScope::decode(bytes).map_err(decode_error)?;
                Ok(scope(own.name, own.version, plain_list(own.attributes, values)?))
            })?;
            each(&logs, LOG_RECORDS, &mut |record| {
                let bytes = record.len();
                if batch.has_failed() {
                    return Ok(());
                }
                add(batch, (&resource, &scope), bytes, || {
                    LogRecord::decode(record).map_err(decode_error).and_then(plain_record)
                })
            })
        })
    })
}

fn decode_error(error: prost::DecodeError) -> String {
    error.to_string()
}

/// The resource or scope of a layer, which its records share.
fn common(
    layer: &Bytes,
    max_event: usize,
    read: impl Fn(Bytes, &mut Values) -> Result<Map<String, Value>, String>,
) -> Result<Common, Failure> {
    let mut found = Common::default();
    each(layer, COMMON, &mut |bytes| {
        let length = bytes.len();
        if length > max_event {
            let message = format!("a resource or scope has {length} bytes, {max_event} are allowed");
            return Err(Failure::new(Code::TooLarge, message));
        }
        let values = read(bytes, &mut Values::new()).map_err(|error| bad(&format!("a resource or scope: {error}")))?;
        found = Common { values: Arc::new(values), bytes: length };
        Ok(())
    })?;
    Ok(found)
}

fn each(message: &Bytes, number: u64, work: &mut dyn FnMut(Bytes) -> Result<(), Failure>) -> Result<(), Failure> {
    wire::each(WHAT, message, number, work)
}

fn bad(reason: &str) -> Failure {
    wire::bad(WHAT, reason)
}

fn plain_record(record: LogRecord) -> Result<Record, String> {
    let mut values = Values::new();
    Ok(Record {
        time_unix_nano: record.time_unix_nano,
        observed_time_unix_nano: record.observed_time_unix_nano,
        severity_number: record.severity_number.into(),
        severity_text: record.severity_text,
        body: plain(record.body, &mut values)?,
        attributes: plain_list(record.attributes, &mut values)?,
        dropped_attributes_count: record.dropped_attributes_count.into(),
        flags: record.flags.into(),
        trace_id: hex::encode(record.trace_id),
        span_id: hex::encode(record.span_id),
        event_name: record.event_name,
    })
}

/// A value as JSON. The decoder has already limited how deeply it nests.
fn plain(value: Option<AnyValue>, values: &mut Values) -> Result<Value, String> {
    values.count()?;
    Ok(match value.and_then(|value| value.value) {
        None => Value::Null,
        Some(Any::StringValue(text)) => Value::String(text),
        Some(Any::BoolValue(is)) => Value::Bool(is),
        Some(Any::IntValue(number)) => Value::from(number),
        Some(Any::DoubleValue(number)) => double(number),
        Some(Any::ArrayValue(array)) => {
            Value::Array(array.values.into_iter().map(|value| plain(Some(value), values)).collect::<Result<_, _>>()?)
        }
        Some(Any::KvlistValue(list)) => Value::Object(plain_list(list.values, values)?),
        Some(Any::BytesValue(bytes)) => Value::String(BASE64_STANDARD.encode(bytes)),
        // An index into a dictionary of strings, which only OTLP profiles have.
        Some(Any::StringValueStrindex(index)) => Value::from(index),
    })
}

fn plain_list(list: Vec<KeyValue>, values: &mut Values) -> Result<Map<String, Value>, String> {
    list.into_iter().map(|pair| Ok((pair.key, plain(pair.value, values)?))).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::{ArrayValue, KeyValueList};
    use opentelemetry_proto::tonic::logs::v1::{ResourceLogs, ScopeLogs};
    use proptest::prelude::*;
    use serde_json::json;

    fn parsed(body: &Bytes) -> Result<Batch, Failure> {
        let mut batch = Batch::for_tests(1 << 20);
        parse(body, &mut batch)?;
        batch.checked()
    }

    fn holding(value: Any) -> Option<AnyValue> {
        Some(AnyValue { value: Some(value) })
    }

    fn pair(key: &str, value: Any) -> KeyValue {
        KeyValue { key: key.to_owned(), value: holding(value), ..KeyValue::default() }
    }

    fn request(log_records: Vec<LogRecord>) -> Bytes {
        let resource = Resource {
            attributes: vec![pair("service.name", Any::StringValue("api".to_owned()))],
            ..Resource::default()
        };
        let scope =
            InstrumentationScope { name: "lib".to_owned(), version: "1".to_owned(), ..InstrumentationScope::default() };
        let scope_logs = vec![ScopeLogs { scope: Some(scope), log_records, ..ScopeLogs::default() }];
        let resource_logs = vec![ResourceLogs { resource: Some(resource), scope_logs, ..ResourceLogs::default() }];
        ExportLogsServiceRequest { resource_logs }.encode_to_vec().into()
    }

    #[test]
    fn every_kind_of_value_comes_through() {
        let list = KeyValueList { values: vec![pair("k", Any::IntValue(i64::MIN))] };
        let array = ArrayValue { values: vec![holding(Any::BoolValue(true)).unwrap(), AnyValue::default()] };
        let record = LogRecord {
            time_unix_nano: 1_763_633_702_123_456_789,
            severity_number: 17,
            severity_text: "ERROR".to_owned(),
            body: holding(Any::KvlistValue(list)),
            attributes: vec![
                pair("http.method", Any::StringValue("GET".to_owned())),
                pair("a", Any::ArrayValue(array)),
                pair("d", Any::DoubleValue(0.25)),
                pair("b", Any::BytesValue(vec![0, 255, 16])),
            ],
            flags: 1,
            trace_id: (0..16).collect(),
            span_id: vec![0xab; 8],
            ..LogRecord::default()
        };
        let batch = parsed(&request(vec![record])).unwrap();
        assert_eq!(
            batch.events(),
            [json!({
                "timestamp": 1_763_633_702_123_456_789_i64,
                "event_message": "{\"k\":-9223372036854775808}",
                "metadata": {
                    "type": "otel_log", "severity_number": 17, "flags": 1, "severity_text": "ERROR",
                    "trace_id": "000102030405060708090a0b0c0d0e0f", "span_id": "abababababababab",
                    "attributes": {"http.method": "GET", "a": [true, null], "d": 0.25, "b": "AP8Q"},
                    "resource": {"service.name": "api"}, "scope": {"name": "lib", "version": "1"},
                    "body": {"k": i64::MIN},
                },
            })]
        );
    }

    #[test]
    fn a_bad_record_costs_only_itself() {
        let record = |text: &str| LogRecord { event_name: text.to_owned(), ..LogRecord::default() };
        let body = request(vec![record("first"), record("second"), record("third")]);
        let mut broken = body.to_vec();
        // The event name must be valid UTF-8, and this byte is not.
        let at = broken.windows(6).position(|window| window == b"second").unwrap();
        broken[at] = 0xff;
        let batch = parsed(&broken.into()).unwrap();
        assert_eq!(batch.events().len(), 2);
        assert_eq!((batch.refused()[0].index, batch.position(1)), (1, Some(2)));
    }

    #[test]
    fn empty_records_take_no_memory_before_they_are_counted() {
        // A resource with a scope with five million empty records.
        let records = [0x12, 0x00].repeat(5_000_000);
        let wrap = |tag: u8, inner: Vec<u8>| {
            let mut out = vec![tag];
            prost::encode_length_delimiter(inner.len(), &mut out).unwrap();
            out.extend(inner);
            out
        };
        let body = wrap(0x0a, wrap(0x12, records));
        assert_eq!(parsed(&body.into()).unwrap_err().code, Code::TooLarge);
    }

    #[test]
    fn deep_values_are_refused() {
        let mut value = holding(Any::BoolValue(true)).unwrap();
        for _ in 0..500 {
            value = holding(Any::ArrayValue(ArrayValue { values: vec![value] })).unwrap();
        }
        let batch = parsed(&request(vec![LogRecord { body: Some(value), ..LogRecord::default() }])).unwrap();
        assert_eq!((batch.events().len(), batch.refused().len()), (0, 1));
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parsed(&bytes.into());
        }

        #[test]
        fn a_cut_request_ends_in_an_answer(cut in 0_usize..200, flip in any::<u8>()) {
            let body = request(vec![LogRecord { severity_text: "x".repeat(40), ..LogRecord::default() }]);
            let mut bytes = body.to_vec();
            bytes.truncate(cut);
            if let Some(last) = bytes.last_mut() {
                *last ^= flip;
            }
            let _ = parsed(&bytes.into());
        }
    }
}
