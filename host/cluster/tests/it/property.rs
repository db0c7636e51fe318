//! Random statements, over records and over rows cut into segments and memory, with plans that are encoded and decoded
//! before they run.

#[path = "../../../sql/tests/property/cuts/mod.rs"]
mod cuts;
#[path = "carried/mod.rs"]
mod engine;
#[path = "../../../sql/tests/property/excuse.rs"]
mod excuse;
#[path = "../../../sql/tests/property/grammar.rs"]
mod grammar;
#[path = "../../../sql/tests/property/naive.rs"]
mod naive;
#[path = "../../../sql/tests/property/records.rs"]
mod records;
#[expect(dead_code, reason = "shared with the dialect tests, which use more of it")]
#[path = "../../../sql/tests/dialect/support.rs"]
mod support;
#[path = "../../../sql/tests/property/tape.rs"]
mod tape;
