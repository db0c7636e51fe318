//! The runtime from the outside: generated components and hostile ones, over a made-up engine.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test may panic"
)]

mod artefacts;
mod attacks;
mod fake;
mod features;
mod generated;
mod golden;
mod guests;
mod harness;
mod hostile;
mod instructions;
mod overload;
mod text_guest;
