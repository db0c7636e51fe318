//! Arrow arrays of the store: builders for leaves and lists, and conversions between schema versions.
//!
//! [`leaf`] and [`list`] build columns while rows arrive. [`schema_evolution`] converts an array to a wider type of
//! the same path. [`json_values`] turns arrays back into JSON or text, [`list_values`] takes the elements of a
//! sliced list. [`required_fields`] declares what no row lacks as required. [`interleave`] takes rows of several batches.
//! [`packed_uuids`] are texts in the form in which segments keep them, [`column_path`] finds a column by the names that lead to it.
//!
//! Uses: `schema`.

pub(crate) mod column_path;
pub(crate) mod interleave;
pub(crate) mod json_values;
pub(crate) mod leaf;
pub(crate) mod list;
pub(crate) mod list_values;
pub(crate) mod packed_uuids;
pub(crate) mod required_fields;
pub(crate) mod schema_evolution;
