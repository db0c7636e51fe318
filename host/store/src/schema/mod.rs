//! The logical schema of a source ([`shape::Shape`]): which paths have a column, and what each column is.
//!
//! [`kind`] says what can stand at a path, [`shape`] is the schema of a source as a whole, [`join`] unites two
//! schemas of one source, [`arrow_fields`] makes Arrow fields and types, [`json_pointer`] writes paths as JSON
//! pointers. [`run_projects`] says which projects some rows have.
//!
//! Uses: the names of the reserved fields.

pub(crate) mod arrow_fields;
pub(crate) mod join;
pub(crate) mod json_pointer;
pub(crate) mod kind;
pub(crate) mod run_projects;
pub(crate) mod senders;
pub(crate) mod shape;
