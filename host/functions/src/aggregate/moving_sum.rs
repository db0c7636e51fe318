//! SUM and AVG of FLOAT64 over frames that values leave.
//!
//! The engine subtracts what leaves. Of floats that loses digits (1e20 + 1 - 1e20 is 0), and an infinity or NaN never
//! leaves. Here nothing is subtracted: the frame is a queue of two stacks, the older of which holds sums.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use super::sum::first;
use crate::arrays::arity;
use crate::context::{Transient, failed};

/// SUM of FLOAT64, or AVG, over frames that values leave.
pub fn moving_sum(average: bool) -> Arc<AggregateUDF> {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
    Arc::new(AggregateUDF::from(MovingSum { average, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct MovingSum {
    average: bool,
    signature: Signature,
}

impl MovingSum {
    /// Whether it is AVG.
    pub(crate) fn is_average(&self) -> bool {
        self.average
    }
}

impl AggregateUDFImpl for MovingSum {
    fn name(&self) -> &'static str {
        if self.average { "moving_average" } else { "moving_sum" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame { average: self.average, ..Frame::default() }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let part = |name: &str, ty| Arc::new(Field::new(format!("{}[{name}]", arguments.name), ty, true));
        Ok(vec![part("sum", DataType::Float64), part("rows", DataType::Int64)])
    }
}

/// The values of a frame, but NULLs.
#[derive(Debug, Default)]
struct Frame {
    average: bool,
    /// For each of the older values the sum of it and those between it and the newer ones; the oldest is the last.
    older: Vec<f64>,
    /// The newer values; the newest is the last.
    newer: Vec<f64>,
    newer_sum: f64,
    /// What other accumulators summed, and of how many values.
    merged: (f64, i64),
    memory: Transient,
}

impl Frame {
    /// The sum of all values, and how many they are.
    fn sum(&self) -> (f64, i64) {
        let count = i64::try_from(self.older.len() + self.newer.len()).unwrap_or(i64::MAX);
        let older = self.older.last().copied().unwrap_or_default();
        (older + self.newer_sum + self.merged.0, count.saturating_add(self.merged.1))
    }

    /// Removes the oldest value.
    fn drop_oldest(&mut self) -> Result<()> {
        if self.older.is_empty() {
            reserve(&mut self.memory, &mut self.older, self.newer.len())?;
            let mut sum = 0.0;
            while let Some(value) = self.newer.pop() {
                sum += value;
                self.older.push(sum);
            }
            self.newer_sum = 0.0;
        }
        self.older.pop();
        Ok(())
    }
}

/// Room for so many values more. It is counted as long as the frame lives, for it is never given back.
fn reserve(memory: &mut Transient, values: &mut Vec<f64>, more: usize) -> Result<()> {
    let missing = (values.len() + more).saturating_sub(values.capacity());
    if missing > 0 {
        // Twice as much each time, so that a frame that grows by single rows is not copied for each.
        let grown = missing.max(values.capacity());
        memory.grow(grown.saturating_mul(size_of::<f64>())).map_err(failed)?;
        values.reserve_exact(values.capacity() - values.len() + grown);
    }
    Ok(())
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = first(values)?.as_primitive::<Float64Type>();
        reserve(&mut self.memory, &mut self.newer, values.len() - values.null_count())?;
        for value in values.iter().flatten() {
            self.newer_sum += value;
            self.newer.push(value);
        }
        Ok(())
    }

    /// What leaves is what came first.
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = first(values)?;
        for _ in 0..values.len() - values.null_count() {
            self.drop_oldest()?;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [sums, rows] = states else { return Err(arity()) };
        let (sums, rows) = (sums.as_primitive::<Float64Type>(), rows.as_primitive::<Int64Type>());
        for (sum, rows) in sums.iter().flatten().zip(rows.iter().flatten()) {
            self.merged = (self.merged.0 + sum, self.merged.1.saturating_add(rows));
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (sum, rows) = self.sum();
        Ok(vec![ScalarValue::Float64(Some(sum)), ScalarValue::Int64(Some(rows))])
    }

    #[expect(clippy::cast_precision_loss, reason = "no frame has 2^53 rows")]
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (sum, rows) = self.sum();
        let value = if self.average { sum / rows as f64 } else { sum };
        Ok(ScalarValue::Float64((rows > 0).then_some(value)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + (self.older.capacity() + self.newer.capacity()) * size_of::<f64>()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::Float64Array;

    use super::*;

    fn array(values: &[Option<f64>]) -> Vec<ArrayRef> {
        vec![Arc::new(Float64Array::from(values.to_vec()))]
    }

    /// The results of frames of `width` rows, as the engine asks for them: what comes, then what leaves.
    fn moved(values: &[Option<f64>], width: usize, average: bool) -> Vec<Option<f64>> {
        let mut frame = Frame { average, ..Frame::default() };
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
        assert_eq!(moved(&some(&[1e20, 1.0, 2.0, 2.0]), 2, true), some(&[1e20, 5e19, 1.5, 2.0]));
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        assert_eq!(moved(&some(&[inf, 1.0, 2.0, 2.0]), 2, false), some(&[inf, inf, 3.0, 4.0]));
        let of_nan = moved(&some(&[nan, 1.0, -inf, 2.0, inf, 7.0, 8.0]), 2, false);
        assert!(of_nan.iter().take(2).flatten().all(|value| value.is_nan()));
        assert_eq!(of_nan.get(2..), Some(some(&[-inf, -inf, inf, inf, 15.0]).as_slice()));
    }

    #[test]
    fn nulls_are_in_no_frame() {
        let values = [None, Some(1.0), None, None, Some(4.0)];
        assert_eq!(moved(&values, 2, true), [None, Some(1.0), Some(1.0), None, Some(4.0)]);
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
            assert_eq!(moved(&values, width, false), expected, "{width}");
        }
    }

    #[test]
    fn sums_are_merged() {
        let (mut one, mut other) = (Frame { average: true, ..Frame::default() }, Frame::default());
        one.update_batch(&array(&[Some(1.0), None])).unwrap();
        other.update_batch(&array(&[Some(2.0), Some(6.0)])).unwrap();
        let state: Vec<ArrayRef> = other.state().unwrap().iter().map(|value| value.to_array().unwrap()).collect();
        one.merge_batch(&state).unwrap();
        assert_eq!(one.evaluate().unwrap(), ScalarValue::Float64(Some(3.0)));
        assert!(one.size() >= size_of::<f64>());
    }
}
