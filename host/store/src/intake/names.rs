//! Events with names of their own: the name is told with the event, and before the call is stored, events that are stored already
//! are taken out of it.

use std::{
    collections::{HashMap, hash_map::Entry},
    mem,
    ops::Range,
};

use super::{Columns, Intake, RefusedEvent};
use crate::ingest::request_key::RequestKey;

/// An event with a name.
#[derive(Debug, Clone)]
pub(super) struct NamedEvent {
    pub(super) key: RequestKey,
    /// Its position in the call, from 0.
    index: usize,
    /// Its place in the body, with the sign before it.
    pub(super) place: Range<usize>,
}

impl Intake {
    /// Gives the event that was accepted last a name. For a day, an event of this name with the same body is not stored again, and
    /// one with another body is refused.
    pub fn name_last(&mut self, key: RequestKey) {
        if let Some(index) = self.counts.events.checked_sub(1) {
            self.named.push(NamedEvent { key, index, place: self.last..self.body.len() });
        }
    }

    /// Whether events have names.
    pub(crate) fn has_names(&self) -> bool {
        !self.named.is_empty()
    }

    /// The names of events, as they are stored.
    pub(crate) fn names(&self) -> Vec<[u8; 32]> {
        self.named.iter().map(|event| event.key.stored_name()).collect()
    }

    /// Takes out the events that are stored already, and refuses those under whose name another is. `bodies` has the digests of what
    /// is stored under these names. The positions of the others stay the same.
    pub(crate) fn resolve_names(&mut self, mut bodies: HashMap<[u8; 32], [u8; 32]>) {
        self.order_equal_times();
        let (mut kept, mut out) = (Vec::new(), Vec::new());
        for event in mem::take(&mut self.named) {
            let stored = match bodies.entry(event.key.stored_name()) {
                Entry::Occupied(stored) => *stored.get(),
                // The next one of this call under the same name finds it.
                Entry::Vacant(free) => {
                    free.insert(event.key.body);
                    kept.push(event);
                    continue;
                }
            };
            if stored != event.key.body {
                let reason = "another event is stored under this id, and events cannot be changed".to_owned();
                self.counts.reasons += reason.capacity();
                self.refused.push(RefusedEvent { index: event.index, reason, is_conflict: true });
            }
            out.push(event.place);
        }
        self.named = kept;
        if out.is_empty() {
            return;
        }
        self.refused.sort_by_key(|refused| refused.index);
        let (mut body, mut copied) = (Vec::with_capacity(self.body.len()), 0);
        for place in &out {
            body.extend_from_slice(self.body.get(copied..place.start).unwrap_or_default());
            copied = place.end;
        }
        body.extend_from_slice(self.body.get(copied..).unwrap_or_default());
        // The first event that stays may have been another's follower.
        if let Some(first) = body.first_mut() {
            *first = b'[';
        }
        self.body = body;
        self.counts.rows -= out.len();
        self.columns = Columns::None;
    }
}
