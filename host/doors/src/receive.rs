//! What happens to a request at every door: authenticate the sender, find the source, read the body in bounded memory,
//! read it into events, store them durably, count them, answer.

use std::sync::Arc;

use futures::future::join_all;
use http::request::Parts;
use tidegate_model::{Code, Failure};
use tidegate_service::BLOCKING_BYTES;
use tidegate_service::tokens::Access;
use tidegate_store::Ingested;

use crate::answer::Answer;
use crate::batch::{Batch, unless_nothing};
use crate::body::{self, IncomingBody, Received};
use crate::body_memory::BodyMemory;
use crate::body_parts::BodyParts;
use crate::door::{Delivered, Door, no_source};
use crate::events::{Events, Finder, Item};
use crate::intake::{self, Sender, cut};
use crate::key::Name;
use crate::service::{Counted, DoorService};

/// Answers a request at a door.
pub(crate) async fn receive(
    service: Arc<dyn DoorService>,
    door: &'static dyn Door,
    head: Parts,
    mut body: impl IncomingBody,
) -> Answer {
    let head = Arc::new(head);
    let answer = match take(&service, door, &head, &mut body).await {
        Ok(mut delivered) => {
            let memory = delivered.items_memory.take().filter(|_| !delivered.items.is_empty());
            let mut answer = door.accepted(&head, &delivered);
            answer.memory = memory.map(|mut memory| {
                // An answer that is longer than its items keeps what they had, if there is no more.
                let _ = memory.hold(answer.body.len());
                memory
            });
            answer
        }
        Err(failure) => {
            body::drain(&mut body).await;
            service.count(door.profile().name, Counted::RefusedRequest);
            door.refused(&head, failure).offering_basic()
        }
    };
    door.finish(&service.options().doors, answer)
}

/// Whether less at once, or later, would be taken.
pub(crate) fn is_too_much(failure: &Failure) -> bool {
    matches!(failure.code, Code::TooManyRequests | Code::Overloaded)
}

async fn take(
    service: &Arc<dyn DoorService>,
    door: &'static dyn Door,
    head: &Arc<Parts>,
    body: &mut impl IncomingBody,
) -> Result<Delivered, Failure> {
    let profile = door.profile();
    let sender = Sender::of(&**service, head, profile.keys, profile.source_parameters)?;
    let limited = sender.limited;
    if let Some(failure) = limited.clone().filter(|_| !profile.tells_each) {
        return Err(failure);
    }
    let find = |name: &str| service.source_for(&sender.access, name);
    let named = sender.source.clone().or_else(|| door.named_source(head)).map(|name| find(&name)).transpose()?;
    // Whether this sender may send to the default source matters only if an event goes there.
    let default = Some(service.options().doors.source(profile.source_setting()));
    let default = default.filter(|name| named.is_none() && !name.is_empty());
    let default = default.map_or_else(|| Err(no_source(profile)), find);
    let suggested = door.suggested_source(head).filter(|_| named.is_none()).map(|name| find(&name));
    let named = match suggested {
        Some(Err(failure)) if default.is_err() || failure.code == Code::Forbidden => return Err(failure),
        Some(Ok(source)) => Some(source),
        _ => named,
    };
    if named.is_none() && !profile.body_names_sources {
        default.as_ref().map_err(Failure::clone)?;
    }
    let undeclared = door.check(head)?;
    let limit = service.options().ingest.max_body;
    let memory = service.bodies().of(sender.access.share());
    let to = Destination { access: sender.access, named, default, limited, memory: memory.clone() };
    let Some(cutter) = door.cutter() else {
        let name = Name::of(&head.headers, profile.request_name, (&to.access.identity, &to.access.audience()))?;
        let received = body::read(&memory, &head.headers, body, limit, undeclared).await?;
        return stored(service, door, head, &to, (received, name)).await;
    };
    let mut parts = BodyParts::of(&memory, &head.headers, body, cutter, limit)?;
    let mut delivered = Delivered::default();
    while let Some(received) = parts.next().await? {
        delivered = stored(service, door, head, &to, (received, None)).await?;
    }
    // They are counted when all others are stored, once, however often they came before.
    service.count(profile.name, Counted::RefusedEvents(parts.left_out));
    Ok(delivered)
}

