//! The runtime: what the server holds, and the life of one request.
//!
//! A request waits a moment for a permit, gets a fresh instance in a fresh store, and gives both
//! back before its rows are streamed. Dropping the future at any point frees permit, memory, and
//! the statement's task and stream with it.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use datafusion::execution::memory_pool::MemoryPool;
use tidegate_model::{Arguments, Code, Failure, Limits, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Engine, Store};

use crate::answer::{Answer, Usage};
use crate::apart::Compilation;
use crate::artefacts::{ArtefactOptions, Artefacts, hex};
use crate::bindings::EndpointAdhoc;
use crate::call::{answer, call, of_problem};
use crate::class::{Class, Quota};
use crate::ended::{self, Ended};
use crate::engine::{TRIALS, engine, start_ticking};
use crate::host::State;
use crate::limits::{Budget, instructions, restrain};
use crate::prepared::{Compiler, Endpoint, Prepared, link};
use crate::rows::{Rows, Statement, Statements};

/// How a runtime is set up.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// Components that may run at once.
    pub concurrency: usize,
    /// How long a request waits for a place before it is refused.
    pub patience: Duration,
    /// The most that any request may use; its memory is the size of a place in the pool. A dry
    /// instantiation runs under them.
    pub limits: Limits,
    /// Where compiled code is kept; nowhere if absent.
    pub artefacts: Option<ArtefactOptions>,
    /// The memory that components share with statements; none if absent, and each component has its
    /// own limit only.
    pub memory: Option<Arc<dyn MemoryPool>>,
    /// Where components are compiled.
    pub compiler: Compilation,
    /// Components that are kept ready in memory, at most.
    pub prepared: usize,
    /// Bytes of their compiled code, at most: those that were used longest ago are let go.
    pub prepared_bytes: usize,
    /// How often running components are interrupted: the grain of the CPU limit.
    pub tick: Duration,
    /// Whether the engine counts what components do ([`Usage::instructions`](crate::Usage)): the
    /// same number every run, at the price of slower code. For the cost report of authors, not for
    /// a server.
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

/// One request to an endpoint; authenticated and checked.
#[derive(Debug, Clone)]
pub struct Request {
    /// The checked parameters.
    pub arguments: Arguments,
    /// When it arrived, in microseconds since the Unix epoch.
    pub received_at: i64,
    /// What it may use.
    pub limits: Limits,
}

/// Why a runtime or an endpoint is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The engine does not start.
    #[error("the component engine does not start: {0}")]
    Engine(String),
    /// The folder of compiled code cannot be used.
    #[error("the folder of compiled code {folder} cannot be used: {source}")]
    Artefacts {
        /// The folder.
        folder: String,
        /// Why.
        source: std::io::Error,
    },
    /// The bytes are not those that were registered.
    #[error("the component does not have the digest {digest}")]
    Digest {
        /// The digest that it should have.
        digest: String,
    },
    /// The component is not fit to run.
    #[error("the component cannot be used: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// It failed when it was tried.
    #[error("the component does not start: {0}")]
    Start(Failure),
    /// Too many components are being compiled.
    #[error("other components are being compiled; try again later")]
    Busy,
    /// The process is shutting down.
    #[error("the runtime has stopped")]
    Stopped,
}

