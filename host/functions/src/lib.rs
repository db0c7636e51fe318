//! The functions and aggregates of the SQL dialect, over Arrow arrays.
//!
//! A function is known by its name and parameters, and holds no state of a statement: what it needs of the statement
//! that runs (memory, stop sign, compiled patterns) it takes from the current [`context::ExecutionContext`]. So every
//! function of a plan can be made again elsewhere from its name and parameters ([`make`]).
//!
//! To add a kernel: a row in `KERNELS` of its subject, with the fewest and the most arguments; then a builder in the
//! `library` of the crate `tidegate-sql`, which makes calls of it. A function with parameters of its own (in [`scalar`] or
//! [`aggregate`]) also needs a variant in [`make`].
//!
//! The files, each of which uses only those before it:
//!
//! - `wording`, `re2`, `re2_bytes`, [`types`]: messages, texts, the types of the dialect;
//! - [`context`]: the execution context;
//! - `arrays`, `row_form`, `rows`, `kernel`: what kernels are made of;
//! - `conversion`, `arithmetic`, `decimal`, `float`, `number`, [`text`], `bytes`, `net`, [`json`], `log_json`, `tenant_value`, `array_sets`,
//!   `array_membership`, `array`, [`time`], [`range`]: the kernels;
//! - [`encode`]: values as JSON, as results show them;
//! - [`array_subquery`], [`scalar`], [`aggregate`]: functions of the engine;
//! - [`table`]: all kernels by name; [`make`]: everything by name and parameters.

pub mod aggregate;
mod arithmetic;
mod array;
mod array_membership;
mod array_sets;
pub mod array_subquery;
mod arrays;
mod bytes;
pub mod context;
mod conversion;
mod decimal;
pub mod encode;
mod float;
pub mod json;
mod kernel;
mod log_json;
pub mod make;
mod net;
mod number;
pub mod quantile_sketch;
pub mod range;
mod re2;
mod re2_bytes;
mod row_form;
mod row_key;
mod rows;
pub mod scalar;
pub mod sketch;
pub mod table;
mod tenant_value;
pub mod text;
pub mod time;
pub mod types;
pub mod wording;

pub use arrays::{copied_size, copied_sizes, has_lists};
pub use kernel::{Fallibility, Kernel};
pub use re2::translated as translated_pattern;
pub use re2_bytes::pattern_of_bytes;
pub use rows::{DistinctTexts, RowNumbers};
