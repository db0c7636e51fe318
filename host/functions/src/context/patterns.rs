//! The regular expressions of a statement: each is compiled once for all its rows, and the compiled programs that are
//! kept are bounded.
//!
//! Compiling can take much time and memory for a short pattern (`\pL{50}` is six characters and a megabyte), and a
//! statement may have thousands of patterns, or one for each row.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use regex::{Regex, RegexBuilder};

use super::current;
use crate::re2;

/// The sizes in which programs are compiled, in bytes; a pattern is tried in the smallest first, so that its
/// size is known. A larger one than the last would take hundreds of megabytes to compile, and is refused.
const SIZES: [usize; 3] = [16 << 10, 256 << 10, 4 << 20];
/// The most bytes of a pattern: parsing takes a hundred times as much memory before the program is made.
const MAX_PATTERN: usize = 64 << 10;
/// What a search keeps beside the program, forwards and backwards, in bytes.
const SEARCH: usize = 256 << 10;
/// Bytes of programs that a statement keeps. Beyond that all are dropped, and compiled again when needed.
const KEPT: usize = 64 << 20;
/// What the engine's own regex operators may be given to compile, in bytes of programs: they compile a pattern again
/// for each batch of rows, and cannot be stopped in between.
const GIVEN: usize = 8 << 20;

/// A regular expression that was compiled.
#[derive(Debug)]
pub struct Compiled {
    /// The program.
    pub regex: Regex,
    /// The bytes that the program fits in.
    pub size: usize,
}

/// The regular expressions of a statement.
#[derive(Debug)]
pub struct Patterns {
    kept: Mutex<HashMap<String, Arc<Compiled>>>,
    /// Their memory.
    held: MemoryReservation,
    /// Bytes of programs that the engine's operators were given.
    given: AtomicUsize,
    compiled: AtomicUsize,
}

impl Patterns {
    /// No patterns yet. The memory of kept programs is taken from `pool`.
    pub fn new(pool: &Arc<dyn MemoryPool>) -> Self {
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

    /// Counts one more program that the engine compiles; `false` if they were too large together.
    fn give(&self, size: usize) -> bool {
        let sum = |given: usize| given.checked_add(size).filter(|sum| *sum <= GIVEN);
        self.given.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
    }
}

/// A pattern, compiled now or before for the current statement. Callers that compile many check the stop sign first.
///
/// # Errors
/// A text that is no pattern, or one whose program is too large.
pub fn compiled(pattern: &str) -> Result<Arc<Compiled>, regex::Error> {
    if let Some(known) = current(|context| context.patterns()?.find(pattern)).flatten() {
        return Ok(known);
    }
    let compiled = Arc::new(compile(pattern)?);
    current(|context| {
        if let Some(patterns) = context.patterns() {
            patterns.keep(pattern, &compiled);
        }
    });
    Ok(compiled)
}

fn compile(pattern: &str) -> Result<Compiled, regex::Error> {
    let mut failure = regex::Error::CompiledTooBig(SIZES.last().copied().unwrap_or_default());
    if pattern.len() > MAX_PATTERN {
        return Err(failure);
    }
    let pattern = re2::translated(pattern);
    for size in SIZES {
        match RegexBuilder::new(&pattern).size_limit(size).dfa_size_limit(SEARCH).build() {
            Ok(regex) => return Ok(Compiled { regex, size }),
            Err(too_big @ regex::Error::CompiledTooBig(_)) => failure = too_big,
            Err(error) => return Err(error),
        }
    }
    Err(failure)
}

/// Whether the engine's own operators may compile one more program of so many bytes for the current statement.
pub fn engine_may_compile(size: usize) -> bool {
    current(|context| context.patterns().is_none_or(|patterns| patterns.give(size))).unwrap_or(true)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;
    use crate::context::{ExecutionContext, StatementMemory};

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
        let memory = Arc::new(StatementMemory::new(Arc::clone(&all), 1 << 30));
        let pool: Arc<dyn MemoryPool> = Arc::clone(&memory) as _;
        let patterns = Arc::new(Patterns::new(&pool));
        ExecutionContext::of_run(memory, Arc::clone(&patterns)).enter(|| {
            for _ in 0..3 {
                for pattern in ["a+", "b+"] {
                    assert!(compiled(pattern).unwrap().regex.is_match("xaabb"));
                }
            }
        });
        assert_eq!(patterns.compiled.load(Ordering::Relaxed), 2);
        assert!(all.reserved() > 2 * SIZES[0], "what is kept counts");
        drop(patterns);
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
