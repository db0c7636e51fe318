//! The regular expressions of a statement: each is compiled once for all its rows, and what is kept of them is
//! bounded.
//!
//! Compiling takes time and memory out of all proportion to the pattern's length (`\pL{50}` is six
//! characters and a megabyte), and a statement may have thousands of them, or one for each row.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use regex::{Regex, RegexBuilder};

use crate::engine::statement::at_hand;

/// The sizes in which programs are compiled, in bytes; a pattern is tried in the smallest first, so that its
/// size is known. One larger than the last takes hundreds of megabytes in the making and is refused.
const SIZES: [usize; 3] = [16 << 10, 256 << 10, 4 << 20];
/// Bytes of a pattern: reading it takes a hundred times as much before the program is made.
const MAX_PATTERN: usize = 64 << 10;
/// What a search keeps beside the program, forwards and backwards, in bytes.
const SEARCH: usize = 256 << 10;
/// What a statement keeps of its programs, in bytes. Past it they are let go and compiled again.
const KEPT: usize = 64 << 20;
/// What the engine may be given to compile, in bytes of programs: it compiles them again for each batch of
/// rows, and cannot be stopped in between.
const GIVEN: usize = 8 << 20;

/// A regular expression that was compiled.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) regex: Regex,
    /// The bytes that the program fits in.
    pub(super) size: usize,
}

/// The regular expressions of a statement.
#[derive(Debug)]
pub(crate) struct Patterns {
    kept: Mutex<HashMap<String, Arc<Compiled>>>,
    /// What those take.
    held: MemoryReservation,
    given: AtomicUsize,
    compiled: AtomicUsize,
}

impl Patterns {
    /// None yet; what is kept is taken from `pool`.
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        let held = MemoryConsumer::new("patterns").register(pool);
        Self { kept: Mutex::default(), held, given: AtomicUsize::new(0), compiled: AtomicUsize::new(0) }
    }

    fn find(&self, pattern: &str) -> Option<Arc<Compiled>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(pattern).cloned()
    }

    /// Keeps what was compiled, if there is memory for it.
    fn keep(&self, pattern: &str, compiled: &Arc<Compiled>) {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        let size = compiled.size + 2 * SEARCH + pattern.len();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if self.held.size().saturating_add(size) > KEPT {
            kept.clear();
            self.held.free();
        }
        if !kept.contains_key(pattern) && self.held.try_grow(size).is_ok() {
            kept.insert(pattern.to_owned(), Arc::clone(compiled));
        }
    }

    /// Whether the engine may be given one more program of so many bytes.
    fn give(&self, size: usize) -> bool {
        let sum = |given: usize| given.checked_add(size).filter(|sum| *sum <= GIVEN);
        self.given.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
    }
}

/// The pattern of the statement at hand, compiled now or before. Who asks for many asks the stop sign first.
///
/// # Errors
/// A pattern that is none, or too large a one.
pub(super) fn compiled(pattern: &str) -> Result<Arc<Compiled>, regex::Error> {
    if let Some(known) = at_hand(|statement| statement.patterns.find(pattern)).flatten() {
        return Ok(known);
    }
    let compiled = Arc::new(compile(pattern)?);
    at_hand(|statement| statement.patterns.keep(pattern, &compiled));
    Ok(compiled)
}

fn compile(pattern: &str) -> Result<Compiled, regex::Error> {
    let mut failure = regex::Error::CompiledTooBig(SIZES.last().copied().unwrap_or_default());
    if pattern.len() > MAX_PATTERN {
        return Err(failure);
    }
    let pattern = super::text::re2::translated(pattern);
    for size in SIZES {
        match RegexBuilder::new(&pattern).size_limit(size).dfa_size_limit(SEARCH).build() {
            Ok(regex) => return Ok(Compiled { regex, size }),
            Err(too_big @ regex::Error::CompiledTooBig(_)) => failure = too_big,
            Err(error) => return Err(error),
        }
    }
    Err(failure)
}

/// Whether the engine may be given a pattern of so many bytes of program, beside those that it was given.
pub(super) fn given(size: usize) -> bool {
    at_hand(|statement| statement.patterns.give(size)).unwrap_or(true)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;
    use crate::engine::planning::Budget;

    fn patterns(bytes: usize) -> Patterns {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        Patterns::new(&pool)
    }

    #[test]
    fn a_pattern_counts_for_the_smallest_size_that_it_fits() {
        assert_eq!(compile("abc").unwrap().size, SIZES[0]);
        assert_eq!(compile(r"\pL{2}").unwrap().size, SIZES[1]);
        assert!(matches!(compile(r"\pL{5000}"), Err(regex::Error::CompiledTooBig(_))));
        assert!(matches!(compile(&"a".repeat(MAX_PATTERN + 1)), Err(regex::Error::CompiledTooBig(_))));
        assert!(matches!(compile("("), Err(regex::Error::Syntax(_))));
    }

    #[test]
    fn a_pattern_is_compiled_once_for_a_statement() {
        let all: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
        let budget = Budget::new(&all, 1 << 30);
        budget.statement().cover(|| {
            for _ in 0..3 {
                for pattern in ["a+", "b+"] {
                    assert!(compiled(pattern).unwrap().regex.is_match("xaabb"));
                }
            }
        });
        assert_eq!(budget.patterns.compiled.load(Ordering::Relaxed), 2);
        assert!(all.reserved() > 2 * SIZES[0], "what is kept counts");
        drop(budget);
        assert_eq!(all.reserved(), 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (roomy, full) = (patterns(1 << 30), patterns(1 << 20));
        let one = Arc::new(compile("abc").unwrap());
        for i in 0..500 {
            roomy.keep(&i.to_string(), &one);
            full.keep(&i.to_string(), &one);
            assert!(roomy.held.size() <= KEPT);
        }
        assert!(roomy.find("499").is_some() && roomy.find("0").is_none());
        assert!(full.find("0").is_some() && full.find("499").is_none(), "there is no memory for more");
        assert!((0..GIVEN / SIZES[1]).all(|_| full.give(SIZES[1])) && !full.give(1));
    }
}
