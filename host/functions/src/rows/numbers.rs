//! Numbers for the rows of a batch such that rows with the same number have the same keys.
//!
//! Most columns that are grouped by have few values, and a segment holds such a column as a dictionary: in a batch that was
//! read of it, rows with the same text have the same view, its length and the place of its bytes. So equal rows are found
//! without hashing or comparing texts, and only one row of each number is looked up among the groups. Rows with different
//! numbers may still have the same keys; the look-up finds that.
//!
//! Integers that lie near each other, such as the status of a request, are numbered by a table of their range. Values that
//! come in runs, such as the days of rows in the order of time, are looked up where they change.

mod near;
mod places;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, TimeUnit};

use near::Near;
use places::{Key, Places};

/// Rows after which is looked whether it is worth going on: whether they repeat, whether their range is small.
const SAMPLE: usize = 512;

/// No number: a batch has fewer rows.
const NONE: u32 = u32::MAX;

/// The key of NULL. No view is that long, and other keys have 64 bits.
const NULL: u128 = u128::MAX;

/// Numbers the rows of one batch after another.
#[derive(Debug)]
pub struct RowNumbers {
    /// The numbers of a pass over a column.
    places: Places,
    /// The numbers of integers that lie near each other, for each column.
    near: Vec<Near>,
    /// Of the last batch: a row of each number.
    firsts: Vec<u32>,
    /// Of the last batch: the number of each row.
    numbers: Vec<u32>,
    /// The numbers by the columns before the one that is being looked at, and how many they are.
    before: Vec<u32>,
    count_before: usize,
}

impl Default for RowNumbers {
    fn default() -> Self {
        Self::new()
    }
}

impl RowNumbers {
    /// No rows yet.
    pub fn new() -> Self {
        Self {
            places: Places::new(),
            near: Vec::new(),
            firsts: Vec::new(),
            numbers: Vec::new(),
            before: Vec::new(),
            count_before: 0,
        }
    }

    /// Bytes that it holds.
    pub fn size(&self) -> usize {
        let rows = self.firsts.capacity() + self.numbers.capacity() + self.before.capacity();
        self.places.size() + self.near.iter().map(Near::size).sum::<usize>() + rows * size_of::<u32>()
    }

    /// A row of each number, and the number of each row, which is less than how many there are. `None` where most rows
    /// differ, for keys whose types have no views or numbers, and for a single key that is no text, neither lies in a small
    /// range nor comes in runs: to look that up takes no longer than to number it.
    pub fn of(&mut self, keys: &[ArrayRef]) -> Option<(&[u32], &[u32])> {
        let rows = keys.first()?.len();
        if rows == 0 || u32::try_from(rows).is_err() {
            return None;
        }
        self.numbers.clear();
        self.firsts.clear();
        self.near.resize_with(keys.len(), Near::default);
        let mut near = std::mem::take(&mut self.near);
        let is_numbered = keys.iter().zip(&mut near).all(|(column, near)| {
            std::mem::swap(&mut self.numbers, &mut self.before);
            self.count_before = self.firsts.len().max(1);
            self.column(column, near, keys.len() == 1)
        });
        self.near = near;
        if !is_numbered {
            return None;
        }
        (self.numbers.len() == rows).then_some((&self.firsts, &self.numbers))
    }

