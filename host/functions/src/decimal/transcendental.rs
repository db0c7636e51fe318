//! Logarithms and powers of e in fixed point, with so many more bits than a result has that rounding it to its last digit
//! is right, also where the exact result lies halfway between two.

use std::sync::LazyLock;

use super::form::{Fault, Form, Made, Native, fitting};
use super::wide::Wide;

/// The bits behind the point.
const FRACTION: u32 = 448;
/// How often the argument of the power series is halved.
const HALVINGS: u32 = 16;

/// A number in fixed point, with its sign.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixed {
    pub(super) negative: bool,
    pub(super) size: Wide,
}

static LN_2: LazyLock<Wide> = LazyLock::new(|| inverse_tangent(&ONE.over_small(3).0).shifted_left(1));
static ONE: LazyLock<Wide> = LazyLock::new(|| Wide::of(1).shifted_left(FRACTION));

/// The inverse hyperbolic tangent of a number of 0 to 1/2: z + z^3/3 + z^5/5 + ...
fn inverse_tangent(z: &Wide) -> Wide {
    let square = times(z, z);
    let (mut sum, mut power, mut of) = (Wide::ZERO, *z, 1);
    while !power.is_zero() {
        sum = sum.plus(&power.over_small(of).0);
        power = times(&power, &square);
        of += 2;
    }
    sum
}

fn times(one: &Wide, other: &Wide) -> Wide {
    one.times(other).shifted_right(FRACTION)
}

/// The natural logarithm of a decimal above 0, of so many places behind the point.
pub(super) fn logarithm(size: &Wide, scale: u32) -> Fixed {
    let unit = Wide::power_of_ten(scale);
    // size / unit = m * 2^e, with m of 1/2 to 3/2.
    let mut power = i64::from(size.bits()) - i64::from(unit.bits());
    let shift = u32::try_from(i64::from(FRACTION) - power).unwrap_or_default();
    let mut m = size.shifted_left(shift).over(&unit).0;
    if m > ONE.plus(&ONE.shifted_right(1)) {
        m = m.shifted_right(1);
        power += 1;
    }
    let below = m < *ONE;
    let distance = if below { ONE.minus(&m) } else { m.minus(&ONE) };
    let z = distance.shifted_left(FRACTION).over(&m.plus(&ONE)).0;
    let of_m = Fixed { negative: below, size: inverse_tangent(&z).shifted_left(1) };
    let of_power = Fixed { negative: power < 0, size: LN_2.times_small(power.unsigned_abs()) };
    sum(of_power, of_m)
}

fn sum(one: Fixed, other: Fixed) -> Fixed {
    if one.negative == other.negative {
        return Fixed { size: one.size.plus(&other.size), ..one };
    }
    match one.size >= other.size {
        true => Fixed { size: one.size.minus(&other.size), ..one },
        false => Fixed { size: other.size.minus(&one.size), ..other },
    }
}

/// A decimal in fixed point.
pub(super) fn fixed<F: Form>(value: Native<F>) -> Fixed {
    let (negative, size) = F::parts(value);
    Fixed { negative, size: size.shifted_left(FRACTION).over(&Wide::power_of_ten(F::SCALE)).0 }
}

/// The decimal nearest to a number in fixed point.
pub(super) fn decimal<F: Form>(of: Fixed) -> Made<Native<F>> {
    fitting::<F>(of.negative, nearest(&of.size.times(&Wide::power_of_ten(F::SCALE)), FRACTION))
}

/// A number divided by a power of 2, of more than 60. What is so near below a half that it may be one counts as one.
fn nearest(number: &Wide, power: u32) -> Wide {
    let near = Wide::of(1).shifted_left(power - 1).plus(&Wide::of(1).shifted_left(power - 60));
    number.plus(&near).shifted_right(power)
}

/// A fixed number times a decimal.
pub(super) fn scaled<F: Form>(of: Fixed, by: Native<F>) -> Fixed {
    let (negative, size) = F::parts(by);
    let size = of.size.times(&size).over(&Wide::power_of_ten(F::SCALE)).0;
    Fixed { negative: of.negative != negative, size }
}

/// e raised to a number, as a decimal with a sign.
pub(super) fn power<F: Form>(of: Fixed, negative: bool) -> Made<Native<F>> {
    // e^128 is beyond both types, and e^-128 is 0 to both.
    if of.size.bits() > FRACTION + 7 {
        return if of.negative { fitting::<F>(false, Wide::ZERO) } else { Err(Fault::Overflow) };
    }
    // e^x = 2^q * e^r, with r of 0 to ln 2.
    let (quotient, rest) = of.size.over(&LN_2);
    let q = quotient.halves().map_or(0, |(low, _)| u32::try_from(low).unwrap_or_default());
    let (q, r) = if of.negative { (q + 1, LN_2.minus(&rest)) } else { (q, rest) };
    let x = r.shifted_right(HALVINGS);
    let (mut sum, mut term, mut n) = (*ONE, x, 1);
    while !term.is_zero() {
        sum = sum.plus(&term);
        n += 1;
        term = times(&term, &x).over_small(n).0;
    }
    for _ in 0..HALVINGS {
        sum = times(&sum, &sum);
    }
    let size = sum.times(&Wide::power_of_ten(F::SCALE));
    fitting::<F>(negative, nearest(&size, if of.negative { FRACTION + q } else { FRACTION - q }))
}

/// The quotient of two logarithms, of which the second is not 0.
pub(super) fn quotient<F: Form>(one: Fixed, other: Fixed) -> Made<Native<F>> {
    const MORE: u32 = 64;
    let size = one.size.times(&Wide::power_of_ten(F::SCALE)).shifted_left(MORE).over(&other.size).0;
    fitting::<F>(one.negative != other.negative, nearest(&size, MORE))
}
