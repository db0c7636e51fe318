//! What must hold for any stream of syslog.

use tidegate_doors::read_syslog;

use crate::tenant::{held_to, policy};

/// The most bytes that are held of a stream: a message, its length, and the piece that came last.
const MOST_HELD: usize = 256 + 16;

/// A stream is the same messages in whatever pieces it arrives; each can be stored, and little is held of what is none.
pub fn syslog(input: &[u8]) {
    let by_bytes = read_syslog(input, 1, None);
    assert!(by_bytes.held <= MOST_HELD, "{} bytes are held", by_bytes.held);
    for piece in [2, 7, 64, usize::MAX] {
        let mut other = read_syslog(input, piece, None);
        assert!(other.held <= MOST_HELD, "{} bytes are held", other.held);
        other.held = by_bytes.held;
        assert_eq!(by_bytes, other, "in pieces of {piece} bytes the stream is another");
    }
    let own = read_syslog(input, 64, Some(policy()));
    let texts =
        |events: &[String]| events.iter().filter_map(|event| serde_json::from_str(event).ok()).collect::<Vec<_>>();
    held_to(&texts(&by_bytes.events), &texts(&own.events), own.refused.len() - by_bytes.refused.len());
    // A message takes a byte at least.
    assert!(by_bytes.events.len() + by_bytes.too_long <= input.len(), "{by_bytes:?}");
    for event in &by_bytes.events {
        let read = serde_json::from_str::<serde_json::Value>(event).unwrap_or_default();
        assert!(read.get("event_message").is_some_and(serde_json::Value::is_string), "{event}");
        let data = read.pointer("/metadata/structured_data");
        assert!(data.is_none_or(|data| data.get("tidegate@1").is_none()), "a token is stored: {event}");
    }
    for reason in &by_bytes.refused {
        assert!(!reason.trim().is_empty() && reason.len() < 4000, "a refusal of {} bytes", reason.len());
    }
}
