//! The frame of kernels that compute one row at a time, and the bounds on what they make.
//!
//! The engine does not count what functions allocate. So a kernel that makes text, bytes or arrays writes into an
//! [`Out`], which stops with `Code::LimitExceeded` *before* a value or a batch of values grows too large. For the same
//! reason a constant argument is never repeated for the rows of a batch.

mod arguments;
mod distinct;
mod numbers;
mod out;
mod rank;

use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BooleanArray, Float64Array, Int64Array, IntervalMonthDayNanoArray,
    ListArray, StringViewBuilder,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
pub(crate) use tidegate_model::MOMENTS;

use crate::arrays::arity;
use crate::context::{count_copied, count_made, failed, value_error};
use arguments::Column;
pub(crate) use arguments::Row;
use distinct::Distinct;
pub use distinct::DistinctTexts;
pub use numbers::RowNumbers;
use out::ELEMENT;
pub(crate) use out::{Item, Items, MAX_BATCH, MAX_SERIES, MAX_VALUE, Out, RowError, RowResult, check_batch, limit};

/// The stop sign is checked after so many rows.
const ROWS_BETWEEN_CHECKS: usize = 64;

/// How a kernel computes a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Body {
    Text(fn(&Row, &mut Out) -> RowResult<()>),
    Bytes(fn(&Row, &mut Out) -> RowResult<()>),
    Bool(fn(&Row) -> RowResult<bool>),
    Int(fn(&Row) -> RowResult<i64>),
    Float(fn(&Row) -> RowResult<f64>),
    Timestamp(fn(&Row) -> RowResult<i64>),
    Date(fn(&Row) -> RowResult<i64>),
    Time(fn(&Row) -> RowResult<i64>),
    /// Months, days, nanoseconds.
    Interval(fn(&Row) -> RowResult<(i64, i64, i64)>),
    Texts(fn(&Row, &mut Items<'_>) -> RowResult<()>),
    Ints(fn(&Row, &mut Items<'_>) -> RowResult<()>),
    Floats(fn(&Row, &mut Items<'_>) -> RowResult<()>),
    Timestamps(fn(&Row, &mut Items<'_>) -> RowResult<()>),
    ByteStrings(fn(&Row, &mut Items<'_>) -> RowResult<()>),
    /// A range of the elements of the first argument.
    Chosen(fn(&Row, len: usize) -> RowResult<std::ops::Range<usize>>),
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// The days since 1970 of the years 1 to 9999.
const DAYS: RangeInclusive<i64> = -719_162..=2_932_896;
pub(crate) const TOO_FAR: &str = "a TIMESTAMP or DATETIME is too far away; its years are 1 to 9999";
const TOO_FAR_DAY: &str = "a DATE is too far away; its years are 1 to 9999";

fn within(value: Option<i64>, range: RangeInclusive<i64>, message: &str) -> RowResult<i64> {
    match value {
        Some(value) if !range.contains(&value) => Err(message.into()),
        value => Ok(value),
    }
}

impl Body {
    pub(crate) fn returns(self, arguments: &[DataType]) -> DataType {
        match self {
            Self::Text(_) => DataType::Utf8View,
            Self::Bytes(_) => DataType::Binary,
            Self::Bool(_) => DataType::Boolean,
            Self::Int(_) => DataType::Int64,
            Self::Float(_) => DataType::Float64,
            Self::Timestamp(_) => TIMESTAMP,
            Self::Date(_) => DataType::Date32,
            Self::Time(_) => DataType::Time64(TimeUnit::Microsecond),
            Self::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::Texts(_) => list_of(DataType::Utf8View),
            Self::Ints(_) => list_of(DataType::Int64),
            Self::Floats(_) => list_of(DataType::Float64),
            Self::Timestamps(_) => list_of(TIMESTAMP),
            Self::ByteStrings(_) => list_of(DataType::Binary),
            Self::Chosen(_) => match arguments.first() {
                Some(DataType::LargeList(item) | DataType::FixedSizeList(item, _)) => DataType::List(item.clone()),
                Some(other) => other.clone(),
                None => DataType::Null,
            },
        }
    }

    /// Whether the result is an array, of which a constant has a copy in each row.
    pub(crate) fn makes_arrays(self) -> bool {
        matches!(self, Self::Texts(_) | Self::Ints(_) | Self::Floats(_) | Self::Timestamps(_) | Self::ByteStrings(_))
    }

    /// Whether a result is repeated without copying what it is made of: texts are not copied, and other values are small.
    fn makes_views(self) -> bool {
        !self.makes_arrays() && !matches!(self, Self::Bytes(_) | Self::Chosen(_))
    }

    /// Whether a constant result may be long.
    pub(crate) fn makes_much(self) -> bool {
        self.makes_arrays() || matches!(self, Self::Text(_) | Self::Bytes(_))
    }
}

/// Computes a batch. The second result tells that all arguments were constant: the array has then one row, which is the
/// result for all rows.
pub(crate) fn compute(
    body: Body,
    nulls: bool,
    safe: bool,
    arguments: &[ColumnarValue],
    rows: usize,
) -> Result<(ArrayRef, bool)> {
    let distinct = if body.makes_views() { Distinct::of(arguments) } else { None };
    let Some(distinct) = distinct else { return compute_rows(body, nulls, safe, arguments, rows) };
    let (results, _) = compute_rows(body, nulls, safe, &distinct.arguments, distinct.texts.texts.len())?;
    let results = distinct.texts.repeated(&results)?;
    if let Some(texts) = results.as_string_view_opt() {
        // As if each row had made its text: whoever copies the rows copies that much.
        check_batch(texts.lengths().map(|length| length as usize).fold(0, usize::saturating_add))?;
    }
    count_copied(&results)?;
    Ok((results, false))
}

/// Computes each row of a batch.
fn compute_rows(
    body: Body,
    nulls: bool,
    safe: bool,
    arguments: &[ColumnarValue],
    rows: usize,
) -> Result<(ArrayRef, bool)> {
    let constant = arguments.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
    let columns = arguments
        .iter()
        .map(|argument| match argument {
            ColumnarValue::Array(array) => Ok((Column::of(array)?, false)),
            ColumnarValue::Scalar(scalar) => Ok((Column::of(&scalar.to_array_of_size(1)?)?, true)),
        })
        .collect::<Result<Vec<_>>>()?;
    let mut out = Out::new(if constant && body.makes_arrays() { rows } else { 1 });
    let mut row = Row { columns, row: 0, work: Cell::new(0), memo: RefCell::default(), held: RefCell::default() };
    let rows = if constant { 1 } else { rows };
    let batch = Batch { rows, nulls, safe };
    let array: ArrayRef = match body {
        Body::Text(f) => {
            let mut builder = StringViewBuilder::with_capacity(rows);
            batch.written(&mut row, &mut out, f, |text| match text.map(std::str::from_utf8) {
                None => builder.append_null(),
                Some(Ok(text)) => builder.append_value(text),
                Some(Err(_)) => builder.append_null(),
            })?;
            Arc::new(builder.finish())
        }
        Body::Bytes(f) => {
            let mut builder = BinaryBuilder::new();
            batch.written(&mut row, &mut out, f, |bytes| builder.append_option(bytes))?;
            Arc::new(builder.finish())
        }
        Body::Bool(f) => Arc::new(BooleanArray::from(batch.values(&mut row, f)?)),
        Body::Float(f) => Arc::new(Float64Array::from(batch.values(&mut row, f)?)),
        Body::Int(f) => Arc::new(Int64Array::from(batch.values(&mut row, f)?)),
        Body::Time(f) => {
            let values: ArrayRef = Arc::new(Int64Array::from(batch.values(&mut row, f)?));
            cast(&values, &body.returns(&[]))?
        }
        Body::Timestamp(f) => {
            let values = batch.values(&mut row, |row| within(f(row)?, MOMENTS, TOO_FAR))?;
            let values: ArrayRef = Arc::new(Int64Array::from(values));
            cast(&values, &body.returns(&[]))?
        }
        Body::Date(f) => {
            let values = batch.values(&mut row, |row| within(f(row)?, DAYS, TOO_FAR_DAY))?;
            let values: ArrayRef = Arc::new(Int64Array::from(values));
            cast(&cast(&values, &DataType::Int32)?, &DataType::Date32)?
        }
        Body::Interval(f) => {
            let values = batch.values(&mut row, |row: &Row| {
                let Some((months, days, nanos)) = f(row)? else { return Ok(None) };
                let small = |n: i64| i32::try_from(n).map_err(|_| RowError::from("the INTERVAL is too large"));
                Ok(Some(IntervalMonthDayNanoType::make_value(small(months)?, small(days)?, nanos)))
            })?;
            Arc::new(IntervalMonthDayNanoArray::from(values))
        }
        Body::Texts(f) | Body::Ints(f) | Body::Floats(f) | Body::Timestamps(f) | Body::ByteStrings(f) => {
            let (offsets, valid, items) = batch.lists(&mut row, &mut out, f)?;
            let DataType::List(item) = body.returns(&[]) else { return Err(arity()) };
            let values = cast(&elements(&items, body), item.data_type())?;
            Arc::new(ListArray::try_new(item, offsets, values, Some(valid))?)
        }
        Body::Chosen(f) => {
            let chosen = batch.chosen(&mut row, f)?;
            count_copied(&chosen)?;
            return Ok((chosen, constant));
        }
    };
    count_made(&array)?;
    Ok((array, constant))
}

fn elements(items: &[Item], body: Body) -> ArrayRef {
    match body {
        Body::Texts(_) => {
            let mut builder = StringViewBuilder::with_capacity(items.len());
            for item in items {
                builder.append_option(if let Item::Text(text) = item { Some(text) } else { None });
            }
            Arc::new(builder.finish())
        }
        Body::ByteStrings(_) => {
            let mut builder = BinaryBuilder::new();
            for item in items {
                builder.append_option(if let Item::Bytes(bytes) = item { Some(bytes) } else { None });
            }
            Arc::new(builder.finish())
        }
        Body::Floats(_) => Arc::new(Float64Array::from_iter(
            items.iter().map(|item| if let Item::Float(value) = item { Some(*value) } else { None }),
        )),
        _ => Arc::new(Int64Array::from_iter(
            items.iter().map(|item| if let Item::Int(value) = item { Some(*value) } else { None }),
        )),
    }
}

/// How the rows of a batch are computed.
#[derive(Clone, Copy)]
struct Batch {
    rows: usize,
    /// Whether the kernel sees NULLs; otherwise a NULL argument makes a NULL.
    nulls: bool,
    safe: bool,
}

impl Batch {
    fn value<T>(self, row: &Row, make: impl FnOnce(&Row) -> RowResult<T>) -> Result<Option<T>> {
        if row.row.is_multiple_of(ROWS_BETWEEN_CHECKS) {
            crate::context::check()?;
        }
        row.held.borrow_mut().clear();
        if !self.nulls && !row.complete() {
            return Ok(None);
        }
        match make(row) {
            Ok(value) => Ok(value),
            Err(RowError::Value(_)) if self.safe => Ok(None),
            Err(RowError::Value(message)) => Err(value_error(message)),
            Err(RowError::Limit(message)) => Err(limit(message)),
            Err(RowError::Failure(failure)) => Err(failed(*failure)),
        }
    }

    fn values<T>(self, row: &mut Row, make: impl Fn(&Row) -> RowResult<T>) -> Result<Vec<Option<T>>> {
        let mut values = Vec::with_capacity(self.rows);
        for i in 0..self.rows {
            row.row = i;
            values.push(self.value(row, &make)?);
        }
        Ok(values)
    }

    fn written(
        self,
        row: &mut Row,
        out: &mut Out,
        make: fn(&Row, &mut Out) -> RowResult<()>,
        mut keep: impl FnMut(Option<&[u8]>),
    ) -> Result<()> {
        for i in 0..self.rows {
            row.row = i;
            out.row.clear();
            match self.value(row, |row| make(row, out))? {
                Some(()) => keep(Some(out.take())),
                None => keep(None),
            }
        }
        Ok(())
    }

    fn lists(
        self,
        row: &mut Row,
        out: &mut Out,
        make: fn(&Row, &mut Items<'_>) -> RowResult<()>,
    ) -> Result<(OffsetBuffer<i32>, NullBuffer, Vec<Item>)> {
        let (mut lengths, mut valid, mut items) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..self.rows {
            row.row = i;
            let before = items.len();
            let room = out.most_row;
            let made = self.value(row, |row| make(row, &mut Items { out, items: &mut items, room }))?;
            if made.is_none() {
                items.truncate(before);
            }
            valid.push(made.is_some());
            lengths.push(items.len() - before);
        }
        Ok((OffsetBuffer::from_lengths(lengths), NullBuffer::from(valid), items))
    }

    fn chosen(self, row: &mut Row, choose: fn(&Row, usize) -> RowResult<std::ops::Range<usize>>) -> Result<ArrayRef> {
        use datafusion::arrow::array::UInt64Array;
        let (mut taken, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..self.rows {
            row.row = i;
            let (start, len) = match row.column(0) {
                (Column::List(list, _), at) => {
                    let bound = |i: usize| list.value_offsets().get(i).and_then(|n| usize::try_from(*n).ok());
                    let start = bound(at).unwrap_or_default();
                    (start, bound(at + 1).unwrap_or_default().saturating_sub(start))
                }
                _ => (0, 0),
            };
            let range = self.value(row, |row| choose(row, len))?;
            valid.push(range.is_some());
            let range = range.unwrap_or_default();
            lengths.push(range.len());
            if taken.len().saturating_add(range.len()) > MAX_BATCH / ELEMENT {
                return Err(limit("a function would make too many elements; make shorter arrays"));
            }
            taken.extend(range.map(|n| u64::try_from(start + n).unwrap_or_default()));
        }
        let (Column::List(list, _), _) = row.column(0) else { return Err(arity()) };
        let DataType::List(item) = list.data_type() else { return Err(arity()) };
        let values = datafusion::arrow::compute::take(list.values(), &UInt64Array::from(taken), None)?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(ListArray::try_new(item.clone(), offsets, values, Some(NullBuffer::from(valid)))?))
    }
}
