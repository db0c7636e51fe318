//! Messages that are not kept. Nobody can be told over syslog, so they are counted by reason, and logged once in a
//! while.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::service::{Counted, DoorService};

/// The name of this way in, in the figures by door.
pub(super) const DOOR: &str = "syslog";
/// How often the log tells of one reason.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Why a message is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Reason {
    TooLong,
    Unauthorized,
    NoSource,
    NotForTenant,
    Invalid,
    Compressed,
    Incomplete,
    TooSlow,
    WrongLength,
    NoMemory,
    NotStored,
}

impl Reason {
    /// The label in metrics.
    fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Unauthorized => "unauthorized",
            Self::NoSource => "no_source",
            Self::NotForTenant => "not_for_tenant",
            Self::Invalid => "invalid",
            Self::Compressed => "compressed",
            Self::Incomplete => "incomplete",
            Self::TooSlow => "too_slow",
            Self::WrongLength => "wrong_length",
            Self::NoMemory => "no_memory",
            Self::NotStored => "not_stored",
        }
    }

    /// What is wrong, for the operator.
    fn told(self) -> &'static str {
        match self {
            Self::TooLong => "a message is longer than [ingest] event_bytes",
            Self::Unauthorized => {
                "a message has no valid token, and its sender is not in [syslog] networks and has no certificate"
            }
            Self::NoSource => {
                "there is no source for a message: neither the one that it names nor [syslog] source is there"
            }
            Self::NotForTenant => {
                "the token of a message sends logs of one tenant only, and its source does not have what the token fixes as a \
                 tenant key"
            }
            Self::Invalid => {
                "a message cannot be stored: it is no event, its structured data has more than 100 elements, its element \
                 [tidegate@...] is not well formed, or it has another tenant than its token"
            }
            Self::Compressed => {
                "a message is compressed, which is not read here; the connection is closed: turn compression off (rsyslog: ZipLevel)"
            }
            Self::Incomplete => "a connection ended within a message",
            Self::TooSlow => "a message did not arrive in [syslog] message_timeout",
            Self::WrongLength => "the length before a message was wrong; the connection is closed",
            Self::NoMemory => "too many bytes of logs arrive at once ([ingest] body_memory); a connection is closed",
            Self::NotStored => "messages could not be stored",
        }
    }
}

/// What the log was told of last.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    told: Mutex<HashMap<Reason, Told>>,
}

#[derive(Debug)]
struct Told {
    at: Instant,
    /// Messages since then.
    since: usize,
}

impl Refusals {
    /// Counts messages that are not kept.
    pub(super) fn count(&self, service: &dyn DoorService, reason: Reason, count: usize, peer: IpAddr) {
        service.count(DOOR, Counted::RefusedEvents(count));
        self.tell(service, reason, count, peer);
    }

    /// As [`Self::count`], for messages that count as refused events already.
    pub(super) fn tell(&self, service: &dyn DoorService, reason: Reason, count: usize, peer: IpAddr) {
        service.count(DOOR, Counted::NotKept(reason.name(), count));
        let now = Instant::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let missed = match told.get_mut(&reason) {
            Some(told) if now.saturating_duration_since(told.at) < LOG_INTERVAL => {
                told.since = told.since.saturating_add(count);
                return;
            }
            Some(told) => told.since,
            None => 0,
        };
        told.insert(reason, Told { at: now, since: 0 });
        drop(told);
        tracing::warn!(%peer, count, before = missed, reason = reason.name(), "syslog: {}", reason.told());
    }
}
