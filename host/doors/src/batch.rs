//! The events of one request between parsing and storing, and the result that is reported to the sender.
//!
//! Each event is encoded as soon as it is split from the body, and its parsed tree is dropped. The bytes that the
//! request holds, which are its body and its encoded events, count in the memory budget for all bodies.

use serde_json::Value;
use tidegate_model::{Code, Failure};
use tidegate_store::{Ingested, Intake, Mark, RefusedEvent, RequestKey, too_long};

use super::body_memory::BodyReservation;

/// The most events of one request. The size of a body is limited in bytes; this limit bounds the memory of very short
/// events, because an id and a time are added to each.
pub(crate) const MAX_EVENTS: usize = 100_000;
/// The most bytes of the events of a request that share something, where each counts together with what it shares. Without this
/// limit, many small events that share much could expand to more than fits in memory.
const EXPANDED: usize = 64 << 20;
/// How many refused events the error names when the whole request is refused.
const NAMED: usize = 10;

/// The events of a request: those that could be parsed, encoded for the store, and those that were refused.
#[derive(Debug)]
pub(crate) struct Batch {
    intake: Intake,
    reservation: BodyReservation,
    /// The bytes that are held besides the events: the body, and the copy of it that the parser may need.
    body: usize,
    /// The bytes of events that share something, each with what it shares.
    expanded: usize,
    /// Why the request is refused as a whole. No events are added after that.
    failed: Option<Failure>,
    #[cfg(test)]
    taken: Vec<(usize, Value)>,
}

impl Batch {
    /// An empty batch for a body of `body` bytes.
    pub(crate) fn new(intake: Intake, reservation: BodyReservation, body: usize) -> Self {
        Self {
            intake,
            reservation,
            body,
            expanded: 0,
            failed: None,
            #[cfg(test)]
            taken: Vec::new(),
        }
    }

    /// Counts `bytes` more bytes that are held besides the body and the events.
    pub(crate) fn hold_more(&mut self, bytes: usize) {
        self.body += bytes;
        self.check();
    }

    /// Whether the request is refused as a whole, so that the rest of its body need not be read.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The most bytes that one event may have as JSON.
    pub(crate) fn max_event(&self) -> usize {
        self.intake.max_event_bytes()
    }

    /// How many events there are, refused ones included: the position of the next event.
    pub(crate) fn count(&self) -> usize {
        self.intake.events()
    }

    pub(crate) fn take(&mut self, event: Value) {
        self.add(event);
    }

    /// Adds an event that was read, or refuses it for the reason why it was not.
    pub(crate) fn take_read(&mut self, read: Result<Value, String>) {
        match read {
            Ok(event) => self.take(event),
            Err(reason) => self.refuse(reason),
        }
    }

    /// Adds an event of `bytes` bytes, which has `shared` more bytes in common with others. It is read only if it is not too long
    /// with these. `many` and `common` are the words of the protocol for such events and for what they share.
    ///
    /// # Errors
    /// [`Code::TooLarge`] when all such events of the request come to too many bytes.
    pub(crate) fn take_sharing(
        &mut self,
        bytes: usize,
        (shared, many, common): (usize, &str, &str),
        read: impl FnOnce() -> Result<Value, String>,
    ) -> Result<(), Failure> {
        let whole = bytes.saturating_add(shared);
        self.expanded = self.expanded.saturating_add(whole);
        if whole > self.max_event() {
            self.refuse(too_long(whole, self.max_event()));
        } else if self.expanded > EXPANDED {
            let message =
                format!("the {many} come to more than {EXPANDED} bytes, each with its {common}; send smaller batches");
            return Err(Failure::new(Code::TooLarge, message));
        } else {
            self.take_read(read());
        }
        Ok(())
    }

    /// Adds an event. Returns whether it was accepted.
    fn add(&mut self, event: Value) -> bool {
        #[cfg(test)]
        self.taken.push((self.intake.events(), event.clone()));
        let taken = self.intake.add(event);
        #[cfg(test)]
        if !taken {
            self.taken.pop();
        }
        self.check();
        taken
    }

    /// Adds an event that is stored only once under its name.
    pub(crate) fn take_named(&mut self, event: Value, name: RequestKey) {
        if self.add(event) {
            self.intake.name_last(name);
            self.check();
        }
    }

    /// Adds an event from its JSON text.
    pub(crate) fn take_text(&mut self, text: &str) {
        #[cfg(test)]
        let position = self.intake.events();
        let _taken = self.intake.add_text(text);
        #[cfg(test)]
        if _taken && let Ok(event) = tidegate_store::read_event(text) {
            self.taken.push((position, event));
        }
        self.check();
    }

    /// Adds the event at the beginning of a text if nothing is wrong with it and it has none of the keys in `except`.
    /// Returns the length of its JSON; otherwise nothing is added and nothing refused.
    pub(crate) fn take_leading(&mut self, text: &str, except: &[&str]) -> Option<usize> {
        #[cfg(test)]
        let position = self.intake.events();
        let length = self.intake.add_leading(text, except)?;
        #[cfg(test)]
        if let Some(Ok(event)) = text.get(..length).map(tidegate_store::read_event) {
            self.taken.push((position, event));
        }
        self.check();
        Some(length)
    }

    pub(crate) fn refuse(&mut self, reason: String) {
        self.intake.refuse(reason);
        self.check();
    }

