//! SAFE. before an aggregate: NULL where it has no result for its values, such as a sum that overflows.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};
use datafusion::scalar::ScalarValue;
use tidegate_model::{Code, Failure};

use crate::arrays::arity;

/// The aggregate `inner`, which is NULL where it would fail for its values.
pub fn safe(inner: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    // With the name of the aggregate in its own, because columns of a plan are known by their calls.
    let name = format!("safe_{}", inner.name());
    Arc::new(AggregateUDF::from(Safe { name, inner }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Safe {
    name: String,
    inner: Arc<AggregateUDF>,
}

impl Safe {
    pub(crate) fn inner(&self) -> &AggregateUDF {
        &self.inner
    }
}

impl AggregateUDFImpl for Safe {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(self.inner.return_field(arguments)?.as_ref().clone().with_nullable(true)))
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
        let null = ScalarValue::try_new_null(arguments.return_field.data_type())?;
        Ok(Box::new(Guarded { inner: self.inner.accumulator(arguments)?, null, failed: false }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let failed = Field::new(format!("{}[failed]", arguments.name), DataType::Boolean, false);
        Ok(std::iter::once(Arc::new(failed)).chain(self.inner.state_fields(arguments)?).collect())
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    /// The inner one sorts its rows itself, whatever order they come in.
    fn with_beneficial_ordering(self: Arc<Self>, _: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
}

#[derive(Debug)]
struct Guarded {
    inner: Box<dyn Accumulator>,
    null: ScalarValue,
    /// Whether it has failed: whatever comes, the result is NULL.
    failed: bool,
}

/// Whether an error is about values, and neither about limits nor about the engine.
fn is_of_values(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::External(inner) => {
            inner.downcast_ref::<Failure>().is_some_and(|failure| failure.code == Code::InvalidValue)
        }
        _ => false,
    }
}

impl Guarded {
    /// What `work` gives; `None` if it fails for its values, now or before.
    fn guard<T>(&mut self, work: impl FnOnce(&mut dyn Accumulator) -> Result<T>) -> Result<Option<T>> {
        if self.failed {
            return Ok(None);
        }
        match work(self.inner.as_mut()) {
            Err(error) if is_of_values(&error) => {
                self.failed = true;
                Ok(None)
            }
            other => other.map(Some),
        }
    }
}

impl Accumulator for Guarded {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.guard(|inner| inner.update_batch(values)).map(|_| ())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (failed, states) = states.split_first().ok_or_else(arity)?;
        self.failed |= failed.as_boolean().iter().flatten().any(|failed| failed);
        self.guard(|inner| inner.merge_batch(states)).map(|_| ())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = self.inner.state()?;
        Ok(std::iter::once(ScalarValue::Boolean(Some(self.failed))).chain(state).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // Of a frame that goes on the next result may be one again.
        let before = self.failed;
        let value = self.guard(Accumulator::evaluate)?;
        self.failed = before;
        Ok(value.unwrap_or_else(|| self.null.clone()))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::Schema;

    use super::super::whole_sum;
    use super::*;

    fn sum(values: &[i64]) -> Box<dyn Accumulator> {
        let schema = Schema::new(vec![Field::new("x", DataType::Int64, true)]);
        let exprs = [datafusion::physical_expr::expressions::col("x", &schema).unwrap()];
        let fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
        let arguments = AccumulatorArgs {
            return_field: Arc::new(Field::new("sum", DataType::Int64, true)),
            schema: &schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: "sum",
            is_distinct: false,
            exprs: &exprs,
            expr_fields: &fields,
        };
        let mut sum = safe(whole_sum()).accumulator(arguments).unwrap();
        sum.update_batch(&[Arc::new(Int64Array::from(values.to_vec()))]).unwrap();
        sum
    }

    #[test]
    fn a_sum_that_overflows_is_null_and_fits_again() {
        let mut over = sum(&[i64::MAX, 1]);
        assert_eq!(over.evaluate().unwrap(), ScalarValue::Int64(None));
        let state: Vec<ArrayRef> = sum(&[-1]).state().unwrap().iter().map(|part| part.to_array().unwrap()).collect();
        over.merge_batch(&state).unwrap();
        assert_eq!(over.evaluate().unwrap(), ScalarValue::Int64(Some(i64::MAX)));
    }
}
