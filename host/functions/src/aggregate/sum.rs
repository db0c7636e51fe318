//! SUM of INT64, whose overflow is an error.
//!
//! Sums are kept in 128 bits, so that only the result has to fit, whatever the order of the rows.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array, Int64Builder, ListArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::arrays::arity;
use crate::context::value_error;

/// SUM of INT64.
pub fn whole_sum() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Arc::new(AggregateUDF::from(WholeSum::new())));
    Arc::clone(&FUNCTION)
}

/// The type of a sum between the steps of an aggregation.
pub(super) const STATE: DataType = DataType::Decimal128(38, 0);

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct WholeSum {
    signature: Signature,
}

impl WholeSum {
    fn new() -> Self {
        Self { signature: Signature::exact(vec![DataType::Int64], Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for WholeSum {
    /// The name of the engine's own sum: by it, the optimizer knows that a DISTINCT aggregate beside it can become groups.
    fn name(&self) -> &'static str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if arguments.is_distinct {
            return Ok(Box::new(Different::default()));
        }
        Ok(Box::new(Sum::default()))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let held = if arguments.is_distinct { list_of_whole() } else { STATE };
        Ok(vec![Arc::new(Field::new(format!("{}[sum]", arguments.name), held, true))])
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Sums::default()))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

fn list_of_whole() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)))
}

pub(super) fn first(values: &[ArrayRef]) -> Result<&ArrayRef> {
    values.first().ok_or_else(arity)
}

pub(super) fn fitting(sum: i128) -> Result<i64> {
    i64::try_from(sum).map_err(|_| overflow())
}

pub(super) fn overflow() -> DataFusionError {
    value_error("the sum overflows INT64; that of CAST(x AS FLOAT64) is a rough number")
}

pub(super) fn held(sums: impl IntoIterator<Item = Option<i128>>) -> Result<ArrayRef> {
    Ok(Arc::new(sums.into_iter().collect::<Decimal128Array>().with_data_type(STATE)))
}

/// The sum of all rows, or of those of a frame.
#[derive(Debug, Default)]
struct Sum {
    sum: i128,
    rows: usize,
}

impl Sum {
    fn rows_of(values: &[ArrayRef]) -> Result<(i128, usize)> {
        let values = first(values)?.as_primitive::<Int64Type>();
        let rows = values.len() - values.null_count();
        let sum = match rows == values.len() {
            true => values.values().iter().map(|value| i128::from(*value)).sum(),
            false => values.iter().flatten().map(i128::from).sum(),
        };
        Ok((sum, rows))
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = Self::rows_of(values)?;
        self.sum = self.sum.saturating_add(sum);
        self.rows += rows;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = Self::rows_of(values)?;
        self.sum = self.sum.saturating_sub(sum);
        self.rows = self.rows.saturating_sub(rows);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for sum in first(states)?.as_primitive::<Decimal128Type>().iter().flatten() {
            self.sum = self.sum.saturating_add(sum);
            self.rows += 1;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Decimal128((self.rows > 0).then_some(self.sum), 38, 0)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = (self.rows > 0).then(|| fitting(self.sum)).transpose()?;
        Ok(ScalarValue::Int64(sum))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sum of the different values.
#[derive(Debug, Default)]
struct Different {
    values: HashSet<i64>,
}

impl Accumulator for Different {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.extend(first(values)?.as_primitive::<Int64Type>().iter().flatten());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in first(states)?.as_list::<i32>().iter().flatten() {
            self.update_batch(&[values])?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Int64Array = self.values.iter().copied().collect::<Vec<_>>().into();
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let item = Arc::new(Field::new_list_field(DataType::Int64, true));
        Ok(vec![ScalarValue::List(Arc::new(ListArray::try_new(item, offsets, Arc::new(values), None)?))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum: i128 = self.values.iter().map(|value| i128::from(*value)).sum();
        Ok(ScalarValue::Int64((!self.values.is_empty()).then(|| fitting(sum)).transpose()?))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * 2 * size_of::<i64>()
    }
}

/// The sums of many groups; `seen` tells which have any row.
#[derive(Debug, Default)]
struct Sums {
    sums: Vec<i128>,
    seen: Vec<bool>,
}

impl Sums {
    fn add(
        &mut self,
        values: impl Iterator<Item = Option<i128>>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) {
        self.sums.resize(total, 0);
        self.seen.resize(total, false);
        for (i, (value, group)) in values.zip(groups).enumerate() {
            let Some(value) = value else { continue };
            if filter.is_some_and(|filter| filter.is_null(i) || !filter.value(i)) {
                continue;
            }
            if let (Some(sum), Some(seen)) = (self.sums.get_mut(*group), self.seen.get_mut(*group)) {
                *sum = sum.saturating_add(value);
                *seen = true;
            }
        }
    }

    fn take(&mut self, emit: EmitTo) -> impl Iterator<Item = Option<i128>> + use<> {
        let (sums, seen) = (emit.take_needed(&mut self.sums), emit.take_needed(&mut self.seen));
        sums.into_iter().zip(seen).map(|(sum, seen)| seen.then_some(sum))
    }
}

impl GroupsAccumulator for Sums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let values = first(values)?.as_primitive::<Int64Type>();
        if values.null_count() == 0 {
            self.add(values.values().iter().map(|value| Some(i128::from(*value))), groups, filter, total);
        } else {
            self.add(values.iter().map(|value| value.map(i128::from)), groups, filter, total);
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.add(first(values)?.as_primitive::<Decimal128Type>().iter(), groups, None, total);
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let mut out = Int64Builder::new();
        for sum in self.take(emit) {
            out.append_option(sum.map(fitting).transpose()?);
        }
        Ok(Arc::new(out.finish()))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![held(self.take(emit))?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = first(values)?.as_primitive::<Int64Type>();
        let kept = |i: usize| filter.is_none_or(|filter| filter.is_valid(i) && filter.value(i));
        let sums = values.iter().enumerate().map(|(i, value)| value.filter(|_| kept(i)).map(i128::from));
        Ok(vec![held(sums)?])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.seen.capacity()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn sums_of_groups_are_merged_and_filtered() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MAX), Some(i64::MAX), None, Some(1)]));
        let filter = BooleanArray::from(vec![Some(true), Some(true), Some(true), None]);
        let mut one = Sums::default();
        one.update_batch(&[Arc::clone(&values)], &[0, 0, 1, 2], Some(&filter), 3).unwrap();
        let state = one.state(EmitTo::All).unwrap();
        let mut other = Sums::default();
        let less: ArrayRef = Arc::new(Int64Array::from(vec![-i64::MAX, 7]));
        other.update_batch(&[less], &[0, 3], None, 4).unwrap();
        other.merge_batch(&state, &[0, 1, 2], 4).unwrap();
        let first = other.evaluate(EmitTo::First(1)).unwrap();
        assert_eq!(first.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(i64::MAX)]);
        let rest = other.evaluate(EmitTo::All).unwrap();
        assert_eq!(rest.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [None, None, Some(7)]);
        let converted = other.convert_to_state(&[values], Some(&filter)).unwrap();
        other.merge_batch(&converted, &[0, 0, 0, 0], 1).unwrap();
        assert!(other.evaluate(EmitTo::All).is_err());
    }
}
