//! The parts of a service that hold none of its data: query engine, component runtime, compute threads.
//!
//! A server has one set. The workbench starts one set and uses it for all its trials, each of which has a store of its
//! own.

use std::sync::Arc;

use tidegate_cluster::stages::{StageCarrier, StageOptions};
use tidegate_runtime::{Runtime, RuntimeOptions};
use tidegate_sql::{Engine, EngineOptions};
use tidegate_workers::RemoteWorkers;

use crate::compute::Compute;
use crate::start_error::StartError;

/// Query engine, component runtime and compute threads; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Engines {
    pub(crate) engine: Arc<Engine>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) compute: Arc<Compute>,
}

impl Engines {
    /// Starts the query engine and the component runtime under the same limits, and the threads for both. `engine`
    /// says what the limits do not. With workers, the engine has them run stages of statements.
    ///
    /// # Errors
    /// What does not start.
    pub(crate) fn start(
        runtime: RuntimeOptions,
        engine: EngineOptions,
        workers: Option<(Arc<RemoteWorkers>, StageOptions)>,
    ) -> Result<Self, StartError> {
        let limits = &runtime.limits;
        // With one partition there are no keys to share rows out by.
        let least = if workers.is_some() { 2 } else { 1 };
        let engine = EngineOptions { partitions: engine.partitions.max(least), ..engine };
        let engine = Engine::new(&EngineOptions {
            statement_memory: limits.statement_memory,
            total_memory: limits.total_memory,
            text: limits.text,
            narrow: tidegate_store::narrowed,
            placed: tidegate_store::placed,
            counted: tidegate_store::counted,
            ..engine
        })
        .map_err(StartError::setup("the query engine"))?;
        let engine = match workers {
            Some((workers, options)) => engine.with_carrier(Arc::new(StageCarrier::new(workers, options))),
            None => engine,
        };
        // One memory pool: what guests hold and what statements hold is counted together.
        let runtime = Runtime::new(RuntimeOptions { memory: Some(engine.memory()), ..runtime })?;
        let compute = Compute::start().map_err(StartError::Threads)?;
        Ok(Self { engine: Arc::new(engine), runtime, compute: Arc::new(compute) })
    }
}
