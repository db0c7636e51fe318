//! The events of a request on their way from the reader of a door to the store: a batch per source.
//!
//! Most protocols name one source per request. Where events name their own, each of these sources has a batch, and the
//! reader notes where it put each event, so that the answer can tell the fate of each.

use std::sync::Arc;

use tidegate_model::{Audience, Code, Failure};
use tidegate_service::tokens::Access;

use super::batch::Batch;
use super::body_memory::{BodyMemory, BodyReservation};
use super::key::Name;
use super::service::DoorService;

/// The most sources that the events of one request may name, those that are not there included.
const MAX_SOURCES: usize = 64;
/// About the bytes that an answer has for each event, beside its index and id.
const TOLD: usize = 200;

/// The events of a request.
#[derive(Debug)]
pub(crate) struct Events {
    /// The events of the request's own source.
    pub(crate) own: Batch,
    /// The source that the body names for all its events.
    pub(crate) source: Option<String>,
    /// What the answer tells of each event, if the door notes it.
    pub(crate) items: Vec<Item>,
    /// The memory of `items` and of what is told of them.
    pub(crate) items_bytes: usize,
    /// Its reservation, once the events are [`Self::checked`].
    pub(crate) items_memory: Option<BodyReservation>,
    /// Why no event of the request is taken now.
    pub(crate) limited: Option<Arc<Failure>>,
    pub(crate) others: Vec<(String, Batch)>,
    /// The most bytes that a body may have, for readers that decompress a part of it.
    pub(crate) longest_body: usize,
    /// How many bytes came out of a body of which the reader decompressed a part.
    pub(crate) unpacked: Option<usize>,
    /// None in a dry run.
    pub(crate) finder: Option<Finder>,
}

/// Finds the sources that events name, for their sender.
#[derive(Debug)]
pub(crate) struct Finder {
    pub(crate) service: Arc<dyn DoorService>,
    pub(crate) access: Arc<Access>,
    pub(crate) memory: BodyMemory,
    /// The source of the events that name none, as far as it is known before the body is read.
    pub(crate) expected: Option<String>,
    /// Whether the source of all events is that of the request, because it has one or because they cannot name another.
    pub(crate) has_own: bool,
    /// Whether there is a source for events whose own is not there, and the sender may send to it.
    pub(crate) has_default: bool,
    /// What was found under each name so far.
    pub(crate) known: Vec<(String, Result<usize, Arc<Failure>>)>,
    /// The failure of all events beyond [`MAX_SOURCES`]: one, however many they are.
    pub(crate) beyond: Option<Arc<Failure>>,
}

/// An event of the request, and where it is.
#[derive(Debug)]
pub(crate) struct Item {
    /// What the sender wants done with the event, in the words of the protocol.
    pub(crate) action: &'static str,
    /// The index that it names.
    pub(crate) index: Arc<str>,
    /// Its id; empty if it has none.
    pub(crate) id: Box<str>,
    pub(crate) fate: Result<Place, Arc<Failure>>,
}

/// The place of an event that was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    /// 0 is the request's own source, the others follow.
    pub(crate) source: usize,
    /// The position in the batch of this source.
    pub(crate) event: usize,
}

impl Events {
    pub(crate) fn new(own: Batch, longest_body: usize, finder: Option<Finder>) -> Self {
        Self {
            own,
            source: None,
            items: Vec::new(),
            items_bytes: 0,
            items_memory: None,
            limited: None,
            others: Vec::new(),
            longest_body,
            unpacked: None,
            finder,
        }
    }

