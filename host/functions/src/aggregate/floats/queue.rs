//! The total of a frame that values leave: a queue of two stacks, the older of which holds totals.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::common::not_impl_err;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;

use super::FloatAggregate;
use super::accumulators::each;
use super::totals::Total;
use crate::context::{Transient, failed};

/// The values of a frame, but NULLs.
#[derive(Debug)]
pub(super) struct Frame<T> {
    which: FloatAggregate,
    /// For each of the older values the total of it and those between it and the newer ones; the oldest is the last.
    older: Vec<T>,
    /// The newer values; the newest is the last.
    newer: Vec<[f64; 2]>,
    newer_total: T,
    memory: Transient,
}

impl<T: Total> Frame<T> {
    pub(super) fn new(which: FloatAggregate) -> Self {
        Self { which, older: Vec::new(), newer: Vec::new(), newer_total: T::default(), memory: Transient::default() }
    }

    /// Removes the oldest value.
    fn drop_oldest(&mut self) -> Result<()> {
        if self.older.is_empty() {
            reserve(&mut self.memory, &mut self.older, self.newer.len())?;
            let mut total = T::default();
            while let Some([x, y]) = self.newer.pop() {
                total.add(x, y);
                self.older.push(total);
            }
            self.newer_total = T::default();
        }
        self.older.pop();
        Ok(())
    }
}

/// Room for so many values more. It is counted as long as the frame lives, for it is never given back.
fn reserve<V>(memory: &mut Transient, values: &mut Vec<V>, more: usize) -> Result<()> {
    let missing = (values.len() + more).saturating_sub(values.capacity());
    if missing > 0 {
        // Twice as much each time, so that a frame that grows by single rows is not copied for each.
        let grown = missing.max(values.capacity());
        memory.grow(grown.saturating_mul(size_of::<V>())).map_err(failed)?;
        values.reserve_exact(values.capacity() - values.len() + grown);
    }
    Ok(())
}

impl<T: Total> Accumulator for Frame<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        reserve(&mut self.memory, &mut self.newer, values.first().map_or(0, |values| values.len()))?;
        each(values, |_, x, y| {
            self.newer_total.add(x, y);
            self.newer.push([x, y]);
        })
    }

    /// What leaves is what came first.
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut leaving = 0;
        each(values, |_, _, _| leaving += 1)?;
        (0..leaving).try_for_each(|_| self.drop_oldest())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    /// Frames are not computed in parts.
    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        not_impl_err!("a frame has no state")
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        not_impl_err!("a frame has no state")
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut total = self.older.last().copied().unwrap_or_default();
        total.join(&self.newer_total);
        total.value(self.which).map(ScalarValue::Float64)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.older.capacity() * size_of::<T>() + self.newer.capacity() * size_of::<[f64; 2]>()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::Float64Array;

    use super::super::totals::{Extreme, Sum};
    use super::FloatAggregate::{Average, Maximum};
    use super::*;

    fn array(values: &[Option<f64>]) -> Vec<ArrayRef> {
        vec![Arc::new(Float64Array::from(values.to_vec()))]
    }

    /// The results of frames of `width` rows, as the engine asks for them: what comes, then what leaves.
    fn moved<T: Total>(values: &[Option<f64>], width: usize, which: FloatAggregate) -> Vec<Option<f64>> {
        let mut frame = Frame::<T>::new(which);
        let mut results = Vec::new();
        for (i, value) in values.iter().enumerate() {
            frame.update_batch(&array(&[*value])).unwrap();
            if let Some(left) = i.checked_sub(width).and_then(|left| values.get(left)) {
                frame.retract_batch(&array(&[*left])).unwrap();
            }
            match frame.evaluate().unwrap() {
                ScalarValue::Float64(value) => results.push(value),
                _ => results.push(None),
            }
        }
        results
    }

    #[test]
    fn what_left_leaves_nothing_behind() {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        let sums = |values: &[f64]| moved::<Sum>(&some(values), 2, FloatAggregate::Sum);
        assert_eq!(moved::<Sum>(&some(&[1e20, 1.0, 2.0, 2.0]), 2, Average), some(&[1e20, 5e19, 1.5, 2.0]));
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        assert_eq!(sums(&[inf, 1.0, 2.0, 2.0]), some(&[inf, inf, 3.0, 4.0]));
        let of_nan = sums(&[nan, 1.0, -inf, 2.0, inf, 7.0, 8.0]);
        assert!(of_nan.iter().take(2).flatten().all(|value| value.is_nan()));
        assert_eq!(of_nan.get(2..), Some(some(&[-inf, -inf, inf, inf, 15.0]).as_slice()));
        let greatest = moved::<Extreme<true>>(&some(&[9.0, 1.0, nan, 2.0, 1.0, 0.0]), 2, Maximum);
        assert!(greatest.iter().skip(2).take(2).flatten().all(|value| value.is_nan()));
        assert_eq!(
            (greatest.get(..2), greatest.get(4..)),
            (Some(some(&[9.0, 9.0]).as_slice()), Some(some(&[2.0, 1.0]).as_slice()))
        );
    }

    #[test]
    fn nulls_are_in_no_frame() {
        let values = [None, Some(1.0), None, None, Some(4.0)];
        assert_eq!(moved::<Sum>(&values, 2, Average), [None, Some(1.0), Some(1.0), None, Some(4.0)]);
    }

    #[test]
    fn frames_of_any_width_are_sums_of_their_rows() {
        let value = |i: u32| (!i.is_multiple_of(5)).then(|| f64::from(i * 7_919 % 101));
        let values: Vec<_> = (0..300).map(value).collect();
        for width in [1, 2, 3, 17, 299] {
            let expected: Vec<_> = (0..values.len())
                .map(|i| {
                    let rows: Vec<f64> =
                        values.iter().take(i + 1).skip((i + 1).saturating_sub(width)).flatten().copied().collect();
                    (!rows.is_empty()).then(|| rows.iter().sum::<f64>())
                })
                .collect();
            assert_eq!(moved::<Sum>(&values, width, FloatAggregate::Sum), expected, "{width}");
        }
    }
}
