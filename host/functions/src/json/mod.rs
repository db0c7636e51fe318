//! Kernels of JSON text.
//!
//! Text that is not JSON has no values: log lines are a mix, so reading from it gives NULL and never an error. Only
//! PARSE_JSON and the strict conversions fail.

pub(crate) mod change;
mod exact;
pub mod path;
pub(crate) mod read;
mod stream;
mod tree;
