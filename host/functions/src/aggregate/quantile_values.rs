//! The values of one group of which quantiles are taken: each value with how often it came, where values repeat.
//!
//! Times of requests, sizes and counts have few values, however many rows there are. Counted they take little memory, and
//! little is handed on and sorted.

use std::cmp::Ordering;

/// Fewer values are not counted.
const LEAST: usize = 4 << 10;

/// A number with a total order.
pub(super) trait Ordered: Copy {
    fn order(self, other: Self) -> Ordering;
}

impl<T: datafusion::arrow::array::ArrowNativeTypeOp> Ordered for T {
    fn order(self, other: Self) -> Ordering {
        self.compare(other)
    }
}

/// The values of a group, in no order.
#[derive(Debug)]
pub(super) struct QuantileValues<N> {
    /// Values that are not counted.
    plain: Vec<N>,
    /// Others, sorted, each there once, with how often it came.
    counted: Vec<(N, u64)>,
    /// When there are so many plain values, they are counted, or it is found that they do not repeat.
    due: usize,
}

impl<N> Default for QuantileValues<N> {
    fn default() -> Self {
        Self { plain: Vec::new(), counted: Vec::new(), due: LEAST }
    }
}

impl<N: Ordered> QuantileValues<N> {
    /// Bytes that the values have room for.
    pub(super) fn held(&self) -> usize {
        self.plain.capacity() * size_of::<N>() + self.counted.capacity() * size_of::<(N, u64)>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.counted.is_empty()
    }

    pub(super) fn push(&mut self, value: N) {
        self.plain.push(value);
        if self.plain.len() >= self.due {
            self.count();
        }
    }

    pub(super) fn extend(&mut self, values: &[N]) {
        for part in values.chunks(LEAST) {
            self.plain.extend_from_slice(part);
            if self.plain.len() >= self.due {
                self.count();
            }
        }
    }

    /// Adds values that were counted elsewhere.
    pub(super) fn extend_counted(&mut self, values: impl Iterator<Item = (N, u64)>) {
        self.counted.extend(values);
        // Two sorted runs, which are merged.
        self.counted.sort_by(|(one, _), (other, _)| one.order(*other));
        self.counted.dedup_by(|(next, count), (kept, sum)| {
            let is_same = is_same(next, kept);
            if is_same {
                *sum = sum.saturating_add(*count);
            }
            is_same
        });
        self.counted.shrink_to(self.counted.len() * 2);
        self.due = self.counted.len().max(LEAST);
    }

    /// Counts the values, if each comes twice or more on the average: else they take less memory as they are, and are looked
    /// at again when they are twice as many.
    fn count(&mut self) {
        self.sort();
        if self.counted.is_empty() && self.plain.chunk_by(is_same).count() > self.plain.len() / 2 {
            self.due = self.plain.len() * 2;
            return;
        }
        self.count_all();
    }

    fn sort(&mut self) {
        self.plain.sort_unstable_by(|one, other| one.order(*other));
    }

    /// Counts the values, which are sorted.
    fn count_all(&mut self) {
        let plain = std::mem::take(&mut self.plain);
        let counted = |run: &[N]| Some((*run.first()?, run.len() as u64));
        self.extend_counted(plain.chunk_by(is_same).filter_map(counted));
        // Its room is used again.
        self.plain = plain;
        self.plain.clear();
        self.plain.shrink_to(LEAST);
    }

    /// The values as they are held: those that are counted, in their order, and the others.
    pub(super) fn parts(&self) -> (&[(N, u64)], &[N]) {
        (&self.counted, &self.plain)
    }

    /// Appends the values at the ranks that are chosen for so many values.
    pub(super) fn pick<R: Iterator<Item = usize>>(mut self, ranks: impl Fn(usize) -> R, picked: &mut Vec<N>) {
        self.sort();
        if self.counted.is_empty() {
            picked.extend(ranks(self.plain.len()).filter_map(|rank| self.plain.get(rank)));
            return;
        }
        self.count_all();
        // How many values are not greater, in the place of how often one came.
        let mut sum = 0_u64;
        for (_, count) in &mut self.counted {
            sum = sum.saturating_add(*count);
            *count = sum;
        }
        let at = |rank: usize| self.counted.get(self.counted.partition_point(|(_, sum)| *sum <= rank as u64));
        picked.extend(ranks(usize::try_from(sum).unwrap_or(usize::MAX)).filter_map(|rank| Some(at(rank)?.0)));
    }
}

fn is_same<N: Ordered>(one: &N, other: &N) -> bool {
    one.order(*other).is_eq()
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn picked(values: QuantileValues<i64>, places: &[usize]) -> Vec<i64> {
        let mut picked = Vec::new();
        values.pick(|_| places.iter().copied(), &mut picked);
        picked
    }

    /// The same are picked as of all values sorted, whether they are counted or not, and however they came.
    #[test]
    fn counted_values_are_those_that_came() {
        for distinct in [1, 7, 3_000, 1_000_000] {
            let all: Vec<i64> = (0..50_000).map(|i| i * 7_919 % distinct - 3).collect();
            let mut sorted = all.clone();
            sorted.sort_unstable();
            let places = [0, 1, 17, 4_095, 4_096, 25_000, 49_998, 49_999];
            let expected: Vec<i64> = places.iter().map(|place| sorted[*place]).collect();
            let (mut one, mut parts, mut merged) =
                <(QuantileValues<i64>, QuantileValues<i64>, QuantileValues<i64>)>::default();
            all.iter().for_each(|value| one.push(*value));
            parts.extend(&all[..30_001]);
            assert_eq!(one.parts().0.is_empty(), distinct > 50_000, "{distinct}");
            assert!(distinct > 3_000 || one.held() < 200_000, "{} bytes", one.held());
            merged.extend(&all[30_001..]);
            let (counted, plain) = parts.parts();
            merged.extend(plain);
            merged.extend_counted(counted.iter().copied());
            for values in [one, merged] {
                assert_eq!(picked(values, &places), expected, "{distinct}");
            }
        }
        assert!(picked(QuantileValues::default(), &[0]).is_empty());
    }
}
