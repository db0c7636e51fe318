//! Ingest: events in, acknowledged when they are on stable storage.

use std::{
    collections::HashMap,
    ops::RangeInclusive,
    sync::{Arc, atomic::Ordering},
};

use serde_json::Value;
use tidegate_model::{Audience, SenderPolicy, SourceTenancy};
use tokio::sync::OwnedMutexGuard;

use crate::{
    clock::now_micros,
    error::{Result, StoreError},
    ingest::request_key::RequestKey,
    intake::{Ingested, Intake},
    source::Source,
    store::Store,
    wal::idempotency::{self, KeyedRequest, NamedEvents},
};

/// The least number of events of a call that are normalised on a blocking thread.
const BLOCKING_EVENTS: usize = 200;

/// The bytes of calls of which columns are made as their events arrive. Making a batch has a cost of its own, so that columns of
/// small calls are made of several together. Columns take as much memory as the JSON and more, so that of the largest calls
/// they are made when the call is committed.
const COLUMNS_BYTES: RangeInclusive<usize> = 256 << 10..=4 << 20;

impl Store {
    /// Stores events (JSON objects), as a sender of all tenants does, and returns what became of them once they are on stable storage. Every table made
    /// afterwards shows them. An event is refused alone if it is not an object, is longer than
    /// [`StoreOptions::max_event_bytes`](crate::StoreOptions::max_event_bytes), is nested deeper than
    /// [`MAX_NESTING`](crate::MAX_NESTING), or has more values than [`MAX_VALUES`](crate::MAX_VALUES). Of the others
    /// either all are stored, or, with an error, none. After [`StoreError::Unconfirmed`], and for a caller that is
    /// dropped while waiting, it is unknown which.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`]; [`StoreError::Overloaded`]; [`StoreError::Backlog`];
    /// [`StoreError::DiskFull`]; [`StoreError::CommitFailed`], [`StoreError::ReadOnly`] and
    /// [`StoreError::Unconfirmed`] when the disk fails; [`StoreError::Replaced`];
    /// [`StoreError::Closed`].
    pub async fn ingest(&self, source: &str, events: Vec<Value>) -> Result<Ingested> {
        self.ingest_at(source, events, now_micros()).await
    }

    /// [`Self::ingest`] of events that arrive at `now`, in microseconds since 1970. That is the time of events without
    /// one of their own.
    ///
    /// # Errors
    /// As [`Self::ingest`].
    pub async fn ingest_at(&self, source: &str, events: Vec<Value>, now: i64) -> Result<Ingested> {
        let mut intake = self.intake(now, Audience::All);
        let large = events.len() >= BLOCKING_EVENTS;
        let encode = move || {
            for event in events {
                intake.add(event);
            }
            intake
        };
        let intake = if large {
            self.check_room()?;
            tokio::task::spawn_blocking(encode).await.map_err(|e| StoreError::corrupt("a batch of events", e))?
        } else {
            encode()
        };
        self.ingest_intake(source, intake).await
    }

    /// An intake for a call whose events arrive one by one, all at `now` (microseconds since 1970), while it is not known for
    /// which source. Events that are sent for a tenant can only be stored from an intake [of their source](Self::intake_of).
    pub fn intake(&self, now: i64, audience: Audience) -> Intake {
        Intake::new(now, self.options.max_event_bytes, audience)
    }

    /// The same for events of this source that have about so many bytes together. Those that are sent for a tenant are held
    /// to it. If they are many, they become columns as they arrive, so that they are not parsed again.
    pub fn intake_of(&self, source: &str, now: i64, bytes: usize, audience: Audience) -> Intake {
        let intake = self.intake(now, audience).expecting(bytes);
        let Ok(source) = self.find(source) else { return intake };
        // Where the source does not take them, storing them tells.
        let policy = self.policy_of(&source, intake.audience()).unwrap_or_default();
        let intake = intake.held_to(policy);
        if COLUMNS_BYTES.contains(&bytes) { intake.making_columns(source.known_shape()) } else { intake }
    }

    /// What events must have that are sent for this audience to a source; nothing for a sender of all tenants.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`]; [`StoreError::NotForSender`].
    pub fn sender_policy(&self, source: &str, audience: &Audience) -> Result<Option<SenderPolicy>> {
        self.policy_of(self.find(source)?.as_ref(), audience)
    }

