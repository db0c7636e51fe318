//! Numbers for the rows of a batch such that rows with the same number have the same keys.
//!
//! Most columns that are grouped by have few values, and a segment holds such a column as a dictionary: in a batch that was
//! read of it, rows with the same text have the same view, its length and the place of its bytes. So equal rows are found
//! without hashing or comparing texts, and only one row of each number is looked up among the groups. Rows with different
//! numbers may still have the same keys; the look-up finds that.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, TimeUnit};

/// Rows after which is looked whether they repeat.
const SAMPLE: usize = 512;

/// Places for keys, of two keys each. A key that takes the place of another is no error: the other one gets a new number when
/// it comes again.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 10;

/// The key of NULL. No view is that long, and other keys have 64 bits.
const NULL: u128 = u128::MAX;

/// A key that had a number.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    key: u128,
    /// The pass in which it was (see [`RowNumbers`]), and in the lower 32 bits the number by the columns before.
    tag: u64,
    number: u32,
}

impl Slot {
    fn is(&self, key: u128, tag: u64) -> bool {
        (self.key ^ key) | u128::from(self.tag ^ tag) == 0
    }
}

/// Numbers the rows of one batch after another.
#[derive(Debug)]
pub struct RowNumbers {
    slots: Box<[[Slot; 2]; PLACES]>,
    /// Counts the passes over a column: a view of another column or batch leads elsewhere. 0 is none.
    pass: u32,
    /// Of the last batch: a row of each number.
    firsts: Vec<u32>,
    /// Of the last batch: the number of each row.
    numbers: Vec<u32>,
    /// The numbers by the columns before the one that is being looked at.
    before: Vec<u32>,
}

impl Default for RowNumbers {
    fn default() -> Self {
        Self::new()
    }
}

impl RowNumbers {
    /// No rows yet.
    pub fn new() -> Self {
        let slots = Box::new([[Slot::default(); 2]; PLACES]);
        Self { slots, pass: 0, firsts: Vec::new(), numbers: Vec::new(), before: Vec::new() }
    }

    /// Bytes that it holds.
    pub fn size(&self) -> usize {
        let rows = self.firsts.capacity() + self.numbers.capacity() + self.before.capacity();
        size_of::<[[Slot; 2]; PLACES]>() + rows * size_of::<u32>()
    }

    /// A row of each number, and the number of each row, which is less than how many there are. `None` where most rows
    /// differ, for keys whose types have no views or numbers, and for a single key that is no text: to look that up takes
    /// no longer than to number it.
    pub fn of(&mut self, keys: &[ArrayRef]) -> Option<(&[u32], &[u32])> {
        let first = keys.first()?;
        let rows = first.len();
        let is_fast = keys.len() == 1 && *first.data_type() != DataType::Utf8View;
        if rows == 0 || is_fast || u32::try_from(rows).is_err() {
            return None;
        }
        self.numbers.clear();
        for column in keys {
            std::mem::swap(&mut self.numbers, &mut self.before);
            if !self.column(column) {
                return None;
            }
        }
        (self.numbers.len() == rows).then_some((&self.firsts, &self.numbers))
    }

