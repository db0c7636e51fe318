//! All tests of this crate from outside, in one program: each program of tests holds a query engine, which is 300 MB and
//! some seconds of linking.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test may panic"
)]
#![expect(
    clippy::duplicate_mod,
    reason = "the same statements run over several engines, and each run has counts of its own"
)]

mod dialect;
mod failed_workers;
mod failures;
mod gathered_dialect;
mod gathered_property;
mod gathered_queries;
mod gathered_workers;
mod property;
mod queries;
mod staged_dialect;
mod staged_property;
mod staged_queries;
mod stages;