    /// Numbers the rows by the numbers before and a column.
    fn column(&mut self, column: &ArrayRef, near: &mut Near, is_single: bool) -> bool {
        let nulls = column.logical_nulls();
        let nulls = nulls.as_ref();
        match column.data_type() {
            DataType::Utf8View => {
                let views = column.as_string_view().views();
                let is_run = in_runs(views);
                self.hashed(views, |view| view, nulls, is_run)
            }
            DataType::Boolean => {
                let values: Vec<i64> = column.as_boolean().values().iter().map(i64::from).collect();
                self.integers(&values, nulls, near, is_single)
            }
            DataType::Int64 | DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _) => {
                let data = column.to_data();
                self.integers(data.buffer::<i64>(0).get(..column.len()).unwrap_or_default(), nulls, near, is_single)
            }
            DataType::Date32 | DataType::Int32 => {
                let data = column.to_data();
                self.integers(data.buffer::<i32>(0).get(..column.len()).unwrap_or_default(), nulls, near, is_single)
            }
            DataType::Float64 => {
                let data = column.to_data();
                let bits = data.buffer::<u64>(0).get(..column.len()).unwrap_or_default();
                let is_run = in_runs(bits);
                (!is_single || is_run) && self.hashed(bits, u128::from, nulls, is_run)
            }
            _ => false,
        }
    }

    fn integers<T: Copy + PartialEq + Into<i64>>(
        &mut self,
        values: &[T],
        nulls: Option<&NullBuffer>,
        near: &mut Near,
        is_single: bool,
    ) -> bool {
        if near.suits(values, self.count_before) {
            self.near(values, nulls, near);
            return true;
        }
        let is_run = in_runs(values);
        let key = |value: T| u128::from(value.into().cast_unsigned());
        (!is_single || is_run) && self.hashed(values, key, nulls, is_run)
    }

    /// Numbers the rows by the numbers before and integers that lie near each other.
    fn near<T: Copy + Into<i64>>(&mut self, values: &[T], nulls: Option<&NullBuffer>, near: &mut Near) {
        let Self { firsts, numbers, before, count_before, .. } = self;
        let before = before.as_slice();
        firsts.clear();
        numbers.clear();
        numbers.resize(values.len(), 0);
        let values = |row: usize| values.get(row..).unwrap_or_default().iter().copied();
        let before_from = |row: usize| before.get(row..).unwrap_or_default().iter().copied();
        let valid = |row: usize, value: T| nulls.is_none_or(|nulls| nulls.is_valid(row)).then_some(value);
        let valid_from = |row: usize| values(row).zip(row..).map(move |(value, row)| valid(row, value));
        match (before.is_empty(), nulls) {
            (true, None) => near.number(1, |row| values(row).map(|value| (0, Some(value))), firsts, numbers),
            (true, Some(_)) => near.number(1, |row| valid_from(row).map(|value| (0, value)), firsts, numbers),
            (false, _) => near.number(*count_before, |row| before_from(row).zip(valid_from(row)), firsts, numbers),
        }
    }

    /// Numbers the rows by the numbers before and a key each.
    fn hashed<T: Copy>(
        &mut self,
        values: &[T],
        key: impl Fn(T) -> u128,
        nulls: Option<&NullBuffer>,
        is_run: bool,
    ) -> bool {
        let before = std::mem::take(&mut self.before);
        let before_of = |row: usize| before.get(row).copied().unwrap_or_default();
        let value_of =
            |row: usize, value: T| if nulls.is_some_and(|nulls| nulls.is_null(row)) { NULL } else { key(value) };
        let repeats = match (before.is_empty(), nulls, is_run) {
            (true, None, false) => self.pass::<_, false>(values, |_, value| key(value), |_| 0),
            (true, Some(_), false) => self.pass::<_, false>(values, value_of, |_| 0),
            (false, None, false) => self.pass::<_, false>(values, |_, value| key(value), before_of),
            (false, Some(_), false) => self.pass::<_, false>(values, value_of, before_of),
            (_, _, true) => self.pass::<_, true>(values, value_of, before_of),
        };
        self.before = before;
        repeats
    }

    fn pass<T: Copy, const RUNS: bool>(
        &mut self,
        values: &[T],
        key: impl Fn(usize, T) -> u128,
        before: impl Fn(usize) -> u32,
    ) -> bool {
        let Self { places, firsts, numbers, .. } = self;
        places.begin();
        firsts.clear();
        numbers.clear();
        numbers.resize(values.len(), 0);
        let key_of = |row: usize, value: T| Key::new(key(row, value), before(row));
        let mut last = None;
        for (chunk, part) in values.chunks(SAMPLE).enumerate() {
            let start = chunk * SAMPLE;
            let end = start + part.len();
            let mut row = start;
            while row < end {
                let keys = part.get(row - start..).unwrap_or_default().iter().zip(row..);
                let keys = keys.map(|(value, row)| key_of(row, *value));
                let unknown = numbers.get_mut(row..end).unwrap_or_default();
                row += if RUNS { places.known_in_runs(keys, &mut last, unknown) } else { places.known(keys, unknown) };
                let (Some(value), Some(number)) = (part.get(row - start), numbers.get_mut(row)) else { break };
                let key = key_of(row, *value);
                *number = places.get_or_put(key, firsts.len() as u32);
                if *number as usize == firsts.len() {
                    firsts.push(row as u32);
                }
                last = Some((key, *number));
                row += 1;
            }
            // Where nearly every row is a new one, there is little to save.
            if part.len() == SAMPLE && firsts.len() > end / 4 * 3 {
                return false;
            }
        }
        true
    }
}

/// Whether most of the first rows have the value of the row before.
fn in_runs<T: PartialEq>(values: &[T]) -> bool {
    let sample = values.get(..SAMPLE.min(values.len())).unwrap_or_default();
    let changes = sample.windows(2).filter(|pair| pair.first() != pair.last()).count();
    changes <= sample.len() / 8
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests;
