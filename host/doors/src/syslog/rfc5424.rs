//! Reads syslog messages of RFC 5424.
//!
//! Heroku leaves out the structured data: after the message id comes the message. So a message with structured data, with
//! `-` in its place, and without both is read.

use super::message::{Message, bare, priority};
use super::structured_data::StructuredData;
use super::unreadable::Unreadable;

/// Reads a message.
///
/// # Errors
/// Why it is none of RFC 5424; those of [`StructuredData::read`].
pub(crate) fn read(message: &str) -> Result<Message<'_>, Unreadable> {
    let (priority, rest) = priority(message).ok_or(Unreadable::NoPriority)?;
    let mut rest = rest.strip_prefix("1 ").ok_or(Unreadable::NoVersion)?;
    let mut word = || {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after;
        Some(word).filter(|word| !matches!(*word, "-" | ""))
    };
    let (time, hostname, app_name, proc_id, msg_id) = (word(), word(), word(), word(), word());
    let mut message = Message {
        priority: Some(priority),
        time: time.map(Into::into),
        hostname,
        app_name,
        proc_id,
        msg_id,
        ..Message::default()
    };
    if rest == "-" || rest.starts_with("- ") {
        rest = rest.get(2..).unwrap_or_default();
    } else {
        (message.data, rest) = StructuredData::read(rest)?;
    }
    message.text = bare(rest);
    Ok(message)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_examples_of_the_standard_are_read() {
        let first = "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \u{feff}'su root' failed for lonvick on /dev/pts/8";
        let message = read(first).unwrap();
        assert_eq!((message.facility(), message.severity(), message.level()), (Some(4), Some(2), Some("critical")));
        assert_eq!(message.time.as_deref(), Some("2003-10-11T22:14:15.003Z"));
        assert_eq!((message.hostname, message.app_name), (Some("mymachine.example.com"), Some("su")));
        assert_eq!((message.proc_id, message.msg_id), (None, Some("ID47")));
        assert_eq!((message.text, message.data.elements().count()), ("'su root' failed for lonvick on /dev/pts/8", 0));
        let third = "<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 [exampleSDID@32473 iut=\"3\" \
                     eventSource=\"Application\" eventID=\"1011\"] \u{feff}An application event log entry...";
        let message = read(third).unwrap();
        assert_eq!(message.text, "An application event log entry...");
        let expected = json!({"exampleSDID@32473": {"iut": "3", "eventSource": "Application", "eventID": "1011"}});
        assert_eq!(message.data.values(|_| true), Some(expected));
        let fourth = "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - [a@1 iut=\"3\"][examplePriority@32473 class=\"high\"]";
        let message = read(fourth).unwrap();
        assert_eq!((message.proc_id, message.text, message.data.elements().count()), (Some("8710"), "", 2));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bad in ["", "<", "<>1 -", "<192>1 -", "<+1>1 -", "<1>2 -", "<1>", "text", "<1>1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!(read("<8>1 "), Ok(Message { priority: Some(8), ..Message::default() }));
    }
}
