//! Kernels that compute one row at a time, and the bounds on what they make.
//!
//! The engine does not count what functions allocate, so whatever makes text, bytes or arrays
//! writes into an [`Out`], which stops with [`Code::LimitExceeded`] *before* a value or a batch
//! of values grows too large. A constant argument is never spread over the rows of a batch, for
//! the same reason.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanArray, Float64Array, Int64Array,
    IntervalMonthDayNanoArray, ListArray, StringViewArray, StringViewBuilder,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;
use regex::Regex;
use tidegate_model::{Code, Failure};

use crate::fail::value_error;

/// The most bytes of one text, or of one array.
pub(super) const MAX_VALUE: usize = 16 << 20;
/// The most bytes that one call makes for a batch of rows.
pub(super) const MAX_BATCH: usize = 64 << 20;
/// What an element of an array counts for, beside its text.
const ELEMENT: usize = 16;
/// The most steps that one call takes for a batch, where steps are not bounded by what is made.
const MAX_WORK: u64 = 1 << 28;

thread_local! {
    /// While a statement is resolved, less: a folded value stays in the plan.
    static LIMIT: Cell<usize> = const { Cell::new(MAX_VALUE) };
}

/// Runs `fold` with a low bound on what kernels make: many small folds must not add up.
pub(crate) fn while_folding<T>(fold: impl FnOnce() -> T) -> T {
    const MAX_FOLDED: usize = 4 << 10;
    let before = LIMIT.replace(MAX_FOLDED);
    let result = fold();
    LIMIT.set(before);
    result
}

/// Why a row has no value.
#[derive(Debug)]
pub(super) enum Bad {
    /// The arguments have no result: an error, or NULL where safe.
    Value(String),
    /// A limit: always an error.
    Limit(String),
}

impl From<String> for Bad {
    fn from(message: String) -> Self {
        Self::Value(message)
    }
}

impl From<&str> for Bad {
    fn from(message: &str) -> Self {
        Self::Value(message.to_owned())
    }
}

impl From<std::fmt::Error> for Bad {
    fn from(_: std::fmt::Error) -> Self {
        too_long()
    }
}

/// A row's result: a value, NULL, or why there is none.
pub(super) type Made<T> = std::result::Result<Option<T>, Bad>;

fn too_long() -> Bad {
    Bad::Limit(format!(
        "a function would make too much: a text or array has at most {} MiB, those of a batch of rows at most {} MiB together; make shorter ones, or fewer",
        MAX_VALUE >> 20,
        MAX_BATCH >> 20
    ))
}

/// Stops what would take too much for a batch of rows.
pub(super) fn check_batch(bytes: usize) -> Result<()> {
    match too_long() {
        Bad::Limit(message) if bytes > MAX_BATCH => Err(limit(message)),
        _ => Ok(()),
    }
}

pub(super) fn limit(message: impl Into<String>) -> DataFusionError {
    DataFusionError::External(Box::new(Failure::new(Code::LimitExceeded, message)))
}

/// Where a row's text, bytes or elements are written.
#[derive(Debug)]
pub(super) struct Out {
    row: Vec<u8>,
    /// What the rows before made, and how much all may make.
    made: usize,
    most: usize,
    most_row: usize,
}

impl Out {
    fn new(rows: usize) -> Self {
        let most_row = LIMIT.get();
        // What is made for one row stands for all of `rows`, where the call is constant.
        Self { row: Vec::new(), made: 0, most: MAX_BATCH / rows.max(1), most_row }
    }