impl RuntimeError {
    /// Whether the same may succeed a moment later, with nothing changed.
    fn passes(&self) -> bool {
        matches!(self, Self::Busy) || matches!(self, Self::Start(failure) if failure.code == Code::Overloaded)
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        let code = match &error {
            error if error.passes() => Code::Overloaded,
            RuntimeError::Refused { .. } | RuntimeError::Start(_) => Code::Refused,
            RuntimeError::Busy => Code::Overloaded,
            RuntimeError::Engine(_)
            | RuntimeError::Artefacts { .. }
            | RuntimeError::Digest { .. }
            | RuntimeError::Stopped => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

/// How full the runtime is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolUse {
    /// Components that run.
    pub running: usize,
    /// Components that may run at once.
    pub places: usize,
    /// Whether instances come from a pool; the numbers below are 0 if not.
    pub pooled: bool,
    /// Memories in use.
    pub memories: usize,
    /// Stacks in use.
    pub stacks: usize,
    /// Bytes that the pool keeps resident for memories that are not in use.
    pub idle_bytes: usize,
    /// Components that are kept ready, and the bytes of their compiled code.
    pub ready: usize,
    /// See [`PoolUse::ready`].
    pub ready_bytes: usize,
}

/// Runs components.
pub struct Runtime {
    options: RuntimeOptions,
    pooled: bool,
    linker: Linker<State>,
    compiler: Compiler,
    prepared: Prepared,
    permits: Arc<Semaphore>,
    /// Places for components that are tried.
    trials: Semaphore,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("options", &self.options).field("pooled", &self.pooled).finish_non_exhaustive()
    }
}

impl Runtime {
    /// Starts the engine and its clock.
    ///
    /// # Errors
    /// The engine does not start, or the folder of compiled code cannot be used.
    pub fn new(options: RuntimeOptions) -> Result<Arc<Self>, RuntimeError> {
        let broken = |error: wasmtime::Error| RuntimeError::Engine(format!("{error:#}"));
        let RuntimeOptions { concurrency, count_instructions, .. } = options;
        let (engine, pooled) = engine(concurrency, options.limits.guest_memory, count_instructions).map_err(broken)?;
        start_ticking(&engine, options.tick).map_err(|error| RuntimeError::Engine(error.to_string()))?;
        let mut linker = Linker::new(&engine);
        EndpointAdhoc::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state).map_err(broken)?;
        let artefacts = options.artefacts.clone().map(|artefacts| {
            let folder = artefacts.folder.display().to_string();
            Artefacts::open(artefacts, &engine).map_err(|source| RuntimeError::Artefacts { folder, source })
        });
        let prepared = Prepared::new(options.prepared, options.prepared_bytes);
        let permits = Arc::new(Semaphore::new(options.concurrency));
        let compiler = Compiler::new(engine, artefacts.transpose()?, options.compiler.clone());
        let trials = Semaphore::new(TRIALS);
        Ok(Arc::new(Self { options, pooled, linker, compiler, prepared, permits, trials }))
    }

    /// Makes a component ready: compiles it or loads its artefact, links it, and instantiates it
    /// once under the limits. Ready components are found by digest, so this is cheap to repeat.
    ///
    /// `digest` is the SHA-256 of `component`, as the gate returned it.
    ///
    /// # Errors
    /// The component is not fit to run.
    pub async fn prepare(&self, component: &[u8], digest: [u8; 32]) -> Result<Arc<Endpoint>, RuntimeError> {
        let make = async {
            let compiled = self.compiler.component(component, digest).await?;
            let tried = async {
                let endpoint = self.linked(digest, &compiled)?;
                self.try_out(&endpoint).await.map(|()| Arc::new(endpoint))
            };
            // Nothing is left of what is refused. Code that only found no room now may be another's as well.
            tried.await.inspect_err(|error| {
                if !error.passes() {
                    self.compiler.forget(&digest);
                }
            })
        };
        self.prepared.get(digest, make).await
    }

    /// The same for a component that was prepared before, by this process or an earlier one: it is
    /// not tried again.
    ///
    /// # Errors
    /// As [`Runtime::prepare`].
    pub async fn prepare_again(&self, component: &[u8], digest: [u8; 32]) -> Result<Arc<Endpoint>, RuntimeError> {
        let make = async {
            let compiled = self.compiler.component(component, digest).await?;
            self.linked(digest, &compiled).map(Arc::new)
        };
        self.prepared.get(digest, make).await
    }

    /// The same for a component that this program generated itself: it needs no trial, and is
    /// compiled in this process, because nobody else decided what that costs.
    ///
    /// # Errors
    /// As [`Runtime::prepare`].
    pub async fn prepare_own(&self, component: &[u8], digest: [u8; 32]) -> Result<Arc<Endpoint>, RuntimeError> {
        let make = async {
            let compiled = self.compiler.own_component(component, digest).await?;
            self.linked(digest, &compiled).map(Arc::new)
        };
        self.prepared.get(digest, make).await
    }

    fn linked(&self, digest: [u8; 32], compiled: &Component) -> Result<Endpoint, RuntimeError> {
        let pre = link(&self.linker, compiled, self.options.limits.guest_memory)?;
        let code = compiled.image_range();
        let bytes = code.end.addr().saturating_sub(code.start.addr());
        Ok(Endpoint { digest: hex(&digest), bytes, pre })
    }

    /// The component with this digest, if it is ready: found at no cost.
    pub fn ready(&self, digest: &[u8; 32]) -> Option<Arc<Endpoint>> {
        self.prepared.ready(digest)
    }

    /// Checks that a component can be compiled and linked, and leaves its compiled code on disk for
    /// when it is wanted. Nothing is kept in memory, and nothing of the component runs.
    ///
    /// # Errors
    /// The component is not fit to run.
    pub async fn check(&self, component: &[u8], digest: [u8; 32]) -> Result<(), RuntimeError> {
        let compiled = self.compiler.component(component, digest).await?;
        link(&self.linker, &compiled, self.options.limits.guest_memory).map(drop)
    }

