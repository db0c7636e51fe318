//! APPROX_TOP_COUNT and APPROX_TOP_SUM, computed exactly: the values with the most rows, or the
//! largest sum of a weight, first.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_buffer::i256;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, StructArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use super::sum::{self, overflow};
use crate::arrays::{arity, list_of};
use crate::context::{Transient, value_error};
use crate::decimal::{BigNumeric, Form, Numeric, Wide, array_of};
use crate::row_form::row_forms;

/// The aggregate of the first `number` values; `weighted` ones take a weight as second argument.
pub fn top(number: usize, weighted: bool) -> Arc<AggregateUDF> {
    let signature = Signature::any(if weighted { 2 } else { 1 }, Volatility::Immutable);
    Arc::new(AggregateUDF::from(Top { number, weighted, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Top {
    number: usize,
    weighted: bool,
    signature: Signature,
}

impl Top {
    /// The arguments of [`top`] that it was made with.
    pub(crate) fn parameters(&self) -> (usize, bool) {
        (self.number, self.weighted)
    }
}

impl AggregateUDFImpl for Top {
    fn name(&self) -> &'static str {
        if self.weighted { "top_sum" } else { "top_count" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let [value, rest @ ..] = arguments else { return Err(arity()) };
        let weight = rest.first().cloned().unwrap_or(DataType::Int64);
        Ok(list_of(DataType::Struct(fields(value.clone(), weight, self.weighted))))
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let (value, weight) = types(arguments.return_field.data_type())?;
        let rows = RowConverter::new(vec![SortField::new(value.clone())])?;
        let (number, weighted) = (self.number, self.weighted);
        Ok(Box::new(Sums { number, weighted, value, weight, rows, sums: HashMap::new(), bytes: 0 }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format!("{}[sums]", arguments.name);
        let (value, weight) = types(arguments.return_field.data_type())?;
        let sums = list_of(DataType::Struct(fields(value, state_of(&weight), self.weighted)));
        Ok(vec![Arc::new(Field::new(name, sums, true))])
    }
}

/// The types of the values and of the weights, by the type of the result.
fn types(result: &DataType) -> Result<(DataType, DataType)> {
    match result {
        DataType::List(item) => match item.data_type() {
            DataType::Struct(fields) => match fields.as_ref() {
                [value, weight] => Ok((value.data_type().clone(), weight.data_type().clone())),
                _ => Err(arity()),
            },
            _ => Err(arity()),
        },
        _ => Err(arity()),
    }
}

/// The type of sums that are not complete.
fn state_of(weight: &DataType) -> DataType {
    if *weight == DataType::Int64 { sum::STATE } else { weight.clone() }
}

fn fields(value: DataType, weight: DataType, weighted: bool) -> Fields {
    let label = if weighted { "sum" } else { "count" };
    Fields::from(vec![Field::new("value", value, true), Field::new(label, weight, true)])
}

/// The weights of one group by value. A value's key is its row form, of which equal values have
/// the same.
#[derive(Debug)]
struct Sums {
    number: usize,
    weighted: bool,
    value: DataType,
    weight: DataType,
    rows: RowConverter,
    /// `None` is the sum of no weight but NULL.
    sums: HashMap<Box<[u8]>, Option<Sum>>,
    bytes: usize,
}

/// A sum of weights. Integers are summed as integers, in more bits than a result has: whether a sum is too large does not
/// depend on the order in which its weights come.
#[derive(Debug, Clone, Copy)]
enum Sum {
    Whole(i128),
    /// Units of NUMERIC or BIGNUMERIC.
    Units(i256),
    Float(f64),
}

impl Sum {
    fn plus(self, other: Self) -> Result<Self> {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => one.checked_add(other).map(Self::Whole).ok_or_else(overflow),
            (Self::Units(one), Self::Units(other)) => {
                one.checked_add(other).map(Self::Units).ok_or_else(decimal_overflow)
            }
            (Self::Float(one), Self::Float(other)) => Ok(Self::Float(one + other)),
            _ => internal_err!("weights of two types have a sum"),
        }
    }

    fn both(one: Option<Self>, other: Option<Self>) -> Result<Option<Self>> {
        match (one, other) {
            (Some(one), Some(other)) => one.plus(other).map(Some),
            (one, other) => Ok(one.or(other)),
        }
    }

    /// Checks that it is a weight.
    fn check(self) -> Result<()> {
        match self {
            Self::Whole(0..) => Ok(()),
            Self::Float(x) if x >= 0.0 => Ok(()),
            Self::Units(n) if !n.is_negative() => Ok(()),
            Self::Units(_) => Err(value_error("a weight of APPROX_TOP_SUM is 0 or more")),
            Self::Whole(n) => Err(value_error(format!("a weight of APPROX_TOP_SUM is 0 or more, not {n}"))),
            Self::Float(x) => Err(value_error(format!("a weight of APPROX_TOP_SUM is 0 or more, not {x}"))),
        }
    }

    /// The sums in their order; none is the smallest.
    fn ordered(one: Option<Self>, other: Option<Self>) -> Ordering {
        match (one, other) {
            (Some(one), Some(other)) => one.compared(other),
            (one, other) => one.is_some().cmp(&other.is_some()),
        }
    }

    /// All weights of a call have one type, so all sums are of one kind.
    fn compared(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => one.cmp(&other),
            (Self::Units(one), Self::Units(other)) => one.cmp(&other),
            (Self::Float(one), Self::Float(other)) => one.total_cmp(&other),
            _ => Ordering::Equal,
        }
    }
}

impl Sums {
    fn add(&mut self, values: &ArrayRef, weights: Option<&ArrayRef>, checked: bool) -> Result<()> {
        let mut held = Transient::default();
        let rows = row_forms(&self.rows, &[Arc::clone(values)], &mut held)?;
        for (i, row) in rows.iter().enumerate() {
            let weight = match weights {
                None => Some(Sum::Whole(1)),
                Some(weights) => match ScalarValue::try_from_array(weights, i)? {
                    ScalarValue::Int64(n) => n.map(|n| Sum::Whole(n.into())),
                    ScalarValue::Decimal128(n, _, 9) => n.map(|n| Sum::Units(i256::from_i128(n))),
                    ScalarValue::Decimal256(n, ..) => n.map(Sum::Units),
                    ScalarValue::Decimal128(n, ..) => n.map(Sum::Whole),
                    ScalarValue::Float64(x) => x.map(Sum::Float),
                    _ => None,
                },
            };
            if let (true, Some(weight)) = (checked, weight) {
                weight.check()?;
            }
            match self.sums.get_mut(row.as_ref()) {
                Some(sum) => *sum = Sum::both(*sum, weight)?,
                None => {
                    self.bytes += row.as_ref().len() + 64;
                    self.sums.insert(row.as_ref().into(), weight);
                }
            }
        }
        Ok(())
    }

    /// The first values, or all of them, as one list of structs, with sums of a type.
    fn list(&self, most: usize, weight: &DataType) -> Result<ScalarValue> {
        let mut entries: Vec<(&[u8], Option<Sum>)> = self.sums.iter().map(|(row, sum)| (row.as_ref(), *sum)).collect();
        // Equal sums in the order of their values, so that an answer is always the same.
        entries.sort_by(|(a, one), (b, other)| Sum::ordered(*other, *one).then(a.cmp(b)));
        entries.truncate(most);
        let parser = self.rows.parser();
        let values = self.rows.convert_rows(entries.iter().map(|(row, _)| parser.parse(row)))?;
        let [values] = values.as_slice() else { return Err(arity()) };
        let sums = entries.iter().map(|(_, sum)| *sum);
        let whole = |sum| match sum {
            Sum::Whole(sum) => Ok(sum),
            Sum::Units(_) | Sum::Float(_) => internal_err!("a sum of whole weights is no whole number"),
        };
        let weights: ArrayRef = match weight {
            DataType::Float64 => {
                let float = |sum| match sum {
                    Sum::Float(sum) => Ok(sum),
                    Sum::Whole(_) | Sum::Units(_) => internal_err!("a sum of floats is none"),
                };
                Arc::new(Float64Array::from(sums.map(|sum| sum.map(float).transpose()).collect::<Result<Vec<_>>>()?))
            }
            DataType::Decimal128(_, 9) => decimals::<Numeric>(sums)?,
            DataType::Decimal256(..) => decimals::<BigNumeric>(sums)?,
            DataType::Int64 => {
                let sums = sums.map(|sum| sum.map(|sum| sum::fitting(whole(sum)?)).transpose());
                let sums = sums.collect::<Result<Vec<_>>>()?;
                Arc::new(Int64Array::from(sums))
            }
            _ => sum::held(sums.map(|sum| sum.map(whole).transpose()).collect::<Result<Vec<_>>>()?)?,
        };
        let fields = fields(self.value.clone(), weight.clone(), self.weighted);
        let structs = StructArray::try_new(fields.clone(), vec![Arc::clone(values), weights], None)?;
        let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
        let offsets = OffsetBuffer::from_lengths([structs.len()]);
        Ok(ScalarValue::List(Arc::new(ListArray::try_new(item, offsets, Arc::new(structs), None)?)))
    }
}

fn decimal_overflow() -> DataFusionError {
    value_error("a sum of weights overflows; that of CAST(weight AS FLOAT64) is a rough number")
}

/// Sums of decimals, which are 0 or more: the sum of some does not fit only where that of all does not.
fn decimals<F: Form>(sums: impl Iterator<Item = Option<Sum>>) -> Result<ArrayRef> {
    let value = |sum| match sum {
        Sum::Units(units) => {
            let (low, high) = units.to_parts();
            F::value(false, Wide::of_halves(low, high.cast_unsigned())).ok_or_else(decimal_overflow)
        }
        Sum::Whole(_) | Sum::Float(_) => internal_err!("a sum of decimals is none"),
    };
    Ok(array_of::<F>(sums.map(|sum| sum.map(value).transpose()).collect::<Result<Vec<_>>>()?))
}

impl Accumulator for Sums {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values, weights @ ..] = values else { return Err(arity()) };
        self.add(values, weights.first(), true)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first().and_then(|state| state.as_list_opt::<i32>()) else { return Err(arity()) };
        for entries in lists.iter().flatten() {
            if let Some(entries) = entries.as_struct_opt()
                && let [values, weights] = entries.columns()
            {
                self.add(values, Some(weights), false)?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.list(usize::MAX, &state_of(&self.weight))?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.sums.is_empty() {
            return ScalarValue::try_new_null(&list_of(DataType::Struct(fields(
                self.value.clone(),
                self.weight.clone(),
                self.weighted,
            ))));
        }
        self.list(self.number, &self.weight)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }
}