/// Where the events of a request go, and for whom they are sent.
struct Destination {
    access: Arc<Access>,
    /// The source that the head names.
    named: Option<String>,
    /// The source of events that name none.
    default: Result<String, Failure>,
    /// Why nothing is taken now.
    limited: Option<Failure>,
    memory: BodyMemory,
}

/// Reads a body, or a part of one, into events, stores and counts them.
async fn stored(
    service: &Arc<dyn DoorService>,
    door: &'static dyn Door,
    head: &Arc<Parts>,
    to: &Destination,
    (received, name): (Received, Option<Name>),
) -> Result<Delivered, Failure> {
    let profile = door.profile();
    let Destination { access, named, default, limited, memory } = to;
    let limit = service.options().ingest.max_body;
    let count = received.bytes.len();
    let work = if door.is_long_work(&received.bytes) { count.max(BLOCKING_BYTES) } else { count };
    let expected = named.as_ref().or(default.as_ref().ok());
    let expected = expected.map(String::as_str);
    let Received { bytes, reservation } = received;
    let batch = Batch::new(service.intake(expected, bytes.len(), access.audience()), reservation, bytes.len());
    let finder = Finder {
        service: Arc::clone(service),
        access: Arc::clone(access),
        memory: memory.clone(),
        expected: expected.map(str::to_owned),
        has_own: named.is_some() || !profile.body_names_sources,
        has_default: default.is_ok(),
        known: Vec::new(),
        beyond: None,
    };
    let mut events = Events::new(batch, limit, Some(finder));
    events.limited = limited.clone().map(Arc::new);
    let read = {
        let head = Arc::clone(head);
        move || {
            let key = name.map(|name| name.with(&bytes));
            door.read(&head, &bytes, &mut events)?;
            let (mut events, is_for_another) = events.of_named_source(bytes.len())?;
            if is_for_another {
                door.read(&head, &bytes, &mut events)?;
            }
            // The bytes of the body count no more.
            drop(bytes);
            Ok((key, events.checked()?))
        }
    };
    let (key, events) = cut(memory, work, read).await?;
    let count = events.unpacked.unwrap_or(count);
    let source = match (named, &events.source) {
        (Some(source), _) => Ok(source.clone()),
        (None, Some(named)) => service.source_for(access, named),
        (None, None) => default.clone(),
    };
    let own = match source {
        Ok(source) => intake::store(&**service, &source, events.own, key).await,
        Err(failure) if events.own.count() > 0 || events.items.is_empty() => return Err(failure),
        Err(_) => Ok(Ingested::default()),
    };
    // Events that name their own sources are told of one by one, so that one source that fails does not fail the
    // others. These are stored together: their transactions share syncs.
    let others = events.others.into_iter();
    let others = others.map(async |(source, batch)| intake::store(&**service, &source, batch, key).await);
    let outcomes: Vec<_> = std::iter::once(own).chain(join_all(others).await).collect();
    let nothing = |outcome: &Ingested| outcome.stored == 0 && outcome.refused.is_empty();
    let is_whole = |failure: &&Failure| events.items.is_empty() || !is_too_much(failure);
    if outcomes.iter().all(|outcome| outcome.as_ref().map_or(true, nothing))
        && let Some(failure) = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).find(is_whole)
    {
        return Err(failure.clone());
    }
    for outcome in outcomes.iter().flatten() {
        service.count(profile.name, Counted::Ingested(outcome));
    }
    // Events that were refused before they had a source, or with all of their source.
    let is_stored = |item: &Item| {
        item.fate.as_ref().is_ok_and(|place| outcomes.get(place.source).is_some_and(|outcome| outcome.is_ok()))
    };
    let unplaced = events.items.iter().filter(|item| !is_stored(item)).count();
    service.count(profile.name, Counted::RefusedEvents(unplaced));
    service.count(profile.name, Counted::Bytes(count));
    let mut delivered = Delivered { outcomes, items: events.items, items_memory: events.items_memory };
    if delivered.items.is_empty() {
        let own = delivered.outcomes.drain(..).next().unwrap_or_else(|| Ok(Ingested::default()));
        let own = own?;
        delivered.outcomes = vec![Ok(if profile.passes_over_refused { own } else { unless_nothing(own)? })];
    }
    Ok(delivered)
}
