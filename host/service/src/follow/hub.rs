//! A hub: one statement with the same arguments, pins and redaction, for all who follow it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::Failure;
use tidegate_store::NewRows;
use uuid::Uuid;

use super::event::End;
use super::position::Position;
use super::ring::{Batch, Ring};
use super::statement::{Prepared, look, planned, prepared};
use crate::admission::Permit;
use crate::cache::Key;
use crate::execution::{Executor, QueryRequest};

/// One followed statement.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) key: Key,
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
        Self { key: request.key(), source, ring, request, timed, prepared: Mutex::default(), followers }
    }

    /// The operators for the columns of these rows. They are made again when the source has got a column.
    pub(super) async fn prepared(
        &self,
        executor: &Executor,
        rows: &NewRows,
        now: i64,
        place: &Arc<Permit>,
    ) -> Result<Arc<Prepared>, Failure> {
        let known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| !self.timed && known.columns == *rows.columns()) {
            return Ok(known);
        }
        let planned = planned(executor, &self.request, now, place)?;
        let made = Arc::new(prepared(executor, &planned).await?);
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Puts what the statement answers of new rows into the ring, which may hold `most` bytes.
    pub(super) async fn look(
        &self,
        executor: &Executor,
        rows: &Arc<NewRows>,
        now: i64,
        place: &Arc<Permit>,
        most: usize,
        looks: &AtomicU64,
    ) {
        let computed = self.ring.computed();
        if computed >= rows.last() || self.ring.is_ended() {
            return;
        }
        let looked = async {
            let prepared = self.prepared(executor, rows, now, place).await?;
            let mut batch = Batch::default();
            let after = Position::whole(computed);
            look(executor, &self.request, &prepared, rows, after, |position, json| {
                batch.add(position, json);
                if batch.is_full() {
                    self.ring.push(std::mem::take(&mut batch), most);
                }
            })
            .await?;
            Ok::<_, Failure>(batch)
        };
        looks.fetch_add(1, Ordering::Relaxed);
        match looked.await {
            Ok(batch) => {
                self.ring.push(batch, most);
                self.ring.has_computed(rows.last());
            }
            Err(failure) => self.ring.end(End::Failed(Box::new(failure))),
        }
    }
}
