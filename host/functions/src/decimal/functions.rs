//! Kernels of roots, powers and logarithms.

use super::arithmetic::{kernel, of_one, of_two};
use super::conversion::float;
use super::form::{BigNumeric, Fault, Form, Made, Native, Numeric, fitting};
use super::text::text_of;
use super::transcendental::{Fixed, decimal, fixed, logarithm, power, quotient, scaled};
use super::wide::Wide;
use crate::kernel::Kernel;

pub(crate) const KERNELS: &[Kernel] = &[
    kernel!("decimal_square_root", 1, of_one, square_root::<F>),
    kernel!("decimal_cube_root", 1, of_one, cube_root::<F>),
    kernel!("decimal_exponential", 1, of_one, |value| power::<F>(fixed::<F>(value), false)),
    kernel!("decimal_logarithm", 1, of_one, |value| decimal::<F>(ln::<F>(value)?)),
    kernel!("decimal_logarithm_of_base", 2, of_two, logarithm_of_base::<F>),
    kernel!("decimal_logarithm_10", 1, of_one, |value| { quotient::<F>(ln::<F>(value)?, logarithm(&Wide::of(10), 0)) }),
    kernel!("decimal_power", 2, of_two, raised::<F>),
];

fn square_root<F: Form>(value: Native<F>) -> Made<Native<F>> {
    let (negative, size) = F::parts(value);
    if negative {
        return Err(Fault::Other(format!("SQRT takes 0 and more, not {}", text_of::<F>(value))));
    }
    let square = size.times(&Wide::power_of_ten(F::SCALE));
    let root = square.root();
    let up = square.minus(&root.times(&root)) > root;
    fitting::<F>(false, if up { root.plus(&Wide::of(1)) } else { root })
}

fn cube_root<F: Form>(value: Native<F>) -> Made<Native<F>> {
    let (negative, size) = F::parts(value);
    if size.is_zero() {
        return Ok(value);
    }
    let of = logarithm(&size, F::SCALE);
    power::<F>(Fixed { size: of.size.over_small(3).0, ..of }, negative)
}

fn ln<F: Form>(value: Native<F>) -> Made<Fixed> {
    let (negative, size) = F::parts(value);
    if negative || size.is_zero() {
        return Err(Fault::Other(format!("a logarithm takes numbers above 0, not {}", text_of::<F>(value))));
    }
    Ok(logarithm(&size, F::SCALE))
}

fn logarithm_of_base<F: Form>(value: Native<F>, base: Native<F>) -> Made<Native<F>> {
    let (negative, size) = F::parts(base);
    if negative || size.is_zero() || size == Wide::power_of_ten(F::SCALE) {
        let base = text_of::<F>(base);
        return Err(Fault::Other(format!("a logarithm's base is above 0 and not 1; it cannot be {base}")));
    }
    quotient::<F>(ln::<F>(value)?, logarithm(&size, F::SCALE))
}

fn raised<F: Form>(value: Native<F>, exponent: Native<F>) -> Made<Native<F>> {
    let unit = Wide::power_of_ten(F::SCALE);
    let ((negative, size), (downward, many)) = (F::parts(value), F::parts(exponent));
    if many.is_zero() {
        return fitting::<F>(false, unit);
    }
    if size.is_zero() {
        return if downward {
            Err(Fault::Other("0 cannot be raised to a negative power".to_owned()))
        } else {
            Ok(value)
        };
    }
    let (whole, rest) = many.over(&unit);
    if negative && !rest.is_zero() {
        let (base, exponent) = (text_of::<F>(value), float::<F>(exponent));
        return Err(Fault::Other(format!("{base} cannot be raised to the power {exponent}")));
    }
    power::<F>(scaled::<F>(logarithm(&size, F::SCALE), exponent), negative && whole.is_odd())
}
