//! Aggregates over windows, which can be stopped and whose results are bounded.
//!
//! The engine computes the aggregate of a window for a whole partition in one call: it cannot be stopped in between,
//! and it holds one result for each row, which for a list of all rows so far grows with the square of the rows. So the
//! aggregate itself checks the stop sign of the statement, and counts the bytes of its results.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};
use datafusion::scalar::ScalarValue;
use tidegate_model::{Code, Failure};

use crate::context;

/// The most bytes that one aggregate may give for the rows of one partition.
const MAX_GIVEN: usize = 256 << 20;

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
        Box::new(WatchedAccumulator { inner, whole: self.whole, rows: 0, given: 0 })
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
        self.inner.create_sliding_accumulator(arguments).map(|inner| self.watch(inner))
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
            return Err(context::failed(failure));
        }
        Ok(value)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
