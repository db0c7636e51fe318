//! Worker processes: tasks of statements, over the network.
//!
//! A coordinator has the stages of a statement (`tidegate-cluster`), and sends their tasks to workers, which run them over the
//! segments that the tasks name. Connections are HTTP/2, and TLS with certificates on both sides between machines.
//!
//! | Request | Answer |
//! |---|---|
//! | `POST /v1/tasks` | the id of the task, then what it costs, as long as it runs: whoever drops the answer ends the task |
//! | `GET /v1/tasks/ID` | what the task has cost so far |
//! | `GET /v1/stages/STATEMENT/STAGE/TASK/partitions/N` | the rows of a partition of a task, and that there are no more; for other workers too; before the task is there, it is waited for |
//! | `GET /v1/worker` | version, tasks, memory |
//!
//! Rows wait on the worker until they are asked for: at most three batches of a partition are made and not read, and
//! count in the memory of the task.
//!
//! The files, each of which uses only those before it:
//!
//! - `failure_message`, `messages`, `frames`: what is on the wire
//! - `transport`, `link`: connections
//! - `task_state`, `partition_queue`, `running_task`, `worker`, `task_bodies`, `worker_metrics`, `routes`,
//!   `connection`, `server`: the worker
//! - `address`, `link`, `member`, `remote_workers`: the coordinator
//! - `task_failure`, `task_costs`, `stage_rows`, `peer_links`, `stage_channels`: who starts tasks and reads their rows, a coordinator or a worker

mod address;
mod connection;
mod failure_message;
mod frames;
mod link;
mod member;
mod messages;
mod partition_queue;
mod peer_links;
mod remote_workers;
mod routes;
mod running_task;
mod server;
mod stage_channels;
mod stage_rows;
mod task_bodies;
mod task_costs;
mod task_failure;
mod task_state;
#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests;
mod transport;
mod worker;
mod worker_metrics;

pub use address::WorkerAddress;
pub use member::{Outcome, WorkerView};
pub use remote_workers::RemoteWorkers;
pub use server::{WorkerListeners, serve};
pub use transport::{Accept, Connect, PROTOCOLS, is_loopback};
pub use worker::{Worker, WorkerOptions};
