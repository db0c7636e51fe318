//! The memory of the heads of requests that are under way.
//!
//! A head may have 256 KiB, a connection of HTTP/2 may send a hundred at once, and anybody may open connections. So heads
//! are counted, all together, and those on connections on which no valid token was seen have half of the room.

use std::sync::Arc;

use axum::extract::Request;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of all heads together.
const MOST: usize = 64 << 20;

/// What one permit of the semaphores stands for.
const PERMIT: usize = 1 << 10;

/// What a field takes beside its name and value.
const FIELD: usize = 64;

/// The room for heads; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct HeadMemory {
    all: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
}

/// A head that is counted, until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldHead {
    _all: OwnedSemaphorePermit,
    _strangers: Option<OwnedSemaphorePermit>,
}

impl HeadMemory {
    pub(crate) fn new() -> Self {
        Self::of(MOST)
    }

    fn of(bytes: usize) -> Self {
        let permits = bytes / PERMIT;
        Self { all: Arc::new(Semaphore::new(permits)), strangers: Arc::new(Semaphore::new(permits / 2)) }
    }

    /// Counts the head of a request. `None` if there is no room for it.
    pub(crate) fn hold(&self, request: &Request, has_token: bool) -> Option<HeldHead> {
        let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD);
        let address = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
        let permits = u32::try_from((address + fields.sum::<usize>()).div_ceil(PERMIT)).ok()?;
        let take = |of: &Arc<Semaphore>| Arc::clone(of).try_acquire_many_owned(permits).ok();
        let strangers = if has_token { None } else { Some(take(&self.strangers)?) };
        Some(HeldHead { _all: take(&self.all)?, _strangers: strangers })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(bytes: usize) -> Request {
        Request::get("/health").header("x", "v".repeat(bytes)).body(Body::empty()).unwrap()
    }

    #[test]
    fn heads_without_a_token_leave_half_to_the_others() {
        let memory = HeadMemory::of(40 << 10);
        let (small, large) = (request(10), request(9 << 10));
        let held: Vec<_> = (0..3).map_while(|_| memory.hold(&large, false)).collect();
        assert_eq!(held.len(), 2, "of ten each");
        assert!(memory.hold(&small, false).is_none());
        let known: Vec<_> = (0..3).map_while(|_| memory.hold(&large, true)).collect();
        assert_eq!(known.len(), 2);
        assert!(memory.hold(&small, true).is_none());
        drop(held);
        assert!(memory.hold(&large, true).is_some() && memory.hold(&small, false).is_some());
    }

    #[test]
    fn the_address_counts() {
        let memory = HeadMemory::of(4 << 10);
        let long = Request::get(format!("/a?sql={}", "x".repeat(3 << 10))).body(Body::empty()).unwrap();
        assert!(memory.hold(&long, true).is_some_and(|_held| memory.hold(&request(1 << 10), true).is_none()));
        assert!(memory.hold(&long, false).is_none());
    }
}
