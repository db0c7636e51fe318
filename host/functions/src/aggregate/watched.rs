//! Aggregates over windows, which can be stopped and whose results are bounded.
//!
//! The engine computes the aggregate of a window for a whole partition in one call: it cannot be stopped in between,
//! and it holds one result for each row, which for a list of all rows so far grows with the square of the rows. So the
//! aggregate itself checks the stop sign of the statement, and counts the bytes of its results. The operator holds them for
//! all partitions until it hands on rows, longer than it holds the aggregates; so what they count outlives them
//! ([`WindowResults`]).

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};
use datafusion::scalar::ScalarValue;
use tidegate_model::{Code, Failure};

use super::recomputed::over_frame;
use crate::context::{self, Transient, failed};

/// The most bytes that one aggregate may give for the rows of one partition.
const MAX_GIVEN: usize = 256 << 20;

/// How often a result is held at a time: as a value and in the array of its partition, or there and in that of all partitions.
const COPIES: usize = 2;

thread_local! {
    static RESULTS: RefCell<Option<Transient>> = const { RefCell::new(None) };
}

/// What the aggregates of a window operator have given since it last handed on rows, in the memory of the statement.
#[derive(Debug, Default)]
pub struct WindowResults {
    held: Transient,
}

impl WindowResults {
    /// Does `work`, a poll of the operator: what its aggregates give counts here.
    pub fn enter<T>(&mut self, work: impl FnOnce() -> T) -> T {
        struct Entered<'a> {
            own: &'a mut Transient,
            before: Option<Transient>,
        }
        impl Drop for Entered<'_> {
            fn drop(&mut self) {
                *self.own = RESULTS.replace(self.before.take()).unwrap_or_default();
            }
        }
        let before = RESULTS.replace(Some(std::mem::take(&mut self.held)));
        let _entered = Entered { own: &mut self.held, before };
        work()
    }

    /// The operator has handed on its rows, and holds them no longer.
    pub fn clear(&mut self) {
        self.held.clear();
    }
}

/// The aggregate `inner` over a window. `whole` tells that its one result of a partition goes to every row.
pub fn watched(inner: Arc<AggregateUDF>, whole: bool) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Watched { inner, whole }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Watched {
    inner: Arc<AggregateUDF>,
    whole: bool,
}

impl Watched {
    pub(crate) fn inner(&self) -> &AggregateUDF {
        &self.inner
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    fn watch(&self, inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        Box::new(WatchedAccumulator { inner, whole: self.whole, rows: 0, given: 0, held: Transient::default() })
    }
}

impl AggregateUDFImpl for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(arguments).map(|inner| self.watch(inner))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        over_frame(&self.inner, arguments).map(|inner| self.watch(inner))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }
}

#[derive(Debug)]
struct WatchedAccumulator {
    inner: Box<dyn Accumulator>,
    whole: bool,
    rows: usize,
    given: usize,
    /// The memory of results outside of an operator that counts them.
    held: Transient,
}

impl WatchedAccumulator {
    /// Counts what so many copies of a value hold beside the values themselves: of numbers that is nothing.
    fn hold(&mut self, value: &ScalarValue, times: usize) -> Result<()> {
        let beside = value.size().saturating_sub(size_of::<ScalarValue>());
        let bytes = beside.saturating_mul(times).saturating_mul(COPIES);
        if bytes == 0 {
            return Ok(());
        }
        let own = &mut self.held;
        RESULTS.with_borrow_mut(|results| results.as_mut().unwrap_or(own).grow(bytes)).map_err(failed)
    }
}

impl Accumulator for WatchedAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        context::check()?;
        self.rows += values.first().map_or(0, |values| values.len());
        self.inner.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        context::check()?;
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.inner.evaluate()?;
        let times = if self.whole { self.rows } else { 1 };
        self.given = self.given.saturating_add(value.size().saturating_mul(times));
        if self.given > MAX_GIVEN {
            let message = format!(
                "a window function would give more than {MAX_GIVEN} bytes for one partition; use a narrower frame or GROUP BY"
            );
            let failure = Failure::new(Code::LimitExceeded, message);
            return Err(failed(failure));
        }
        self.hold(&value, times)?;
        Ok(value)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};

    use super::*;
    use crate::context::{ExecutionContext, Patterns, StatementMemory};

    /// Gives a text of 100 KiB for each row.
    #[derive(Debug)]
    struct LongText;

    impl Accumulator for LongText {
        fn update_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
            Ok(())
        }
        fn evaluate(&mut self) -> Result<ScalarValue> {
            Ok(ScalarValue::Utf8View(Some("x".repeat(100 << 10))))
        }
        fn size(&self) -> usize {
            0
        }
        fn state(&mut self) -> Result<Vec<ScalarValue>> {
            Ok(Vec::new())
        }
        fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
            Ok(())
        }
    }

    fn give(values: usize) -> Result<()> {
        let mut one = WatchedAccumulator {
            inner: Box::new(LongText),
            whole: false,
            rows: 0,
            given: 0,
            held: Transient::default(),
        };
        (0..values).try_for_each(|_| one.evaluate().map(drop))
    }

    #[test]
    fn the_results_of_all_partitions_count_until_rows_are_handed_on() {
        let all: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 20));
        let memory = Arc::new(StatementMemory::new(Arc::clone(&all), 4 << 20));
        let patterns = Arc::new(Patterns::new(&all));
        ExecutionContext::of_run(Arc::clone(&memory), patterns).enter(|| {
            assert!(give(30).is_err());
            assert_eq!(memory.reserved(), 0, "what is held goes with the aggregate");
            let (mut results, mut others) = (WindowResults::default(), WindowResults::default());
            for _partition in 0..4 {
                results.enter(|| give(4)).unwrap();
                results.enter(|| others.enter(|| Ok::<_, ()>(()))).unwrap();
            }
            assert!(memory.reserved() >= 16 * COPIES * (100 << 10), "{}", memory.reserved());
            assert!(results.enter(|| give(8)).is_err());
            results.clear();
            assert_eq!(memory.reserved(), 0);
            results.enter(|| give(8)).unwrap();
        });
        assert_eq!(all.reserved(), 0);
    }
}
