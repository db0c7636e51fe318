//! Events of one call with equal times, of which some were sent with finer ones.
//!
//! A time is stored in microseconds, and rows with equal times come in the order of their arrival. So what is sent finer
//! than that decides between the events of a call, before they have their places in it: Loki's clients count the lines of
//! one moment in nanoseconds.

use std::mem;

use super::{Columns, Intake};

/// An event from the first one on whose time was sent finer than it is stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct FineTime {
    /// As it is stored, and the nanoseconds after it.
    pub(super) micros: i64,
    pub(super) nanos: u16,
    /// Where it begins in the body, with the sign before it.
    pub(super) start: usize,
}

impl Intake {
    /// Notes the time of the event that begins at `start`. Events before the first fine one need no note: among equal times they are
    /// first.
    pub(super) fn note_time(&mut self, time: FineTime) {
        if time.nanos > 0 || !self.fine.is_empty() {
            self.fine.push(time);
        }
    }

    /// Puts events with equal times in the order in which they were sent to be. To be called once all events are there.
    pub(super) fn order_equal_times(&mut self) {
        let fine = mem::take(&mut self.fine);
        let from = arrangement(&fine);
        if from.iter().enumerate().all(|(to, from)| to == *from) {
            return;
        }
        let end_of = |nth: usize| fine.get(nth + 1).map_or(self.body.len(), |next| next.start);
        let first = fine.first().map_or(0, |first| first.start);
        let mut body = Vec::with_capacity(self.body.len() + 1);
        body.extend_from_slice(self.body.get(..first).unwrap_or_default());
        // Where each event that has a name lies now.
        let mut moved = Vec::new();
        for from in from {
            let Some(event) = fine.get(from) else { continue };
            let (old, start) = (event.start..end_of(from), body.len());
            let text = self.body.get(old.clone()).unwrap_or_default();
            body.push(if start == 0 { b'[' } else { b',' });
            body.extend_from_slice(text.get(1..).unwrap_or_default());
            if let Ok(named) = self.named.binary_search_by_key(&old.start, |named| named.place.start) {
                moved.push((named, start..body.len()));
            }
        }
        for (named, place) in moved {
            if let Some(named) = self.named.get_mut(named) {
                named.place = place;
            }
        }
        self.named.sort_by_key(|named| named.place.start);
        self.body = body;
        // They are of the order before.
        self.columns = Columns::None;
    }
}

/// For each position the event that is to stand there. Events with other times keep theirs.
fn arrangement(fine: &[FineTime]) -> Vec<usize> {
    let sorted = |key: &dyn Fn(&FineTime) -> (i64, u16)| {
        let mut order: Vec<usize> = (0..fine.len()).collect();
        order.sort_by_key(|nth| fine.get(*nth).map(key));
        order
    };
    let (places, events) = (sorted(&|time| (time.micros, 0)), sorted(&|time| (time.micros, time.nanos)));
    let mut from = vec![0; fine.len()];
    for (place, event) in places.into_iter().zip(events) {
        if let Some(from) = from.get_mut(place) {
            *from = event;
        }
    }
    from
}
