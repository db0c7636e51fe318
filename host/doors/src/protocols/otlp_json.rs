//! Parses OTLP in JSON: names in camelCase, 64-bit integers as strings, ids in hexadecimal.
//!
//! Parsing is lenient, as the specification asks: unknown names are skipped, absent ones have their default, and
//! integers may be numbers or strings. As with Protocol Buffers, records are parsed one by one.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tidegate_model::{Code, Failure};
use tidegate_store::read_event;

use super::otlp_record::{Common, Record, add, double, scope};
use crate::batch::Batch;
use crate::elements::{each_element, object};
use crate::text::Text;

/// The lists of an export, of the logs of a resource or of a scope, and what their elements share.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Layer<'a> {
    #[serde(borrow)]
    resource_logs: Option<&'a RawValue>,
    #[serde(borrow)]
    resource: Option<&'a RawValue>,
    #[serde(borrow)]
    scope_logs: Option<&'a RawValue>,
    #[serde(borrow)]
    scope: Option<&'a RawValue>,
    #[serde(borrow)]
    log_records: Option<&'a RawValue>,
}

/// The events of an `ExportLogsServiceRequest`.
///
/// # Errors
/// [`Code::InvalidBody`] for a body that is not such a request, [`Code::TooLarge`] when its records expand to too many
/// bytes.
pub(super) fn parse(body: &[u8], batch: &mut Batch) -> Result<(), Failure> {
    let text = Text::json(body);
    batch.hold_more(text.held());
    let max_event = batch.max_event();
    let export: Layer<'_> = object(text.as_str()).map_err(bad)?;
    // Each layer is parsed only when it is reached, and its elements are not collected in a list.
    each(export.resource_logs, &mut |logs| {
        let logs: Layer<'_> = object(logs).map_err(bad)?;
        let resource = common(&text, logs.resource, max_event, |resource| list(resource.get("attributes")))?;
        each(logs.scope_logs, &mut |logs| {
            let logs: Layer<'_> = object(logs).map_err(bad)?;
            let scope = common(&text, logs.scope, max_event, |own| {
                Ok(scope(self::text(own, "name")?, self::text(own, "version")?, list(own.get("attributes"))?))
            })?;
            each(logs.log_records, &mut |raw| {
                add(batch, (&resource, &scope), raw.len(), || {
                    text.check(raw)?;
                    match read_event(raw)? {
                        Value::Object(own) => record(&own),
                        _ => Err("a log record is an object".to_owned()),
                    }
                })?;
                Ok(!batch.has_failed())
            })
        })
    })?;
    Ok(())
}

fn bad(error: serde_json::Error) -> Failure {
    Failure::new(Code::InvalidBody, format!("the body is no ExportLogsServiceRequest in JSON: {error}"))
}

/// Calls `work` with the elements of an array that may be absent, until it returns false or an error. Returns its last
/// result.
fn each<'t>(
    array: Option<&'t RawValue>,
    work: &mut dyn FnMut(&'t str) -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let Some(array) = array.map(RawValue::get) else { return Ok(true) };
    let mut last = Ok(true);
    each_element(array, |element| {
        last = work(element);
        matches!(last, Ok(true))
    })
    .map_err(bad)?;
    last
}

