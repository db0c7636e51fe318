//! Statements in stages: workers run the stages of a plan over the segments that each of them reads, and what is above runs
//! where the statement is. Over many rows they exchange rows too: the planner of `datafusion-distributed` cuts a plan where
//! rows change hands (hash shuffle, broadcast, coalesce), and workers read each other's.
//!
//! - `options`, `workers`: from what size on, and by whom
//! - `weight`, `distinct_groups`, `leaves`: a plan that can be shared out, and which worker reads what of it
//! - `planner`: the plan with its boundaries, if workers exchange rows
//! - `piece`, `gather`: the same if they do not
//! - `check`, `travel`: whether each stage has its rows where its operators need them, which the planner does not ask, and can
//!   be sent
//! - `staged`: the stages of a plan, or why it has none
//! - `received`, `copies`, `boundaries`: rows of another stage, of the columns that a plan expects; rows for several tasks
//! - `tasks`, `running`, `head`: the stage that runs where the statement is, its run, and what the tasks do
//! - `report`, `roots`: what of a statement runs in stages, and what is told of it
//! - `carrier`: the stages of a statement of an engine
//! - `leaf_rows`, `columns`, `task`, `slots`: what a worker runs; `local`: workers in this process

mod boundaries;
mod carrier;
mod check;
mod columns;
mod copies;
mod distinct_groups;
mod gather;
mod head;
mod leaf_rows;
mod leaves;
mod local;
mod options;
mod piece;
mod planner;
mod received;
mod report;
mod roots;
mod running;
mod slots;
mod staged;
mod task;
mod tasks;
mod travel;
mod weight;
mod workers;

pub use carrier::StageCarrier;
pub use columns::{columns_from_bytes, columns_to_bytes};
pub use leaf_rows::rows_of_leaves;
pub use local::LocalStageWorkers;
pub use options::StageOptions;
pub use slots::TaskSlots;
pub use task::{SentTask, StageTask};
pub use workers::{RunningTask, StageList, StageWorkers, WorkerFaults};

pub use crate::worker_url::place_of;
