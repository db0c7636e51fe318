//! Types of the dialect over expressions of the engine: conversions, comparisons, constants.
//!
//! This layer lies between the kernels (which know Arrow arrays only) and both the builders of
//! functions and the resolver (which read calls and syntax trees). Nothing here knows a syntax tree
//! or a scope. From the lowest file to the highest:
//!
//! - `constant` computes expressions of literals while a statement is planned;
//! - `kernel` calls a kernel of `tidegate_functions` by its name;
//! - `float` makes of FLOAT64 what the engine compares right, which it does by bits;
//! - `fields` takes a STRUCT apart;
//! - `records` reads stored log records: fields, a record as a list, a record as text;
//! - `list` maps and filters the elements of a list;
//! - `record_union` and `common` find the type that values of different types take together;
//! - `coerce` converts a value to a type, and several values to their common type;
//! - `compare` compares two values.

mod coerce;
mod common;
mod compare;
mod constant;
mod fields;
mod float;
mod group_key;
mod kernel;
mod list;
mod record_union;
mod records;

pub(crate) use coerce::{Conversion, common_of, plan_column, unify};
pub(crate) use compare::{BYTES_AS_TEXT, comparable, compare, interval_length, may_be_nan};
pub(crate) use constant::folded;
pub(crate) use fields::holds_float;
pub(crate) use float::{compared_float, float_key, float_key_bits, keyed_float, listed_floats, nan_last};
pub(crate) use group_key::{group_key, sort_key};
pub(crate) use kernel::{kernel, portable_json, to_json_string};
pub(crate) use list::{filtered, mapped, over_list};
pub(crate) use records::{list_of_record, stored_field};
