//! The totals that aggregates of FLOAT64 keep.
//!
//! Large values are kept smaller by a power of two, so that a total overflows only where its result does, whatever the
//! order of the rows.

use std::fmt::Debug;

use datafusion::error::Result;

use super::FloatAggregate;
use crate::context::value_error;

/// The most numbers of which a total consists.
pub(super) const MOST_PARTS: usize = 8;

/// What is known of some rows; by default of none.
pub(super) trait Total: Copy + Default + Debug + Send + Sync + 'static {
    /// Of how many numbers it consists.
    const PARTS: usize;

    /// Adds a row; `y` is the second argument, or anything if there is none.
    fn add(&mut self, x: f64, y: f64);

    /// Adds the rows of another total.
    fn join(&mut self, other: &Self);

    /// The value of an aggregate; `None` is NULL.
    ///
    /// # Errors
    /// If it overflows.
    fn value(&self, which: FloatAggregate) -> Result<Option<f64>>;

    /// Its numbers.
    fn parts(&self) -> [f64; MOST_PARTS];

    /// The total that consists of these numbers.
    fn of_parts(parts: [f64; MOST_PARTS]) -> Self;
}

/// 2 to the power of -100: of so many times less values no sum overflows.
const SUM_SCALE: f64 = 7.888_609_052_210_118e-31;

/// From here on a sum is kept smaller.
const LARGE_SUM: f64 = 1e300;

/// How many rows there are, and their sum.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    rows: f64,
    sum: f64,
    /// Whether `sum` is smaller by [`SUM_SCALE`].
    is_scaled: bool,
}

impl Sum {
    fn plus(&mut self, sum: f64, is_scaled: bool) {
        if !self.is_scaled && !is_scaled {
            let together = self.sum + sum;
            if together.abs() < LARGE_SUM {
                self.sum = together;
                return;
            }
        }
        let scaled = |sum: f64, is_scaled: bool| if is_scaled { sum } else { sum * SUM_SCALE };
        self.sum = scaled(self.sum, self.is_scaled) + scaled(sum, is_scaled);
        self.is_scaled = true;
    }
}

impl Total for Sum {
    const PARTS: usize = 3;

    fn add(&mut self, x: f64, _: f64) {
        self.rows += 1.0;
        self.plus(x, false);
    }

    fn join(&mut self, other: &Self) {
        self.rows += other.rows;
        self.plus(other.sum, other.is_scaled);
    }

    fn value(&self, which: FloatAggregate) -> Result<Option<f64>> {
        if self.rows == 0.0 {
            return Ok(None);
        }
        let kept = if which == FloatAggregate::Average { self.sum / self.rows } else { self.sum };
        let value = if self.is_scaled { kept / SUM_SCALE } else { kept };
        if value.is_infinite() && kept.is_finite() {
            return Err(value_error("the sum overflows FLOAT64; SUM(x / 1e9) is a smaller one"));
        }
        Ok(Some(value))
    }

    fn parts(&self) -> [f64; MOST_PARTS] {
        [self.rows, self.sum, f64::from(self.is_scaled), 0.0, 0.0, 0.0, 0.0, 0.0]
    }

    fn of_parts([rows, sum, is_scaled, ..]: [f64; MOST_PARTS]) -> Self {
        Self { rows, sum, is_scaled: is_scaled != 0.0 }
    }
}

/// The greatest value or the least; NaN if one is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extreme<const GREATEST: bool> {
    value: Option<f64>,
}

impl<const GREATEST: bool> Total for Extreme<GREATEST> {
    const PARTS: usize = 2;

    fn add(&mut self, x: f64, _: f64) {
        let replaces = match self.value {
            None => true,
            Some(value) if value.is_nan() => false,
            // By their bits, so that of two zeros it is always the same one.
            Some(value) => {
                x.is_nan() || if GREATEST { x.total_cmp(&value).is_gt() } else { x.total_cmp(&value).is_lt() }
            }
        };
        if replaces {
            self.value = Some(x);
        }
    }

    fn join(&mut self, other: &Self) {
        if let Some(value) = other.value {
            self.add(value, 0.0);
        }
    }

    fn value(&self, _: FloatAggregate) -> Result<Option<f64>> {
        Ok(self.value)
    }

    fn parts(&self) -> [f64; MOST_PARTS] {
        let there = f64::from(self.value.is_some());
        [there, self.value.unwrap_or_default(), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    }

    fn of_parts([there, value, ..]: [f64; MOST_PARTS]) -> Self {
        Self { value: (there != 0.0).then_some(value) }
    }
}

/// 2 to the power of -600: of so many times less values no square overflows.
const SQUARE_SCALE: f64 = 2.409_919_865_102_884e-181;

/// From here on values are kept smaller.
const LARGE_SQUARE: f64 = 1e135;

/// The means of two arguments, and the sums of the squares and products of their distances from the means.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    rows: f64,
    mean: [f64; 2],
    squares: [f64; 2],
    product: f64,
    /// Which of the arguments is smaller by [`SQUARE_SCALE`].
    is_scaled: [bool; 2],
}

