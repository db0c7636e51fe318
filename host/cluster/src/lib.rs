//! Plans that travel: the operators of a statement as bytes, and operators from bytes.
//!
//! A plan is encoded as the engine of `tidegate-sql` hands it to a [`Carrier`](tidegate_sql::Carrier): after it was
//! optimized, and before what belongs to one run on one machine is put among its operators (memory that is counted, the
//! stop sign, turns, the execution context, the first halves of groupings). Whoever decodes it puts that around the
//! operators again. What is the engine's is encoded by `datafusion-proto`; what it would leave out without a word is
//! refused before. What is ours is encoded here:
//!
//! | Part of a plan | How it travels |
//! |---|---|
//! | functions and aggregates | by name and parameters (`tidegate_functions::make`); subqueries over arrays by their logical expressions |
//! | scan of segments | by what it reads ([`ScanDescription`](tidegate_store::ScanDescription)), not by file |
//! | scan of rows in memory | not at all: the plan stays, or the sender keeps the leaf ([`LocalLeaves`]) |
//! | union of the scans of a source, security barrier | as themselves |
//! | part that several operators read | once, with its readers as leaves |
//! | `WindowMemory`, `PartialGroups`, `Yielding`, `FewBuffers`, `StoppableExpr`, `WithinContext` | not at all: put on where the plan runs |
//! | `OrderedLimit` | not at all: it exists only during optimization |
//!
//! A server uses this if its settings name workers (`tidegate-workers`).
//!
//! The files, each of which uses only those before it:
//!
//! - `error`, `bounds`; `message`, `function_message`: what is on the wire
//! - `type_codec`, `text_codec`, `logical_check`, `array_subquery_codec`, `engine_functions`, `function_codec`: functions
//! - `scan_codec`, `expr_check`, `operator_check`, `worker_url`, `boundary_codec`, `local_leaves`
//! - `encoder`, `decoder`, `held_segments`; `batch_bytes`: rows on the wire
//! - `worker_failure`, `rendezvous`, `task_bounds`, `task_figures`, `statement_memories`, `stay`, `statement_report`,
//!   `damaged_copies`: what a task may use, does and fails with, and what is told of it
//! - `stages`: statements whose segments workers read, and between which they exchange rows

mod array_subquery_codec;
mod batch_bytes;
mod boundary_codec;
mod bounds;
mod damaged_copies;
mod decoder;
mod encoder;
mod engine_functions;
mod error;
mod expr_check;
mod function_codec;
mod function_message;
mod held_segments;
mod ipc_check;
mod literal_check;
mod local_leaves;
mod logical_check;
mod message;
mod operator_check;
mod rendezvous;
mod scan_codec;
pub mod stages;
mod statement_memories;
mod statement_report;
mod stay;
mod task_bounds;
mod task_figures;
#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests;
mod text_codec;
mod type_codec;
mod worker_failure;
mod worker_url;

pub use batch_bytes::BatchBytes;
pub use bounds::MAX_PLAN_BYTES;
pub use decoder::decode;
pub use encoder::{EncodedPlan, encode, encode_stage};
pub use error::PlanError;
pub use held_segments::held_segments;
pub use local_leaves::LocalLeaves;
pub use statement_memories::StatementMemories;
pub use statement_report::{AttemptReport, ExchangeReport, LeafReport, RunReport, StatementReport, TaskReport};
pub use stay::Stay;
pub use task_bounds::TaskBounds;
pub use task_figures::TaskFigures;
pub use worker_failure::{DamagedCopy, WorkerFailure};