    /// Removes compiled code from the disk that was made `before` and is of none of these components
    /// (by the digest that they were prepared under), and returns how many files went. Waits for the
    /// disk. What is ready stays ready.
    pub fn sweep(&self, live: &HashSet<[u8; 32]>, before: SystemTime) -> usize {
        self.compiler.sweep(live, before)
    }

    /// Answers one request with a fresh instance of the endpoint.
    ///
    /// # Errors
    /// A limit, a failure of a statement that the component passed on, a problem that it reported,
    /// or its own failure.
    pub async fn handle(
        &self,
        endpoint: &Endpoint,
        request: Request,
        statements: Arc<dyn Statements>,
    ) -> Result<Answer, Box<Ended>> {
        let permit = self.permit().await;
        let _permit = permit.map_err(|(class, failure)| Ended::plain(class, failure, Usage::default()))?;
        let Request { arguments, received_at, limits } = request;
        let wall_clock = limits.wall_clock;
        // Declared after the permit, so dropped before it: memory is free when the permit is.
        let mut store = self.store(limits, arguments, statements);
        let called = timeout(wall_clock, call(&mut store, endpoint, received_at)).await;
        let counted = instructions(&store);
        let state = store.data_mut();
        state.budget.executed(counted);
        let (class, failure) = match called {
            Ok(Ok(Ok(response))) => match answer(state, response) {
                Ok(answer) => return Ok(answer),
                Err(ended) => *ended,
            },
            Ok(Ok(Err(problem))) => of_problem(&problem, state.last_failure.take()),
            Ok(Err(error)) => return Err(Box::new(ended::of_error(&error, &state.budget, endpoint.digest()))),
            Err(_) => {
                tracing::warn!(component = endpoint.digest(), "the request ran out of time");
                let message = format!("the request took longer than its limit of {} ms", wall_clock.as_millis());
                (Class::Exhausted(Quota::WallClock), Failure::new(Code::Timeout, message))
            }
        };
        let usage = Usage { handles_left: state.left_open(), ..state.budget.used() };
        Err(Ended::plain(class, failure, usage))
    }

    /// How full the runtime is, for metrics.
    pub fn pool_use(&self) -> PoolUse {
        let places = self.options.concurrency;
        let running = places.saturating_sub(self.permits.available_permits());
        let mut used = PoolUse { running, places, pooled: self.pooled, ..PoolUse::default() };
        (used.ready, used.ready_bytes) = self.prepared.size();
        if let Some(metrics) = self.engine().pooling_allocator_metrics() {
            used.memories = metrics.memories();
            used.stacks = metrics.stacks();
            used.idle_bytes = metrics.unused_memory_bytes_resident();
        }
        used
    }

    fn engine(&self) -> &Engine {
        &self.compiler.engine
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, (Class, Failure)> {
        let acquire = Arc::clone(&self.permits).acquire_owned();
        match timeout(self.options.patience, acquire).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err((Class::HostBug, Failure::new(Code::Internal, "the runtime has stopped"))),
            Err(_) => Err((Class::Exhausted(Quota::Concurrency), ended::overloaded())),
        }
    }

    fn store(&self, mut limits: Limits, arguments: Arguments, statements: Arc<dyn Statements>) -> Store<State> {
        limits.guest_memory = limits.guest_memory.min(self.options.limits.guest_memory);
        let budget = Budget::new(limits, self.options.tick, self.options.memory.as_ref());
        let mut store = Store::new(self.engine(), State::new(budget, arguments, statements));
        restrain(&mut store);
        store
    }

    /// Instantiates once: start functions run, memory is allocated, nothing is called.
    async fn try_out(&self, endpoint: &Endpoint) -> Result<(), RuntimeError> {
        let _place = self.trials.acquire().await.map_err(|_| RuntimeError::Stopped)?;
        let limits = self.options.limits.clone();
        let wall_clock = limits.wall_clock;
        let mut store = self.store(limits, Arguments::new(), Arc::new(NoStatements));
        match timeout(wall_clock, endpoint.pre.instantiate_async(&mut store)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                Err(RuntimeError::Start(ended::of_error(&error, &store.data().budget, endpoint.digest()).failure))
            }
            Err(_) => Err(RuntimeError::Start(Failure::new(Code::Timeout, "it takes too long"))),
        }
    }
}

/// What a component finds that runs statements before it was asked for anything.
struct NoStatements;

#[async_trait]
impl Statements for NoStatements {
    async fn run(&self, _: Statement, _: Vec<(String, Value)>) -> Result<Rows, Failure> {
        Err(Failure::new(Code::UnknownStatement, "statements run only while a request is answered"))
    }
}
