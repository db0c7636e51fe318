//! Fetches of neighbouring blocks, which all who want one of the blocks wait for.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use bytes::Bytes;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::future::{BoxFuture, Shared, WeakShared};

use crate::{
    objects::{block_index::BlockKey, block_parts::Part, object_error::ObjectError},
    read_memory::{NoMemory, ReadMemory},
};

/// What comes of a fetch: the bytes of its blocks.
pub(crate) type Fetched = Result<Bytes, ObjectError>;
/// A fetch. It goes on as long as somebody waits for it, and its bytes are there as long as somebody has it.
pub(crate) type Fetch = Shared<BoxFuture<'static, Fetched>>;

/// Blocks that are being fetched.
pub(crate) struct Running {
    pub(crate) fetch: WeakShared<BoxFuture<'static, Fetched>>,
    /// Tells one fetch of a block from a later one.
    pub(crate) number: u64,
    pub(crate) first: u32,
    /// The bytes of all its blocks.
    pub(crate) bytes: u64,
}

/// What one reader has of a fetch: it counts all of its bytes, of which any reader may be the last one to hold them.
#[derive(Debug, Clone)]
pub(crate) struct FetchShare {
    pub(crate) fetch: Fetch,
    /// The first of its blocks.
    pub(crate) first: u32,
    pub(crate) bytes: u64,
    /// Shared by the blocks of the fetch that the reader wants.
    held: Arc<OnceLock<MemoryReservation>>,
}

impl FetchShare {
    pub(crate) fn new(fetch: Fetch, first: u32, bytes: u64) -> FetchShare {
        FetchShare { fetch, first, bytes, held: Arc::default() }
    }

    /// Counts the bytes of the fetch for this reader, once.
    pub(crate) fn hold(&self, memory: Option<&ReadMemory>) -> Result<(), NoMemory> {
        if let (Some(memory), None) = (memory, self.held.get()) {
            let _ = self.held.set(memory.hold(self.bytes)?);
        }
        Ok(())
    }
}

/// Where a block comes from.
pub(crate) enum Origin {
    Disk,
    /// The fetch of several blocks.
    Fetch(FetchShare),
}

impl Origin {
    /// Counts what the reader holds until it has these parts of the block: all of a fetch, and copies that are joined with
    /// others. What the reader is given is counted by who asked for it.
    pub(crate) fn hold(
        &self,
        parts: &[Part],
        memory: Option<&ReadMemory>,
    ) -> Result<Option<MemoryReservation>, NoMemory> {
        let Some(memory) = memory else { return Ok(None) };
        let copies = memory.hold(parts.iter().filter(|part| !part.is_whole).map(Part::bytes).sum())?;
        if let Origin::Fetch(share) = self {
            share.hold(Some(memory))?;
        }
        Ok(Some(copies))
    }
}

/// The blocks that are being fetched.
#[derive(Default)]
pub(crate) struct RunningFetches(Mutex<HashMap<BlockKey, Running>>);

impl RunningFetches {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<BlockKey, Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Blocks that are known to be on their way, until this is dropped.
pub(crate) struct Registered {
    pub(crate) running: Arc<RunningFetches>,
    pub(crate) keys: Vec<BlockKey>,
    pub(crate) number: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        for key in &self.keys {
            if running.get(key).is_some_and(|running| running.number == self.number) {
                running.remove(key);
            }
        }
    }
}
