//! The arguments of one row, as a kernel reads them.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, Range};
use std::rc::Rc;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, Int64Array, IntervalMonthDayNanoArray,
    ListArray, StringViewArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::error::Result;

use super::out::RowError;
use crate::arrays::arity;
use crate::context::{self, Compiled, Transient, compiled, planning};
use crate::wording;

/// The most steps of work of one call for a batch, where the size of the result does not bound the work.
const MAX_WORK: u64 = 1 << 28;
/// The same while a statement is planned: what is not folded is computed when it runs.
const MAX_FOLDED_WORK: u64 = 1 << 16;

/// One argument of a call.
#[derive(Debug)]
pub(super) enum Column {
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
    pub(super) fn of(array: &ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Self::Text(cast(array, &DataType::Utf8View)?.as_string_view().clone())
            }
            // As FLOAT64 it would be another number: kernels take a decimal as such, or its text.
            DataType::Decimal128(..) | DataType::Decimal256(..) => return Err(arity()),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => {
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
                    _ => return Err(arity()),
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

    pub(super) fn is_null(&self, row: usize) -> bool {
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

/// A regular expression that is handed out for each row, counted without atomic operations: the threads of a statement share
/// the program.
#[derive(Debug)]
pub(crate) struct Pattern(Arc<Compiled>);

impl Deref for Pattern {
    type Target = Compiled;

    fn deref(&self) -> &Compiled {
        &self.0
    }
}

/// What was compiled for the row before: the next row mostly has the same pattern or format.
#[derive(Debug, Default)]
pub(super) struct Memo {
    regex: Option<(String, Rc<Pattern>)>,
    /// The number of the argument, its text, and what was made of it.
    others: Vec<(usize, String, Arc<dyn std::any::Any + Send + Sync>)>,
    /// The elements of an array that was found to be sorted.
    pub(super) sorted: Option<Range<usize>>,
}

/// The arguments of one row.
#[derive(Debug)]
pub(crate) struct Row {
    pub(super) columns: Vec<(Column, bool)>,
    pub(super) row: usize,
    pub(super) work: Cell<u64>,
    /// Memory that the kernel holds for this row.
    pub(super) held: RefCell<Transient>,
    pub(super) memo: RefCell<Memo>,
}

impl Row {
    pub(super) fn column(&self, i: usize) -> (&Column, usize) {
        match self.columns.get(i) {
            Some((column, constant)) => (column, if *constant { 0 } else { self.row }),
            None => (&Column::Null, 0),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn has(&self, i: usize) -> bool {
        let (column, row) = self.column(i);
        !column.is_null(row)
    }

    pub(super) fn complete(&self) -> bool {
        (0..self.columns.len()).all(|i| self.has(i))
    }

    /// The text of an argument; empty for NULL, which most kernels never get.
    pub(crate) fn text(&self, i: usize) -> &str {
        match self.column(i) {
            (Column::Text(array), row) if array.is_valid(row) => array.value(row),
            _ => "",
        }
    }

    pub(crate) fn int(&self, i: usize) -> i64 {
        match self.column(i) {
            (Column::Int(array), row) if array.is_valid(row) => array.value(row),
            _ => 0,
        }
    }

    pub(crate) fn float(&self, i: usize) -> f64 {
        match self.column(i) {
            (Column::Float(array), row) if array.is_valid(row) => array.value(row),
            _ => 0.0,
        }
    }

    pub(crate) fn bool(&self, i: usize) -> bool {
        matches!(self.column(i), (Column::Bool(array), row) if array.is_valid(row) && array.value(row))
    }

    pub(crate) fn bytes(&self, i: usize) -> &[u8] {
        match self.column(i) {
            (Column::Bytes(array), row) if array.is_valid(row) => array.value(row),
            (Column::Text(array), row) if array.is_valid(row) => array.value(row).as_bytes(),
            _ => &[],
        }
    }

    /// Months, days and nanoseconds.
    pub(crate) fn interval(&self, i: usize) -> (i64, i64, i64) {
        match self.column(i) {
            (Column::Interval(array), row) if array.is_valid(row) => {
                let value = array.value(row);
                (i64::from(value.months), i64::from(value.days), value.nanoseconds)
            }
            _ => (0, 0, 0),
        }
    }

    /// The elements of an argument that is an array: which of those of all rows.
    pub(super) fn span(&self, i: usize) -> (&Column, Range<usize>) {
        let (Column::List(list, items), row) = self.column(i) else { return (&Column::Null, 0..0) };
        let bound = |at: usize| list.value_offsets().get(at).and_then(|at| usize::try_from(*at).ok());
        (items, bound(row).unwrap_or_default()..bound(row + 1).unwrap_or_default())
    }

    /// The elements of an argument that is an array, each read by `read`; `None` for NULLs.
    fn items<'a, T>(&'a self, i: usize, read: impl Fn(&'a Column, usize) -> Option<T> + 'a) -> Vec<Option<T>> {
        let (items, span) = self.span(i);
        span.map(|at| if items.is_null(at) { None } else { read(items, at) }).collect()
    }

    pub(crate) fn texts(&self, i: usize) -> Vec<Option<&str>> {
        self.items(i, |items, at| match items {
            Column::Text(array) => Some(array.value(at)),
            _ => None,
        })
    }

    pub(crate) fn ints(&self, i: usize) -> Vec<Option<i64>> {
        self.items(i, |items, at| match items {
            Column::Int(array) => Some(array.value(at)),
            _ => None,
        })
    }

    pub(crate) fn floats(&self, i: usize) -> Vec<Option<f64>> {
        self.items(i, |items, at| match items {
            Column::Float(array) => Some(array.value(at)),
            _ => None,
        })
    }

    pub(crate) fn is_float(&self, i: usize) -> bool {
        match self.column(i).0 {
            Column::Float(_) => true,
            Column::List(_, items) => matches!(**items, Column::Float(_)),
            _ => false,
        }
    }

    pub(crate) fn is_text(&self, i: usize) -> bool {
        match self.column(i).0 {
            Column::Text(_) => true,
            Column::List(_, items) => matches!(**items, Column::Text(_)),
            _ => false,
        }
    }

    /// The regular expression of an argument.
    pub(crate) fn regex(&self, i: usize) -> std::result::Result<Rc<Pattern>, RowError> {
        let pattern = self.text(i);
        let mut memo = self.memo.borrow_mut();
        if let Some((known, regex)) = &memo.regex
            && known == pattern
        {
            return Ok(Rc::clone(regex));
        }
        // A pattern for each row takes long.
        self.running()?;
        let short: String = pattern.chars().take(60).collect();
        let regex = compiled(pattern)
            .map_err(|_| format!("'{short}' is not a valid regular expression, or too large a one"))?;
        let regex = Rc::new(Pattern(regex));
        memo.regex = Some((pattern.to_owned(), Rc::clone(&regex)));
        Ok(regex)
    }

    /// A value that is made of an argument's text, kept for the next row.
    pub(crate) fn remember<T: Send + Sync + 'static>(
        &self,
        i: usize,
        make: impl FnOnce(&str) -> std::result::Result<T, RowError>,
    ) -> std::result::Result<Arc<T>, RowError> {
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

    /// Fails if the result is no longer wanted.
    pub(crate) fn running(&self) -> std::result::Result<(), RowError> {
        context::check().map_err(|_| RowError::from(wording::timed_out()))
    }

    /// Counts bytes that are held until the row is done, before they are allocated.
    pub(crate) fn hold(&self, bytes: usize) -> std::result::Result<(), RowError> {
        Ok(self.held.borrow_mut().grow(bytes)?)
    }

    /// Counts steps of work that the size of the result does not bound.
    pub(crate) fn work(&self, steps: u64) -> std::result::Result<(), RowError> {
        const BETWEEN_CHECKS: u64 = 1 << 20;
        let before = self.work.get();
        let sum = before.saturating_add(steps);
        self.work.set(sum);
        if before / BETWEEN_CHECKS != sum / BETWEEN_CHECKS {
            self.running()?;
        }
        if sum > if planning::is_current() { MAX_FOLDED_WORK } else { MAX_WORK } {
            return Err(RowError::Limit(
                "a function would take too long on texts of this length; shorten them".to_owned(),
            ));
        }
        Ok(())
    }
}
