//! How a runtime is set up, what a request brings, and the numbers that a runtime reports.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::MemoryPool;
use tidegate_model::{Arguments, Limits};

use crate::artefacts::ArtefactOptions;
use crate::subprocess::Compilation;

/// How a runtime is set up.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// Components that may run at once.
    pub concurrency: usize,
    /// How long a request waits for a free instance before it is refused.
    pub patience: Duration,
    /// The most that any request may use. The memory is the size of a place in the pool. Trials of components run under
    /// these limits.
    pub limits: Limits,
    /// Where compiled code is stored; nowhere if absent.
    pub artefacts: Option<ArtefactOptions>,
    /// The memory pool that components share with statements. If absent, each component has only its own limit.
    pub memory: Option<Arc<dyn MemoryPool>>,
    /// Where components are compiled.
    pub compiler: Compilation,
    /// The most components that are kept ready in memory.
    pub prepared: usize,
    /// The most bytes of their compiled code. The least recently used are removed.
    pub prepared_bytes: usize,
    /// The interval at which running components are interrupted, which is the resolution of the CPU limit.
    pub tick: Duration,
    /// Whether the engine counts instructions ([`Usage::instructions`](crate::Usage)). The number is the same in every
    /// run, but the code is slower. For the cost report of authors, not for a server.
    pub count_instructions: bool,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            concurrency: 64,
            patience: Duration::from_millis(250),
            limits: Limits::default(),
            artefacts: None,
            memory: None,
            compiler: Compilation::Here,
            prepared: 1024,
            prepared_bytes: 256 << 20,
            tick: Duration::from_millis(5),
            count_instructions: false,
        }
    }
}

/// One request to an endpoint. Authentication and parameter checks are done.
#[derive(Debug, Clone)]
pub struct Request {
    /// The checked parameters.
    pub arguments: Arguments,
    /// When it arrived, in microseconds since the Unix epoch.
    pub received_at: i64,
    /// Its limits.
    pub limits: Limits,
}

/// The use of the pool of instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolUse {
    /// Components that run.
    pub running: usize,
    /// Components that may run at once.
    pub places: usize,
    /// Whether instances come from a pool. If not, the three numbers below are 0.
    pub pooled: bool,
    /// Memories in use.
    pub memories: usize,
    /// Stacks in use.
    pub stacks: usize,
    /// Bytes that stay resident for memories that are not in use.
    pub idle_bytes: usize,
    /// Components that are ready.
    pub ready: usize,
    /// Bytes of their compiled code.
    pub ready_bytes: usize,
}
