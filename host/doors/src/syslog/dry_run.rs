//! Reads a stream of syslog as a connection does, and stores nothing: for the fuzz target. The events are shown as they
//! would be stored, but for their ids, which are made up.

use chrono_tz::Tz;
use tidegate_model::{Audience, SenderPolicy};
use tidegate_store::Intake;

use super::frames::{Cut, Frames, Rest};
use super::record::{credentials, read, record};
use super::rfc3164::Calendar;

/// The most bytes of a message.
const LONGEST: usize = 256;
/// The time at which the stream arrives, in microseconds since 1970.
const NOW: i64 = 1_763_633_702_000_000;

/// What is in a stream of syslog.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SyslogContent {
    /// The events, as JSON.
    pub events: Vec<String>,
    /// Messages that are too long.
    pub too_long: usize,
    /// Why each event is refused that is none.
    pub refused: Vec<String>,
    /// Why each message is refused that is not read.
    pub unreadable: Vec<String>,
    /// Whether the stream ends within a message, or where no message can be found any more.
    pub is_cut: bool,
    /// The most bytes that were held at once.
    pub held: usize,
}

/// Reads a stream that arrives in pieces of so many bytes, from a sender whose events must have these values. Messages have
/// at most 256 bytes.
pub fn read_syslog(bytes: &[u8], piece: usize, policy: Option<SenderPolicy>) -> SyslogContent {
    let (mut frames, mut content, mut held) = (Frames::new(LONGEST), SyslogContent::default(), Vec::new());
    let mut intake = Intake::new(NOW, 64 << 10, Audience::All).held_to(policy);
    for piece in bytes.chunks(piece.max(1)) {
        held.extend_from_slice(piece);
        let mut at = 0;
        loop {
            let (used, cut) = frames.next(held.get(at..).unwrap_or_default());
            match cut {
                Cut::Message(message) => take(message, &mut content, &mut intake),
                Cut::TooLong => content.too_long += 1,
                Cut::More => {
                    at += used;
                    break;
                }
                Cut::Lost => return SyslogContent { is_cut: true, ..finished(content, &intake) },
            }
            at += used;
        }
        held.drain(..at.min(held.len()));
        content.held = content.held.max(held.len());
    }
    match frames.end(&held) {
        Rest::Nothing => {}
        Rest::Line(line) => take(line, &mut content, &mut intake),
        Rest::Part => content.is_cut = true,
    }
    finished(content, &intake)
}

fn take(message: &[u8], content: &mut SyslogContent, intake: &mut Intake) {
    let text = String::from_utf8_lossy(message);
    match read(&text, Calendar { now: NOW, zone: Tz::Europe__Berlin }) {
        Ok(message) => {
            credentials(&message);
            intake.add(record(message));
        }
        Err(reason) => content.unreadable.push(reason.to_string()),
    }
}

fn finished(mut content: SyslogContent, intake: &Intake) -> SyslogContent {
    let mut events = intake.stored();
    for event in &mut events {
        event.as_object_mut().and_then(|fields| fields.remove("id"));
    }
    content.events = events.iter().map(ToString::to_string).collect();
    content.refused = intake.refused().iter().map(|refused| refused.reason.clone()).collect();
    content
}