impl Moments {
    /// Makes the arguments smaller that are not yet.
    fn scale(&mut self, wanted: [bool; 2]) {
        let sides = self.mean.iter_mut().zip(&mut self.squares).zip(self.is_scaled.iter_mut().zip(wanted));
        for ((mean, squares), (is_scaled, wanted)) in sides {
            if wanted && !*is_scaled {
                *mean *= SQUARE_SCALE;
                *squares = *squares * SQUARE_SCALE * SQUARE_SCALE;
                self.product *= SQUARE_SCALE;
                *is_scaled = true;
            }
        }
    }

    fn unscaled(value: f64, is_scaled: bool) -> f64 {
        if is_scaled { value / SQUARE_SCALE } else { value }
    }
}

impl Total for Moments {
    const PARTS: usize = 8;

    fn add(&mut self, x: f64, y: f64) {
        self.scale([x.abs() > LARGE_SQUARE, y.abs() > LARGE_SQUARE]);
        let [x_scaled, y_scaled] = self.is_scaled;
        let kept = |value: f64, is_scaled: bool| if is_scaled { value * SQUARE_SCALE } else { value };
        let (x, y) = (kept(x, x_scaled), kept(y, y_scaled));
        self.rows += 1.0;
        let (before_x, before_y) = (x - self.mean[0], y - self.mean[1]);
        self.mean[0] += before_x / self.rows;
        self.mean[1] += before_y / self.rows;
        self.squares[0] += before_x * (x - self.mean[0]);
        self.squares[1] += before_y * (y - self.mean[1]);
        // An infinity is at no distance from a mean that it makes infinite.
        let is_finite = x.is_finite() && y.is_finite();
        self.product += if is_finite { before_x * (y - self.mean[1]) } else { f64::NAN };
    }

    fn join(&mut self, other: &Self) {
        if other.rows == 0.0 {
            return;
        }
        if self.rows == 0.0 {
            *self = *other;
            return;
        }
        let mut other = *other;
        self.scale(other.is_scaled);
        other.scale(self.is_scaled);
        let rows = self.rows + other.rows;
        let share = other.rows / rows;
        let (x, y) = (other.mean[0] - self.mean[0], other.mean[1] - self.mean[1]);
        let weight = self.rows * share;
        self.squares[0] += other.squares[0] + x * x * weight;
        self.squares[1] += other.squares[1] + y * y * weight;
        self.product += other.product + x * y * weight;
        self.mean[0] += x * share;
        self.mean[1] += y * share;
        self.rows = rows;
    }

    fn value(&self, which: FloatAggregate) -> Result<Option<f64>> {
        use FloatAggregate::{
            Correlation, CovariancePop, CovarianceSamp, DeviationPop, DeviationSamp, VariancePop, VarianceSamp,
        };
        let (least, rows) = match which {
            VarianceSamp | DeviationSamp | CovarianceSamp => (2.0, self.rows - 1.0),
            Correlation => (2.0, self.rows),
            _ => (1.0, self.rows),
        };
        if self.rows < least {
            return Ok(None);
        }
        let [x_scaled, y_scaled] = self.is_scaled;
        let variance = self.squares[0] / rows;
        Ok(Some(match which {
            VariancePop | VarianceSamp => Self::unscaled(Self::unscaled(variance, x_scaled), x_scaled),
            DeviationPop | DeviationSamp => Self::unscaled(variance.sqrt(), x_scaled),
            CovariancePop | CovarianceSamp => Self::unscaled(Self::unscaled(self.product / rows, x_scaled), y_scaled),
            // NaN of values that are all the same.
            _ => {
                let [x, y] = self.squares;
                let both = x * y;
                // As one root where it neither overflows nor loses digits.
                let spread = if both.is_normal() { both.sqrt() } else { x.sqrt() * y.sqrt() };
                (self.product / spread).clamp(-1.0, 1.0)
            }
        }))
    }

    fn parts(&self) -> [f64; MOST_PARTS] {
        let Self { rows, mean: [x, y], squares: [xx, yy], product, is_scaled: [x_scaled, y_scaled] } = *self;
        [rows, x, y, xx, yy, product, f64::from(x_scaled), f64::from(y_scaled)]
    }

