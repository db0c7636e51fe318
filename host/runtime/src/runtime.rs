//! The runtime: what the server holds, and the life of one request.
//!
//! A request waits a moment for a permit, gets a fresh instance in a fresh store, and returns both before its rows are
//! streamed. Dropping the future at any point frees the permit, the memory, and the statement's task and stream.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use tidegate_model::{Arguments, Code, Failure, Limits, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Engine, Store};

use crate::answer::{Answer, Usage};
use crate::artefacts::Artefacts;
use crate::bindings::EndpointAdhoc;
use crate::budget::Budget;
use crate::call::{answer, call, of_problem};
use crate::call_error::{self, CallError};
use crate::class::{Class, Quota};
use crate::compile::Compiler;
use crate::endpoint::{Endpoint, link};
use crate::engine::{TRIALS, engine, start_ticking};
use crate::error::RuntimeError;
use crate::host::State;
use crate::limits::{instructions, restrain};
use crate::options::{PoolUse, Request, RuntimeOptions};
use crate::prepared::Prepared;
use crate::rows::{Rows, Statement, Statements};

/// Runs components.
pub struct Runtime {
    options: RuntimeOptions,
    pooled: bool,
    linker: Linker<State>,
    compiler: Compiler,
    prepared: Prepared,
    permits: Arc<Semaphore>,
    /// Permits for components under trial.
    trials: Semaphore,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("options", &self.options).field("pooled", &self.pooled).finish_non_exhaustive()
    }
}

impl Runtime {
    /// Starts the engine and the thread that advances its epoch.
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

    /// Makes a component ready: compiles it or loads its artefact, links it, and instantiates it once under the limits
    /// (a trial). Cheap if the component is ready already.
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
            // Compiled code of a refused component is deleted. If the trial only failed because the server was full,
            // the code may be in use by another caller.
            tried.await.inspect_err(|error| {
                if !error.passes() {
                    self.compiler.forget(&digest);
                }
            })
        };
        self.prepared.get(digest, make).await
    }

    /// The same for a component that was prepared before, by this process or an earlier one. There is no trial.
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

    /// The same for a component that this program generated. There is no trial, and it is compiled in this process,
    /// because nobody else decides what that costs.
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
        Ok(Endpoint { digest: hex::encode(digest), bytes, pre })
    }

    /// The component with this digest, if it is ready. Cheap.
    pub fn ready(&self, digest: &[u8; 32]) -> Option<Arc<Endpoint>> {
        self.prepared.ready(digest)
    }

    /// Checks that a component can be compiled and linked, and stores its compiled code on disk. Nothing stays in
    /// memory, and no code of the component runs.
    ///
    /// # Errors
    /// The component is not fit to run.
    pub async fn check(&self, component: &[u8], digest: [u8; 32]) -> Result<(), RuntimeError> {
        let compiled = self.compiler.component(component, digest).await?;
        link(&self.linker, &compiled, self.options.limits.guest_memory).map(drop)
    }

    /// Removes compiled code from disk that was made `before` and belongs to none of these components (by the digest
    /// under which they were prepared). Returns the number of files. Blocks on the disk. Ready components stay ready.
    pub fn sweep(&self, live: &HashSet<[u8; 32]>, before: SystemTime) -> usize {
        self.compiler.sweep(live, before)
    }

    /// Answers one request with a fresh instance of the endpoint.
    ///
    /// # Errors
    /// A limit was reached, the component passed on the failure of a statement or reported a problem, or it failed
    /// itself.
    pub async fn handle(
        &self,
        endpoint: &Endpoint,
        request: Request,
        statements: Arc<dyn Statements>,
    ) -> Result<Answer, Box<CallError>> {
        let permit = self.permit().await;
        let _permit = permit.map_err(|(class, failure)| CallError::plain(class, failure, Usage::default()))?;
        let Request { arguments, received_at, limits } = request;
        let wall_clock = limits.wall_clock;
        // Declared after the permit, so that it is dropped first: memory is free when the permit is.
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
            Ok(Err(error)) => return Err(Box::new(call_error::of_error(&error, &state.budget, endpoint.digest()))),
            Err(_) => {
                tracing::warn!(component = endpoint.digest(), "the request ran out of time");
                let message = format!("the request took longer than its limit of {} ms", wall_clock.as_millis());
                (Class::Exhausted(Quota::WallClock), Failure::new(Code::Timeout, message))
            }
        };
        let usage = Usage { handles_left: state.left_open(), ..state.budget.used() };
        Err(CallError::plain(class, failure, usage))
    }

    /// The use of the pool of instances, for metrics.
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
            Err(_) => Err((Class::Exhausted(Quota::Concurrency), call_error::overloaded())),
        }
    }

    fn store(&self, mut limits: Limits, arguments: Arguments, statements: Arc<dyn Statements>) -> Store<State> {
        limits.guest_memory = limits.guest_memory.min(self.options.limits.guest_memory);
        let budget = Budget::new(limits, self.options.tick, self.options.memory.as_ref());
        let mut store = Store::new(self.engine(), State::new(budget, arguments, statements));
        restrain(&mut store);
        store
    }

    /// The trial: instantiates the component once. Start functions run, memory is allocated, nothing is called.
    async fn try_out(&self, endpoint: &Endpoint) -> Result<(), RuntimeError> {
        let _place = self.trials.acquire().await.map_err(|_| RuntimeError::Stopped)?;
        let limits = self.options.limits.clone();
        let wall_clock = limits.wall_clock;
        let mut store = self.store(limits, Arguments::new(), Arc::new(NoStatements));
        match timeout(wall_clock, endpoint.pre.instantiate_async(&mut store)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                Err(RuntimeError::Start(call_error::of_error(&error, &store.data().budget, endpoint.digest()).failure))
            }
            Err(_) => Err(RuntimeError::Start(Failure::new(Code::Timeout, "it takes too long"))),
        }
    }
}

/// The statements for a trial: a start function cannot run any.
struct NoStatements;

#[async_trait]
impl Statements for NoStatements {
    async fn run(&self, _: Statement, _: Vec<(String, Value)>) -> Result<Rows, Failure> {
        Err(Failure::new(Code::UnknownStatement, "statements run only while a request is answered"))
    }
}
