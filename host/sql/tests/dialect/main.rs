//! The dialect, tested as its users write it: text in, JSON rows out, over small stored tables.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test may panic"
)]

#[path = "cases.rs"]
mod cases;
mod engine;
mod support;
