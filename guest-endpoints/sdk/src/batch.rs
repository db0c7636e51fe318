//! Some rows in the guest's memory, column by column, and one of them as a row.

use std::marker::PhantomData;

use crate::Timestamp;
use crate::contract::{self, Failure, Kind, Packed, SeriesData};

/// Rows as they came: checked once, so that reading a cell cannot fail.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    rows: usize,
    series: Vec<Series>,
}

/// A column of a batch.
#[doc(hidden)]
#[derive(Debug)]
pub struct Series {
    /// One byte a row, 1 where there is a value; absent if none is null.
    validity: Option<Vec<u8>>,
    cells: Cells,
}

/// As the contract's, but texts were checked to be UTF-8 all at once.
#[derive(Debug)]
enum Cells {
    Booleans(Vec<u8>),
    Int64s(Vec<i64>),
    Float64s(Vec<f64>),
    Texts { offsets: Vec<u32>, text: String },
    Bytes(Packed),
    Timestamps(Vec<i64>),
}

impl Batch {
    pub(crate) fn new(batch: contract::Batch) -> Result<Self, Failure> {
        let mut series = Vec::with_capacity(batch.columns.len());
        for contract::Series { validity, data } in batch.columns {
            let cells = match data {
                SeriesData::Booleans(values) => Cells::Booleans(values),
                SeriesData::Int64s(values) => Cells::Int64s(values),
                SeriesData::Float64s(values) => Cells::Float64s(values),
                SeriesData::Texts(Packed { offsets, buffer }) => {
                    let text = String::from_utf8(buffer);
                    let text = text.map_err(|_| Failure::Other("a column of texts is not UTF-8".to_owned()))?;
                    Cells::Texts { offsets, text }
                }
                SeriesData::Bytes(packed) => Cells::Bytes(packed),
                SeriesData::Timestamps(values) => Cells::Timestamps(values),
            };
            series.push(Series { validity, cells });
        }
        Ok(Self { rows: usize::try_from(batch.rows).unwrap_or(usize::MAX), series })
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes that the batch takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |Series { validity, cells }: &Series| {
            let cells = match cells {
                Cells::Booleans(values) => values.len(),
                Cells::Int64s(values) | Cells::Timestamps(values) => values.len().saturating_mul(8),
                Cells::Float64s(values) => values.len().saturating_mul(8),
                Cells::Texts { offsets, text } => offsets.len().saturating_mul(4).saturating_add(text.len()),
                Cells::Bytes(packed) => packed.offsets.len().saturating_mul(4).saturating_add(packed.buffer.len()),
            };
            cells.saturating_add(validity.as_ref().map_or(0, Vec::len))
        };
        self.series.iter().map(bytes).fold(0, usize::saturating_add)
    }

    /// Whether a column is not null everywhere.
    pub(crate) fn has_value(&self, column: usize) -> bool {
        let Some(series) = self.series.get(column) else { return false };
        series.validity.as_ref().map_or(self.rows > 0, |validity| validity.contains(&1))
    }

    pub(crate) fn row(&self, row: usize) -> Row<'_> {
        Row { batch: self, row }
    }
}

/// One row, for as long as [`Rows::next`](crate::Rows::next) is not called again.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    batch: &'a Batch,
    row: usize,
}

impl<'a> Row<'a> {
    /// The cell of this row in `column`, which [`Rows::column`](crate::Rows::column) found; `None` where it is null.
    /// Texts and bytes are borrowed, not copied.
    pub fn get<T: Cell + ?Sized>(&self, column: Column<T>) -> Option<T::Value<'a>> {
        let series = self.batch.series.get(column.index)?;
        let valid = series.validity.as_ref().is_none_or(|validity| validity.get(self.row) == Some(&1));
        if valid { T::read(series, self.row) } else { None }
    }
}

