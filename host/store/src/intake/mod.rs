//! The events of one ingest call while they arrive.
//!
//! Each event is normalised and encoded as soon as it is there, and its values are dropped. A call therefore holds the
//! body of its write-ahead row and never the values of all its events. Of many events columns are made at once, so that
//! they need not be parsed again ([`crate::memory::call_columns`]).
//!
//! Whoever makes an intake says for whom its events are sent. Those of a sender that sends for one tenant are held to it
//! here, so that every way in does it, whatever its protocol is.

use std::mem;

use serde_json::Value;
use tidegate_model::{Audience, SenderPolicy};

use crate::{
    ingest::{
        json_text::{too_long, write_json},
        normalise::{self, Normalised, TimeCounts},
        request_key::RequestKey,
        tape::{Tape, View},
        tape_reader::{read_leading, read_tape, stored_events},
        tenant_keys,
    },
    intake::equal_times::FineTime,
    memory::call_columns::{CallColumns, KnownShape, MadeColumns},
};

/// The share of its bytes by which a call may become longer.
const SPARE: usize = 8;

/// What became of the events of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ingested {
    /// Events on stable storage.
    pub stored: usize,
    /// Events that cannot be stored, in the order of the call.
    pub refused: Vec<RefusedEvent>,
    /// Stored events whose time cannot be read. They have the time of their arrival. What they said is in `_overflow`,
    /// or stays in its field.
    pub unread_times: usize,
    /// Of the stored ones, those with a time more than a day after their arrival.
    pub future_times: usize,
    /// Of the stored ones, those with a time in 1970.
    pub early_times: usize,
}

/// An event that cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedEvent {
    /// Its position in the call, from 0.
    pub index: usize,
    /// What is wrong with it, and what would be right.
    pub reason: String,
    /// Whether another event is stored under its name ([`Intake::name_last`]).
    pub is_conflict: bool,
}

/// The events of one call, encoded one by one. Made by [`Store::intake`](crate::Store::intake), stored by
/// [`Store::ingest_intake`](crate::Store::ingest_intake).
#[derive(Debug)]
pub struct Intake {
    /// The body of the write-ahead row: a JSON array without its closing bracket.
    body: Vec<u8>,
    /// The time of arrival, in microseconds.
    now: i64,
    max_bytes: usize,
    /// For whom the events are sent.
    audience: Audience,
    /// What each event must have by that, if its source is known.
    policy: Option<SenderPolicy>,
    /// The bytes that the events may have together, as far as it is known before.
    expected: usize,
    columns: Columns,
    counts: Counts,
    refused: Vec<RefusedEvent>,
    /// Where the last event begins in the body.
    last: usize,
    named: Vec<names::NamedEvent>,
    fine: Vec<FineTime>,
}

/// What there is of the columns of a call.
#[derive(Debug)]
enum Columns {
    /// They are made later, of the body.
    None,
    /// They are made of the events as they arrive.
    Making(Box<CallColumns>),
    Made(MadeColumns),
}

