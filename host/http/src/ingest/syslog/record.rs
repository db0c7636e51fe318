//! The event of a syslog message, and the token that the message may carry.

use serde_json::{Map, Value};

use super::message::{Message, priority};
use super::rfc3164::{self, Calendar};
use super::rfc5424;

/// The id of the element of structured data with the token, before `@` and the number of an organisation.
const CREDENTIALS: &str = "tidegate";

/// What a message says about its sender: `[tidegate@NUMBER token="..." source="..."]` in the structured data.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) token: Option<String>,
    pub(crate) source: Option<String>,
}

/// Reads a message of any form. What is no syslog message is text.
pub(crate) fn read(text: &str, calendar: Calendar) -> Message<'_> {
    let is_5424 = priority(text).is_some_and(|(_, rest)| rest.starts_with("1 "));
    match is_5424.then(|| rfc5424::read(text)) {
        Some(Ok(message)) => message,
        _ => rfc3164::read(text, calendar),
    }
}

/// Takes what a message says about its sender out of the structured data: a token is not stored.
pub(crate) fn credentials(message: &mut Message<'_>) -> Credentials {
    let is_own = |id: &str| id.strip_prefix(CREDENTIALS).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'));
    let ids: Vec<String> = message.data.keys().filter(|id| is_own(id)).cloned().collect();
    let mut found = Credentials::default();
    for id in ids {
        let element = message.data.shift_remove(&id);
        let text = |name: &str| {
            let text = element.as_ref()?.get(name)?.as_str()?;
            (!text.is_empty()).then(|| text.to_owned())
        };
        found.token = found.token.or_else(|| text("token"));
        found.source = found.source.or_else(|| text("source"));
    }
    found
}

/// The event of a message: its text as the message, the header and the structured data in `metadata`.
pub(crate) fn record(message: Message<'_>) -> Value {
    let (level, severity, facility) = (message.level(), message.severity(), message.facility());
    let data = Some(message.data).filter(|data| !data.is_empty());
    let metadata: Map<String, Value> = [
        ("level", level.map(Value::from)),
        ("severity", severity.map(Value::from)),
        ("facility", facility.map(Value::from)),
        ("hostname", message.hostname.map(Value::from)),
        ("app_name", message.app_name.map(Value::from)),
        ("proc_id", message.proc_id.map(Value::from)),
        ("msg_id", message.msg_id.map(Value::from)),
        ("structured_data", data.map(Value::from)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect();
    let event = [
        ("timestamp", message.time.map(Value::from)),
        ("event_message", Some(message.text.into())),
        ("metadata", Some(metadata).filter(|metadata| !metadata.is_empty()).map(Value::from)),
    ];
    event.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(text: &str) -> (Value, Credentials) {
        let mut message = read(text, Calendar { now: 1_763_633_702_000_000, zone: chrono_tz::UTC });
        let credentials = credentials(&mut message);
        (record(message), credentials)
    }

    #[test]
    fn messages_of_all_forms_become_events() {
        let text = "<165>1 2003-10-11T22:14:15.003Z host app 71 ID47 [a@1 x=\"1\"][tidegate@32473 token=\"t\" source=\"s\"] \u{feff}text";
        let expected = json!({
            "timestamp": "2003-10-11T22:14:15.003Z", "event_message": "text",
            "metadata": {
                "level": "notice", "severity": 5, "facility": 20, "hostname": "host", "app_name": "app", "proc_id": "71",
                "msg_id": "ID47", "structured_data": {"a@1": {"x": "1"}},
            },
        });
        let credentials = Credentials { token: Some("t".to_owned()), source: Some("s".to_owned()) };
        assert_eq!(of(text), (expected, credentials));
        let expected = json!({
            "timestamp": "2025-11-20T10:15:02+00:00", "event_message": "1 x",
            "metadata": {"level": "info", "severity": 6, "facility": 1, "hostname": "h", "app_name": "a"},
        });
        assert_eq!(of("<14>Nov 20 10:15:02 h a: 1 x"), (expected, Credentials::default()));
        assert_eq!(of("any text"), (json!({"event_message": "any text"}), Credentials::default()));
    }

    #[test]
    fn a_token_is_not_stored() {
        for text in [
            "<14>1 - - - - - [tidegate token=\"t\"] m",
            "<14>1 - - - - - [tidegate@1 token=\"t\"][tidegate@2 x=\"\"] m",
        ] {
            let (event, credentials) = of(text);
            assert_eq!(
                event,
                json!({"event_message": "m", "metadata": {"level": "info", "severity": 6, "facility": 1}})
            );
            assert_eq!(credentials, Credentials { token: Some("t".to_owned()), source: None });
        }
        let (_, other) = of("<14>1 - - - - - [tidegates token=\"t\"] m");
        assert_eq!(other, Credentials::default());
    }
}
