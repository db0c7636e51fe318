//! What reading objects took. All of it only grows, except what the cache holds.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one store.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) failed_requests: AtomicU64,
    pub(crate) refused_requests: AtomicU64,
    pub(crate) fetched_bytes: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) joined: AtomicU64,
    pub(crate) forgotten: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) failed_writes: AtomicU64,
    pub(crate) cached_bytes: AtomicU64,
}

/// What reading segments from an object store took since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectStats {
    /// Requests that were asked for; one that is tried again counts once.
    pub requests: u64,
    /// Requests that failed in the end.
    pub failed_requests: u64,
    /// Requests that were not sent, because the store had just failed.
    pub refused_requests: u64,
    /// Whether the last request failed, a short time ago.
    pub is_failing: bool,
    /// Bytes that came.
    pub fetched_bytes: u64,
    /// Blocks that were read from the cache.
    pub hits: u64,
    /// Blocks that were fetched because they were not in the cache.
    pub misses: u64,
    /// Blocks that another reader was just fetching.
    pub joined: u64,
    /// Times that the blocks of a segment were thrown away because their checksums were wrong.
    pub forgotten: u64,
    /// Times that an object was found damaged or missing.
    pub damaged: u64,
    /// Blocks that made room for others.
    pub evicted: u64,
    /// Blocks that could not be written to the cache, for example because the disk was full.
    pub failed_writes: u64,
    /// Bytes that the cache holds now, or is writing.
    pub cached_bytes: u64,
}

impl Counters {
    /// Of a store that fails now, or does not.
    pub(crate) fn stats(&self, is_failing: bool) -> ObjectStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ObjectStats {
            requests: of(&self.requests),
            failed_requests: of(&self.failed_requests),
            refused_requests: of(&self.refused_requests),
            is_failing,
            fetched_bytes: of(&self.fetched_bytes),
            hits: of(&self.hits),
            misses: of(&self.misses),
            joined: of(&self.joined),
            forgotten: of(&self.forgotten),
            damaged: of(&self.damaged),
            evicted: of(&self.evicted),
            failed_writes: of(&self.failed_writes),
            cached_bytes: of(&self.cached_bytes),
        }
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
