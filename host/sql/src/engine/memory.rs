//! What statements may hold: each its own limit, all together the server's.
//!
//! Operators that keep rows take what they keep from the statement's memory themselves. What
//! functions make the engine does not count at all, and hundreds of columns of one batch can each
//! be large. So functions that make much count it in the memory of the statement at hand
//! ([`count_made`]), as long as the array lives.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

use super::statement::at_hand;
use tidegate_model::Failure;

use crate::fail::{failed, known, memory_failure};

/// What is smaller is not worth its counting.
const COUNTED_FROM: usize = 16 << 10;

/// How the refusal begins of memory that a statement might have, did not others hold it.
pub(crate) const SHARED: &str = "the memory of all statements and components is taken";

/// The memory of one statement, or of all components, taken from the memory of all.
#[derive(Debug)]
pub(super) struct StatementMemory {
    all: Arc<dyn MemoryPool>,
    limit: usize,
    held: AtomicUsize,
    /// What functions made. Where the array outlives the statement, its memory is given back
    /// with the statement.
    made: MemoryReservation,
}

impl StatementMemory {
    pub(super) fn new(all: Arc<dyn MemoryPool>, limit: usize) -> Self {
        let made = MemoryConsumer::new("function").register(&all);
        Self { all, limit, held: AtomicUsize::new(0), made }
    }

    fn check(&self) -> Result<()> {
        let held = self.reserved();
        if held > self.limit {
            return Err(failed(memory_failure(&format!("functions made {held} bytes of {}", self.limit))));
        }
        self.made.try_grow(0).map_err(|error| failed(memory_failure(&error.to_string())))
    }
}

/// Counts an array that a function has just made, all of it, as held by the statement at hand.
///
/// # Errors
/// If the statement, or all together, hold more than they may.
pub(crate) fn count_made(array: &ArrayRef) -> Result<()> {
    count(array, |array, memory| array.claim(memory))
}

/// What a computation holds while it goes on, and nobody sees: lists that become an array, the tree of a JSON.
/// Counted before it is made.
#[derive(Debug, Default)]
pub(crate) struct Transient {
    held: Option<MemoryReservation>,
    /// What is held and not counted yet.
    uncounted: usize,
}

impl Transient {
    /// Counts so many bytes more.
    ///
    /// # Errors
    /// As [`count_made`].
    pub(crate) fn grow(&mut self, bytes: usize) -> std::result::Result<(), Failure> {
        self.uncounted = self.uncounted.saturating_add(bytes);
        if self.uncounted < COUNTED_FROM {
            return Ok(());
        }
        let more = std::mem::take(&mut self.uncounted);
        if self.held.is_none() {
            let pool = at_hand(|statement| Arc::clone(&statement.memory) as Arc<dyn MemoryPool>);
            self.held = pool.map(|pool| MemoryConsumer::new("transient").register(&pool));
        }
        let Some(held) = &self.held else { return Ok(()) };
        held.try_grow(more).map_err(|error| known(&error).unwrap_or_else(|| memory_failure("a function")))
    }

    /// All of it is gone.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Counts an array whose texts may be those of other arrays: all but the texts.
///
/// # Errors
/// As [`count_made`].
pub(crate) fn count_copied(array: &ArrayRef) -> Result<()> {
    count(array, claim_without_texts)
}

fn count(array: &ArrayRef, claim: impl FnOnce(&ArrayRef, &dyn arrow_buffer::MemoryPool)) -> Result<()> {
    if array.get_buffer_memory_size() < COUNTED_FROM {
        return Ok(());
    }
    at_hand(|statement| {
        claim(array, &Claims(&statement.memory));
        statement.memory.check()
    })
    .unwrap_or(Ok(()))
}

fn claim_without_texts(array: &ArrayRef, memory: &dyn arrow_buffer::MemoryPool) {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().views().inner().claim(memory),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            list.offsets().claim(memory);
            claim_without_texts(list.values(), memory);
        }
        DataType::Struct(_) => {
            array.as_struct().columns().iter().for_each(|column| claim_without_texts(column, memory))
        }
        _ => array.claim(memory),
    }
}

/// The statement's memory as arrays know it. They cannot be refused, so it is checked afterwards.
#[derive(Debug)]
struct Claims<'a>(&'a Arc<StatementMemory>);

