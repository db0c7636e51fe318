//! APPROX_QUANTILES and PERCENTILE_*, computed exactly. Quantiles of `n` parts are `n + 1` values: the smallest, the upper
//! bound of each part, the last of which is the largest value.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array, new_empty_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{concat, filter, is_not_null, sort, take};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use super::collect::owned;
use super::quantile_groups::QuantileGroups;
pub(crate) use super::quantile_pick::Pick;
use super::quantile_pick::{count, exact_position, index};
use crate::arrays::{arity, held_size, list_of};
use crate::decimal::interpolated;

/// The aggregate for `parts` parts.
pub fn quantiles(parts: usize) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::from(Quantiles { pick: Pick::Borders(parts), signature }))
}

/// The aggregate for the value at `part` (0 to 1) of the sorted values: between two values it is
/// interpolated if `continuous`, which takes FLOAT64.
pub fn percentile(part: f64, continuous: bool) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    let pick = if continuous { Pick::Between(part.to_bits()) } else { Pick::At(part.to_bits()) };
    Arc::new(AggregateUDF::from(Quantiles { pick, signature }))
}

/// The same for a part in units of 1e-38, which takes decimals if `continuous`.
pub fn exact_percentile(part: u128, continuous: bool) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    let pick = if continuous { Pick::BetweenExactly(part) } else { Pick::AtExactly(part) };
    Arc::new(AggregateUDF::from(Quantiles { pick, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Quantiles {
    pick: Pick,
    signature: Signature,
}

impl Quantiles {
    pub(crate) fn pick(&self) -> Pick {
        self.pick
    }
}

impl AggregateUDFImpl for Quantiles {
    fn name(&self) -> &'static str {
        "quantiles"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let item = arguments.first().cloned().unwrap_or(DataType::Null);
        Ok(if matches!(self.pick, Pick::Borders(_)) { list_of(item) } else { item })
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let item = match arguments.return_field.data_type() {
            DataType::List(item) if matches!(self.pick, Pick::Borders(_)) => item.data_type().clone(),
            other => other.clone(),
        };
        Ok(Box::new(Values { pick: self.pick, item, chunks: Vec::new() }))
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        let plain = matches!(arguments.expr_fields, [value] if is_plain(value.data_type()));
        plain
            && !arguments.is_distinct
            && arguments.order_bys.is_empty()
            && !matches!(self.pick, Pick::Between(_) | Pick::BetweenExactly(_))
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let item = arguments.expr_fields.first().ok_or_else(arity)?.data_type().clone();
        Ok(match item {
            DataType::Int64 => Box::new(QuantileGroups::<Int64Type>::new(self.pick, item)),
            DataType::Float64 => Box::new(QuantileGroups::<Float64Type>::new(self.pick, item)),
            _ => Box::new(QuantileGroups::<TimestampMicrosecondType>::new(self.pick, item)),
        })
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format!("{}[values]", arguments.name);
        let returned = arguments.return_field.data_type().clone();
        let list = if matches!(self.pick, Pick::Borders(_)) { returned } else { list_of(returned) };
        let counts = format!("{}[counts]", arguments.name);
        Ok(vec![Arc::new(Field::new(name, list, true)), Arc::new(Field::new(counts, list_of(DataType::Int64), true))])
    }
}

/// Whether values of a type are kept as plain numbers.
fn is_plain(item: &DataType) -> bool {
    matches!(item, DataType::Int64 | DataType::Float64 | DataType::Timestamp(TimeUnit::Microsecond, None))
}

/// All values of one group.
#[derive(Debug)]
struct Values {
    pick: Pick,
    item: DataType,
    chunks: Vec<ArrayRef>,
}

impl Values {
    fn all(&self) -> Result<ArrayRef> {
        if self.chunks.is_empty() {
            return Ok(new_empty_array(&self.item));
        }
        let chunks: Vec<&dyn Array> = self.chunks.iter().map(AsRef::as_ref).collect();
        Ok(concat(&chunks)?)
    }

    fn push(&mut self, values: &ArrayRef) -> Result<()> {
        let present = if values.null_count() > 0 { filter(values, &is_not_null(values)?)? } else { Arc::clone(values) };
        if !present.is_empty() {
            // Without the other values of its buffers.
            self.chunks.extend(owned(&[present]).0);
        }
        // Many small batches of one group would cost more in headers than in values.
        if self.chunks.len() > 64 {
            self.chunks = vec![self.all()?];
        }
        Ok(())
    }

    fn list(&self, values: ArrayRef) -> ScalarValue {
        let field = Arc::new(Field::new_list_field(self.item.clone(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        ScalarValue::List(Arc::new(ListArray::new(field, offsets, values, None)))
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values.first().map_or(Ok(()), |values| self.push(values))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [lists, counts] = states else { return Err(arity()) };
        // Both halves of an aggregation keep their values alike, and these here are not counted.
        if counts.as_list_opt::<i32>().is_none_or(|counts| !counts.values().is_empty()) {
            return internal_err!("values of quantiles are counted");
        }
        if let Some(lists) = lists.as_list_opt::<i32>() {
            for values in lists.iter().flatten() {
                self.push(&values)?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let none = ScalarValue::List(ScalarValue::new_list_nullable(&[], &DataType::Int64));
        Ok(vec![self.list(self.all()?), none])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // Kept as one: a window evaluates for each of its rows.
        let all = self.all()?;
        self.chunks = if all.is_empty() { Vec::new() } else { vec![Arc::clone(&all)] };
        let sorted = sort(&all, None)?;
        let null = |ty: &DataType| ScalarValue::try_new_null(ty);
        match self.pick {
            Pick::Borders(_) if sorted.is_empty() => null(&list_of(self.item.clone())),
            _ if sorted.is_empty() => null(&self.item),
            Pick::Borders(_) => {
                let borders = self.pick.ranks(sorted.len()).map(|rank| u32::try_from(rank).unwrap_or(u32::MAX));
                let picked = take(&sorted, &UInt32Array::from_iter_values(borders), None)?;
                Ok(self.list(picked))
            }
            Pick::BetweenExactly(part) => {
                let (rank, rest) = exact_position(part, sorted.len() - 1);
                interpolated(&sorted, rank, rest)
            }
            Pick::At(_) | Pick::AtExactly(_) => {
                let rank = self.pick.ranks(sorted.len()).next().unwrap_or_default();
                ScalarValue::try_from_array(&sorted, rank)
            }
            Pick::Between(part) => {
                let position = f64::from_bits(part) * count(sorted.len() - 1);
                let value = |position: f64| match ScalarValue::try_from_array(&sorted, index(position, sorted.len()))? {
                    ScalarValue::Float64(value) => Ok::<_, DataFusionError>(value.unwrap_or(f64::NAN)),
                    _ => Ok(f64::NAN),
                };
                let (low, high) = (value(position.floor())?, value(position.ceil())?);
                let share = position - position.floor();
                Ok(ScalarValue::Float64(Some(if share == 0.0 { low } else { low * (1.0 - share) + high * share })))
            }
        }
    }

    /// With the memory that sorting will take: copies, and for texts their order too.
    fn size(&self) -> usize {
        let copies = if self.item.is_primitive() { 2 } else { 4 };
        size_of_val(self) + copies * self.chunks.iter().map(held_size).sum::<usize>()
    }
}
