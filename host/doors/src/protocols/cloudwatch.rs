//! Deliveries of a CloudWatch subscription, as they come through Firehose: an envelope around many log events. Each of these is an
//! event; what the envelope says of them is in its metadata.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tidegate_model::Failure;

use super::documents::document;
use super::fields::{Fields, event};
use crate::batch::Batch;
use crate::elements::{each_element, object};

/// A delivery.
#[derive(Debug, Deserialize)]
pub(super) struct Delivery<'a> {
    #[serde(rename = "messageType")]
    kind: &'a str,
    #[serde(borrow, rename = "logEvents")]
    events: &'a RawValue,
    #[serde(borrow, default)]
    owner: Option<&'a RawValue>,
    #[serde(borrow, rename = "logGroup", default)]
    group: Option<&'a RawValue>,
    #[serde(borrow, rename = "logStream", default)]
    stream: Option<&'a RawValue>,
    #[serde(borrow, rename = "subscriptionFilters", default)]
    filters: Option<&'a RawValue>,
}

impl<'a> Delivery<'a> {
    /// The delivery that a JSON text is, if it is one.
    pub(super) fn of(text: &'a str) -> Option<Self> {
        let delivery: Self = text.contains("\"logEvents\"").then(|| object(text).ok()).flatten()?;
        delivery.events.get().starts_with('[').then_some(delivery)
    }

    /// Adds its events. Control messages, by which CloudWatch sees whether the destination is there, have none.
    ///
    /// # Errors
    /// [`Code::TooLarge`](tidegate_model::Code::TooLarge) when the events come to too many bytes, each with what the envelope says.
    pub(super) fn read(&self, batch: &mut Batch) -> Result<(), Failure> {
        if self.kind == "CONTROL_MESSAGE" {
            return Ok(());
        }
        let named = [
            ("owner", self.owner),
            ("logGroup", self.group),
            ("logStream", self.stream),
            ("subscriptionFilters", self.filters),
        ];
        let named = named.into_iter().filter_map(|(name, value)| Some((name, value?.get())));
        let own: usize = named.clone().map(|(name, value)| name.len() + value.len()).sum();
        let shared = |(name, value): (&str, &str)| Some((name.to_owned(), serde_json::from_str::<Value>(value).ok()?));
        let shared: Fields = if own > batch.max_event() { Fields::new() } else { named.filter_map(shared).collect() };
        let mut failed = None;
        let read = |mut fields: Fields| {
            let own = ["id", "timestamp", "message"].map(|name| fields.shift_remove(name));
            let [id, time, message] = own;
            // Fields that a filter has extracted stand beside them.
            let mut metadata = shared.clone();
            metadata.extend(fields);
            Some(Ok(event([("id", id), ("timestamp", time), ("event_message", message)], metadata)))
        };
        // The text was read as JSON before, so there is no error.
        let _ = each_element(self.events.get(), |text| {
            let read = || document(text, usize::MAX, &read).unwrap_or_else(|| Err("it is no event".to_owned()));
            failed = batch.take_sharing(text.len(), (own, "log events", "envelope"), read).err();
            failed.is_none() && !batch.has_failed()
        });
        failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;
    use tidegate_model::Code;

    #[test]
    fn each_log_event_is_an_event() {
        let mut batch = Batch::for_tests(300);
        let envelope = |kind: &str, events: Value| {
            json!({"messageType": kind, "owner": "1", "logGroup": "g", "logStream": "s", "subscriptionFilters": ["f"], "logEvents": events})
                .to_string()
        };
        let log = |message: &str| json!({"id": "7", "timestamp": 1_763_633_702_123_i64, "message": message});
        let text = envelope("DATA_MESSAGE", json!([log("a"), log(&"x".repeat(300)), 5, log("b")]));
        Delivery::of(&text).unwrap().read(&mut batch).unwrap();
        let expected = |message: &str| {
            json!({
                "id": "7", "timestamp": 1_763_633_702_123_i64, "event_message": message,
                "metadata": {"owner": "1", "logGroup": "g", "logStream": "s", "subscriptionFilters": ["f"]},
            })
        };
        assert_eq!((batch.events(), batch.refused().len()), (vec![expected("a"), expected("b")], 2));
        let control = envelope("CONTROL_MESSAGE", json!([log("CWL CONTROL MESSAGE: checking health")]));
        Delivery::of(&control).unwrap().read(&mut batch).unwrap();
        assert_eq!(batch.count(), 4);
        for other in ["{}", "5", "{\"logEvents\": []}", "{\"messageType\": \"x\", \"logEvents\": 5}"] {
            assert!(Delivery::of(other).is_none(), "{other}");
        }
    }

    #[test]
    fn many_events_with_a_large_envelope_are_bounded() {
        let mut batch = Batch::for_tests(1 << 20);
        let events = vec![json!({"message": "m"}); 300];
        let text =
            json!({"messageType": "DATA_MESSAGE", "logGroup": "g".repeat(1 << 19), "logEvents": events}).to_string();
        assert_eq!(Delivery::of(&text).unwrap().read(&mut batch).unwrap_err().code, Code::TooLarge);
    }
}
