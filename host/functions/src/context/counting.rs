//! Counting what functions make and hold in the memory of the current statement.
//!
//! The engine does not count the arrays that functions return, and hundreds of columns of one batch can each be large.
//! So functions that make much count it here.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use tidegate_model::Failure;

use super::current;
use super::error::failed;
use super::memory::{Claims, refused};

/// Fewer bytes are not counted: that would cost more than they do.
const COUNTED_FROM: usize = 16 << 10;

/// Counts an array that a function has just made, all of it, as held by the current statement, as long as it lives.
///
/// # Errors
/// If the statement, or all together, hold more than they may.
pub fn count_made(array: &ArrayRef) -> Result<()> {
    count(array, |array, memory| array.claim(memory))
}

/// Memory that a computation holds until it is done and that is in no array: lists that become an array, the tree of
/// a JSON. It is counted before it is allocated.
#[derive(Debug, Default)]
pub struct Transient {
    held: Option<MemoryReservation>,
    /// Bytes that are held and not counted yet.
    uncounted: usize,
}

impl Transient {
    /// Counts so many bytes more.
    ///
    /// # Errors
    /// As [`count_made`].
    pub fn grow(&mut self, bytes: usize) -> std::result::Result<(), Failure> {
        self.uncounted = self.uncounted.saturating_add(bytes);
        if self.uncounted < COUNTED_FROM {
            return Ok(());
        }
        let more = std::mem::take(&mut self.uncounted);
        if self.held.is_none() {
            let pool = current(|context| context.memory().map(|memory| Arc::clone(memory) as Arc<dyn MemoryPool>));
            self.held = pool.flatten().map(|pool| MemoryConsumer::new("transient").register(&pool));
        }
        let Some(held) = &self.held else { return Ok(()) };
        held.try_grow(more).map_err(|error| refused(&error, "a function"))
    }

    /// The bytes of all calls of [`Self::grow`].
    pub(crate) fn grown(&self) -> usize {
        self.counted().saturating_add(self.uncounted)
    }

    /// The bytes that are counted. Fewer than some are not, unless there are more of them.
    pub(crate) fn counted(&self) -> usize {
        self.held.as_ref().map_or(0, MemoryReservation::size)
    }

    /// Gives all of it back.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Counts an array whose texts may be those of other arrays: all but the texts.
///
/// # Errors
/// As [`count_made`].
pub fn count_copied(array: &ArrayRef) -> Result<()> {
    count(array, claim_without_texts)
}

fn count(array: &ArrayRef, claim: impl FnOnce(&ArrayRef, &dyn arrow_buffer::MemoryPool)) -> Result<()> {
    if array.get_buffer_memory_size() < COUNTED_FROM {
        return Ok(());
    }
    let checked = current(|context| {
        let Some(memory) = context.memory() else { return Ok(()) };
        claim(array, &Claims(memory));
        memory.check()
    });
    checked.unwrap_or(Ok(())).map_err(failed)
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::StringViewArray;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;
    use crate::context::{ExecutionContext, Patterns, StatementMemory};

    #[test]
    fn what_functions_make_is_held_as_long_as_it_lives() {
        let all: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10 << 20));
        let memory = Arc::new(StatementMemory::new(Arc::clone(&all), 6 << 20));
        let text = || Arc::new(StringViewArray::from_iter_values(["x".repeat(2 << 20)])) as ArrayRef;
        let first = text();
        count_made(&first).unwrap();
        assert_eq!(all.reserved(), 0, "there is no context");
        let patterns = Arc::new(Patterns::new(&all));
        ExecutionContext::of_run(Arc::clone(&memory), patterns).enter(|| {
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
}
