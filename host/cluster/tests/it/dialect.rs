//! The tests of the dialect, with plans that are encoded and decoded before they run.

#[path = "../../../sql/tests/dialect/cases.rs"]
mod cases;
#[path = "carried/mod.rs"]
mod engine;
#[path = "../../../sql/tests/dialect/support.rs"]
mod support;
