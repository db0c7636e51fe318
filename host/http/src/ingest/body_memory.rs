//! The memory budget for the bodies of ingest requests, and for the events made of them until they are stored.

use std::sync::Arc;

use tidegate_model::{Code, Failure};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many bytes one permit of the semaphore stands for.
pub(super) const PERMIT: usize = 4 << 10;

/// How many large bodies are split into events at once: one per core, within this range. Each of these threads holds
/// one event at a time as a parsed tree, which takes up to a hundred times the bytes of the event; more threads than
/// cores would only hold more trees.
const TURNS: std::ops::RangeInclusive<usize> = 1..=8;

/// The memory budget for all bodies that are being read or stored; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct BodyMemory {
    permits: Arc<Semaphore>,
    most: usize,
    turns: Arc<Semaphore>,
}

impl BodyMemory {
    /// A budget of `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let most = (bytes / PERMIT).clamp(1, Semaphore::MAX_PERMITS);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let turns = cores.clamp(*TURNS.start(), *TURNS.end());
        Self { permits: Arc::new(Semaphore::new(most)), most, turns: Arc::new(Semaphore::new(turns)) }
    }

    /// Waits for a permit to split a large body into events. Dropping the permit lets the next request go on.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed, so there is always a permit.
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }

    /// An empty reservation.
    pub(super) fn reservation(&self) -> BodyReservation {
        BodyReservation { memory: self.clone(), held: None }
    }

    /// How many bytes are reserved.
    pub(crate) fn used(&self) -> usize {
        self.most.saturating_sub(self.permits.available_permits()) * PERMIT
    }
}

/// The bytes that one request has reserved. They are released when this is dropped.
#[derive(Debug)]
pub(super) struct BodyReservation {
    memory: BodyMemory,
    held: Option<OwnedSemaphorePermit>,
}

impl BodyReservation {
    /// Takes so many of the reserved bytes out, as a reservation of its own.
    pub(super) fn split(&mut self, bytes: usize) -> Self {
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let count = bytes.div_ceil(PERMIT).min(held);
        Self { memory: self.memory.clone(), held: self.held.as_mut().and_then(|held| held.split(count)) }
    }

    /// Sets how many bytes the request holds from now on. A request that needs more than the whole budget reserves all
    /// of it and continues.
    ///
    /// # Errors
    /// [`Code::TooManyRequests`] when all requests together hold too much memory.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        let wanted = bytes.div_ceil(PERMIT).min(self.memory.most);
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if wanted < held {
            // The permits that are split off are dropped, which releases them.
            drop(self.held.as_mut().and_then(|held_now| held_now.split(held - wanted)));
            return Ok(());
        }
        let Some(missing) = u32::try_from(wanted - held).ok().filter(|count| *count > 0) else { return Ok(()) };
        let more = Arc::clone(&self.memory.permits).try_acquire_many_owned(missing).map_err(|_| {
            Failure::new(
                Code::TooManyRequests,
                "too many bytes of logs arrive at once; nothing of the request was stored, try again",
            )
        })?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }
}
