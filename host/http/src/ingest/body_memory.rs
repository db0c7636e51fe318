//! The memory budget for the bodies of ingest requests, and for the events made of them until they are stored.

use std::sync::Arc;

use tidegate_model::{Code, Failure};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes of one permit.
pub(super) const PERMIT: usize = 4 << 10;

/// Large bodies that are cut into events at once. Each has one event at a time as a tree, which
/// takes up to a hundred times its bytes; more threads than cores would only hold more of them.
const TURNS: std::ops::RangeInclusive<usize> = 1..=8;

/// The memory budget for all bodies that are being read or stored; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct BodyMemory {
    permits: Arc<Semaphore>,
    most: usize,
    turns: Arc<Semaphore>,
}

impl BodyMemory {
    /// A budget of so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let most = (bytes / PERMIT).clamp(1, Semaphore::MAX_PERMITS);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let turns = cores.clamp(*TURNS.start(), *TURNS.end());
        Self { permits: Arc::new(Semaphore::new(most)), most, turns: Arc::new(Semaphore::new(turns)) }
    }

    /// Waits for a thread's turn to cut a large body into events; it ends when the permit is dropped.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }

    /// A reservation of no bytes.
    pub(super) fn reservation(&self) -> BodyReservation {
        BodyReservation { memory: self.clone(), held: None }
    }

    /// Bytes that are reserved.
    pub(crate) fn used(&self) -> usize {
        self.most.saturating_sub(self.permits.available_permits()) * PERMIT
    }
}

/// The bytes that one request has reserved; given back when this is dropped.
#[derive(Debug)]
pub(super) struct BodyReservation {
    memory: BodyMemory,
    held: Option<OwnedSemaphorePermit>,
}

impl BodyReservation {
    /// Sets how many bytes the request holds from now on. A single request may take the whole budget, and then goes on with
    /// that.
    ///
    /// # Errors
    /// [`Code::TooManyRequests`] when all requests together hold too much.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        let wanted = bytes.div_ceil(PERMIT).min(self.memory.most);
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if wanted < held {
            // Split off and dropped: given back.
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
