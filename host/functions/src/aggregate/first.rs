//! ARRAY_AGG with a LIMIT: the first values in an order.
//!
//! `ARRAY_AGG(record ORDER BY timestamp DESC LIMIT 1)` needs one record, and the engine's ARRAY_AGG would hold all of
//! them. This one holds as many as the limit, copied out of their batches, so that the batches can be freed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray, UInt32Array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortOptions, filter, is_not_null, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use crate::arrays::{arity, list_of};
use crate::context::Transient;
use crate::row_form::row_forms;

/// The aggregate of the first `number` values. Its arguments are the value and a key for each of `order`. Without keys
/// any values are taken.
pub fn first(number: usize, order: Vec<SortOptions>, ignore_nulls: bool) -> Arc<AggregateUDF> {
    let signature = Signature::any(1 + order.len(), Volatility::Immutable);
    Arc::new(AggregateUDF::from(First { number, order, ignore_nulls, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct First {
    number: usize,
    order: Vec<SortOptions>,
    ignore_nulls: bool,
    signature: Signature,
}

impl First {
    /// The arguments of [`first`] that it was made with.
    pub(crate) fn parameters(&self) -> (usize, &[SortOptions], bool) {
        (self.number, &self.order, self.ignore_nulls)
    }
}

impl AggregateUDFImpl for First {
    fn name(&self) -> &'static str {
        "first"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let value = arguments.first().ok_or_else(arity)?;
        Ok(list_of(value.clone()))
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let [value, keys @ ..] = arguments.expr_fields else { return Err(arity()) };
        let value = value.data_type().clone();
        let options = self.order.iter().copied();
        let keys =
            keys.iter().zip(options).map(|(key, order)| SortField::new_with_options(key.data_type().clone(), order));
        Ok(Box::new(Held {
            number: self.number,
            ignore_nulls: self.ignore_nulls,
            values: RowConverter::new(vec![SortField::new(value.clone())])?,
            value,
            keys: RowConverter::new(keys.collect())?,
            held: BinaryHeap::new(),
            seen: 0,
            bytes: 0,
        }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let types = arguments.input_fields.iter().map(|field| field.data_type().clone());
        let rows = list_of(DataType::Struct(columns(types)));
        Ok(vec![Arc::new(Field::new(format!("{}[first]", arguments.name), rows, true))])
    }
}

/// A value and its keys, as the fields of a record.
fn columns(types: impl Iterator<Item = DataType>) -> Fields {
    types.enumerate().map(|(i, ty)| Field::new(format!("c{i}"), ty, true)).collect()
}

/// A list of one row.
fn list(items: ArrayRef) -> ScalarValue {
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    ScalarValue::List(Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([items.len()]), items, None)))
}

/// The first values of one group so far.
#[derive(Debug)]
struct Held {
    number: usize,
    ignore_nulls: bool,
    value: DataType,
    values: RowConverter,
    keys: RowConverter,
    /// A heap with the last of them on top.
    held: BinaryHeap<One>,
    seen: u64,
    bytes: usize,
}

/// A value in its row form, and its position in the order.
#[derive(Debug, PartialEq, Eq)]
struct One {
    key: Box<[u8]>,
    /// The number of the row: equal keys stay in the order of their rows.
    came: u64,
    value: Box<[u8]>,
}

impl One {
    fn size(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.value.len()
    }
}

impl Ord for One {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then(self.came.cmp(&other.came))
    }
}

impl PartialOrd for One {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Held {
    fn add(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        let [value, keys @ ..] = arguments else { return Err(arity()) };
        if self.ignore_nulls && value.null_count() > 0 {
            let there = is_not_null(value)?;
            let arguments =
                arguments.iter().map(|column| filter(column, &there)).collect::<std::result::Result<Vec<_>, _>>()?;
            let [value, keys @ ..] = arguments.as_slice() else { return Err(arity()) };
            return self.add_rows(value, keys);
        }
        self.add_rows(value, keys)
    }

    fn add_rows(&mut self, value: &ArrayRef, keys: &[ArrayRef]) -> Result<()> {
        if keys.is_empty() {
            let wanted = value.len().min(self.number.saturating_sub(self.held.len()));
            let rows = (0..wanted).map(|row| (Box::default(), row));
            return self.keep(value, rows.collect());
        }
        let mut forms = Transient::default();
        let rows = row_forms(&self.keys, keys, &mut forms)?;
        let last = self.held.peek().filter(|_| self.held.len() >= self.number).map(|last| last.key.clone());
        let mut best: Vec<(Box<[u8]>, usize)> = Vec::new();
        let fits = |key: &[u8]| last.as_ref().is_none_or(|last| key < last.as_ref());
        for (row, key) in rows.iter().enumerate() {
            if fits(key.as_ref()) {
                best.push((key.as_ref().into(), row));
            }
            // No more than `number` rows of one batch are needed.
            if best.len() >= self.number.saturating_mul(2).max(64) {
                best.sort_unstable();
                best.truncate(self.number);
            }
        }
        best.sort_unstable();
        best.truncate(self.number);
        self.keep(value, best)
    }

    /// Adds rows, and drops the last ones beyond `number`.
    fn keep(&mut self, value: &ArrayRef, rows: Vec<(Box<[u8]>, usize)>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let places: UInt32Array = rows.iter().map(|(_, row)| u32::try_from(*row).ok()).collect();
        let mut forms = Transient::default();
        let values = row_forms(&self.values, &[take(value, &places, None)?], &mut forms)?;
        for ((key, _), value) in rows.into_iter().zip(values.iter()) {
            self.seen += 1;
            let one = One { key, came: self.seen, value: value.as_ref().into() };
            self.bytes += one.size();
            self.held.push(one);
            if self.held.len() > self.number
                && let Some(last) = self.held.pop()
            {
                self.bytes = self.bytes.saturating_sub(last.size());
            }
        }
        Ok(())
    }

    fn sorted(&self) -> Vec<&One> {
        let mut sorted: Vec<&One> = self.held.iter().collect();
        sorted.sort_unstable();
        sorted
    }

    fn values_of(&self, sorted: &[&One]) -> Result<ArrayRef> {
        let parser = self.values.parser();
        let values = self.values.convert_rows(sorted.iter().map(|one| parser.parse(&one.value)))?;
        values.into_iter().next().ok_or_else(arity)
    }
}

impl Accumulator for Held {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states.first().and_then(|state| state.as_list_opt::<i32>()).ok_or_else(arity)?;
        for rows in lists.iter().flatten() {
            self.add(rows.as_struct_opt().ok_or_else(arity)?.columns())?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sorted = self.sorted();
        let mut parts = vec![self.values_of(&sorted)?];
        let parser = self.keys.parser();
        parts.extend(self.keys.convert_rows(sorted.iter().map(|one| parser.parse(&one.key)))?);
        let fields = columns(parts.iter().map(|part| part.data_type().clone()));
        Ok(vec![list(Arc::new(StructArray::try_new(fields, parts, None)?))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.held.is_empty() {
            return ScalarValue::try_from(&list_of(self.value.clone()));
        }
        Ok(list(self.values_of(&self.sorted())?))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes + self.values.size() + self.keys.size()
    }
}