/// The copy's columns are made later.
impl Clone for Intake {
    fn clone(&self) -> Intake {
        let Intake { body, now, max_bytes, audience, policy, expected, columns: _, counts, refused, last, named, fine } =
            self;
        Intake {
            body: body.clone(),
            now: *now,
            max_bytes: *max_bytes,
            audience: audience.clone(),
            policy: policy.clone(),
            expected: *expected,
            columns: Columns::None,
            counts: *counts,
            refused: refused.clone(),
            last: *last,
            named: named.clone(),
            fine: fine.clone(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    events: usize,
    rows: usize,
    reasons: usize,
    times: TimeCounts,
}

/// A savepoint of an intake; see [`Intake::take_back`].
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    body: usize,
    refused: usize,
    counts: Counts,
}

/// A call, ready to be written.
#[derive(Debug)]
pub(crate) struct PreparedCall {
    /// The body of the write-ahead row: a JSON array of normalised events.
    pub(crate) body: Vec<u8>,
    pub(crate) columns: Option<MadeColumns>,
    pub(crate) rows: usize,
    pub(crate) refused: Vec<RefusedEvent>,
    pub(crate) times: TimeCounts,
    /// The time of arrival, in microseconds.
    pub(crate) now: i64,
    /// The names of its events that have one.
    pub(crate) named: Vec<RequestKey>,
}

impl Intake {
    /// An intake of events that arrive at `now`, in microseconds, each of at most `max_bytes` as JSON, and are sent for
    /// this audience.
    pub fn new(now: i64, max_bytes: usize, audience: Audience) -> Intake {
        Intake {
            body: Vec::new(),
            now,
            max_bytes,
            audience,
            policy: None,
            expected: 0,
            columns: Columns::None,
            counts: Counts::default(),
            refused: Vec::new(),
            last: 0,
            named: Vec::new(),
            fine: Vec::new(),
        }
    }

    /// The same for events that have about so many bytes together.
    #[must_use]
    pub(crate) fn expecting(self, bytes: usize) -> Intake {
        // An id may be added to each event.
        Intake { expected: bytes.saturating_add(bytes / SPARE), ..self }
    }

    /// The same for events that must have these values: they are set where they are missing, and an event with others is
    /// refused.
    #[must_use]
    pub fn held_to(self, policy: Option<SenderPolicy>) -> Intake {
        Intake { policy, ..self }
    }

    /// The same, with columns for a source with this schema.
    #[must_use]
    pub(crate) fn making_columns(self, known: KnownShape) -> Intake {
        Intake { columns: Columns::Making(Box::new(CallColumns::new(known))), ..self }
    }

    /// Adds an event. An event that cannot be stored is refused alone. Returns whether it was accepted.
    pub fn add(&mut self, event: Value) -> bool {
        let added = self.encode(&Tape::of_value(&event));
        self.accept(added)
    }

    /// Adds an event from its JSON text. A text that is too long is not parsed.
    pub fn add_text(&mut self, text: &str) -> bool {
        let added = if text.len() > self.max_bytes {
            Err(too_long(text.len(), self.max_bytes))
        } else {
            read_tape(text).and_then(|event| self.encode(&event))
        };
        self.accept(added)
    }

    /// Adds the event at the beginning of a text, if it is an object that can be stored and has none of the keys in
    /// `except`. Returns the length of its JSON. Otherwise nothing is added and nothing refused.
    pub fn add_leading(&mut self, text: &str, except: &[&str]) -> Option<usize> {
        let (event, length) = read_leading(text)?;
        let View::Object(mut fields) = event.root().view() else { return None };
        if length > self.max_bytes || fields.any(|(key, _)| except.contains(&key)) {
            return None;
        }
        self.encode(&event).ok().map(|()| length)
    }

    fn accept(&mut self, added: Result<(), String>) -> bool {
        match added {
            Ok(()) => true,
            Err(reason) => {
                self.refuse(reason);
                false
            }
        }
    }

    /// Records the refusal of an event that could not be parsed.
    pub fn refuse(&mut self, reason: String) {
        self.counts.reasons += reason.capacity();
        self.refused.push(RefusedEvent { index: self.counts.events, reason, is_conflict: false });
        self.counts.events += 1;
    }

    fn encode(&mut self, event: &Tape<'_>) -> Result<(), String> {
        normalise::check(event)?;
        let event = event.root();
        if !event.is_object() {
            return Err(format!("an event must be a JSON object, not {}", normalise::kind_name(event)));
        }
        let mut times = self.counts.times;
        let before = self.body.len();
        if before == 0 {
            self.body.reserve(self.expected);
        }
        self.body.push(if before == 0 { b'[' } else { b',' });
        let start = self.body.len();
        let unwritten = |error| format!("the event cannot be written: {error}");
        let normalised = normalise::normalise(event, self.now, &mut times).map_err(unwritten);
        let mut fine = FineTime { micros: self.now, nanos: 0, start: before };
        let held = normalised.and_then(|Normalised { event, micros, nanos }| {
            fine = FineTime { micros, nanos, start: before };
            tenant_keys::hold(event, self.policy.as_ref(), self.max_bytes)
        });
        let written =
            held.and_then(|event| write_json(event.root(), &mut self.body).map_err(unwritten).map(|()| event));
        let bytes = self.body.len() - start;
        let normalised = match written {
            Ok(_) if bytes > self.max_bytes => Err(too_long(bytes, self.max_bytes)),
            written => written,
        };
        let mut normalised = normalised.inspect_err(|_| self.body.truncate(before))?;
        if let Columns::Making(columns) = &mut self.columns {
            normalised.reread_floats();
            if !columns.add(normalised.root(), bytes) {
                self.columns = Columns::None;
            }
        }
        self.counts.times = times;
        self.counts.rows += 1;
        self.counts.events += 1;
        self.last = before;
        self.note_time(fine);
        Ok(())
    }

    /// When the events arrived, in microseconds.
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// For whom the events are sent.
    pub fn audience(&self) -> &Audience {
        &self.audience
    }

    /// What each event has by that.
    pub(crate) fn policy(&self) -> Option<&SenderPolicy> {
        self.policy.as_ref()
    }

    /// Events so far, refused ones included.
    pub fn events(&self) -> usize {
        self.counts.events
    }

    /// The events as they would be stored, for dry runs.
    pub fn stored(&self) -> Vec<Value> {
        let body = [self.body.as_slice(), b"]"].concat();
        let events = stored_events(if self.body.is_empty() { b"[]" } else { &body }, 0);
        events.filter_map(Result::ok).map(|event| event.root().to_value()).collect()
    }

    /// Events so far that can be stored.
    pub fn rows(&self) -> usize {
        self.counts.rows
    }

    /// The events that were refused so far.
    pub fn refused(&self) -> &[RefusedEvent] {
        &self.refused
    }

    /// Bytes that one event may have as JSON.
    pub fn max_event_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Bytes that the intake holds in memory.
    pub fn held(&self) -> usize {
        let columns = match &self.columns {
            Columns::None => 0,
            Columns::Making(columns) => columns.held(),
            Columns::Made(columns) => columns.held(),
        };
        self.body.capacity()
            + columns
            + self.refused.capacity() * size_of::<RefusedEvent>()
            + self.counts.reasons
            + self.named.capacity() * size_of::<names::NamedEvent>()
            + self.fine.capacity() * size_of::<FineTime>()
    }

    /// A savepoint at the present state.
    pub fn mark(&self) -> Mark {
        Mark { body: self.body.len(), refused: self.refused.len(), counts: self.counts }
    }

    /// Removes what was added after a savepoint of the same intake.
    pub fn take_back(&mut self, to: Mark) {
        if to.counts.rows != self.counts.rows {
            self.columns = Columns::None;
        }
        self.body.truncate(to.body);
        self.refused.truncate(to.refused);
        self.named.retain(|event| event.place.end <= to.body);
        self.fine.retain(|event| event.start < to.body);
        self.counts = to.counts;
    }

    /// To be called after the last event, where work of some milliseconds may be done: what is left of the columns is
    /// made.
    pub fn end(&mut self) {
        self.order_equal_times();
        self.columns = match mem::replace(&mut self.columns, Columns::None) {
            Columns::Making(columns) => columns.finish().map_or(Columns::None, Columns::Made),
            ended => ended,
        };
    }

    pub(crate) fn finish(mut self) -> PreparedCall {
        self.end();
        if self.body.is_empty() {
            self.body.push(b'[');
        }
        self.body.push(b']');
        // It is kept until a segment has the rows: no more memory than it counts as.
        self.body.shrink_to_fit();
        let columns = match self.columns {
            Columns::Made(columns) => Some(columns),
            _ => None,
        };
        PreparedCall {
            body: self.body,
            columns,
            rows: self.counts.rows,
            refused: self.refused,
            times: self.counts.times,
            now: self.now,
            named: self.named.into_iter().map(|event| event.key).collect(),
        }
    }
}

mod equal_times;
mod names;
#[cfg(test)]
mod tests;