impl arrow_buffer::MemoryPool for Claims<'_> {
    fn reserve(&self, size: usize) -> Box<dyn arrow_buffer::MemoryReservation> {
        let mut claim = Claim { memory: Arc::downgrade(self.0), size: 0 };
        arrow_buffer::MemoryReservation::resize(&mut claim, size);
        Box::new(claim)
    }

    fn available(&self) -> isize {
        let whole = |size: usize| isize::try_from(size).unwrap_or(isize::MAX);
        whole(self.0.limit) - whole(self.0.reserved())
    }

    fn used(&self) -> usize {
        self.0.reserved()
    }

    fn capacity(&self) -> usize {
        self.0.limit
    }
}

/// What one buffer of an array holds.
#[derive(Debug)]
struct Claim {
    memory: Weak<StatementMemory>,
    size: usize,
}

impl arrow_buffer::MemoryReservation for Claim {
    fn size(&self) -> usize {
        self.size
    }

    fn resize(&mut self, size: usize) {
        if let Some(memory) = self.memory.upgrade() {
            memory.made.grow(size);
            memory.held.fetch_add(size, Ordering::Relaxed);
            memory.made.shrink(self.size);
            memory.held.fetch_sub(self.size, Ordering::Relaxed);
        }
        self.size = size;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        arrow_buffer::MemoryReservation::resize(self, 0);
    }
}

impl fmt::Display for StatementMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.reserved(), self.limit)
    }
}

impl MemoryPool for StatementMemory {
    fn name(&self) -> &'static str {
        "statement"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.all.grow(reservation, additional);
        self.held.fetch_add(additional, Ordering::Relaxed);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
        self.held.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let grown = |held: usize| held.checked_add(additional).filter(|held| *held <= self.limit);
        if self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_err() {
            let message = format!("{additional} bytes more than {} of {}", self.reserved(), self.limit);
            return Err(DataFusionError::ResourcesExhausted(message));
        }
        self.all.try_grow(reservation, additional).map_err(|error| {
            self.held.fetch_sub(additional, Ordering::Relaxed);
            // Operators that can do with less look for this kind of error.
            DataFusionError::ResourcesExhausted(format!("{SHARED}: {error}"))
        })
    }

    fn reserved(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::StringViewArray;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use tidegate_model::Code;

    use super::*;
    use crate::engine::statement::Statement;
    use crate::fail::from_engine;
    use crate::functions::Patterns;
    use crate::stop::Stop;

    #[test]
    fn what_functions_make_is_held_as_long_as_it_lives() {
        let all: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10 << 20));
        let memory = Arc::new(StatementMemory::new(Arc::clone(&all), 6 << 20));
        let text = || Arc::new(StringViewArray::from_iter_values(["x".repeat(2 << 20)])) as ArrayRef;
        let first = text();
        count_made(&first).unwrap();
        assert_eq!(all.reserved(), 0, "nobody is at hand");
        let (stop, failure, planned) = (Stop::current(), Arc::default(), None);
        let patterns = Arc::new(Patterns::new(&all));
        Statement { memory: Arc::clone(&memory), stop, failure, patterns, planned }.cover(|| {
            count_made(&first).unwrap();
            let held = memory.reserved();
            assert!(held >= 2 << 20, "{held}");
            assert_eq!(all.reserved(), held);
            count_made(&first).unwrap();
            assert_eq!(memory.reserved(), held, "a buffer is counted once");
            count_copied(&text()).unwrap();
            assert_eq!(memory.reserved(), held, "what is dropped is not counted");
            let second = text();
            count_made(&second).unwrap();
            assert!(count_made(&text()).is_err());
            assert_eq!(memory.reserved(), 2 * held);
        });
        drop(memory);
        assert_eq!(all.reserved(), 0, "an array outlives its statement");
        drop(first);
        assert_eq!(all.reserved(), 0);
    }

    #[test]
    fn what_others_hold_is_told_apart_from_the_own_limit() {
        let all: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(4 << 20));
        let others = MemoryConsumer::new("others").register(&all);
        others.try_grow(3 << 20).unwrap();
        let memory: Arc<dyn MemoryPool> = Arc::new(StatementMemory::new(Arc::clone(&all), 2 << 20));
        let own = MemoryConsumer::new("own").register(&memory);
        let refused = |bytes: usize| from_engine(own.try_grow(bytes).unwrap_err()).code;
        assert_eq!((refused(3 << 20), refused(2 << 20)), (Code::LimitExceeded, Code::Overloaded));
        drop(others);
        own.try_grow(2 << 20).unwrap();
        assert_eq!(refused(1), Code::LimitExceeded);
    }
}
