//! The overflow: values of a row that are not in a column.
//!
//! Each batch and segment has a last column, `_overflow`. For each row it is NULL or a JSON object that maps JSON
//! pointers to values. A value is there for one of these reasons: its path has no column (too many fields, too
//! deep, too long a name), it does not fit the type of its column, or its column was nearly empty and was removed
//! to save memory (a sparse column).
//!
//! Writing: [`sparse_columns`] chooses the columns to remove, [`spill`] moves their values into the overflow of
//! their rows, [`sparse_paths`] records the removed paths in the metadata of the Arrow schema.
//!
//! Reading: [`index`] finds values by pointer ([`pointer_table`] is its data structure), [`cache`] keeps the index
//! of the batch that is being read, [`patch`] inserts values into a column in the form that the table shows
//! ([`replace_values`], [`record_text`]).
//!
//! Uses: `schema`, `arrays`.

pub(crate) mod cache;
pub(crate) mod index;
pub(crate) mod patch;
pub(crate) mod pointer_table;
pub(crate) mod record_text;
pub(crate) mod replace_values;
pub(crate) mod slot_rows;
pub(crate) mod sparse_columns;
pub(crate) mod sparse_paths;
pub(crate) mod spill;
