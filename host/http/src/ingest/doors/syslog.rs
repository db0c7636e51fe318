//! Reads a syslog message (RFC 5424) as Heroku's drains send it.
//!
//! Heroku leaves out the structured data: after the message id comes the message. A message with structured data, or
//! with `-` in its place, is read too.

use serde_json::Value;

use super::fields::{Fields, event};

const SEVERITIES: [&str; 8] = ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"];
/// The parts of the header after the version, in order.
const HEADER: [&str; 5] = ["timestamp", "hostname", "appname", "procid", "msgid"];

/// The event of a message: the text as its message, the header and the structured data in `metadata`.
///
/// # Errors
/// Why the message is refused, in words for its sender.
pub(super) fn read(message: &str) -> Result<Value, String> {
    let (priority, rest) = priority(message).ok_or("a syslog message begins with its priority, as in <190>1")?;
    let mut rest = rest.strip_prefix("1 ").ok_or("after the priority comes the version 1 of the protocol")?;
    let mut metadata = Fields::new();
    let severity = SEVERITIES.get(usize::from(priority & 7)).copied().unwrap_or_default();
    metadata.insert("level".to_owned(), severity.into());
    metadata.insert("priority".to_owned(), priority.into());
    metadata.insert("facility".to_owned(), (priority >> 3).into());
    let mut time = None;
    for name in HEADER {
        let (value, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after;
        match (name, value) {
            (_, "-" | "") => {}
            ("timestamp", value) => time = Some(Value::from(value)),
            (name, value) => drop(metadata.insert(name.to_owned(), value.into())),
        }
    }
    if rest == "-" || rest.starts_with("- ") {
        rest = rest.get(2..).unwrap_or_default();
    } else if let Some((data, after)) = structured_data(rest) {
        metadata.insert("structured_data".to_owned(), Value::Object(data));
        rest = after;
    }
    let text = rest.strip_prefix('\u{feff}').unwrap_or(rest).trim_end_matches(['\n', '\r', '\0']);
    Ok(event([("timestamp", time), ("event_message", Some(text.into()))], metadata))
}

/// The priority in `<...>`, and what follows.
fn priority(message: &str) -> Option<(u8, &str)> {
    let (digits, rest) = message.strip_prefix('<')?.split_once('>')?;
    let is_number = (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let priority = digits.parse().ok().filter(|priority| is_number && *priority < 192)?;
    Some((priority, rest))
}

/// The elements `[ID NAME="VALUE" ...]` at the beginning of a text, by their ids, and what follows them. None if the
/// text does not begin with such elements; then it is the message. Elements without any value are the message, too:
/// many programs begin their lines with `[info]`.
fn structured_data(text: &str) -> Option<(Fields, &str)> {
    let mut data = Fields::new();
    let mut rest = text;
    while let Some(element) = rest.strip_prefix('[') {
        let end = element.find([' ', ']']).filter(|end| *end > 0)?;
        let (id, mut inner) = element.split_at(end);
        let mut parameters = Fields::new();
        while let Some(parameter) = inner.strip_prefix(' ') {
            let (name, value) = parameter.split_once("=\"")?;
            if name.is_empty() || name.contains([' ', ']', '"', '=']) {
                return None;
            }
            let (value, after) = quoted(value)?;
            parameters.insert(name.to_owned(), value.into());
            inner = after;
        }
        rest = inner.strip_prefix(']')?;
        data.insert(id.to_owned(), Value::Object(parameters));
    }
    let has_values = data.values().any(|parameters| parameters.as_object().is_some_and(|all| !all.is_empty()));
    (has_values && (rest.is_empty() || rest.starts_with(' '))).then(|| (data, rest.trim_start_matches(' ')))
}

/// A value up to its closing quote, in which `"`, `\` and `]` follow a backslash, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(place + 1..)?)),
            '\\' => match characters.next()?.1 {
                escaped @ ('"' | '\\' | ']') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_of_heroku_are_read() {
        let message = "<40>1 2025-11-20T10:15:02.123456+00:00 host app web.3 - State changed from starting to up\n";
        let expected = json!({
            "timestamp": "2025-11-20T10:15:02.123456+00:00", "event_message": "State changed from starting to up",
            "metadata": {"level": "emergency", "priority": 40, "facility": 5, "hostname": "host", "appname": "app", "procid": "web.3"},
        });
        assert_eq!(read(message), Ok(expected));
    }

    #[test]
    fn structured_data_is_read() {
        let read = |rest: &str| read(&format!("<14>1 - - - - {rest}")).unwrap();
        let with = |data: Value, message: &str| {
            let mut metadata = json!({"level": "info", "priority": 14, "facility": 1});
            if !data.is_null() {
                metadata.as_object_mut().unwrap().insert("structured_data".to_owned(), data);
            }
            json!({"event_message": message, "metadata": metadata})
        };
        assert_eq!(read("- - text"), with(Value::Null, "text"));
        let data = json!({"a@1": {"x": "1", "y": "q\"]\\z"}, "b": {}});
        assert_eq!(read("- [a@1 x=\"1\" y=\"q\\\"\\]\\\\z\"][b] text"), with(data, "text"));
        assert_eq!(read("- [a@1 x=\"\"]"), with(json!({"a@1": {"x": ""}}), ""));
        for message in ["[info] started", "[a x=\"1]", "[", "[a", "[a b]", "[a]b"] {
            assert_eq!(read(&format!("- {message}")), with(Value::Null, message));
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bad in ["", "<", "<>1 -", "<192>1 -", "<+1>1 -", "<1>2 -", "<1>", "text", "<1>1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!(
            read("<8>1 "),
            Ok(json!({"event_message": "", "metadata": {"level": "emergency", "priority": 8, "facility": 1}}))
        );
    }
}
