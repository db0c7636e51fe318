//! Statements in stages: the planner of `datafusion-distributed` cuts a plan where rows change hands (hash shuffle,
//! broadcast, coalesce), and workers run the stages and read each other's rows.
//!
//! - `options`, `workers`: from what size on, and by whom
//! - `distinct_groups`, `leaves`: a plan that can be shared out, and which worker reads what of it
//! - `planner`: the plan with its boundaries
//! - `check`: whether each stage has its rows where its operators need them, which the planner does not ask
//! - `staged`: the stages of a plan, or why it has none
//! - `received`, `boundaries`: rows of another stage, of the columns that a plan expects
//! - `running`, `head`: the stage that runs where the statement is, and its run
//! - `report`, `roots`: what of a statement runs in stages, and what is told of it
//! - `carrier`: the stages of a statement of an engine
//! - `leaf_rows`, `columns`, `task`, `slots`: what a worker runs; `local`: workers in this process

mod boundaries;
mod carrier;
mod check;
mod columns;
mod distinct_groups;
mod head;
mod leaf_rows;
mod leaves;
mod local;
mod options;
mod planner;
mod received;
mod report;
mod roots;
mod running;
mod slots;
mod staged;
mod task;
mod workers;

pub use carrier::StageCarrier;
pub use columns::{columns_from_bytes, columns_to_bytes};
pub use leaf_rows::rows_of_leaves;
pub use local::LocalStageWorkers;
pub use options::StageOptions;
pub use slots::TaskSlots;
pub(crate) use staged::Instead;
pub use staged::StageReport;
pub use task::{SentTask, StageTask};
pub use workers::{StageList, StageWorkers, WorkerFaults};

pub use crate::worker_url::place_of;
