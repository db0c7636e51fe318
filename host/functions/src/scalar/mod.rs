//! Scalar functions of the engine: the kernels, and helpers that have parameters of their own. What the functions of
//! this module give are calls, expressions of the engine.

pub(crate) mod bounded;
pub(crate) mod counted;
pub(crate) mod json_text;
pub(crate) mod kernel_function;
pub(crate) mod nullable;
pub(crate) mod raised;
pub(crate) mod united;
pub(crate) mod unnamed_field;

pub use bounded::{all_or_null, bounded};
pub use counted::counted;
pub use json_text::{json_text, portable_json_text};
pub use nullable::{nullable, only};
pub use raised::{raised, raised_as};
pub use united::{UNITED, united};
pub use unnamed_field::field;
