//! Reading rows: batches one after the other, and cells by column and row.

use crate::{Batch, Failure, Packed, ResultSet, Series, SeriesData};

/// The batches of a result set, of at most `max_rows` rows each.
pub fn batches(set: &ResultSet, max_rows: u32) -> Batches<'_> {
    Batches { set, max_rows, ended: false }
}

/// An iterator of batches; made by [`batches`]. It ends after the first failure.
#[derive(Debug)]
pub struct Batches<'a> {
    set: &'a ResultSet,
    max_rows: u32,
    ended: bool,
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let batch = self.set.next(self.max_rows).transpose();
        self.ended = !matches!(batch, Some(Ok(_)));
        batch
    }
}

/// Cells. Each is `None` where it is null, and also where there is no such cell or it is of another
/// kind, so that no mistake in an index can trap.
impl Batch {
    /// A text, or a nested value as JSON.
    pub fn text(&self, column: usize, row: usize) -> Option<&str> {
        match self.cell(column, row)? {
            SeriesData::Texts(packed) => std::str::from_utf8(packed.value(row)?).ok(),
            _ => None,
        }
    }

    /// Bytes.
    pub fn bytes(&self, column: usize, row: usize) -> Option<&[u8]> {
        match self.cell(column, row)? {
            SeriesData::Bytes(packed) => packed.value(row),
            _ => None,
        }
    }

    /// An integer.
    pub fn int64(&self, column: usize, row: usize) -> Option<i64> {
        match self.cell(column, row)? {
            SeriesData::Int64s(values) => values.get(row).copied(),
            _ => None,
        }
    }

    /// A float.
    pub fn float64(&self, column: usize, row: usize) -> Option<f64> {
        match self.cell(column, row)? {
            SeriesData::Float64s(values) => values.get(row).copied(),
            _ => None,
        }
    }

    /// True or false.
    pub fn boolean(&self, column: usize, row: usize) -> Option<bool> {
        match self.cell(column, row)? {
            SeriesData::Booleans(values) => values.get(row).map(|byte| *byte != 0),
            _ => None,
        }
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub fn timestamp(&self, column: usize, row: usize) -> Option<i64> {
        match self.cell(column, row)? {
            SeriesData::Timestamps(values) => values.get(row).copied(),
            _ => None,
        }
    }

    /// The values of a column, if the one of that row is not null.
    fn cell(&self, column: usize, row: usize) -> Option<&SeriesData> {
        let Series { validity, data } = self.columns.get(column)?;
        let valid = validity.as_ref().is_none_or(|validity| validity.get(row) == Some(&1));
        valid.then_some(data)
    }
}

impl Packed {
    fn value(&self, row: usize) -> Option<&[u8]> {
        let (start, end) = (*self.offsets.get(row)?, *self.offsets.get(row + 1)?);
        self.buffer.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }
}
