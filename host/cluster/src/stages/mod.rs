//! Statements in stages: the planner of `datafusion-distributed` cuts a plan where rows change hands (hash shuffle,
//! broadcast, coalesce), and workers run the stages and read each other's rows.
//!
//! - `leaves`: which worker reads what of a leaf
//! - `planner`: the plan with its boundaries
//! - `check`: whether each stage has its rows where its operators need them, which the planner does not ask
//! - `head`: the stage that runs where the statement is, and its run
//! - `carrier`: the stages of a statement of an engine
//! - `process`: a worker; `local`: workers in this process

pub(crate) mod boundary_codec;
mod carrier;
mod check;
mod head;
mod leaves;
mod local;
mod planner;
mod process;

pub use carrier::{StageCarrier, StageReport};
pub use local::LocalStageWorkers;
pub use process::StageProcess;

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion_distributed::ChannelResolver;
use url::Url;

/// What runs the stages of statements: in this process, or on other machines.
pub trait StageWorkers: std::fmt::Debug + Send + Sync {
    /// The names of the workers, by which segments are shared out.
    fn names(&self) -> Vec<Arc<str>>;

    /// The way to the workers for one statement. A worker is named by its place in the list of the statement.
    fn channels(self: Arc<Self>) -> Arc<dyn ChannelResolver + Send + Sync>;
}

/// The address of the worker at a place of the list of a statement. It is no address of a network: a plan cannot name
/// a machine.
fn url_of(place: usize) -> Result<Url> {
    Url::parse(&format!("worker://{place}")).map_err(|error| DataFusionError::External(Box::new(error)))
}

/// The place of a worker in the list of a statement.
fn place_of(url: &Url) -> Option<usize> {
    url.host_str().and_then(|place| place.parse().ok())
}
