//! The dialect, tested as its users write it: text in, JSON rows out, over small stored tables.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test may panic"
)]

mod correlated;
mod document;
mod endpoints;
mod engine;
mod functions;
mod grants;
mod limits;
mod lineage;
mod names;
mod narrow;
mod operators;
mod remarks;
mod shared_parts;
mod subqueries;
mod support;
mod unite;
mod unnest;
mod values;
mod windows;
