//! Numbers for the rows of a batch such that rows with the same number have the same keys.
//!
//! Most columns that are grouped by have few values, and a segment holds such a column as a dictionary: in a batch that was
//! read of it, rows with the same text have the same view, its length and the place of its bytes. So equal rows are found
//! without hashing or comparing texts, and only one row of each number is looked up among the groups. Rows with different
//! numbers may still have the same keys; the look-up finds that.
//!
//! Integers that lie near each other, such as the status of a request, are numbered by a table of their range. Values that
//! come in runs, such as the days of rows in the order of time, are looked up where they change.

mod places;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, TimeUnit};

use places::{Key, Places};

/// Rows after which is looked whether they repeat.
const SAMPLE: usize = 512;

/// The most entries of the table for integers that lie near each other, for all numbers by the columns before.
const TABLE: usize = 1 << 13;

/// No number: a batch has fewer rows.
const NONE: u32 = u32::MAX;

/// The key of NULL. No view is that long, and other keys have 64 bits.
const NULL: u128 = u128::MAX;

/// Numbers the rows of one batch after another.
#[derive(Debug)]
pub struct RowNumbers {
    /// The numbers of a pass over a column.
    places: Places,
    /// The numbers of integers that lie near each other.
    table: Vec<u32>,
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
            table: Vec::new(),
            firsts: Vec::new(),
            numbers: Vec::new(),
            before: Vec::new(),
            count_before: 0,
        }
    }

    /// Bytes that it holds.
    pub fn size(&self) -> usize {
        let rows = self.firsts.capacity() + self.numbers.capacity() + self.before.capacity() + self.table.capacity();
        self.places.size() + rows * size_of::<u32>()
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
        for column in keys {
            std::mem::swap(&mut self.numbers, &mut self.before);
            self.count_before = self.firsts.len().max(1);
            if !self.column(column, keys.len() == 1) {
                return None;
            }
        }
        (self.numbers.len() == rows).then_some((&self.firsts, &self.numbers))
    }

    /// Numbers the rows by the numbers before and a column.
    fn column(&mut self, column: &ArrayRef, is_single: bool) -> bool {
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
                self.integers(&values, nulls, is_single)
            }
            DataType::Int64 | DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _) => {
                let data = column.to_data();
                self.integers(data.buffer::<i64>(0).get(..column.len()).unwrap_or_default(), nulls, is_single)
            }
            DataType::Date32 | DataType::Int32 => {
                let data = column.to_data();
                self.integers(data.buffer::<i32>(0).get(..column.len()).unwrap_or_default(), nulls, is_single)
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
        is_single: bool,
    ) -> bool {
        if let Some((least, width)) = range(values, TABLE.checked_div(self.count_before).unwrap_or_default()) {
            self.near(values, nulls, least, width);
            return true;
        }
        let is_run = in_runs(values);
        let key = |value: T| u128::from(value.into().cast_unsigned());
        (!is_single || is_run) && self.hashed(values, key, nulls, is_run)
    }

    /// Numbers integers of which none is less than `least`, and none as much as `width` more but one; the last place is that
    /// of NULL.
    fn near<T: Copy + Into<i64>>(&mut self, values: &[T], nulls: Option<&NullBuffer>, least: i64, width: usize) {
        let Self { table, firsts, numbers, before, count_before, .. } = self;
        table.clear();
        table.resize(width * *count_before, NONE);
        firsts.clear();
        numbers.clear();
        let mut number_at = |at: usize, row: usize| {
            let Some(number) = table.get_mut(at) else { return 0 };
            if *number == NONE {
                *number = firsts.len() as u32;
                firsts.push(row as u32);
            }
            *number
        };
        let place = |value: T| value.into().wrapping_sub(least) as usize;
        let place_of = |row: usize, value: T| {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) { width - 1 } else { place(value) }
        };
        let rows = values.iter().copied().enumerate();
        match (before.is_empty(), nulls) {
            (true, None) => numbers.extend(rows.map(|(row, value)| number_at(place(value), row))),
            (true, Some(_)) => numbers.extend(rows.map(|(row, value)| number_at(place_of(row, value), row))),
            (false, _) => {
                let rows = rows.zip(before.iter());
                let place = |row, value, before: u32| before as usize * width + place_of(row, value);
                numbers.extend(rows.map(|((row, value), before)| number_at(place(row, value, *before), row)));
            }
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
        let mut last = (Key::default(), NONE);
        for (chunk, part) in values.chunks(SAMPLE).enumerate() {
            let start = chunk * SAMPLE;
            numbers.extend(part.iter().enumerate().map(|(row, value)| {
                let row = start + row;
                let looked_up = Key::new(key(row, *value), before(row));
                if RUNS && last.1 != NONE && last.0 == looked_up {
                    return last.1;
                }
                let number = match places.get(looked_up) {
                    Some(number) => number,
                    None => {
                        let number = places.get_or_put(looked_up, firsts.len() as u32);
                        if number as usize == firsts.len() {
                            firsts.push(row as u32);
                        }
                        number
                    }
                };
                if RUNS {
                    last = (looked_up, number);
                }
                number
            }));
            // Where nearly every row is a new one, there is little to save.
            if part.len() == SAMPLE && firsts.len() > (start + SAMPLE) / 4 * 3 {
                return false;
            }
        }
        true
    }
}

/// The least of the values, and how many places they need, with one for NULL; `None` if these are more than `most`.
fn range<T: Copy + Into<i64>>(values: &[T], most: usize) -> Option<(i64, usize)> {
    let (mut least, mut greatest) = (i64::MAX, i64::MIN);
    let mut width = 0;
    for part in values.chunks(SAMPLE) {
        for value in part {
            let value = (*value).into();
            least = least.min(value);
            greatest = greatest.max(value);
        }
        width = usize::try_from(greatest.checked_sub(least)?).ok()?.checked_add(2)?;
        if width > most {
            return None;
        }
    }
    Some((least, width))
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
