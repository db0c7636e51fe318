//! A hub: one statement with the same arguments, pins and redaction, for all who follow it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_store::NewRows;
use uuid::Uuid;

use super::event::End;
use super::position::Position;
use super::ring::{Batch, Ring};
use super::statement::{Prepared, in_time, look, planned, prepared};
use crate::account::Account;
use crate::admission::Permit;
use crate::cache::Key;
use crate::execution::{Executor, QueryRequest};

/// What followers share a hub by: the statement with all that its answer depends on, and the source that it reads. A name
/// may mean another source after the first one was deleted.
pub(super) type HubKey = (Key, Uuid);

/// One followed statement.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) key: HubKey,
    pub(super) source: Uuid,
    pub(super) ring: Ring,
    request: Arc<QueryRequest>,
    /// Whether its rows depend on the time, so that it is planned anew for each look.
    timed: bool,
    prepared: Mutex<Option<Arc<Prepared>>>,
    /// Changed under the lock of the list of hubs.
    pub(super) followers: AtomicUsize,
}

impl Hub {
    /// A hub for the rows of calls after `computed`.
    pub(super) fn new(
        request: &Arc<QueryRequest>,
        source: Uuid,
        timed: bool,
        computed: i64,
        held: &Arc<AtomicUsize>,
    ) -> Self {
        let ring = Ring::new(computed, Arc::clone(held));
        let (request, followers) = (Arc::clone(request), AtomicUsize::new(0));
        Self { key: (request.key(), source), source, ring, request, timed, prepared: Mutex::default(), followers }
    }

    /// Whose time looks at new rows for this statement take: that of its first follower.
    pub(super) fn account(&self) -> Account {
        self.request.account
    }

    /// The operators for the columns of these rows. They are made again when the source has got a column.
    ///
    /// # Errors
    /// The statement's; [`End::Changed`] where it reads another source by now.
    pub(super) async fn prepared(
        &self,
        executor: &Executor,
        rows: &NewRows,
        now: i64,
        permit: &Arc<Permit>,
    ) -> Result<Arc<Prepared>, End> {
        let known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| !self.timed && known.columns == *rows.columns()) {
            return Ok(known);
        }
        let planned = planned(executor, &self.request, now, permit)?;
        if planned.table.source != self.source {
            return Err(End::Changed);
        }
        let made = Arc::new(prepared(executor, &planned, &planned.table.table).await?);
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Puts what the statement answers of new rows into the ring, which may hold `most` bytes.
    pub(super) async fn look(
        &self,
        executor: &Executor,
        rows: &Arc<NewRows>,
        now: i64,
        permit: &Arc<Permit>,
        most: usize,
        looks: &AtomicU64,
    ) {
        let computed = self.ring.computed();
        if computed >= rows.last() || self.ring.is_ended() {
            return;
        }
        if computed < rows.after() {
            self.ring.skip_to(rows.after());
        }
        let looked = in_time(async {
            let prepared = self.prepared(executor, rows, now, permit).await?;
            let mut batch = Batch::default();
            let after = Position::whole(computed);
            look(executor, &self.request, &prepared, Arc::clone(rows), after, |position, json| {
                batch.add(position, json);
                if batch.is_full() {
                    self.ring.push(std::mem::take(&mut batch), most);
                }
                true
            })
            .await?;
            Ok::<_, End>(batch)
        });
        looks.fetch_add(1, Ordering::Relaxed);
        match looked.await {
            Ok(batch) => {
                self.ring.push(batch, most);
                self.ring.has_computed(rows.last());
            }
            Err(end) => self.ring.end(end),
        }
    }
}