/// The resource or scope of a layer, which its records share.
fn common(
    body: &Text<'_>,
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
    let values = body.check(text).and_then(|()| read_event(text)).and_then(|own| match own {
        Value::Object(own) => read(&own),
        _ => Err("it is no object".to_owned()),
    });
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

/// A whole number outside of INT64 as a double, which it was: the SDK for JavaScript (`otlp-transformer` 0.301) writes
/// each number without a fraction as `intValue`, and as a double in Protocol Buffers.
fn beyond_int64(value: &Value) -> Option<Value> {
    let float = value.as_number()?.as_f64()?;
    (float.abs() >= 2_f64.powi(63)).then(|| double(float))
}

/// An `AnyValue` as plain JSON. The parser has already limited how deeply it nests.
fn plain(any: Option<&Value>) -> Result<Value, String> {
    let any = match any {
        None | Some(Value::Null) => return Ok(Value::Null),
        Some(Value::Object(any)) => any,
        Some(_) => return Err("a value is no object, such as {\"stringValue\": \"x\"}".to_owned()),
    };
    let Some((kind, value)) = any.iter().find(|(_, value)| !value.is_null()) else { return Ok(Value::Null) };
    match (kind.as_str(), value) {
        // This encoding writes bytes as base64 already.
        ("stringValue" | "bytesValue", Value::String(_)) | ("boolValue", Value::Bool(_)) => Ok(value.clone()),
        ("intValue", _) => integer(Some(value))
            .map(Value::from)
            .or_else(|| beyond_int64(value))
            .ok_or_else(|| "intValue is no integer".to_owned()),
        ("doubleValue", Value::Number(_)) => Ok(value.clone()),
        ("doubleValue", Value::String(text)) => {
            text.parse().map(double).map_err(|_| "doubleValue is no number".to_owned())
        }
        ("arrayValue", Value::Object(array)) => {
            let values = elements(array.get("values"))?;
            values.iter().map(|value| plain(Some(value))).collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        ("kvlistValue", Value::Object(pairs)) => list(pairs.get("values")).map(Value::Object),
        ("bytesValue", _) => bytes(value)
            .map(|bytes| Value::String(BASE64_STANDARD.encode(bytes)))
            .ok_or_else(|| "bytesValue is no base64 text".to_owned()),
        ("stringValue" | "boolValue" | "doubleValue" | "arrayValue" | "kvlistValue", _) => {
            Err(format!("{kind} has a value of another kind"))
        }
        // A kind of value that a later version of OTLP adds. Unknown kinds are skipped.
        _ => Ok(Value::Null),
    }
}

/// Bytes that are sent as numbers, in an array or as `{"0": 1, "1": 2}`: the OpenTelemetry SDK for JavaScript sent them
/// in this form for years.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    let byte = |value: &Value| u8::try_from(value.as_u64()?).ok();
    match value {
        Value::Array(values) => values.iter().map(byte).collect(),
        Value::Object(values) => {
            let in_order = values.iter().enumerate();
            in_order.map(|(i, (key, value))| if key.parse() == Ok(i) { byte(value) } else { None }).collect()
        }
        _ => None,
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

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::batch::MAX_EVENTS;
    use serde_json::json;

    fn export(records: Value) -> Value {
        json!({"resourceLogs": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "api"}}]},
            "scopeLogs": [{"scope": {"name": "lib", "version": "1"}, "logRecords": records}],
        }]})
    }

    fn read(body: &[u8]) -> Result<Batch, Failure> {
        let mut batch = Batch::for_tests(1 << 20);
        parse(body, &mut batch)?;
        batch.checked()
    }

    fn batch(records: Value) -> Batch {
        read(export(records).to_string().as_bytes()).unwrap()
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
                {"key": "l", "value": {"intValue": 9_223_372_036_854_775_808_u64}},
                {"key": "m", "value": {"intValue": -1e300}},
                {"key": "d", "value": {"doubleValue": 0.25}},
                {"key": "n", "value": {"doubleValue": "NaN"}},
                {"key": "t", "value": {"boolValue": true}},
                {"key": "b", "value": {"bytesValue": "AP8Q"}},
                {"key": "c", "value": {"bytesValue": {"0": 0, "1": 255, "2": 16}}},
                {"key": "a", "value": {"arrayValue": {"values": [{"intValue": 1}, {}]}}},
                {"key": "e", "value": {"arrayValue": {}}},
                {"key": "k", "value": {"kvlistValue": {"values": [{"key": "x", "value": {"stringValue": "y"}}]}}},
                {"key": "z"},
            ],
        }]));
        assert_eq!(
            batch.events(),
            [json!({
                "timestamp": 1_763_633_702_123_456_789_i64, "event_message": "hi",
                "metadata": {
                    "type": "otel_log", "severity_number": 17, "flags": 1, "severity_text": "ERROR",
                    "trace_id": "5b8efff798038103d269b633813fc60c", "span_id": "eee19b7ec3c1b174",
                    "attributes": {"i": i64::MIN, "j": 7, "l": 9_223_372_036_854_775_808.0, "m": -1e300, "d": 0.25, "n": "NaN", "t": true, "b": "AP8Q", "c": "AP8Q", "a": [1, null], "e": [], "k": {"x": "y"}, "z": null},
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
            json!({"body": {"bytesValue": {"0": 0, "2": 1}}}),
            json!({"body": {"bytesValue": [256]}}),
            json!([]),
        ] {
            let batch = batch(json!([{"eventName": "a"}, bad, {"eventName": "b"}]));
            assert_eq!((batch.events().len(), batch.refused()[0].index), (2, 1), "{bad}");
        }
    }

    #[test]
    fn what_is_absent_is_nothing_and_what_is_no_export_is_refused() {
        for empty in [json!({}), json!({"resourceLogs": null}), json!({"resourceLogs": [{"scopeLogs": [{}]}]})] {
            assert_eq!(read(empty.to_string().as_bytes()).unwrap().events(), [] as [Value; 0]);
        }
        for bad in [
            "",
            "5",
            "[null, null]",
            "[]",
            "{\"resourceLogs\": [[[]]]}",
            "{\"resourceLogs\": 5}",
            "{\"resourceLogs\": [5]}",
            "{",
        ] {
            assert_eq!(read(bad.as_bytes()).unwrap_err().code, Code::InvalidBody, "{bad}");
        }
        let many = export(Value::Array(vec![json!({}); MAX_EVENTS + 1]));
        assert!(read(many.to_string().as_bytes()).unwrap_err().message.contains("100000"));
    }

    #[test]
    fn a_record_of_invalid_utf_8_costs_only_itself() {
        let mut body =
            export(json!([{"eventName": "a"}, {"eventName": "wrong"}, {"eventName": "b"}])).to_string().into_bytes();
        let at = body.windows(5).position(|five| five == b"wrong").unwrap();
        body[at] = 0xff;
        let batch = read(&body).unwrap();
        assert_eq!((batch.events().len(), batch.refused()[0].index), (2, 1));
        assert!(batch.refused()[0].reason.contains("UTF-8"), "{:?}", batch.refused());
        // A resource is shared by all its records, so one that is invalid makes the whole request fail.
        let mut body = export(json!([{}])).to_string().into_bytes();
        let at = body.windows(3).position(|three| three == b"api").unwrap();
        body[at] = 0xff;
        assert_eq!(read(&body).unwrap_err().code, Code::InvalidBody);
    }
}
