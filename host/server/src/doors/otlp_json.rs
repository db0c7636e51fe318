//! OTLP in JSON: names in camelCase, 64-bit integers as text, ids in hexadecimal.
//!
//! Read leniently, as the specification asks: unknown names are passed over, absent ones have
//! their default, and integers may be numbers or text. As with Protocol Buffers, records are read
//! one by one.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tidegate_model::{Code, Failure};

use super::batch::{Batch, MAX_EVENTS};
use super::otlp_record::{Collector, Common, Record, double, scope};

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Export<'a> {
    #[serde(borrow, deserialize_with = "bounded")]
    resource_logs: Vec<ResourceLogs<'a>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceLogs<'a> {
    #[serde(borrow)]
    resource: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "bounded")]
    scope_logs: Vec<ScopeLogs<'a>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScopeLogs<'a> {
    #[serde(borrow)]
    scope: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "bounded")]
    log_records: Vec<&'a RawValue>,
}

/// The events of an `ExportLogsServiceRequest`.
///
/// # Errors
/// [`Code::InvalidBody`] for what is none, [`Code::TooLarge`] for what comes to too much.
pub(super) fn parse(body: &[u8], max_event: usize) -> Result<Batch, Failure> {
    let export: Export<'_> = serde_json::from_slice(body).map_err(|error| {
        Failure::new(Code::InvalidBody, format!("the body is no ExportLogsServiceRequest in JSON: {error}"))
    })?;
    let mut collector = Collector::new(max_event);
    for logs in export.resource_logs {
        let resource = common(logs.resource, max_event, |resource| list(resource.get("attributes")))?;
        for logs in logs.scope_logs {
            let scope = common(logs.scope, max_event, |own| {
                Ok(scope(text(own, "name")?, text(own, "version")?, list(own.get("attributes"))?))
            })?;
            for raw in logs.log_records {
                collector.add(&resource, &scope, raw.get().len(), || {
                    record(&serde_json::from_str(raw.get()).map_err(|error| error.to_string())?)
                })?;
            }
        }
    }
    Ok(collector.finish())
}

/// What the records of a layer have in common.
fn common(
    raw: Option<&RawValue>,
    max_event: usize,
    read: impl FnOnce(&Map<String, Value>) -> Result<Map<String, Value>, String>,
) -> Result<Common, Failure> {
    let Some(text) = raw.map(RawValue::get) else { return Ok(Common::default()) };
    let bytes = text.len();
    if bytes > max_event {
        let message = format!("a resource or scope has {bytes} bytes, {max_event} are allowed");
        return Err(Failure::new(Code::TooLarge, message));
    }
    let values = serde_json::from_str(text).map_err(|error| error.to_string()).and_then(|own| read(&own));
    let values = values
        .map_err(|error| Failure::new(Code::InvalidBody, format!("a resource or scope cannot be read: {error}")))?;
    Ok(Common { values: Arc::new(values), bytes })
}

fn record(record: &Map<String, Value>) -> Result<Record, String> {
    Ok(Record {
        time_unix_nano: unsigned(record, "timeUnixNano")?,
        observed_time_unix_nano: unsigned(record, "observedTimeUnixNano")?,
        severity_number: integer(record.get("severityNumber")).ok_or("severityNumber is no integer")?,
        severity_text: text(record, "severityText")?,
        body: plain(record.get("body"))?,
        attributes: list(record.get("attributes"))?,
        dropped_attributes_count: unsigned(record, "droppedAttributesCount")?,
        flags: unsigned(record, "flags")?,
        trace_id: text(record, "traceId")?.to_ascii_lowercase(),
        span_id: text(record, "spanId")?.to_ascii_lowercase(),
        event_name: text(record, "eventName")?,
    })
}

fn text(from: &Map<String, Value>, name: &str) -> Result<String, String> {
    match from.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("{name} is no text")),
    }
}

fn unsigned(from: &Map<String, Value>, name: &str) -> Result<u64, String> {
    match from.get(name) {
        None | Some(Value::Null) => Some(0),
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(text)) => text.parse().ok(),
        Some(_) => None,
    }
    .ok_or_else(|| format!("{name} is no unsigned integer"))
}

fn integer(value: Option<&Value>) -> Option<i64> {
    match value {
        None | Some(Value::Null) => Some(0),
        Some(Value::Number(number)) => number.as_i64(),
        Some(Value::String(text)) => text.parse().ok(),
        Some(_) => None,
    }
}

