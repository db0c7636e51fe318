//! The events of one request on their way to the store, and what is told about those refused.

use serde_json::Value;
use tidegate_model::{Code, Failure};
use tidegate_store::{Ingested, RefusedEvent};

/// Events of one request. The bytes of a body are limited; this limits what the shortest events
/// become when an id and a time are added to each.
pub(super) const MAX_EVENTS: usize = 100_000;
/// Refused events that an error of the whole request names.
const NAMED: usize = 10;

/// The events of a request that could be read, and those that could not.
#[derive(Debug, Default)]
pub(super) struct Batch {
    events: Vec<Value>,
    /// Where each event stood in the request.
    positions: Vec<usize>,
    refused: Vec<RefusedEvent>,
}

/// What became of a request's events.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) accepted: usize,
    pub(super) refused: Vec<RefusedEvent>,
}

impl Batch {
    fn len(&self) -> usize {
        self.events.len() + self.refused.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() > MAX_EVENTS
    }

    pub(super) fn take(&mut self, event: Value) {
        self.positions.push(self.len());
        self.events.push(event);
    }

    pub(super) fn refuse(&mut self, reason: String) {
        self.refused.push(RefusedEvent { index: self.len(), reason });
    }

    /// Adds what another part of the same request holds.
    pub(super) fn append(&mut self, other: Self) {
        let before = self.len();
        self.events.extend(other.events);
        self.positions.extend(other.positions.into_iter().map(|position| before + position));
        self.refused
            .extend(other.refused.into_iter().map(|refused| RefusedEvent { index: before + refused.index, ..refused }));
    }

    /// # Errors
    /// [`Code::TooLarge`] when there are too many events.
    pub(super) fn checked(self) -> Result<Self, Failure> {
        if self.is_full() {
            let message = format!("the request has more than {MAX_EVENTS} events; send smaller batches");
            return Err(Failure::new(Code::TooLarge, message));
        }
        Ok(self)
    }

    pub(super) fn take_events(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }

    /// What is told in the end, given what the store did with the events.
    ///
    /// # Errors
    /// [`Code::InvalidBody`] when there were events and none is stored.
    pub(super) fn outcome(mut self, told: Ingested) -> Result<Outcome, Failure> {
        for RefusedEvent { index, reason } in told.refused {
            let index = self.positions.get(index).copied().unwrap_or(index);
            self.refused.push(RefusedEvent { index, reason });
        }
        self.refused.sort_by_key(|refused| refused.index);
        if told.stored == 0 && !self.refused.is_empty() {
            let count = self.refused.len();
            let named = self.refused.into_iter().take(NAMED).map(|RefusedEvent { index, reason }| {
                Failure::new(Code::InvalidBody, format!("event {index}: {reason}")).about(format!("[{index}]"))
            });
            let whole = format!("nothing of the request was stored, {count} of {count} events are refused");
            let whole = Failure::new(Code::InvalidBody, whole);
            return Err(Failure::of_all(std::iter::once(whole.clone()).chain(named)).unwrap_or(whole));
        }
        Ok(Outcome { accepted: told.stored, refused: self.refused })
    }

    #[cfg(test)]
    pub(super) fn events(&self) -> &[Value] {
        &self.events
    }

    #[cfg(test)]
    pub(super) fn refused(&self) -> &[RefusedEvent] {
        &self.refused
    }

    #[cfg(test)]
    pub(super) fn position(&self, index: usize) -> Option<usize> {
        self.positions.get(index).copied()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(index: usize, reason: &str) -> RefusedEvent {
        RefusedEvent { index, reason: reason.to_owned() }
    }

    #[test]
    fn refusals_name_the_place_in_the_request() {
        let mut batch = Batch::default();
        batch.refuse("a".to_owned());
        batch.take(json!({}));
        let mut more = Batch::default();
        more.take(json!(5));
        more.refuse("c".to_owned());
        batch.append(more);
        assert_eq!(batch.take_events().len(), 2);
        let outcome = batch.outcome(Ingested { stored: 1, refused: vec![refused(1, "b")] }).unwrap();
        assert_eq!(outcome.accepted, 1);
        assert_eq!(outcome.refused, [refused(0, "a"), refused(2, "b"), refused(3, "c")]);
    }

    #[test]
    fn a_request_of_which_nothing_is_stored_fails() {
        let mut batch = Batch::default();
        (0..50).for_each(|_| batch.refuse("bad".to_owned()));
        let failure = batch.outcome(Ingested::default()).unwrap_err();
        assert_eq!((failure.code, failure.others.len()), (Code::InvalidBody, NAMED));
        assert_eq!(Batch::default().outcome(Ingested::default()).unwrap().accepted, 0);
    }
}