    fn column(&mut self, column: &ArrayRef) -> bool {
        let nulls = column.logical_nulls();
        let nulls = nulls.as_ref();
        match column.data_type() {
            DataType::Utf8View => self.numbered(column.as_string_view().views(), |view| view, nulls),
            DataType::Boolean => {
                let values: Vec<bool> = column.as_boolean().values().iter().collect();
                self.numbered(&values, u128::from, nulls)
            }
            DataType::Int64
            | DataType::Float64
            | DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _) => {
                let data = column.to_data();
                let values = data.buffer::<u64>(0).get(..column.len()).unwrap_or_default();
                self.numbered(values, u128::from, nulls)
            }
            DataType::Date32 | DataType::Int32 => {
                let data = column.to_data();
                let values = data.buffer::<u32>(0).get(..column.len()).unwrap_or_default();
                self.numbered(values, u128::from, nulls)
            }
            _ => false,
        }
    }

    /// Numbers the rows by the numbers before and a value each.
    fn numbered<T: Copy>(&mut self, values: &[T], key: impl Fn(T) -> u128, nulls: Option<&NullBuffer>) -> bool {
        let before = std::mem::take(&mut self.before);
        let before_of = |row: usize| before.get(row).copied().unwrap_or_default();
        let value_of =
            |row: usize, value: T| if nulls.is_some_and(|nulls| nulls.is_null(row)) { NULL } else { key(value) };
        let repeats = match (before.is_empty(), nulls) {
            (true, None) => self.pass(values, |_, value| key(value), |_| 0),
            (true, Some(_)) => self.pass(values, value_of, |_| 0),
            (false, None) => self.pass(values, |_, value| key(value), before_of),
            (false, Some(_)) => self.pass(values, value_of, before_of),
        };
        self.before = before;
        repeats
    }

    fn pass<T: Copy>(&mut self, values: &[T], key: impl Fn(usize, T) -> u128, before: impl Fn(usize) -> u32) -> bool {
        self.pass = self.pass.wrapping_add(1);
        if self.pass == 0 {
            self.slots.fill([Slot::default(); 2]);
            self.pass = 1;
        }
        let Self { slots, pass, firsts, numbers, .. } = self;
        let pass = u64::from(*pass) << 32;
        firsts.clear();
        numbers.clear();
        for (chunk, part) in values.chunks(SAMPLE).enumerate() {
            let start = chunk * SAMPLE;
            numbers.extend(part.iter().enumerate().map(|(row, value)| {
                let row = start + row;
                let (key, before) = (key(row, *value), before(row));
                let tag = pass | u64::from(before);
                let number = firsts.len() as u32;
                if let Some([newer, older]) = slots.get_mut(place(key, before)) {
                    if newer.is(key, tag) {
                        return newer.number;
                    }
                    if older.is(key, tag) {
                        return older.number;
                    }
                    *older = std::mem::replace(newer, Slot { key, tag, number });
                }
                firsts.push(row as u32);
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

/// The place of a key.
fn place(key: u128, before: u32) -> usize {
    // Odd numbers with bits all over them: their products move every bit to the high ones.
    const LOW: u64 = 0x9E37_79B9_7F4A_7C15;
    const HIGH: u64 = 0xC2B2_AE3D_27D4_EB4F;
    let low = (key as u64 ^ u64::from(before).rotate_left(32)).wrapping_mul(LOW);
    let high = ((key >> 64) as u64).wrapping_mul(HIGH);
    ((low ^ high) >> (u64::BITS - PLACE_BITS)) as usize
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use datafusion::arrow::array::{BooleanArray, Int64Array, StringViewArray, UInt32Array};
    use datafusion::arrow::compute::take;

    use super::*;

    fn texts(rows: impl Iterator<Item = Option<usize>>) -> ArrayRef {
        let distinct: StringViewArray = (0..40).map(|i| Some(format!("a text of more than a view, {i}"))).collect();
        let rows: UInt32Array = rows.map(|row| row.map(|row| row as u32)).collect();
        take(&distinct, &rows, None).unwrap()
    }

    /// Rows of one number are equal; with few values there are few numbers.
    fn check(numbers: &mut RowNumbers, keys: &[ArrayRef], most: usize) {
        let rows = keys[0].len();
        let shown = |row: usize| keys.iter().map(|key| format!("{:?}", key.slice(row, 1))).collect::<String>();
        let (firsts, numbers) = numbers.of(keys).unwrap();
        assert!(numbers.len() == rows && firsts.len() <= most, "{} of {most}", firsts.len());
        let mut seen = HashMap::new();
        for (row, number) in numbers.iter().enumerate() {
            let text = seen.entry(*number).or_insert_with(|| shown(firsts[*number as usize] as usize));
            assert_eq!(*text, shown(row));
        }
    }

    #[test]
    fn rows_with_the_same_number_are_equal() {
        let mut numbers = RowNumbers::new();
        for seed in 0..3 {
            let agents = texts((0..3_000).map(|row| Some((row * 7 + seed) % 40).filter(|text| text % 13 != 0)));
            let status: ArrayRef =
                Arc::new((0..3_000).map(|row| (row % 11 != 3).then_some(row % 5)).collect::<Int64Array>());
            let flags: ArrayRef = Arc::new((0..3_000).map(|row| Some(row % 3 == 0)).collect::<BooleanArray>());
            check(&mut numbers, std::slice::from_ref(&agents), 45);
            assert!(numbers.of(std::slice::from_ref(&status)).is_none());
            check(&mut numbers, &[status.clone(), flags.clone()], 20);
            check(&mut numbers, &[status.slice(100, 2_000), agents.slice(100, 2_000)], 400);
            check(&mut numbers, &[flags, status, agents], 1_000);
        }
        assert!(numbers.size() < 1 << 20);
    }

    /// NULL is not the value that lies below it.
    #[test]
    fn null_is_a_key_of_its_own() {
        let values: ArrayRef = Arc::new((0..100).map(|row| (row % 2 == 0).then_some(0)).collect::<Int64Array>());
        check(&mut RowNumbers::new(), &[values.clone(), values], 2);
    }

    #[test]
    fn rows_that_differ_get_no_numbers() {
        let mut numbers = RowNumbers::new();
        let many: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
        assert!(numbers.of(&[many.clone(), many]).is_none());
        let many: ArrayRef = Arc::new((0..10_000).map(|row| Some(row.to_string())).collect::<StringViewArray>());
        assert!(numbers.of(&[many]).is_none());
        assert!(numbers.of(&[]).is_none());
        let list: ArrayRef =
            datafusion::arrow::array::new_null_array(&DataType::new_list(DataType::Int64, true), 1_000);
        assert!(numbers.of(&[list]).is_none());
    }
}