    fn policy_of(&self, source: &Source, audience: &Audience) -> Result<Option<SenderPolicy>> {
        let info = source.info();
        let policy = SourceTenancy::sender_policy(info.tenant.as_ref(), audience, |name| self.is_tenant_key(name));
        policy.map_err(|why| StoreError::NotForSender { source_name: info.name.clone(), why })
    }

    /// [`Self::ingest`] of the events of an intake.
    ///
    /// # Errors
    /// As [`Self::ingest`].
    pub async fn ingest_intake(&self, source: &str, intake: Intake) -> Result<Ingested> {
        self.ingest_once(source, intake, None).await
    }

    /// [`Self::ingest_intake`] of a request that may be repeated. For a day, a request with the same key and body
    /// stores nothing and gets the answer of the first. The key is stored in the transaction of the events; at least
    /// 50,000 keys of a sender and source are kept. The same holds for [names of events](Intake::name_last). If nothing of a request is stored, neither is its key.
    ///
    /// # Errors
    /// As [`Self::ingest`]; [`StoreError::KeyReused`] when the key came with another body;
    /// [`StoreError::NotForSender`] and [`StoreError::TenancyChanged`] of events that are sent for a tenant.
    pub async fn ingest_once(&self, source: &str, intake: Intake, key: Option<RequestKey>) -> Result<Ingested> {
        let source = self.find(source)?;
        // Whatever way the events have come: without what their sender must have they are not stored.
        if self.policy_of(&source, intake.audience())?.as_ref() != intake.policy() {
            return Err(StoreError::TenancyChanged(source.info().name.clone()));
        }
        if intake.events() == 0 {
            return Ok(Ingested::default());
        }
        // Events that cannot be handed over to the server that has taken over.
        self.copies.as_ref().map_or(Ok(()), |(copies, ..)| copies.check_replaced())?;
        source.pace(self.options.pace_bytes()).await;
        self.check_room()?;
        source.check_backlog(self.options.max_raw_rows)?;
        let (intake, turn) = self.resolve_names(&source, intake).await?;
        let mut call = intake.finish();
        let (refused, times) = (std::mem::take(&mut call.refused), call.times);
        let mut told = Ingested {
            stored: 0,
            refused,
            unread_times: times.unread,
            future_times: times.ahead,
            early_times: times.early,
        };
        if call.rows > 0 {
            let once = key.map(|key| KeyedRequest { key, now: call.now, future_times: times.ahead });
            let keys = std::mem::take(&mut call.named);
            let named = turn.map(|turn| NamedEvents { keys, now: call.now, _turn: turn });
            let stored = self.writer.ingest(source, call, once, named).await?;
            told.stored = stored.rows;
            told.future_times = stored.future_times.unwrap_or(told.future_times);
        }
        Ok(told)
    }

    /// Takes the events out of a call that are stored already under their names. Where there are names, the guard is to be held until
    /// the call is stored.
    async fn resolve_names(
        &self,
        source: &Source,
        mut intake: Intake,
    ) -> Result<(Intake, Option<OwnedMutexGuard<()>>)> {
        if !intake.has_names() {
            return Ok((intake, None));
        }
        let turn = Arc::clone(&source.naming).lock_owned().await;
        let (catalog, key) = (self.catalog.clone(), source.key);
        let resolve = move || {
            let (now, mut stored) = (intake.now(), HashMap::new());
            for names in intake.names().chunks(idempotency::LOOKED_UP) {
                idempotency::bodies_of(&catalog.lock(), key, names, now, &mut stored)?;
            }
            intake.resolve_names(stored);
            Ok::<_, StoreError>(intake)
        };
        let resolved = tokio::task::spawn_blocking(resolve).await;
        let intake = resolved.map_err(|error| StoreError::corrupt("the names of events", error))??;
        Ok((intake, Some(turn)))
    }

    fn check_room(&self) -> Result<()> {
        let held = self.sources.unflushed.load(Ordering::Relaxed);
        let limit = self.options.max_unflushed_bytes;
        if held > limit { Err(StoreError::Overloaded { held, limit }) } else { Ok(()) }
    }

    /// Bytes that one event may have as JSON.
    pub fn max_event_bytes(&self) -> usize {
        self.options.max_event_bytes
    }
}
