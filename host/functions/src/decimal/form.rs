//! NUMERIC and BIGNUMERIC as kernels see them: whole numbers of units of 1e-9 in 128 bits, of 1e-38 in 256.

use arrow_buffer::i256;
use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Decimal256Type};
use datafusion::error::{DataFusionError, Result};

use super::wide::Wide;
use crate::arrays::arity;
use crate::context::value_error;
use crate::types::Type;
use crate::wording::DIVISION_BY_ZERO;

/// One of the two types.
pub(crate) trait Form: std::fmt::Debug + Send + Sync + 'static {
    /// How values are held.
    type Arrow: ArrowPrimitiveType<Native: PartialOrd>;
    /// The digits behind the point.
    const SCALE: u32;
    /// The type in the dialect.
    const TYPE: Type;

    /// Whether a value is negative, and its size.
    fn parts(value: Native<Self>) -> (bool, Wide);

    /// The value of a sign and a size, if the type has it.
    fn value(negative: bool, size: Wide) -> Option<Native<Self>>;

    /// The value in units.
    fn bits(value: Native<Self>) -> i256;

    /// The value of so many units, if the type has it.
    fn of_bits(bits: i256) -> Option<Native<Self>>;

    /// The sum, if the type has it.
    fn plus(one: Native<Self>, other: Native<Self>) -> Option<Native<Self>>;

    /// The difference, if the type has it.
    fn minus(one: Native<Self>, other: Native<Self>) -> Option<Native<Self>>;

    /// The product where it takes no wider numbers.
    fn product(_: Native<Self>, _: Native<Self>) -> Option<Native<Self>> {
        None
    }

    /// The quotient where it takes no wider numbers; the divisor is not zero.
    fn quotient(_: Native<Self>, _: Native<Self>) -> Option<Native<Self>> {
        None
    }
}

/// A value of a type as it is held.
pub(crate) type Native<F> = <<F as Form>::Arrow as ArrowPrimitiveType>::Native;

#[derive(Debug)]
pub(crate) struct Numeric;

#[derive(Debug)]
pub(crate) struct BigNumeric;

/// One more than the largest NUMERIC in its units.
const BEYOND: i128 = 10_i128.pow(38);
const UNITS: i128 = 10_i128.pow(9);

impl Form for Numeric {
    type Arrow = Decimal128Type;
    const SCALE: u32 = 9;
    const TYPE: Type = Type::Numeric;

    fn parts(value: i128) -> (bool, Wide) {
        (value < 0, Wide::of(value.unsigned_abs()))
    }

    fn value(negative: bool, size: Wide) -> Option<i128> {
        let (low, high) = size.halves()?;
        let size = i128::try_from(low).ok().filter(|size| high == 0 && *size < BEYOND)?;
        Some(if negative { -size } else { size })
    }

    fn bits(value: i128) -> i256 {
        i256::from_i128(value)
    }

    fn of_bits(bits: i256) -> Option<i128> {
        bits.to_i128()
    }

    fn plus(one: i128, other: i128) -> Option<i128> {
        one.checked_add(other).filter(|sum| (1 - BEYOND..BEYOND).contains(sum))
    }

    fn minus(one: i128, other: i128) -> Option<i128> {
        one.checked_sub(other).filter(|rest| (1 - BEYOND..BEYOND).contains(rest))
    }

    fn product(one: i128, other: i128) -> Option<i128> {
        let product = one.checked_mul(other)?;
        let (whole, rest) = (product / UNITS, product % UNITS);
        Some(if rest.abs() >= UNITS / 2 { whole + rest.signum() } else { whole })
    }

    fn quotient(one: i128, other: i128) -> Option<i128> {
        let units = one.checked_mul(UNITS)?;
        let (whole, rest) = (units / other, units % other);
        let is_up = rest.abs() >= other.abs() - rest.abs();
        let away = if (units < 0) == (other < 0) { 1 } else { -1 };
        Some(if is_up { whole + away } else { whole }).filter(|value| (1 - BEYOND..BEYOND).contains(value))
    }
}

impl Form for BigNumeric {
    type Arrow = Decimal256Type;
    const SCALE: u32 = 38;
    const TYPE: Type = Type::BigNumeric;

    fn parts(value: i256) -> (bool, Wide) {
        // The smallest value is its own negation, and read without a sign its size.
        let (low, high) = value.wrapping_abs().to_parts();
        (value.is_negative(), Wide::of_halves(low, high.cast_unsigned()))
    }

    fn value(negative: bool, size: Wide) -> Option<i256> {
        let (low, high) = size.halves()?;
        let value = i256::from_parts(low, high.cast_signed());
        match (negative, value.is_negative()) {
            (false, false) => Some(value),
            (true, false) => Some(value.wrapping_neg()),
            (true, true) if value == i256::MIN => Some(value),
            _ => None,
        }
    }

    fn bits(value: i256) -> i256 {
        value
    }

    fn of_bits(bits: i256) -> Option<i256> {
        Some(bits)
    }

    fn plus(one: i256, other: i256) -> Option<i256> {
        one.checked_add(other)
    }

    fn minus(one: i256, other: i256) -> Option<i256> {
        one.checked_sub(other)
    }
}

/// Why an operation has no value.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It is beyond the type.
    Overflow,
    /// A division by zero.
    Zero,
    /// Another reason.
    Other(String),
}

pub(crate) type Made<T> = std::result::Result<T, Fault>;

impl Fault {
    pub(crate) fn error<F: Form>(self) -> DataFusionError {
        value_error(match self {
            Self::Overflow => format!(
                "a {} overflowed; SAFE_ADD and its kin give NULL instead, CAST(x AS {}",
                F::TYPE,
                if F::TYPE == Type::Numeric { "BIGNUMERIC) has more digits" } else { "FLOAT64) is a rough number" }
            ),
            Self::Zero => format!("{DIVISION_BY_ZERO}; SAFE_DIVIDE gives NULL instead"),
            Self::Other(message) => message,
        })
    }
}

/// A value of a sign and a size, or an overflow.
pub(crate) fn fitting<F: Form>(negative: bool, size: Wide) -> Made<Native<F>> {
    F::value(negative, size).ok_or(Fault::Overflow)
}

/// The array of a type, whose values an argument holds.
pub(crate) fn held<F: Form>(arguments: &[ArrayRef], i: usize) -> Result<&PrimitiveArray<F::Arrow>> {
    arguments.get(i).and_then(|array| array.as_primitive_opt::<F::Arrow>()).ok_or_else(arity)
}

/// Values as an array of the type.
pub(crate) fn array_of<F: Form>(values: impl IntoIterator<Item = Option<Native<F>>>) -> ArrayRef {
    let array: PrimitiveArray<F::Arrow> = values.into_iter().collect();
    std::sync::Arc::new(array.with_data_type(F::TYPE.arrow()))
}

/// Whether the first argument is a NUMERIC, and no BIGNUMERIC.
pub(crate) fn is_numeric(arguments: &[ArrayRef]) -> Result<bool> {
    is_numeric_type(arguments.first().ok_or_else(arity)?.data_type())
}

/// Whether a type is NUMERIC, and not BIGNUMERIC.
pub(crate) fn is_numeric_type(ty: &DataType) -> Result<bool> {
    match ty {
        DataType::Decimal128(_, 9) => Ok(true),
        DataType::Decimal256(_, 38) => Ok(false),
        _ => Err(arity()),
    }
}