/// A column of rows that is known to be there and to hold `T`. It belongs to the [`Rows`](crate::Rows) that it was
/// found in; a row of others has nothing, or something else, in its place.
#[derive(Debug)]
pub struct Column<T: ?Sized> {
    index: usize,
    of: PhantomData<T>,
}

impl<T: ?Sized> Clone for Column<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Column<T> {}

impl<T: ?Sized> Column<T> {
    pub(crate) fn at(index: usize) -> Self {
        Self { index, of: PhantomData }
    }

    pub(crate) fn index(self) -> usize {
        self.index
    }
}

/// A type that cells can be read as.
///
/// | type | columns | a cell is |
/// |---|---|---|
/// | `str` | texts; nested values as JSON | `&str` |
/// | `i64` | integers | `i64` |
/// | `f64` | floats; integers, of which those beyond 2<sup>53</sup> are rounded | `f64` |
/// | `bool` | booleans | `bool` |
/// | [`Timestamp`] | timestamps | [`Timestamp`] |
/// | `[u8]` | bytes | `&[u8]` |
///
/// The contract has no other kinds. A `DATETIME` or a `DATE` arrives as text.
pub trait Cell: sealed::Sealed {
    /// A cell.
    type Value<'a>;

    /// Whether columns of this kind can be read so.
    fn fits(kind: Kind) -> bool;

    #[doc(hidden)]
    fn read(series: &Series, row: usize) -> Option<Self::Value<'_>>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for str {}
    impl Sealed for [u8] {}
    impl Sealed for i64 {}
    impl Sealed for f64 {}
    impl Sealed for bool {}
    impl Sealed for crate::Timestamp {}
}

impl Cell for str {
    type Value<'a> = &'a str;

    fn fits(kind: Kind) -> bool {
        matches!(kind, Kind::Text | Kind::Json)
    }

    fn read(series: &Series, row: usize) -> Option<&str> {
        let Cells::Texts { offsets, text } = &series.cells else { return None };
        text.get(range(offsets, row)?)
    }
}

impl Cell for [u8] {
    type Value<'a> = &'a [u8];

    fn fits(kind: Kind) -> bool {
        matches!(kind, Kind::Bytes)
    }

    fn read(series: &Series, row: usize) -> Option<&[u8]> {
        let Cells::Bytes(packed) = &series.cells else { return None };
        packed.buffer.get(range(&packed.offsets, row)?)
    }
}

impl Cell for i64 {
    type Value<'a> = i64;

    fn fits(kind: Kind) -> bool {
        matches!(kind, Kind::Int64)
    }

    fn read(series: &Series, row: usize) -> Option<i64> {
        if let Cells::Int64s(values) = &series.cells { values.get(row).copied() } else { None }
    }
}

impl Cell for f64 {
    type Value<'a> = f64;

    fn fits(kind: Kind) -> bool {
        matches!(kind, Kind::Float64 | Kind::Int64)
    }

    fn read(series: &Series, row: usize) -> Option<f64> {
        match &series.cells {
            Cells::Float64s(values) => values.get(row).copied(),
            Cells::Int64s(values) => values.get(row).map(|value| *value as f64),
            _ => None,
        }
    }
}

impl Cell for bool {
    type Value<'a> = bool;

    fn fits(kind: Kind) -> bool {
        matches!(kind, Kind::Boolean)
    }

    fn read(series: &Series, row: usize) -> Option<bool> {
        if let Cells::Booleans(values) = &series.cells { values.get(row).map(|byte| *byte != 0) } else { None }
    }
}

impl Cell for Timestamp {
    type Value<'a> = Self;

    fn fits(kind: Kind) -> bool {
        matches!(kind, Kind::Timestamp)
    }

    fn read(series: &Series, row: usize) -> Option<Self> {
        if let Cells::Timestamps(values) = &series.cells {
            values.get(row).copied().map(Self::from_micros)
        } else {
            None
        }
    }
}

