//! NUMERIC and BIGNUMERIC: kernels of their arithmetic, conversions and functions.
//!
//! The engine's own arithmetic of decimals makes wider types of results and wraps around or cuts off; here a result has the
//! type of its arguments, a half is rounded away from zero, and what is beyond the type is an error. A kernel takes values
//! of either type, and both of its arguments have the same.

mod arithmetic;
mod conversion;
mod form;
mod functions;
mod series;
mod text;
mod transcendental;
mod wide;

pub(crate) use arithmetic::interpolated;
pub(crate) use conversion::texts_of;
pub(crate) use form::{BigNumeric, Form, Native, Numeric, array_of, is_numeric_type};
pub(crate) use text::{in_exponent, in_places};
pub(crate) use wide::Wide;

use crate::kernel::Kernel;

/// All kernels of decimals.
pub(crate) fn kernels() -> impl Iterator<Item = &'static Kernel> {
    [arithmetic::KERNELS, conversion::KERNELS, functions::KERNELS, series::KERNELS].into_iter().flatten()
}
