//! The event of a syslog message, and the token that the message may carry.

use serde_json::{Map, Value};

use super::message::{Message, priority};
use super::rfc3164::{self, Calendar};
use super::rfc5424;
use super::structured_data::{Element, begins_own, has_own};
use super::unreadable::Unreadable;

/// What a message says about its sender: `[tidegate@NUMBER token="..." source="..."]` in the structured data.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) token: Option<String>,
    /// Where the token sends to. Without a token nothing can be chosen.
    pub(crate) source: Option<String>,
}

/// Reads a message of any form. What is no syslog message is text.
///
/// # Errors
/// Those of structured data that is not read. A token would be stored, because its element is not where it belongs.
pub(crate) fn read(text: &str, calendar: Calendar) -> Result<Message<'_>, Unreadable> {
    let is_5424 = priority(text).is_some_and(|(_, rest)| rest.starts_with("1 "));
    let message = if is_5424 { rfc5424::read(text)? } else { rfc3164::read(text, calendar) };
    // A header with a field too few or too many, or one that is not known; an element behind a blank or within the text.
    let Message { hostname, app_name, proc_id, msg_id, .. } = message;
    let is_in_header = [message.time.as_deref(), hostname, app_name, proc_id, msg_id].into_iter().flatten().any(is_own);
    if is_in_header || has_own(message.text) || shows_token(text, &message) {
        return Err(Unreadable::BrokenCredentials);
    }
    Ok(message)
}

/// A token is longer. Shorter texts may stand in a message by chance.
const SHORTEST_TOKEN: usize = 16;

/// Whether there may be a token outside of the elements that are left out: an element within a value of another one, or the token of
/// the message once more.
fn shows_token(text: &str, message: &Message<'_>) -> bool {
    let (own, others): (Vec<_>, Vec<_>) = message.data.elements().partition(|element| element.is_own());
    if others.iter().any(|element| has_own(element.parameters())) {
        return true;
    }
    let token = own.iter().find_map(|element| element.sent("token")).filter(|token| token.len() >= SHORTEST_TOKEN);
    token.is_some_and(|token| {
        let left_out: usize = own.iter().map(|element| element.parameters().matches(token).count()).sum();
        text.matches(token).count() > left_out
    })
}

/// Whether a word of the header is the beginning of an element with a token.
fn is_own(word: &str) -> bool {
    word == "[tidegate" || begins_own(word)
}

/// What a message says about its sender. Only the elements that say it are copied.
pub(crate) fn credentials(message: &Message<'_>) -> Credentials {
    let own = |name: &str| message.data.elements().filter(|element| element.is_own()).find_map(|own| own.value(name));
    let token = own("token").map(Into::into);
    let source = token.is_some().then(|| own("source").map(Into::into)).flatten();
    Credentials { token, source }
}

/// The event of a message: its text as the message, the header and the structured data in `metadata`. What the structured
/// data says about the sender is left out: a token is not stored.
pub(crate) fn record(message: Message<'_>) -> Value {
    let (level, severity, facility) = (message.level(), message.severity(), message.facility());
    let data = message.data.values(|element: Element<'_>| !element.is_own());
    let metadata: Map<String, Value> = [
        ("level", level.map(Value::from)),
        ("severity", severity.map(Value::from)),
        ("facility", facility.map(Value::from)),
        ("hostname", message.hostname.map(Value::from)),
        ("app_name", message.app_name.map(Value::from)),
        ("proc_id", message.proc_id.map(Value::from)),
        ("msg_id", message.msg_id.map(Value::from)),
        ("structured_data", data),
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
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use serde_json::json;

    const CALENDAR: Calendar = Calendar { now: 1_763_633_702_000_000, zone: chrono_tz::UTC };

    fn of(text: &str) -> (Value, Credentials) {
        let message = read(text, CALENDAR).unwrap();
        let credentials = credentials(&message);
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

    #[test]
    fn a_token_in_an_element_that_is_not_well_formed_is_not_stored() {
        for text in [
            "<14>1 - - - - - [tidegate@1 token=\"secret] m",
            "<14>1 - - - - - [a x=\"1\"][tidegate@1 token=\"secret\" source=s] m",
            "<14>1 - - - - - [a x=\"1\"] [tidegate@1 token=\"secret\"] m",
            "<14>1 - - - - - - [tidegate@1 token=\"secret\"] m",
            "<14>1 - - - - [tidegate@1 token=\"secret\"] m",
            "<14>1 - - - - [tidegate token=\"secret\"] m",
            "<14>[tidegate@1 token=\"secret\"] m",
            "[tidegate@1 token=\"secret\"] m",
            "<14>1 - - - - -  [tidegate@1 token=\"secret\"] m",
            "<14>1 - - - - - [a b=\"c\"]\t[tidegate@1 token=\"secret\"] m",
            "<14>1 - - - - - [a b=\"c\"]x[tidegate@1 token=\"secret\"] m",
            "<14>2 - - - - - [tidegate@1 token=\"secret\"] m",
            "<14>1\t- - - - - [tidegate@1 token=\"secret\"] m",
            "<999>1 - - - - - [tidegate@1 token=\"secret\"] m",
            "1 - - - - - [tidegate@1 token=\"secret\"] m",
            // Twice: in a value, in the text, in the header, within another word, without its element.
            "<14>1 - - - - - [a x=\"[tidegate@1 token=\\\"secret\\\"\\]\"] m",
            "<14>1 - - - - - [tidegate@1 token=\"sixteen-bytes-and-more\"] sixteen-bytes-and-more",
            "<14>1 - - - - - [tidegate@1 token=\"sixteen-bytes-and-more\"][a x=\"sixteen-bytes-and-more\"] m",
            "<14>1 - - - sixteen-bytes-and-more - [tidegate@1 token=\"sixteen-bytes-and-more\"] m",
            "<14>1 - - - - - [tidegate@1 token=\"sixteen-bytes-and-more\"] token=\"sixteen-bytes-and-more\"",
        ] {
            assert_eq!(read(text, CALENDAR), Err(Unreadable::BrokenCredentials), "{text}");
        }
        let (_, twice) =
            of("<14>1 - - - - - [tidegate@1 token=\"sixteen-bytes-and-more\" token=\"sixteen-bytes-and-more\"] m");
        assert_eq!(twice.token.as_deref(), Some("sixteen-bytes-and-more"));
        let (event, found) = of("<14>1 - - - - - [tidegate@1 token=\"secret\"][a x=\"1] m");
        assert_eq!(found.token.as_deref(), Some("secret"));
        assert_eq!(event.get("event_message"), Some(&json!("[a x=\"1] m")));
        assert!(!event.to_string().contains("secret"), "{event}");
        for text in ["<14>1 - - - - - - [tidegate] a token", "<14>1 - - - - - - [tidegate 7] started", "[tidegate] x"] {
            assert!(read(text, CALENDAR).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_message_costs_what_its_length_is() {
        let long = |unit: &str| unit.repeat((1 << 20) / unit.len());
        let began = Instant::now();
        for unit in ["[tidegate@1 a=\"b\"]", "[a]", "[", " ", ":", "<", "1", "a=\"", "\\", "Nov 20 ", "\u{feff}"] {
            for head in ["<13>1 - - - - - ", "<13>1 - - - - - [tidegate", "<13>", "<13>Nov 20 ", "Nov 20 10:15:02 ", ""]
            {
                if let Ok(message) = read(&format!("{head}{}", long(unit)), CALENDAR) {
                    credentials(&message);
                    record(message);
                }
            }
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
}
