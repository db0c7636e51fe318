//! APPROX_TOP_COUNT and APPROX_TOP_SUM, computed exactly: the values with the most rows, or the
//! largest sum of a weight, first.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use super::sum::overflow;
use crate::arrays::{arity, list_of};

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
        let (value, weight) = match arguments.return_field.data_type() {
            DataType::List(item) => match item.data_type() {
                DataType::Struct(fields) => match fields.as_ref() {
                    [value, weight] => (value.data_type().clone(), weight.data_type().clone()),
                    _ => return Err(arity()),
                },
                _ => return Err(arity()),
            },
            _ => return Err(arity()),
        };
        let rows = RowConverter::new(vec![SortField::new(value.clone())])?;
        let (number, weighted) = (self.number, self.weighted);
        Ok(Box::new(Sums { number, weighted, value, weight, rows, sums: HashMap::new(), bytes: 0 }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format!("{}[sums]", arguments.name);
        Ok(vec![Arc::new(Field::new(name, arguments.return_field.data_type().clone(), true))])
    }
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
    sums: HashMap<Box<[u8]>, Sum>,
    bytes: usize,
}

/// A sum of weights: integers are summed as integers.
#[derive(Debug, Clone, Copy)]
enum Sum {
    Whole(i64),
    Float(f64),
}

impl Sum {
    fn plus(self, other: Self) -> Result<Self> {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => one.checked_add(other).map(Self::Whole).ok_or_else(overflow),
            (one, other) => Ok(Self::Float(one.float() + other.float())),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "only mixed sums, which are floats anyway")]
    fn float(self) -> f64 {
        match self {
            Self::Whole(n) => n as f64,
            Self::Float(x) => x,
        }
    }
}

impl Sums {
    fn add(&mut self, values: &ArrayRef, weights: Option<&ArrayRef>) -> Result<()> {
        let rows = self.rows.convert_columns(&[Arc::clone(values)])?;
        for (i, row) in rows.iter().enumerate() {
            let weight = match weights {
                None => Some(Sum::Whole(1)),
                Some(weights) => match ScalarValue::try_from_array(weights, i)? {
                    ScalarValue::Int64(n) => n.map(Sum::Whole),
                    ScalarValue::Float64(x) => x.map(Sum::Float),
                    _ => None,
                },
            };
            // A weight of NULL counts nothing.
            let Some(weight) = weight else { continue };
            match self.sums.get_mut(row.as_ref()) {
                Some(sum) => *sum = sum.plus(weight)?,
                None => {
                    self.bytes += row.as_ref().len() + 64;
                    self.sums.insert(row.as_ref().into(), weight);
                }
            }
        }
        Ok(())
    }

    /// The first values, or all of them, as one list of structs.
    fn list(&self, most: usize) -> Result<ScalarValue> {
        let mut entries: Vec<(&[u8], Sum)> = self.sums.iter().map(|(row, sum)| (row.as_ref(), *sum)).collect();
        // Equal sums in the order of their values, so that an answer is always the same.
        entries.sort_by(|(a, one), (b, other)| other.float().total_cmp(&one.float()).then(a.cmp(b)));
        entries.truncate(most);
        let parser = self.rows.parser();
        let values = self.rows.convert_rows(entries.iter().map(|(row, _)| parser.parse(row)))?;
        let [values] = values.as_slice() else { return Err(arity()) };
        let weights = ScalarValue::iter_to_array(
            entries
                .iter()
                .map(|(_, sum)| match (&self.weight, sum) {
                    (DataType::Float64, sum) => ScalarValue::Float64(Some(sum.float())),
                    (_, Sum::Whole(n)) => ScalarValue::Int64(Some(*n)),
                    (_, Sum::Float(x)) => ScalarValue::Float64(Some(*x)),
                })
                .chain(
                    entries.is_empty().then(|| ScalarValue::try_from(&self.weight).unwrap_or(ScalarValue::Int64(None))),
                ),
        )?;
        let weights = weights.slice(0, entries.len());
        let fields = fields(self.value.clone(), self.weight.clone(), self.weighted);
        let structs = StructArray::try_new(fields.clone(), vec![Arc::clone(values), weights], None)?;
        let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
        let offsets = OffsetBuffer::from_lengths([structs.len()]);
        Ok(ScalarValue::List(Arc::new(ListArray::try_new(item, offsets, Arc::new(structs), None)?)))
    }
}

impl Accumulator for Sums {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values, weights @ ..] = values else { return Err(arity()) };
        self.add(values, weights.first())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first().and_then(|state| state.as_list_opt::<i32>()) else { return Err(arity()) };
        for entries in lists.iter().flatten() {
            if let Some(entries) = entries.as_struct_opt()
                && let [values, weights] = entries.columns()
            {
                self.add(values, Some(weights))?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.list(usize::MAX)?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.sums.is_empty() {
            return ScalarValue::try_new_null(&list_of(DataType::Struct(fields(
                self.value.clone(),
                self.weight.clone(),
                self.weighted,
            ))));
        }
        self.list(self.number)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }
}
