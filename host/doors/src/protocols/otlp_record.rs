//! Converts a log record of OpenTelemetry to an event.
//!
//! Both encodings (Protocol Buffers and JSON) are parsed to a [`Record`] of plain values. Names are kept as they were
//! sent, including dots: `metadata.attributes` has a column `http.method`, which SQL writes in backticks.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_model::Failure;
use tidegate_store::{MAX_VALUES, too_many_values};

use crate::batch::Batch;
use crate::nanoseconds::of_nanos;

/// A log record, independent of its encoding. Absent fields have their default values.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Record {
    pub(super) time_unix_nano: u64,
    pub(super) observed_time_unix_nano: u64,
    pub(super) severity_number: i64,
    pub(super) severity_text: String,
    pub(super) body: Value,
    pub(super) attributes: Map<String, Value>,
    pub(super) dropped_attributes_count: u64,
    pub(super) flags: u64,
    /// Lower-case hexadecimal text.
    pub(super) trace_id: String,
    pub(super) span_id: String,
    pub(super) event_name: String,
}

/// The values of a resource or a scope, which all its records share, and its encoded size in bytes.
#[derive(Debug, Default, Clone)]
pub(super) struct Common {
    pub(super) values: Arc<Map<String, Value>>,
    pub(super) bytes: usize,
}

/// Counts the values of a record or a resource while they are converted to JSON, and limits them: a tree of JSON values
/// takes many times the bytes of its encoded form.
#[derive(Debug)]
pub(super) struct Values(usize);

impl Values {
    pub(super) fn new() -> Self {
        Self(MAX_VALUES)
    }

    /// # Errors
    /// The reason why the record is refused, when it has too many values.
    pub(super) fn count(&mut self) -> Result<(), String> {
        self.0 = self.0.checked_sub(1).ok_or_else(too_many_values)?;
        Ok(())
    }
}

/// Adds the event of a record of `bytes` bytes to a batch. `read` decodes the record; it is called only if the record is not too
/// long.
///
/// # Errors
/// [`Code::TooLarge`](tidegate_model::Code::TooLarge) when the records of the request expand to too many bytes.
pub(super) fn add(
    batch: &mut Batch,
    (resource, scope): (&Common, &Common),
    bytes: usize,
    read: impl FnOnce() -> Result<Record, String>,
) -> Result<(), Failure> {
    batch.take_sharing(bytes, (resource.bytes.saturating_add(scope.bytes), "log records", "resource"), || {
        match read() {
            Ok(record) => Ok(record.into_event(&resource.values, &scope.values)),
            Err(reason) => Err(format!("the log record cannot be read: {reason}")),
        }
    })
}

impl Record {
    fn into_event(self, resource: &Map<String, Value>, scope: &Map<String, Value>) -> Value {
        let mut event = Map::new();
        if let Some(time) = self.time() {
            event.insert("timestamp".to_owned(), time);
        }
        let message = match &self.body {
            Value::String(text) => Some(text.clone()),
            _ if !self.event_name.is_empty() => Some(self.event_name.clone()),
            Value::Null => None,
            body => Some(body.to_string()),
        };
        if let Some(message) = message {
            event.insert("event_message".to_owned(), Value::String(message));
        }
        if let Some(project) = self.attributes.get("project").or_else(|| resource.get("project")) {
            event.insert("project".to_owned(), project.clone());
        }
        let mut metadata = Map::new();
        metadata.insert("type".to_owned(), Value::from("otel_log"));
        let numbers = [
            ("severity_number", Value::from(self.severity_number)),
            ("flags", Value::from(self.flags)),
            ("dropped_attributes_count", Value::from(self.dropped_attributes_count)),
        ];
        let texts = [
            ("severity_text", self.severity_text),
            ("trace_id", self.trace_id),
            ("span_id", self.span_id),
            ("event_name", self.event_name),
        ];
        let numbers = numbers.into_iter().filter(|(_, number)| *number != json!(0));
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
        let values = numbers.chain(texts.map(|(name, text)| (name, Value::String(text))));
        metadata.extend(values.map(|(name, value)| (name.to_owned(), value)));
        metadata.insert("attributes".to_owned(), Value::Object(self.attributes));
        metadata.insert("resource".to_owned(), Value::Object(resource.clone()));
        metadata.insert("scope".to_owned(), Value::Object(scope.clone()));
        if !self.body.is_string() {
            metadata.insert("body".to_owned(), self.body);
        }
        event.insert("metadata".to_owned(), Value::Object(metadata));
        Value::Object(event)
    }

