//! The tests of the dialect, with plans that are encoded and decoded before they run.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test may panic"
)]

#[path = "../../sql/tests/dialect/cases.rs"]
mod cases;
#[path = "carried/mod.rs"]
mod engine;
#[path = "../../sql/tests/dialect/support.rs"]
mod support;