    /// The number of the source for events that name this one: that of the request if it has one, else the one that they
    /// name, else the default.
    ///
    /// # Errors
    /// Those of [`DoorService::source_for`], if there is no default either. A source that cannot hold the events of the sender's tenant is
    /// refused even if there is one: it was found, and the events are not meant for another.
    pub(crate) fn source_of(&mut self, name: &str) -> Result<usize, Arc<Failure>> {
        let Some(finder) = self.finder.as_mut().filter(|finder| !finder.has_own) else { return Ok(0) };
        if let Some((_, found)) = finder.known.iter().find(|(known, _)| known == name) {
            return found.clone();
        }
        if finder.known.len() >= MAX_SOURCES {
            let beyond = finder.beyond.get_or_insert_with(|| {
                let message = format!("the request names more than {MAX_SOURCES} sources; send smaller batches");
                Arc::new(Failure::new(Code::TooLarge, message))
            });
            return Err(Arc::clone(beyond));
        }
        let found = finder.service.source_for(&finder.access, name).map_err(Arc::new).map(|source| {
            let place = self.others.iter().position(|(other, _)| *other == source);
            place.unwrap_or_else(|| {
                let reservation = finder.memory.reservation();
                let intake = finder.service.intake(Some(&source), 0, finder.access.audience());
                self.others.push((source, Batch::new(intake, reservation, 0)));
                self.others.len() - 1
            }) + 1
        });
        let found =
            found.or_else(
                |failure| {
                    if finder.has_default && failure.code != Code::Forbidden { Ok(0) } else { Err(failure) }
                },
            );
        finder.known.push((name.to_owned(), found.clone()));
        found
    }

    /// After a body of so many bytes was read, which may have named the source of all its events only there: events of a
    /// sender for one tenant are held to what their source says of its tenants, so those of a source that was not expected
    /// must be read once more. Returns whether that is so, and then a new list for them.
    ///
    /// # Errors
    /// Those of [`DoorService::source_for`]; [`Code::TooManyRequests`] if there is no memory to read the body again.
    pub(crate) fn of_named_source(self, body: usize) -> Result<(Self, bool), Failure> {
        if self.has_failed() {
            return Ok((self, false));
        }
        let is_named = |finder: &Finder| !finder.has_own && finder.access.audience() != Audience::All;
        let (Some(finder), Some(asked)) = (self.finder.as_ref().filter(|finder| is_named(finder)), &self.source) else {
            return Ok((self, false));
        };
        let source = finder.service.source_for(&finder.access, asked)?;
        if finder.expected.as_ref() == Some(&source) {
            return Ok((self, false));
        }
        let (events, mut reservation) = self.own.into_parts();
        drop((events, self.others));
        reservation.hold(body)?;
        let own = Batch::new(finder.service.intake(Some(&source), body, finder.access.audience()), reservation, body);
        let finder = self.finder.map(|finder| Finder { expected: Some(source), known: Vec::new(), ..finder });
        Ok((Self::new(own, self.longest_body, finder), true))
    }

    /// The batch of a source, by its number.
    pub(crate) fn at(&mut self, source: usize) -> &mut Batch {
        match source.checked_sub(1).and_then(|place| self.others.get_mut(place)) {
            Some((_, batch)) => batch,
            None => &mut self.own,
        }
    }

    /// Notes what the answer tells of an event.
    pub(crate) fn note(&mut self, item: Item) {
        // The index and the id are in the answer once more.
        let bytes = size_of::<Item>() + TOLD + 2 * (item.index.len() + item.id.len());
        self.items.push(item);
        self.items_bytes = self.items_bytes.saturating_add(bytes);
        self.own.hold_more(bytes);
    }

    /// The name under which an event with this id in this index is stored only once. None for a dry run.
    pub(crate) fn name_of(&self, index: &str, id: &str) -> Option<Name> {
        let access = &self.finder.as_ref()?.access;
        Some(Name::of_event(index, id, (&access.identity, &access.audience())))
    }

    /// Whether the request is refused as a whole, so that the rest of its body need not be read.
    pub(crate) fn has_failed(&self) -> bool {
        self.own.has_failed() || self.others.iter().any(|(_, batch)| batch.has_failed())
    }

    /// Finishes all batches.
    ///
    /// # Errors
    /// Those of [`Batch::checked`].
    pub(crate) fn checked(self) -> Result<Self, Failure> {
        let others = self.others.into_iter().map(|(source, batch)| Ok((source, batch.checked()?)));
        let others = others.collect::<Result<_, Failure>>()?;
        // They are held until the answer is built, and the events only until they are stored.
        let (own, items_memory) = self.own.checked_and(self.items_bytes)?;
        Ok(Self { own, others, items_memory: Some(items_memory), ..self })
    }

    #[cfg(test)]
    pub(crate) fn for_tests(max_event: usize) -> Self {
        Self::new(Batch::for_tests(max_event), 16 << 20, None)
    }
}
