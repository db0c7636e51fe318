//! SUM and AVG of NUMERIC and BIGNUMERIC, exact whatever the order of the rows: only the result has to fit.
//!
//! A value of 256 bits is a high half with a sign and a low one without; the halves are summed apart.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow_buffer::i256;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal256Array, Int64Array, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Decimal256Type, Field, FieldRef, Int64Type};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::arrays::{arity, list_of};
use crate::context::value_error;
use crate::decimal::{BigNumeric, Form, Native, Numeric, Wide, array_of, is_numeric_type};

/// SUM of decimals, or AVG.
pub fn decimal_sum(average: bool) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(DecimalSum { average, signature: Signature::any(1, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct DecimalSum {
    average: bool,
    signature: Signature,
}

/// The type of a sum of halves between the steps of an aggregation.
const HALF: DataType = DataType::Decimal256(76, 0);

impl DecimalSum {
    /// Whether it is AVG.
    pub(crate) fn is_average(&self) -> bool {
        self.average
    }
}

impl AggregateUDFImpl for DecimalSum {
    fn name(&self) -> &'static str {
        if self.average { "decimal_average" } else { "decimal_sum" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        arguments.first().cloned().ok_or_else(arity)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let average = self.average;
        Ok(match (is_numeric_type(arguments.return_field.data_type())?, arguments.is_distinct) {
            (true, false) => Box::new(Sum::<Numeric>::new(average)),
            (false, false) => Box::new(Sum::<BigNumeric>::new(average)),
            (true, true) => Box::new(Different::<Numeric>::new(average)),
            (false, true) => Box::new(Different::<BigNumeric>::new(average)),
        })
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name: &str, ty| Arc::new(Field::new(format!("{}[{name}]", arguments.name), ty, true));
        Ok(match arguments.is_distinct {
            true => vec![field("values", list_of(arguments.return_field.data_type().clone()))],
            false => vec![field("low", HALF), field("high", HALF), field("rows", DataType::Int64)],
        })
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(match is_numeric_type(arguments.return_field.data_type())? {
            true => Box::new(Sums::<Numeric>::new(self.average)),
            false => Box::new(Sums::<BigNumeric>::new(self.average)),
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The sums of the halves of values, and how many there are.
#[derive(Debug, Default, Clone, Copy)]
struct Total {
    low: i256,
    high: i256,
    rows: i64,
}

impl Total {
    fn plus(&mut self, other: Self) {
        self.low = self.low.wrapping_add(other.low);
        self.high = self.high.wrapping_add(other.high);
        self.rows = self.rows.wrapping_add(other.rows);
    }

    fn minus(&mut self, other: Self) {
        self.low = self.low.wrapping_sub(other.low);
        self.high = self.high.wrapping_sub(other.high);
        self.rows = self.rows.wrapping_sub(other.rows);
    }

    fn of(value: i256) -> Self {
        let (low, high) = value.to_parts();
        Self { low: i256::from_parts(low, 0), high: i256::from_i128(high), rows: 1 }
    }

    /// The totals of a state; none where a row has none.
    fn read(states: &[ArrayRef]) -> Result<Vec<Self>> {
        let [low, high, rows] = states else { return Err(arity()) };
        let halves = low.as_primitive::<Decimal256Type>().iter().zip(high.as_primitive::<Decimal256Type>());
        let totals = halves.zip(rows.as_primitive::<Int64Type>()).map(|((low, high), rows)| Self {
            low: low.unwrap_or_default(),
            high: high.unwrap_or_default(),
            rows: rows.unwrap_or_default(),
        });
        Ok(totals.collect())
    }

    fn state(totals: &[Self]) -> Result<Vec<ArrayRef>> {
        let halves = |half: fn(&Self) -> i256| {
            Decimal256Array::from_iter_values(totals.iter().map(half)).with_precision_and_scale(76, 0)
        };
        let rows = Int64Array::from_iter_values(totals.iter().map(|total| total.rows));
        Ok(vec![Arc::new(halves(|total| total.low)?), Arc::new(halves(|total| total.high)?), Arc::new(rows)])
    }

    /// The sum, or the average; `None` of no rows.
    fn value<F: Form>(self, average: bool) -> Result<Option<Native<F>>> {
        let Ok(rows) = u128::try_from(self.rows) else { return Ok(None) };
        if rows == 0 {
            return Ok(None);
        }
        let size = |half: i256| {
            let (low, high) = half.wrapping_abs().to_parts();
            Wide::of_halves(low, high.cast_unsigned())
        };
        // The low halves have no sign.
        let (low, high) = (size(self.low), size(self.high).shifted_left(128));
        let (negative, size) = match self.high.is_negative() {
            false => (false, high.plus(&low)),
            true if high >= low => (true, high.minus(&low)),
            true => (false, low.minus(&high)),
        };
        let size = if average { size.over_rounded(&Wide::of(rows)) } else { size };
        let value = F::value(negative, size);
        value.map(Some).ok_or_else(|| value_error(format!("the sum overflows {}", F::TYPE)))
    }
}

fn values<F: Form>(arrays: &[ArrayRef]) -> Result<impl Iterator<Item = Option<i256>> + '_> {
    let array = arrays.first().and_then(|array| array.as_primitive_opt::<F::Arrow>()).ok_or_else(arity)?;
    Ok(array.iter().map(|value| value.map(F::bits)))
}

/// The sum of all rows, or of those of a frame.
#[derive(Debug)]
struct Sum<F> {
    average: bool,
    total: Total,
    form: PhantomData<F>,
}

impl<F: Form> Sum<F> {
    fn new(average: bool) -> Self {
        Self { average, total: Total::default(), form: PhantomData }
    }
}

impl<F: Form> Accumulator for Sum<F> {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        values::<F>(arrays)?.flatten().for_each(|value| self.total.plus(Total::of(value)));
        Ok(())
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        values::<F>(arrays)?.flatten().for_each(|value| self.total.minus(Total::of(value)));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        Total::read(states)?.into_iter().for_each(|total| self.total.plus(total));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Total::state(&[self.total])?.iter().map(|part| ScalarValue::try_from_array(part, 0)).collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&array_of::<F>([self.total.value::<F>(self.average)?]), 0)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sum of the different values.
#[derive(Debug)]
struct Different<F> {
    average: bool,
    values: HashSet<i256>,
    form: PhantomData<F>,
}

impl<F: Form> Different<F> {
    fn new(average: bool) -> Self {
        Self { average, values: HashSet::new(), form: PhantomData }
    }
}

impl<F: Form> Accumulator for Different<F> {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.values.extend(values::<F>(arrays)?.flatten());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states.first().and_then(|lists| lists.as_list_opt::<i32>()).ok_or_else(arity)?;
        for values in lists.iter().flatten() {
            self.update_batch(&[values])?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = array_of::<F>(self.values.iter().map(|value| F::of_bits(*value)));
        let item = Arc::new(Field::new_list_field(F::TYPE.arrow(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        Ok(vec![ScalarValue::List(Arc::new(ListArray::try_new(item, offsets, values, None)?))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut total = Total::default();
        self.values.iter().for_each(|value| total.plus(Total::of(*value)));
        ScalarValue::try_from_array(&array_of::<F>([total.value::<F>(self.average)?]), 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * 2 * size_of::<i256>()
    }
}

/// The sums of many groups.
#[derive(Debug)]
struct Sums<F> {
    average: bool,
    totals: Vec<Total>,
    form: PhantomData<F>,
}

impl<F: Form> Sums<F> {
    fn new(average: bool) -> Self {
        Self { average, totals: Vec::new(), form: PhantomData }
    }

    fn add(&mut self, totals: impl Iterator<Item = Option<Total>>, groups: &[usize], count: usize) {
        self.totals.resize(count, Total::default());
        for (total, group) in totals.zip(groups) {
            if let (Some(total), Some(sum)) = (total, self.totals.get_mut(*group)) {
                sum.plus(total);
            }
        }
    }
}

/// The total of each row that a filter keeps.
fn kept<'a, F: Form>(
    arrays: &'a [ArrayRef],
    filter: Option<&'a BooleanArray>,
) -> Result<impl Iterator<Item = Option<Total>> + 'a> {
    let keeps = move |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
    let rows = values::<F>(arrays)?.enumerate();
    Ok(rows.map(move |(row, value)| value.filter(|_| keeps(row)).map(Total::of)))
}

impl<F: Form> GroupsAccumulator for Sums<F> {
    fn update_batch(
        &mut self,
        arrays: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.add(kept::<F>(arrays, filter)?, groups, count);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.add(Total::read(states)?.into_iter().map(Some), groups, count);
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let totals = emit.take_needed(&mut self.totals);
        let values = totals.into_iter().map(|total| total.value::<F>(self.average)).collect::<Result<Vec<_>>>()?;
        Ok(array_of::<F>(values))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Total::state(&emit.take_needed(&mut self.totals))
    }

    fn convert_to_state(&self, arrays: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let totals: Vec<Total> = kept::<F>(arrays, filter)?.map(Option::unwrap_or_default).collect();
        Total::state(&totals)
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<Total>()
    }
}
