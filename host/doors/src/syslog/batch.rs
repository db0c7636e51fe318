//! The messages of one connection that wait to be stored together.
//!
//! Each message becomes an event at once, in the batch of its source. The batches are stored when the oldest message has
//! waited for the time of the settings, or when they are full. While they are being stored nothing is read from the
//! connection: a sender that is faster than the store is slowed down by TCP, and nothing is dropped.

use std::time::{Duration, Instant};

use tidegate_model::{Code, Failure};
use tidegate_service::failures::of_store;
use tidegate_store::{Intake, StoreError};

use super::record::{Credentials, credentials, read, record};
use super::refusal::{DOOR, Reason, Refusals};
use super::rfc3164::Calendar;
use super::sender::{Destination, Sender};
use crate::service::{Counted, DoorService};

/// How many messages are stored together at most.
const FULL_EVENTS: usize = 2_000;
/// How many bytes are stored together at most, beside the message that goes beyond.
const FULL_BYTES: usize = 512 << 10;
/// How many sources a batch has at most.
const MOST_SOURCES: usize = 16;
/// The pauses before messages are stored again that could not be.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The messages of one connection that wait to be stored.
#[derive(Debug, Default)]
pub(super) struct Batch {
    parts: Vec<Part>,
    /// The place in `parts` for each of the credentials in this batch.
    known: Vec<(Credentials, usize)>,
    since: Option<Instant>,
}

/// The messages for one source.
#[derive(Debug)]
struct Part {
    to: Destination,
    intake: Intake,
    /// The bytes of the messages as they were sent.
    bytes: usize,
}

impl Batch {
    /// Adds a message.
    ///
    /// # Errors
    /// Why it is not kept.
    pub(super) fn take(&mut self, service: &dyn DoorService, sender: &Sender, message: &[u8]) -> Result<(), Reason> {
        let text = String::from_utf8_lossy(message);
        let calendar = Calendar { now: service.now(), zone: service.options().syslog.time_zone };
        let parsed = read(&text, calendar).map_err(|_| Reason::Invalid)?;
        let credentials = credentials(&parsed);
        let known = self.known.iter().find(|(known, _)| *known == credentials).map(|(_, place)| *place);
        let place = match known {
            Some(place) => place,
            None => {
                let to = sender.destination(service, &credentials)?;
                let place = self.parts.iter().position(|part| part.to == to).unwrap_or_else(|| {
                    let intake = service.intake(Some(&to.source), 0, to.audience.clone());
                    self.parts.push(Part { to, intake, bytes: 0 });
                    self.parts.len() - 1
                });
                self.known.push((credentials, place));
                place
            }
        };
        let part = self.parts.get_mut(place).ok_or(Reason::Invalid)?;
        part.bytes += message.len();
        // The values are made only now that the sender may send.
        part.intake.add(record(parsed));
        self.since.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Bytes that the messages hold in memory, and will hold while they are stored.
    pub(super) fn held(&self) -> usize {
        // The store takes a copy, so that it can be given another one after a failure.
        self.parts.iter().map(|part| 2 * part.intake.held()).sum()
    }

    /// Whether nothing more may be added.
    pub(super) fn is_full(&self) -> bool {
        let events: usize = self.parts.iter().map(|part| part.intake.events()).sum();
        events >= FULL_EVENTS || self.held() >= 2 * FULL_BYTES || self.known.len() >= MOST_SOURCES
    }

    /// When the oldest message came.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Stores all messages. Where the store cannot take them now, it is asked again until it can: they are dropped only if
    /// it never will.
    pub(super) async fn store(&mut self, service: &dyn DoorService, sender: &Sender, refusals: &Refusals) {
        self.known.clear();
        self.since = None;
        for part in std::mem::take(&mut self.parts) {
            part.store(service, sender, refusals).await;
        }
    }
}

impl Part {
    async fn store(self, service: &dyn DoorService, sender: &Sender, refusals: &Refusals) {
        let Self { to, intake, bytes } = self;
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match service.limit_rate(to.identity) {
                Err(failure) => failure,
                Ok(()) => match service.ingest(&to.source, intake.clone(), None).await {
                    Ok(ingested) => {
                        service.count(DOOR, Counted::Ingested(&ingested));
                        service.count(DOOR, Counted::Bytes(bytes));
                        if !ingested.refused.is_empty() {
                            refusals.tell(service, Reason::Invalid, ingested.refused.len(), sender.peer);
                        }
                        return;
                    }
                    // What waits is held to what the source said before. That changes nothing when it is tried again.
                    Err(StoreError::TenancyChanged(_) | StoreError::NotForSender { .. }) => {
                        refusals.count(service, Reason::NotForTenant, intake.events(), sender.peer);
                        return;
                    }
                    Err(error) => of_store(error),
                },
            };
            if !may_pass(&failure) {
                let reason = if failure.code == Code::NotFound { Reason::NoSource } else { Reason::NotStored };
                refusals.count(service, reason, intake.events(), sender.peer);
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Whether a message begins as deflate or gzip do: rsyslog compresses single messages, after a `z`, and whole streams.
pub(super) fn is_compressed(message: &[u8]) -> bool {
    let begin = message.strip_prefix(b"z").unwrap_or(message);
    let is_packed = match begin {
        [0x1f, 0x8b, ..] => true,
        // The two bytes of the head of zlib with a window of 32 KiB are a multiple of 31.
        [first @ 0x78, second, ..] => u16::from_be_bytes([*first, *second]).is_multiple_of(31),
        _ => false,
    };
    is_packed && std::str::from_utf8(message).is_err()
}

/// Whether the store may take the same messages later. After a write that failed in the middle they may be stored already,
/// and then are twice: they are not lost.
fn may_pass(failure: &Failure) -> bool {
    matches!(
        failure.code,
        Code::TooManyRequests | Code::Overloaded | Code::StorageFull | Code::DataUnavailable | Code::Unconfirmed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_messages_are_told_from_texts() {
        for packed in [&b"x\x9c\xab\xcaH\xcd"[..], b"zx\xda\xb3\xf0", b"zx\x01\x01\x05\xff", b"\x1f\x8b\x08\x00"] {
            assert!(is_compressed(packed), "{}", packed.escape_ascii());
        }
        for text in [&b"x^2 and y"[..], b"", b"x", b"z", b"zx", b"<14>1 x\x9c", b"x\xff", "x\u{20ac}".as_bytes()] {
            assert!(!is_compressed(text), "{}", text.escape_ascii());
        }
    }
}