    fn of_parts([rows, x, y, xx, yy, product, x_scaled, y_scaled]: [f64; MOST_PARTS]) -> Self {
        let is_scaled = [x_scaled != 0.0, y_scaled != 0.0];
        Self { rows, mean: [x, y], squares: [xx, yy], product, is_scaled }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::FloatAggregate::{
        Average, Correlation, CovariancePop, DeviationSamp, Maximum, Minimum, Sum as Summed, VariancePop,
    };
    use super::*;

    /// The value over rows, added at once and as joined totals of some of them.
    fn values<T: Total>(which: FloatAggregate, rows: &[[f64; 2]]) -> Vec<Option<f64>> {
        let total = |rows: &[[f64; 2]]| {
            let mut total = T::default();
            rows.iter().for_each(|[x, y]| total.add(*x, *y));
            T::of_parts(total.parts())
        };
        let joined = |size: usize| {
            let mut all = T::default();
            rows.chunks(size).for_each(|rows| all.join(&total(rows)));
            all.value(which).unwrap()
        };
        vec![total(rows).value(which).unwrap(), joined(1), joined(2)]
    }

    fn close<T: Total>(which: FloatAggregate, rows: &[[f64; 2]], expected: f64) {
        for value in values::<T>(which, rows) {
            let value = value.unwrap();
            let same = (value - expected).abs() <= 1e-12 * expected.abs() || value.to_bits() == expected.to_bits();
            assert!(same || value.is_nan() && expected.is_nan(), "{which:?} {rows:?}: {value} for {expected}");
        }
    }

    fn singles(values: &[f64]) -> Vec<[f64; 2]> {
        values.iter().map(|value| [*value, 0.0]).collect()
    }

    #[test]
    fn sums_overflow_only_where_their_result_does() {
        close::<Sum>(Summed, &singles(&[1e308, 1e308, -1e308, -1e308, 1.0]), 1.0);
        close::<Sum>(Summed, &singles(&[1.5e308, 1.0, -0.5e308]), 1e308);
        close::<Sum>(Average, &singles(&[1.7e308, 1.7e308, 1.7e308]), 1.7e308);
        close::<Sum>(Summed, &singles(&[f64::INFINITY, 1e308, 1e308]), f64::INFINITY);
        close::<Sum>(Summed, &singles(&[f64::INFINITY, -f64::INFINITY]), f64::NAN);
        let mut sum = Sum::default();
        singles(&[1e308, 1e308]).iter().for_each(|[x, _]| sum.add(*x, 0.0));
        assert!(sum.value(Summed).is_err());
        assert_eq!(values::<Sum>(Summed, &[]), [None, None, None]);
    }

    #[test]
    fn a_nan_is_the_least_and_the_greatest() {
        close::<Extreme<false>>(Minimum, &singles(&[2.0, f64::NAN, 1.0]), f64::NAN);
        close::<Extreme<true>>(Maximum, &singles(&[2.0, f64::NAN, 3.0]), f64::NAN);
        close::<Extreme<true>>(Maximum, &singles(&[f64::NEG_INFINITY, 2.0, 1.0]), 2.0);
        close::<Extreme<false>>(Minimum, &singles(&[0.0, -0.0]), -0.0);
        close::<Extreme<false>>(Minimum, &singles(&[-0.0, 0.0]), -0.0);
        assert_eq!(values::<Extreme<true>>(Maximum, &[]), [None, None, None]);
    }

    #[test]
    fn squares_overflow_only_where_their_result_does() {
        close::<Moments>(VariancePop, &singles(&[1.0, 2.0, 3.0, 4.0]), 1.25);
        close::<Moments>(DeviationSamp, &singles(&[1.0, 2e304, -2e304]), 2e304);
        close::<Moments>(VariancePop, &singles(&[2e304, -2e304]), f64::INFINITY);
        close::<Moments>(VariancePop, &singles(&[f64::INFINITY]), f64::NAN);
        close::<Moments>(VariancePop, &singles(&[f64::NAN, 1.0]), f64::NAN);
        close::<Moments>(CovariancePop, &[[1.0, 1.7e308], [5.0, 1.7e308], [9.0, 1.7e308]], 0.0);
        close::<Moments>(CovariancePop, &[[1.0, 2.0], [f64::INFINITY, 4.0]], f64::NAN);
        close::<Moments>(CovariancePop, &[[1.0, 1.0], [2e304, -2e304]], f64::NEG_INFINITY);
        close::<Moments>(Correlation, &[[1.0, -1.0], [2e160, -2e160], [2.0, -2.0]], -1.0);
        close::<Moments>(Correlation, &[[1.0, 2.0], [1.0, 3.0]], f64::NAN);
        assert_eq!(values::<Moments>(Correlation, &[[1.0, 2.0]]), [None, None, None]);
    }
}
