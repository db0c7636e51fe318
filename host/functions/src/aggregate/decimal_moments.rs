//! Variances, deviations, covariances and correlations of NUMERIC and BIGNUMERIC: FLOAT64 of exact sums, so that numbers
//! which differ behind their first 15 digits do not become equal.

use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use super::floats::FloatAggregate;
use crate::arrays::arity;
use crate::context::value_error;
use crate::decimal::{BigNumeric, Form, Numeric, Wide, is_numeric_type};

/// A moment of decimals: one of the aggregates of FLOAT64 that are neither sums nor extremes.
pub fn decimal_moment(which: FloatAggregate) -> Arc<AggregateUDF> {
    let signature = Signature::any(which.arguments(), Volatility::Immutable);
    let name = format!("decimal_{}", which.name());
    Arc::new(AggregateUDF::from(DecimalMoment { which, name, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct DecimalMoment {
    which: FloatAggregate,
    name: String,
    signature: Signature,
}

impl DecimalMoment {
    pub(crate) fn which(&self) -> FloatAggregate {
        self.which
    }
}

impl AggregateUDFImpl for DecimalMoment {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let first = arguments.expr_fields.first().ok_or_else(arity)?;
        if arguments.is_distinct {
            return Err(value_error("variances of different decimals are not supported"));
        }
        Ok(match is_numeric_type(first.data_type())? {
            true => Box::new(Moments::<Numeric>::new(self.which)),
            false => Box::new(Moments::<BigNumeric>::new(self.which)),
        })
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[sums]", arguments.name), DataType::Binary, true))])
    }
}

/// Of each pair of values: x, y, and their products.
const SUMS: usize = 5;

/// Which of these an aggregate is computed of; the others stay 0.
fn sums_of(which: FloatAggregate) -> &'static [usize] {
    match which {
        FloatAggregate::Correlation => &[0, 1, 2, 3, 4],
        FloatAggregate::CovariancePop | FloatAggregate::CovarianceSamp => &[0, 1, 4],
        _ => &[0, 2],
    }
}

/// Sums as whole numbers of units, in two's complement.
#[derive(Debug)]
struct Moments<F> {
    which: FloatAggregate,
    rows: i64,
    sums: [Wide; SUMS],
    form: PhantomData<F>,
}

impl<F: Form> Moments<F> {
    fn new(which: FloatAggregate) -> Self {
        Self { which, rows: 0, sums: [Wide::ZERO; SUMS], form: PhantomData }
    }

    fn add(&mut self, arrays: &[ArrayRef], leaves: bool) -> Result<()> {
        let column = |i: usize| arrays.get(i).and_then(|array| array.as_primitive_opt::<F::Arrow>());
        let first = column(0).ok_or_else(arity)?;
        let second = column(1).unwrap_or(first);
        let places = sums_of(self.which);
        for pair in first.iter().zip(second) {
            let (Some(x), Some(y)) = pair else { continue };
            let (x, y) = (F::parts(x), F::parts(y));
            let times = |(one_negative, one): (bool, Wide), (other_negative, other): (bool, Wide)| {
                (one_negative != other_negative, one.times(&other))
            };
            for &place in places {
                let (negative, size) = match place {
                    0 => x,
                    1 => y,
                    2 => times(x, x),
                    3 => times(y, y),
                    _ => times(x, y),
                };
                if let Some(sum) = self.sums.get_mut(place) {
                    *sum = if negative == leaves { sum.plus(&size) } else { sum.minus(&size) };
                }
            }
            self.rows = if leaves { self.rows.wrapping_sub(1) } else { self.rows.wrapping_add(1) };
        }
        Ok(())
    }

    /// So many rows times a sum of products, without the product of two sums, divided, as the nearest FLOAT64.
    fn spread(&self, products: usize, one: usize, other: usize, divisor: i64) -> f64 {
        const MORE: u32 = 40;
        let sum = |i: usize| self.sums.get(i).map_or((false, Wide::ZERO), Wide::signed);
        let (mixed_negative, mixed) = sum(products);
        let ((one_negative, one), (other_negative, other)) = (sum(one), sum(other));
        let mixed = mixed.times_small(self.rows.unsigned_abs());
        let square = one.times(&other);
        let square_negative = one_negative != other_negative;
        let (negative, size) = match mixed_negative == square_negative {
            false => (mixed_negative, mixed.plus(&square)),
            true if mixed >= square => (mixed_negative, mixed.minus(&square)),
            true => (!mixed_negative, square.minus(&mixed)),
        };
        let divisor = Wide::of(u128::from(self.rows.unsigned_abs()) * u128::from(divisor.unsigned_abs()));
        let digits = size.times(&Wide::power_of_ten(MORE)).over(&divisor).0.digits();
        let sign = if negative { "-" } else { "" };
        // A text is read as the nearest float.
        let text = format!("{sign}{}e-{}", if digits.is_empty() { "0" } else { &digits }, 2 * F::SCALE + MORE);
        text.parse().unwrap_or(f64::NAN)
    }

    fn value(&self) -> Option<f64> {
        use FloatAggregate as Of;
        let (needed, divisor) = match self.which {
            Of::VarianceSamp | Of::DeviationSamp | Of::CovarianceSamp => (2, self.rows - 1),
            Of::Correlation => (2, self.rows),
            _ => (1, self.rows),
        };
        if self.rows < needed {
            return None;
        }
        if let Of::CovariancePop | Of::CovarianceSamp = self.which {
            return Some(self.spread(4, 0, 1, divisor));
        }
        let variance = self.spread(2, 0, 0, divisor);
        Some(match self.which {
            Of::DeviationPop | Of::DeviationSamp => variance.sqrt(),
            Of::Correlation => {
                let (other, both) = (self.spread(3, 1, 1, divisor), self.spread(4, 0, 1, divisor));
                let product = variance * other;
                let together = if product.is_normal() { product.sqrt() } else { variance.sqrt() * other.sqrt() };
                (both / together).clamp(-1.0, 1.0)
            }
            _ => variance,
        })
    }
}

impl<F: Form> Accumulator for Moments<F> {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.add(arrays, false)
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.add(arrays, true)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = states.first().and_then(|states| states.as_binary_opt::<i32>()).ok_or_else(arity)?;
        for state in states.iter().flatten() {
            let (rows, sums) = state.split_first_chunk().ok_or_else(arity)?;
            self.rows = self.rows.wrapping_add(i64::from_le_bytes(*rows));
            for (sum, bytes) in self.sums.iter_mut().zip(sums.chunks_exact(Wide::BYTES)) {
                *sum = sum.plus(&Wide::of_bytes(bytes));
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let rows = self.rows.to_le_bytes().into_iter();
        let bytes = rows.chain(self.sums.iter().flat_map(Wide::bytes)).collect();
        Ok(vec![ScalarValue::Binary(Some(bytes))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.value()))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