    /// The time of the event, or else the time when it was observed. Zero means that the time is not known.
    fn time(&self) -> Option<Value> {
        let nanos = [self.time_unix_nano, self.observed_time_unix_nano].into_iter().find(|nanos| *nanos != 0)?;
        of_nanos(nanos.into())
    }
}

/// A floating-point number as JSON. NaN and the infinities, for which JSON has no numbers, become text, so that they
/// are not lost.
pub(super) fn double(number: f64) -> Value {
    if number.is_nan() {
        return Value::from("NaN");
    }
    match serde_json::Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None => Value::from(if number > 0.0 { "Infinity" } else { "-Infinity" }),
    }
}

/// The fields of an instrumentation scope that are stored.
pub(super) fn scope(name: String, version: String, attributes: Map<String, Value>) -> Map<String, Value> {
    let texts = [("name", name), ("version", version)].into_iter().filter(|(_, text)| !text.is_empty());
    let mut scope: Map<String, Value> = texts.map(|(name, text)| (name.to_owned(), Value::String(text))).collect();
    if !attributes.is_empty() {
        scope.insert("attributes".to_owned(), Value::Object(attributes));
    }
    scope
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn event(record: Record) -> Value {
        record.into_event(&Map::new(), &Map::new())
    }

    #[test]
    fn the_message_is_the_text_or_the_name_or_the_body() {
        let name = || "user.created".to_owned();
        assert_eq!(event(Record { body: json!("hi"), event_name: name(), ..Record::default() })["event_message"], "hi");
        let named = event(Record { body: json!({"a": 1}), event_name: name(), ..Record::default() });
        assert_eq!((&named["event_message"], &named["metadata"]["body"]), (&json!("user.created"), &json!({"a": 1})));
        assert_eq!(event(Record { body: json!({"a": 1}), ..Record::default() })["event_message"], "{\"a\":1}");
        assert_eq!(event(Record::default()).get("event_message"), None);
    }

    #[test]
    fn the_time_is_the_best_that_is_known() {
        let at = |time, observed| {
            event(Record { time_unix_nano: time, observed_time_unix_nano: observed, ..Record::default() })["timestamp"]
                .clone()
        };
        assert_eq!(at(1_763_633_702_123_456_789, 5), 1_763_633_702_123_456_789_u64);
        assert_eq!(at(0, 1_763_633_702_123_456_789), 1_763_633_702_123_456_789_u64);
        assert_eq!(at(1_000_000, 0), "1970-01-01T00:00:00.001+00:00");
        assert_eq!(at(u64::MAX, 0), u64::MAX / 1000);
        assert_eq!(at(0, 0), Value::Null);
    }

    #[test]
    fn the_project_is_taken_from_the_record_before_the_resource() {
        let resource = json!({"project": "r"}).as_object().cloned().unwrap();
        let own = json!({"project": "a"}).as_object().cloned().unwrap();
        let of = |attributes| Record { attributes, ..Record::default() }.into_event(&resource, &Map::new());
        assert_eq!(of(own)["project"], "a");
        assert_eq!(of(Map::new())["project"], "r");
    }

    #[test]
    fn numbers_that_json_lacks_become_text() {
        assert_eq!(double(0.5), json!(0.5));
        assert_eq!(
            [double(f64::NAN), double(f64::INFINITY), double(f64::NEG_INFINITY)],
            ["NaN", "Infinity", "-Infinity"]
        );
    }
}