    fn check(&mut self) {
        if self.failed.is_some() {
            return;
        }
        if self.intake.events() > MAX_EVENTS {
            let message = format!("the request has more than {MAX_EVENTS} events; send smaller batches");
            self.failed = Some(Failure::new(Code::TooLarge, message));
        } else {
            self.failed = self.reservation.hold(self.body.saturating_add(self.intake.held())).err();
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        self.intake.mark()
    }

    /// Discards the events that were added or refused after the mark `to`.
    pub(crate) fn take_back(&mut self, to: Mark) {
        self.intake.take_back(to);
        #[cfg(test)]
        self.taken.retain(|(position, _)| *position < self.intake.events());
    }

    /// Finishes the batch after the whole request was split and its body was dropped. From here on only the encoded
    /// events count in the memory budget.
    ///
    /// # Errors
    /// [`Code::TooLarge`] when there are too many events; [`Code::TooManyRequests`] when all requests together hold too
    /// much memory.
    pub(crate) fn checked(self) -> Result<Self, Failure> {
        Ok(self.checked_and(0)?.0)
    }

    /// As [`Self::checked`]; `kept` more bytes stay reserved, in a reservation of their own.
    ///
    /// # Errors
    /// Those of [`Self::checked`].
    pub(crate) fn checked_and(mut self, kept: usize) -> Result<(Self, BodyReservation), Failure> {
        match self.failed.take() {
            Some(failure) => Err(failure),
            None => {
                self.intake.end();
                self.reservation.hold(self.intake.held().saturating_add(kept))?;
                let kept = self.reservation.split(kept);
                Ok((self, kept))
            }
        }
    }

    /// The events, and the memory reservation that must live until they are stored.
    pub(crate) fn into_parts(self) -> (Intake, BodyReservation) {
        (self.intake, self.reservation)
    }

    #[cfg(test)]
    pub(crate) fn for_tests(max_event: usize) -> Self {
        let intake = Intake::new(0, max_event, tidegate_model::Audience::All);
        Self::new(intake, super::body_memory::BodyMemory::new(1 << 30).reservation(), 0)
    }

    /// The accepted events, as they were sent.
    #[cfg(test)]
    pub(crate) fn events(&self) -> Vec<Value> {
        self.taken.iter().map(|(_, event)| event.clone()).collect()
    }

    #[cfg(test)]
    pub(crate) fn refused(&self) -> &[RefusedEvent] {
        self.intake.refused()
    }

    #[cfg(test)]
    pub(crate) fn position(&self, index: usize) -> Option<usize> {
        self.taken.get(index).map(|(position, _)| *position)
    }
}

/// What became of the events of a request, unless nothing came of it.
///
/// # Errors
/// [`Code::InvalidBody`] when there were events and none of them was stored.
pub(crate) fn unless_nothing(ingested: Ingested) -> Result<Ingested, Failure> {
    if ingested.stored > 0 || ingested.refused.is_empty() {
        return Ok(ingested);
    }
    let count = ingested.refused.len();
    let named = ingested.refused.into_iter().take(NAMED).map(|RefusedEvent { index, reason, .. }| {
        Failure::new(Code::InvalidBody, format!("event {index}: {reason}")).about(format!("[{index}]"))
    });
    let whole = format!("nothing of the request was stored, {count} of {count} events are refused");
    let whole = Failure::new(Code::InvalidBody, whole);
    Err(Failure::of_all(std::iter::once(whole.clone()).chain(named)).unwrap_or(whole))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::super::body_memory::BodyMemory;
    use super::*;
    use serde_json::json;
    use tidegate_model::Audience;

    #[test]
    fn refusals_name_the_place_in_the_request() {
        let mut batch = Batch::for_tests(100);
        batch.refuse("a".to_owned());
        batch.take(json!({}));
        let mark = batch.mark();
        batch.take_text("{}");
        batch.take_back(mark);
        batch.take(json!(5));
        batch.take_text("{");
        let places: Vec<usize> = batch.refused().iter().map(|refused| refused.index).collect();
        assert_eq!((places.as_slice(), batch.events().len()), (&[0, 2, 3][..], 1));
    }

    #[test]
    fn what_events_share_is_not_multiplied_without_end() {
        let mut batch = Batch::for_tests(1 << 20);
        let large = (1 << 19, "entries", "labels");
        assert_eq!((0..1000).take_while(|_| batch.take_sharing(10, large, || Ok(json!({}))).is_ok()).count(), 127);
        let mut short = Batch::for_tests(100);
        short.take_sharing(100, (1, "entries", "labels"), || unreachable!("it is too long")).unwrap();
        assert_eq!(short.refused().len(), 1);
    }

    #[test]
    fn a_request_of_which_nothing_is_stored_fails() {
        let refused =
            (0..50).map(|index| RefusedEvent { index, reason: "bad".to_owned(), is_conflict: false }).collect();
        let failure = unless_nothing(Ingested { refused, ..Ingested::default() }).unwrap_err();
        assert_eq!((failure.code, failure.others.len()), (Code::InvalidBody, NAMED));
        assert_eq!(unless_nothing(Ingested::default()).unwrap().stored, 0);
    }

    #[test]
    fn what_is_made_of_a_body_counts_like_the_body() {
        let memory = BodyMemory::new(1 << 20);
        let mut batch = Batch::new(Intake::new(0, 1 << 20, Audience::All), memory.reservation(), 300_000);
        // `{}` is two bytes in the body, and about eighty bytes as an encoded event.
        let other = {
            let mut other = memory.reservation();
            other.hold(500_000).unwrap();
            other
        };
        let taken = (0..100_000).take_while(|_| {
            batch.take_text("{}");
            !batch.has_failed()
        });
        let taken = taken.count();
        assert!((1_000..5_000).contains(&taken), "{taken}");
        assert_eq!(batch.checked().unwrap_err().code, Code::TooManyRequests);
        drop(other);
        assert_eq!(memory.used(), 0);
    }
}
