//! What a statement has read of segments and not yet decoded, in the memory of the statement.
//!
//! The engine counts rows that operators keep, and not the bytes of files that its readers hold. With a cold cache in
//! front of an object store these are blocks of a megabyte, for each stream of each statement. So they are counted before
//! they are asked for, and as long as somebody has them.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// The share of its memory that a statement may hold with one request to an object store: one part in so many.
const SHARE_OF_REQUEST: usize = 64;

/// The memory of a statement, for what is read for it.
#[derive(Debug, Clone)]
pub(crate) struct ReadMemory {
    /// Of no bytes: others are made of it.
    empty: Arc<MemoryReservation>,
    /// The most bytes that the statement may hold; `None` if it has no limit of its own.
    limit: Option<usize>,
}

/// A statement may not hold what it would have to read. The text is that of the pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoMemory(pub(crate) String);

impl ReadMemory {
    pub(crate) fn of(pool: &Arc<dyn MemoryPool>) -> ReadMemory {
        let limit = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => Some(limit),
            MemoryLimit::Infinite | MemoryLimit::Unknown => None,
        };
        ReadMemory { empty: Arc::new(MemoryConsumer::new("bytes of segments").register(pool)), limit }
    }

    /// Counts so many bytes until the reservation is dropped.
    ///
    /// # Errors
    /// If the statement, or all together, would hold more than they may.
    pub(crate) fn hold(&self, bytes: u64) -> Result<MemoryReservation, NoMemory> {
        let held = self.empty.new_empty();
        let bytes = usize::try_from(bytes).map_err(|_| NoMemory(format!("{bytes} bytes of a segment")))?;
        held.try_grow(bytes).map_err(|error| NoMemory(error.to_string()))?;
        Ok(held)
    }

    /// The most bytes that one request to an object store may ask for, of at most `longest`.
    pub(crate) fn longest_request(&self, longest: u64) -> u64 {
        self.limit.map_or(longest, |limit| longest.min((limit / SHARE_OF_REQUEST) as u64))
    }
}

/// Bytes that count as long as they, or a part of them, are there.
pub(crate) fn counted(bytes: Bytes, held: MemoryReservation) -> Bytes {
    struct Counted {
        bytes: Bytes,
        _held: MemoryReservation,
    }
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    Bytes::from_owner(Counted { bytes, _held: held })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn bytes_count_until_their_last_part_is_dropped() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let memory = ReadMemory::of(&pool);
        let held = memory.hold(600).unwrap();
        assert!(memory.hold(401).is_err());
        let bytes = counted(Bytes::from(vec![7; 600]), held);
        let part = bytes.slice(10..20);
        drop(bytes);
        assert_eq!((pool.reserved(), part.as_ref()), (600, [7; 10].as_slice()));
        drop(part);
        assert_eq!(pool.reserved(), 0);
        assert_eq!((memory.longest_request(100), memory.longest_request(10)), (15, 10));
    }
}