fn range(offsets: &[u32], row: usize) -> Option<std::ops::Range<usize>> {
    let (start, end) = (*offsets.get(row)?, *offsets.get(row.checked_add(1)?)?);
    Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn batch(rows: u32, columns: Vec<(Option<Vec<u8>>, SeriesData)>) -> Result<Batch, Failure> {
        let columns = columns.into_iter().map(|(validity, data)| contract::Series { validity, data }).collect();
        Batch::new(contract::Batch { rows, columns })
    }

    #[test]
    fn cells_are_read_by_type_and_nulls_are_none() {
        let texts = Packed { offsets: vec![0, 2, 2, 5], buffer: "äabc".into() };
        let bytes = Packed { offsets: vec![0, 1, 1, 2], buffer: vec![0xff, 7] };
        let columns = vec![
            (Some(vec![1, 0, 1]), SeriesData::Texts(texts)),
            (None, SeriesData::Int64s(vec![1, -2, 3])),
            (None, SeriesData::Float64s(vec![0.5, 1.5, 2.5])),
            (Some(vec![0, 1, 1]), SeriesData::Booleans(vec![1, 1, 0])),
            (None, SeriesData::Timestamps(vec![1, 2, 3])),
            (None, SeriesData::Bytes(bytes)),
        ];
        let batch = batch(3, columns).unwrap();
        assert_eq!(batch.rows(), 3);
        let cells = |row| {
            let row = batch.row(row);
            (row.get(Column::<str>::at(0)), row.get(Column::<i64>::at(1)), row.get(Column::<f64>::at(2)))
        };
        assert_eq!(cells(0), (Some("ä"), Some(1), Some(0.5)));
        assert_eq!(cells(1), (None, Some(-2), Some(1.5)));
        assert_eq!(cells(2), (Some("abc"), Some(3), Some(2.5)));
        assert_eq!(batch.row(0).get(Column::<bool>::at(3)), None);
        assert_eq!(batch.row(2).get(Column::<bool>::at(3)), Some(false));
        assert_eq!(batch.row(1).get(Column::<Timestamp>::at(4)), Some(Timestamp::from_micros(2)));
        assert_eq!(batch.row(0).get(Column::<[u8]>::at(5)), Some(&[0xff][..]));
        assert_eq!(batch.row(1).get(Column::<f64>::at(1)), Some(-2.0), "integers are numbers");
    }

    #[test]
    fn what_is_not_there_is_none_and_never_a_trap() {
        let lies = Packed { offsets: vec![0, 900, 1], buffer: "ä".into() };
        let batch = batch(2, vec![(None, SeriesData::Texts(lies)), (None, SeriesData::Int64s(vec![1]))]).unwrap();
        assert_eq!(batch.row(0).get(Column::<str>::at(0)), None, "past the buffer");
        assert_eq!(batch.row(1).get(Column::<str>::at(0)), None, "backwards, and within a letter");
        assert_eq!(batch.row(1).get(Column::<i64>::at(1)), None, "a row too many");
        assert_eq!(batch.row(usize::MAX).get(Column::<str>::at(0)), None);
        assert_eq!(batch.row(0).get(Column::<i64>::at(9)), None, "a column of other rows");
        assert_eq!(batch.row(0).get(Column::<i64>::at(0)), None, "of another kind");
    }

    #[test]
    fn a_column_has_a_value_or_none() {
        let integers = || SeriesData::Int64s(vec![0, 0]);
        let columns = vec![(Some(vec![0, 0]), integers()), (Some(vec![0, 1]), integers()), (None, integers())];
        let batch = batch(2, columns).unwrap();
        assert_eq!([0, 1, 2, 3].map(|column| batch.has_value(column)), [false, true, true, false]);
        assert!(!Batch::default().has_value(0));
    }

    #[test]
    fn texts_that_are_none_are_refused_at_once() {
        let packed = Packed { offsets: vec![0, 1], buffer: vec![0xff] };
        assert!(batch(1, vec![(None, SeriesData::Texts(packed))]).is_err());
    }
}
