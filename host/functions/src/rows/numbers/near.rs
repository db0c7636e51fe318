//! The table in which integers that lie near each other are numbered: a place for each of their range.

use super::{NONE, SAMPLE};

/// The most places of a table, for all numbers by the columns before.
const PLACES: usize = (1 << 13) + 1;

/// The integers from `least` on, as many as `span` says: a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    least: i64,
    span: usize,
}

impl Range {
    /// The range from one value to another; `None` if it is wider than `most`.
    fn between(least: i64, greatest: i64, most: usize) -> Option<Range> {
        let width = usize::try_from(greatest.checked_sub(least)?).ok()?.checked_add(1)?;
        let span = width.checked_next_power_of_two()?;
        (span <= most).then_some(Range { least, span })
    }

    /// The range of some values; `None` if it is wider than `most`, and for no values.
    fn of<T: Copy + Into<i64>>(values: &[T], most: usize) -> Option<Range> {
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        let mut range = None;
        for part in values.chunks(SAMPLE) {
            for value in part {
                least = least.min((*value).into());
                greatest = greatest.max((*value).into());
            }
            range = Some(Range::between(least, greatest, most)?);
        }
        range
    }

    /// Whether all values lie in it. No value is compared by itself: the distances from `least` have no bit beyond the span.
    fn has<T: Copy + Into<i64>>(self, values: &[T]) -> bool {
        let bits = values.iter().fold(0, |bits, value| bits | self.distance(*value));
        bits < self.span as u64
    }

    fn distance<T: Into<i64>>(self, value: T) -> u64 {
        value.into().wrapping_sub(self.least).cast_unsigned()
    }

    /// The range of this and another one, if it is not wider than `most`.
    fn with(self, other: Range, most: usize) -> Option<Range> {
        // Neither span is more than a table has places.
        let end = |range: Range| range.least.saturating_add(range.span as i64 - 1);
        Range::between(self.least.min(other.least), end(self).max(end(other)), most)
    }
}

/// Numbers rows by integers of a small range.
#[derive(Debug, Default)]
pub(super) struct Near {
    numbers: Vec<u32>,
    /// The range of the values before, in which the next ones mostly lie too: then their own need not be found.
    range: Option<Range>,
}

impl Near {
    /// Whether the values lie near enough to be numbered, where the columns before have given `before` numbers. Their
    /// range is kept for [`Near::number`], which is called for the same values.
    pub(super) fn suits<T: Copy + Into<i64>>(&mut self, values: &[T], before: usize) -> bool {
        // The last place is that of NULL.
        let most = PLACES.checked_div(before).unwrap_or_default().saturating_sub(1);
        let last = self.range.filter(|last| last.span <= most);
        if last.is_some_and(|last| last.has(values)) {
            return true;
        }
        let own = Range::of(values, most);
        self.range = own.and_then(|own| last.and_then(|last| last.with(own, most)).or(Some(own)));
        self.range.is_some()
    }

    /// Numbers rows: writes a row of each number, and the number of each row. `rows` gives, from a row on, each row's number by the
    /// columns before and its value, without one for NULL.
    pub(super) fn number<T: Into<i64>, R: Iterator<Item = (u32, Option<T>)>>(
        &mut self,
        before: usize,
        rows: impl Fn(usize) -> R,
        firsts: &mut Vec<u32>,
        numbers: &mut [u32],
    ) {
        let Some(range) = self.range else { return };
        let width = range.span + 1;
        self.numbers.clear();
        self.numbers.resize(width * before, NONE);
        let place = |(before, value): (u32, Option<T>)| {
            let distance = value.map_or(range.span, |value| range.distance(value) as usize);
            before as usize * width + distance
        };
        let mut row = 0;
        while row < numbers.len() {
            row += known(&self.numbers, rows(row).map(place), numbers.get_mut(row..).unwrap_or_default());
            let (Some(number), Some(place)) = (numbers.get_mut(row), rows(row).next().map(place)) else { return };
            *number = firsts.len() as u32;
            if let Some(new) = self.numbers.get_mut(place) {
                *new = *number;
            }
            firsts.push(row as u32);
            row += 1;
        }
    }

    /// Bytes that it holds.
    pub(super) fn size(&self) -> usize {
        self.numbers.capacity() * size_of::<u32>()
    }
}

/// Writes the numbers at these places, up to the first place without one; how many that are.
fn known(table: &[u32], places: impl Iterator<Item = usize>, numbers: &mut [u32]) -> usize {
    let mut found = 0;
    for (place, number) in places.zip(numbers) {
        match table.get(place) {
            Some(known) if *known != NONE => *number = *known,
            _ => break,
        }
        found += 1;
    }
    found
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_what_lies_in_it() {
        for least in [i64::MIN, -3, 0, i64::MAX - 7] {
            let range = Range::between(least, least + 4, 8).unwrap();
            assert_eq!(range.span, 8);
            assert!(range.has(&[least, least + 7]));
            for outside in [least.wrapping_sub(1), least.wrapping_add(8), i64::MIN / 2, i64::MAX / 2] {
                assert!(!range.has(&[least, outside]), "{least} {outside}");
            }
        }
        assert_eq!(Range::between(i64::MIN, i64::MAX, usize::MAX), None);
        assert_eq!(Range::between(0, 8, 8), None);
        assert_eq!(Range::of::<i64>(&[], 8), None);
    }

    /// The range of the batches before is kept while it suits, and grows with what comes.
    #[test]
    fn a_range_serves_the_next_values() {
        let mut near = Near::default();
        assert!(near.suits(&[200_i64, 304], 1));
        let first = near.range;
        assert!(near.suits(&[204_i64, 210], 1) && near.range == first);
        assert!(near.suits(&[500_i64], 1));
        assert!(near.range.unwrap().has(&[200_i64, 304, 500]));
        // Fewer places for each number of the columns before.
        assert!(near.suits(&[200_i64, 304], 40));
        assert_eq!(near.range.unwrap(), Range { least: 200, span: 128 });
        assert!(!near.suits(&[0_i64, 1 << 40], 1));
        assert!(!near.suits(&[0_i64, 10], PLACES));
    }
}