    /// Makes sure of room for `more` bytes, so that they can be made at once.
    pub(super) fn room(&mut self, more: usize) -> std::result::Result<(), Bad> {
        let row = self.row.len().saturating_add(more);
        if row > self.most_row || self.made.saturating_add(row) > self.most {
            return Err(too_long());
        }
        Ok(())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> std::result::Result<(), Bad> {
        self.room(bytes.len())?;
        self.row.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn text(&mut self, text: &str) -> std::result::Result<(), Bad> {
        self.bytes(text.as_bytes())
    }

    /// A text so many times.
    pub(super) fn repeated(&mut self, text: &str, times: usize) -> std::result::Result<(), Bad> {
        self.room(text.len().saturating_mul(times))?;
        self.row.extend_from_slice(text.repeat(times).as_bytes());
        Ok(())
    }

    pub(super) fn char(&mut self, c: char) -> std::result::Result<(), Bad> {
        self.text(c.encode_utf8(&mut [0; 4]))
    }

    /// Writes JSON.
    pub(super) fn json(&mut self, value: &serde_json::Value, pretty: bool) -> std::result::Result<(), Bad> {
        let written = if pretty {
            serde_json::to_writer_pretty(&mut *self, value)
        } else {
            serde_json::to_writer(&mut *self, value)
        };
        // Writing fails for lack of room alone.
        written.map_err(|_| too_long())
    }

    pub(super) fn len(&self) -> usize {
        self.row.len()
    }

    /// What the row has so far.
    pub(super) fn so_far(&self) -> &[u8] {
        &self.row
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.row.truncate(len);
    }

    fn take(&mut self) -> &[u8] {
        self.made = self.made.saturating_add(self.row.len());
        &self.row
    }

    /// Counts an element of an array.
    fn element(&mut self, size: usize) -> std::result::Result<(), Bad> {
        let size = size.saturating_add(ELEMENT);
        self.room(size)?;
        self.made += size;
        Ok(())
    }
}

impl std::fmt::Write for Out {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.text(text).map_err(|_| std::fmt::Error)
    }
}

impl std::io::Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes(bytes).map_err(|_| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One argument of a call.
#[derive(Debug)]
enum Column {
    Null,
    Text(StringViewArray),
    Int(Int64Array),
    Float(Float64Array),
    Bool(BooleanArray),
    Bytes(BinaryArray),
    Interval(IntervalMonthDayNanoArray),
    List(ListArray, Box<Column>),
}

impl Column {
    fn of(array: &ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Self::Text(cast(array, &DataType::Utf8View)?.as_string_view().clone())
            }
            DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Decimal128(..) => {
                Self::Float(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
            }
            DataType::Timestamp(..) => {
                let micros = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
                Self::Int(cast(&micros, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            DataType::Time32(_) | DataType::Time64(_) => {
                let micros = cast(array, &DataType::Time64(TimeUnit::Microsecond))?;
                Self::Int(cast(&micros, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            DataType::Date32 | DataType::Date64 => {
                let days = cast(&cast(array, &DataType::Date32)?, &DataType::Int32)?;
                Self::Int(cast(&days, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            DataType::Boolean => Self::Bool(array.as_boolean().clone()),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                Self::Bytes(cast(array, &DataType::Binary)?.as_binary().clone())
            }
            DataType::Interval(_) => {
                let to = DataType::Interval(IntervalUnit::MonthDayNano);
                Self::Interval(cast(array, &to)?.as_primitive::<IntervalMonthDayNanoType>().clone())
            }
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                let item = match array.data_type() {
                    DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => item.clone(),
                    _ => return Err(super::kernels::arity()),
                };
                let list = cast(array, &DataType::List(item))?.as_list::<i32>().clone();
                let items = Self::of(list.values())?;
                Self::List(list, Box::new(items))
            }
            data_type if data_type.is_integer() => {
                Self::Int(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            _ => Self::Null,
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Null => true,
            Self::Text(array) => array.is_null(row),
            Self::Int(array) => array.is_null(row),
            Self::Float(array) => array.is_null(row),
            Self::Bool(array) => array.is_null(row),
            Self::Bytes(array) => array.is_null(row),
            Self::Interval(array) => array.is_null(row),
            Self::List(array, _) => array.is_null(row),
        }
    }
}

/// What was compiled for the row before, and probably serves this one.
#[derive(Debug, Default)]
struct Memo {
    regex: Option<(String, Arc<Regex>)>,
    /// By the number of the argument.
    others: Vec<(usize, String, Arc<dyn std::any::Any + Send + Sync>)>,
}

/// The arguments of one row.
#[derive(Debug)]
pub(super) struct Row {
    columns: Vec<(Column, bool)>,
    row: usize,
    work: Cell<u64>,
    memo: RefCell<Memo>,
}

impl Row {
    fn column(&self, i: usize) -> (&Column, usize) {
        match self.columns.get(i) {
            Some((column, constant)) => (column, if *constant { 0 } else { self.row }),
            None => (&Column::Null, 0),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.columns.len()
    }

    pub(super) fn has(&self, i: usize) -> bool {
        let (column, row) = self.column(i);
        !column.is_null(row)
    }

    fn complete(&self) -> bool {
        (0..self.columns.len()).all(|i| self.has(i))
    }

    /// The text of an argument; empty for NULL, which most kernels never meet.
    pub(super) fn text(&self, i: usize) -> &str {
        match self.column(i) {
            (Column::Text(array), row) if array.is_valid(row) => array.value(row),
            _ => "",
        }
    }

    pub(super) fn int(&self, i: usize) -> i64 {
        match self.column(i) {
            (Column::Int(array), row) if array.is_valid(row) => array.value(row),
            _ => 0,
        }
    }

    pub(super) fn float(&self, i: usize) -> f64 {
        match self.column(i) {
            (Column::Float(array), row) if array.is_valid(row) => array.value(row),
            _ => 0.0,
        }
    }

    pub(super) fn bool(&self, i: usize) -> bool {
        matches!(self.column(i), (Column::Bool(array), row) if array.is_valid(row) && array.value(row))
    }

    pub(super) fn bytes(&self, i: usize) -> &[u8] {
        match self.column(i) {
            (Column::Bytes(array), row) if array.is_valid(row) => array.value(row),
            (Column::Text(array), row) if array.is_valid(row) => array.value(row).as_bytes(),
            _ => &[],
        }
    }

    /// Months, days and nanoseconds.
    pub(super) fn interval(&self, i: usize) -> (i64, i64, i64) {
        match self.column(i) {
            (Column::Interval(array), row) if array.is_valid(row) => {
                let value = array.value(row);
                (i64::from(value.months), i64::from(value.days), value.nanoseconds)
            }
            _ => (0, 0, 0),
        }
    }

    /// The elements of an argument that is an array, each read by `read`; `None` for NULLs.
    fn items<'a, T>(&'a self, i: usize, read: impl Fn(&'a Column, usize) -> Option<T> + 'a) -> Vec<Option<T>> {
        let (Column::List(list, items), row) = self.column(i) else { return Vec::new() };
        let offsets = list.value_offsets();
        let (Some(start), Some(end)) = (offsets.get(row), offsets.get(row + 1)) else { return Vec::new() };
        let span = usize::try_from(*start).unwrap_or_default()..usize::try_from(*end).unwrap_or_default();
        span.map(|at| if items.is_null(at) { None } else { read(items, at) }).collect()
    }

    pub(super) fn texts(&self, i: usize) -> Vec<Option<&str>> {
        self.items(i, |items, at| match items {
            Column::Text(array) => Some(array.value(at)),
            _ => None,
        })
    }

    pub(super) fn ints(&self, i: usize) -> Vec<Option<i64>> {
        self.items(i, |items, at| match items {
            Column::Int(array) => Some(array.value(at)),
            _ => None,
        })
    }

    pub(super) fn floats(&self, i: usize) -> Vec<Option<f64>> {
        self.items(i, |items, at| match items {
            Column::Float(array) => Some(array.value(at)),
            _ => None,
        })
    }

    pub(super) fn is_float(&self, i: usize) -> bool {
        match self.column(i).0 {
            Column::Float(_) => true,
            Column::List(_, items) => matches!(**items, Column::Float(_)),
            _ => false,
        }
    }

    pub(super) fn is_text(&self, i: usize) -> bool {
        match self.column(i).0 {
            Column::Text(_) => true,
            Column::List(_, items) => matches!(**items, Column::Text(_)),
            _ => false,
        }
    }

    /// The regular expression of an argument.
    pub(super) fn regex(&self, i: usize) -> std::result::Result<Arc<Regex>, Bad> {
        let pattern = self.text(i);
        let mut memo = self.memo.borrow_mut();
        if let Some((known, regex)) = &memo.regex
            && known == pattern
        {
            return Ok(Arc::clone(regex));
        }
        let short: String = pattern.chars().take(60).collect();
        let regex = Regex::new(pattern).map_err(|_| format!("'{short}' is not a valid regular expression"))?;
        let regex = Arc::new(regex);
        memo.regex = Some((pattern.to_owned(), Arc::clone(&regex)));
        Ok(regex)
    }

    /// Something made of an argument's text, kept for the next row.
    pub(super) fn remember<T: Send + Sync + 'static>(
        &self,
        i: usize,
        make: impl FnOnce(&str) -> std::result::Result<T, Bad>,
    ) -> std::result::Result<Arc<T>, Bad> {
        let text = self.text(i);
        let mut memo = self.memo.borrow_mut();
        let known = memo.others.iter().find(|(of, known, _)| *of == i && known == text);
        if let Some((_, _, value)) = known
            && let Ok(value) = Arc::clone(value).downcast::<T>()
        {
            return Ok(value);
        }
        let value = Arc::new(make(text)?);
        memo.others.retain(|(of, ..)| *of != i);
        memo.others.push((i, text.to_owned(), Arc::clone(&value) as Arc<_>));
        Ok(value)
    }

    /// Counts steps of work that no output bounds.
    pub(super) fn work(&self, steps: u64) -> std::result::Result<(), Bad> {
        let sum = self.work.get().saturating_add(steps);
        self.work.set(sum);
        if sum > MAX_WORK {
            return Err(Bad::Limit("a function would take too long on texts of this length; shorten them".to_owned()));
        }
        Ok(())
    }
}

/// The element of a list that a kernel makes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Text(String),
    Int(i64),
    Float(f64),
    Null,
}

/// The elements of a row's array.
#[derive(Debug)]
pub(super) struct Items<'a> {
    out: &'a mut Out,
    items: &'a mut Vec<Item>,
    room: usize,
}

impl Items<'_> {
    pub(super) fn push(&mut self, item: Item) -> std::result::Result<(), Bad> {
        let size = match &item {
            Item::Text(text) => text.len(),
            _ => 0,
        };
        self.room = match self.room.checked_sub(size + ELEMENT) {
            Some(room) => room,
            None => return Err(too_long()),
        };
        self.out.element(size)?;
        self.items.push(item);
        Ok(())
    }

    pub(super) fn text(&mut self, text: &str) -> std::result::Result<(), Bad> {
        self.push(Item::Text(text.to_owned()))
    }
}

/// How a kernel computes a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    Text(fn(&Row, &mut Out) -> Made<()>),
    Bytes(fn(&Row, &mut Out) -> Made<()>),
    Bool(fn(&Row) -> Made<bool>),
    Int(fn(&Row) -> Made<i64>),
    Float(fn(&Row) -> Made<f64>),
    Timestamp(fn(&Row) -> Made<i64>),
    Date(fn(&Row) -> Made<i64>),
    Time(fn(&Row) -> Made<i64>),
    /// Months, days, nanoseconds.
    Interval(fn(&Row) -> Made<(i64, i64, i64)>),
    Texts(fn(&Row, &mut Items<'_>) -> Made<()>),
    Ints(fn(&Row, &mut Items<'_>) -> Made<()>),
    Floats(fn(&Row, &mut Items<'_>) -> Made<()>),
    Timestamps(fn(&Row, &mut Items<'_>) -> Made<()>),
    /// A choice of the elements of the first argument, by their positions.
    Chosen(fn(&Row, len: usize) -> Made<std::ops::Range<usize>>),
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

impl Body {
    pub(super) fn returns(self, arguments: &[DataType]) -> DataType {
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
            Self::Chosen(_) => match arguments.first() {
                Some(DataType::LargeList(item) | DataType::FixedSizeList(item, _)) => DataType::List(item.clone()),
                Some(other) => other.clone(),
                None => DataType::Null,
            },
        }
    }

    /// Whether a constant result is worth keeping out of the plan: arrays are copied a row.
    pub(super) fn makes_arrays(self) -> bool {
        matches!(self, Self::Texts(_) | Self::Ints(_) | Self::Floats(_) | Self::Timestamps(_))
    }
}

/// Computes a batch. The second result tells that all arguments were constant: it is one row,
/// which stands for all.
pub(super) fn compute(
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
    let mut row = Row { columns, row: 0, work: Cell::new(0), memo: RefCell::default() };
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
        Body::Timestamp(f) | Body::Time(f) => {
            let values: ArrayRef = Arc::new(Int64Array::from(batch.values(&mut row, f)?));
            cast(&values, &body.returns(&[]))?
        }
        Body::Date(f) => {
            let values: ArrayRef = Arc::new(Int64Array::from(batch.values(&mut row, f)?));
            cast(&cast(&values, &DataType::Int32)?, &DataType::Date32)?
        }
        Body::Interval(f) => {
            let values = batch.values(&mut row, |row: &Row| {
                let Some((months, days, nanos)) = f(row)? else { return Ok(None) };
                let small = |n: i64| i32::try_from(n).map_err(|_| Bad::from("the INTERVAL is too large"));
                Ok(Some(IntervalMonthDayNanoType::make_value(small(months)?, small(days)?, nanos)))
            })?;
            Arc::new(IntervalMonthDayNanoArray::from(values))
        }
        Body::Texts(f) | Body::Ints(f) | Body::Floats(f) | Body::Timestamps(f) => {
            let (offsets, valid, items) = batch.lists(&mut row, &mut out, f)?;
            let DataType::List(item) = body.returns(&[]) else { return Err(super::kernels::arity()) };
            let values = cast(&elements(&items, body), item.data_type())?;
            Arc::new(ListArray::try_new(item, offsets, values, Some(valid))?)
        }
        Body::Chosen(f) => batch.chosen(&mut row, f)?,
    };
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
    fn value<T>(self, row: &Row, make: impl FnOnce(&Row) -> Made<T>) -> Result<Option<T>> {
        if !self.nulls && !row.complete() {
            return Ok(None);
        }
        match make(row) {
            Ok(value) => Ok(value),
            Err(Bad::Value(_)) if self.safe => Ok(None),
            Err(Bad::Value(message)) => Err(value_error(message)),
            Err(Bad::Limit(message)) => Err(limit(message)),
        }
    }

    fn values<T>(self, row: &mut Row, make: impl Fn(&Row) -> Made<T>) -> Result<Vec<Option<T>>> {
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
        make: fn(&Row, &mut Out) -> Made<()>,
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
        make: fn(&Row, &mut Items<'_>) -> Made<()>,
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

    fn chosen(self, row: &mut Row, choose: fn(&Row, usize) -> Made<std::ops::Range<usize>>) -> Result<ArrayRef> {
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
        let (Column::List(list, _), _) = row.column(0) else { return Err(super::kernels::arity()) };
        let DataType::List(item) = list.data_type() else { return Err(super::kernels::arity()) };
        let values = datafusion::arrow::compute::take(list.values(), &UInt64Array::from(taken), None)?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(ListArray::try_new(item.clone(), offsets, values, Some(NullBuffer::from(valid)))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_bounded_before_it_is_made() {
        let mut out = Out::new(1);
        assert!(out.room(MAX_VALUE).is_ok());
        assert!(matches!(out.room(MAX_VALUE + 1), Err(Bad::Limit(_))));
        assert!(out.room(usize::MAX).is_err());
        for _ in 0..MAX_BATCH / MAX_VALUE {
            out.row.clear();
            assert!(out.room(MAX_VALUE).is_ok());
            out.made += MAX_VALUE;
        }
        assert!(out.text("x").is_err());
        assert!(while_folding(|| Out::new(1).room(5_000)).is_err());
    }
}
