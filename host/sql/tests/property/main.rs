//! Random queries over random nested records, against an evaluator that goes row by row.
//!
//! The evaluator in `naive` knows nothing of plans, joins or columns: it takes records as JSON and
//! computes each clause as the language defines it, with NULL as a third truth value. Where the
//! two disagree, one of them is wrong, and the failure shows the text, the records and both
//! answers, shrunk. Each statement is run over one source, and over the UNION ALL of two that hold the
//! same records between them, in records of other fields.
//!
//! `TIDEGATE_PROPERTY_CASES` sets the number of cases.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test may panic"
)]

mod cuts;
#[path = "../dialect/engine.rs"]
mod engine;
mod excuse;
mod grammar;
mod naive;
mod records;
#[expect(dead_code, reason = "shared with the dialect tests, which use more of it")]
#[path = "../dialect/support.rs"]
mod support;
mod tape;