/// An `AnyValue` as plain JSON. The parser has limited how deep it nests.
fn plain(any: Option<&Value>) -> Result<Value, String> {
    let any = match any {
        None | Some(Value::Null) => return Ok(Value::Null),
        Some(Value::Object(any)) => any,
        Some(_) => return Err("a value is no object, such as {\"stringValue\": \"x\"}".to_owned()),
    };
    let Some((kind, value)) = any.iter().find(|(_, value)| !value.is_null()) else { return Ok(Value::Null) };
    match (kind.as_str(), value) {
        // Bytes are base64 in this encoding already.
        ("stringValue" | "bytesValue", Value::String(_)) | ("boolValue", Value::Bool(_)) => Ok(value.clone()),
        ("intValue", _) => integer(Some(value)).map(Value::from).ok_or_else(|| "intValue is no integer".to_owned()),
        ("doubleValue", Value::Number(_)) => Ok(value.clone()),
        ("doubleValue", Value::String(text)) => {
            text.parse().map(double).map_err(|_| "doubleValue is no number".to_owned())
        }
        ("arrayValue", Value::Object(array)) => {
            let values = elements(array.get("values"))?;
            values.iter().map(|value| plain(Some(value))).collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        ("kvlistValue", Value::Object(pairs)) => list(pairs.get("values")).map(Value::Object),
        ("stringValue" | "bytesValue" | "boolValue" | "doubleValue" | "arrayValue" | "kvlistValue", _) => {
            Err(format!("{kind} has a value of another kind"))
        }
        // A later kind of value; what is not known is passed over.
        _ => Ok(Value::Null),
    }
}

fn list(pairs: Option<&Value>) -> Result<Map<String, Value>, String> {
    let mut out = Map::new();
    for pair in elements(pairs)? {
        let pair = pair.as_object().ok_or("an attribute is no object")?;
        out.insert(text(pair, "key")?, plain(pair.get("value"))?);
    }
    Ok(out)
}

fn elements(array: Option<&Value>) -> Result<&[Value], String> {
    match array {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(values)) => Ok(values),
        Some(_) => Err("attributes and values are arrays".to_owned()),
    }
}

/// An array that may be absent, of no more elements than a request may have events.
fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct Bounded<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
            let mut out = Vec::new();
            while let Some(element) = elements.next_element()? {
                if out.len() == MAX_EVENTS {
                    return Err(A::Error::custom(format!("more than {MAX_EVENTS} elements; send smaller batches")));
                }
                out.push(element);
            }
            Ok(out)
        }
    }

    deserializer.deserialize_any(Bounded(PhantomData))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    fn export(records: Value) -> Value {
        json!({"resourceLogs": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "api"}}]},
            "scopeLogs": [{"scope": {"name": "lib", "version": "1"}, "logRecords": records}],
        }]})
    }

    fn batch(records: Value) -> Batch {
        parse(export(records).to_string().as_bytes(), 1 << 20).unwrap()
    }

    #[test]
    fn every_kind_of_value_comes_through() {
        let batch = batch(json!([{
            "timeUnixNano": "1763633702123456789", "observedTimeUnixNano": 5, "severityNumber": 17, "severityText": "ERROR",
            "traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174", "flags": 1, "later": {"x": 1},
            "body": {"stringValue": "hi"},
            "attributes": [
                {"key": "i", "value": {"intValue": "-9223372036854775808"}},
                {"key": "j", "value": {"intValue": 7}},
                {"key": "d", "value": {"doubleValue": 0.25}},
                {"key": "n", "value": {"doubleValue": "NaN"}},
                {"key": "t", "value": {"boolValue": true}},
                {"key": "b", "value": {"bytesValue": "AP8Q"}},
                {"key": "a", "value": {"arrayValue": {"values": [{"intValue": 1}, {}]}}},
                {"key": "e", "value": {"arrayValue": {}}},
                {"key": "k", "value": {"kvlistValue": {"values": [{"key": "x", "value": {"stringValue": "y"}}]}}},
                {"key": "z"},
            ],
        }]));
        assert_eq!(
            batch.events(),
            [json!({
                "timestamp": 1_763_633_702_123_456_i64, "event_message": "hi",
                "metadata": {
                    "type": "otel_log", "severity_number": 17, "flags": 1, "severity_text": "ERROR",
                    "trace_id": "5b8efff798038103d269b633813fc60c", "span_id": "eee19b7ec3c1b174",
                    "attributes": {"i": i64::MIN, "j": 7, "d": 0.25, "n": "NaN", "t": true, "b": "AP8Q", "a": [1, null], "e": [], "k": {"x": "y"}, "z": null},
                    "resource": {"service.name": "api"}, "scope": {"name": "lib", "version": "1"},
                },
            })]
        );
    }

    #[test]
    fn a_bad_record_costs_only_itself() {
        for bad in [
            json!({"timeUnixNano": -1}),
            json!({"body": "text"}),
            json!({"attributes": {"a": 1}}),
            json!({"severityText": 5}),
            json!({"body": {"intValue": 0.5}}),
            json!([]),
        ] {
            let batch = batch(json!([{"eventName": "a"}, bad, {"eventName": "b"}]));
            assert_eq!((batch.events().len(), batch.refused()[0].index), (2, 1), "{bad}");
        }
    }

    #[test]
    fn what_is_absent_is_nothing_and_what_is_no_export_is_refused() {
        for empty in [json!({}), json!({"resourceLogs": null}), json!({"resourceLogs": [{"scopeLogs": [{}]}]})] {
            assert_eq!(parse(empty.to_string().as_bytes(), 100).unwrap().events(), [] as [Value; 0]);
        }
        for bad in ["", "5", "{\"resourceLogs\": 5}", "{\"resourceLogs\": [5]}", "{"] {
            assert_eq!(parse(bad.as_bytes(), 100).unwrap_err().code, Code::InvalidBody, "{bad}");
        }
        let many = export(Value::Array(vec![json!({}); MAX_EVENTS + 1]));
        assert!(parse(many.to_string().as_bytes(), 1 << 20).unwrap_err().message.contains("100000"));
    }
}
