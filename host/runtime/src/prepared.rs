//! Components made ready: compiled or loaded once, linked, tried, and kept by digest.
//!
//! Compiling costs what the author of the component makes it cost, so few components are compiled
//! at once, where that is set in processes of their own ([`crate::apart`]); whoever else wants the
//! same digest waits for it. What was compiled before is loaded without waiting for others.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use tokio::sync::{OnceCell, Semaphore, oneshot};
use tokio::time::timeout;
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

use crate::apart::{Compilation, compile_apart};
use crate::artefacts::{Artefacts, compatibility, hex, trusted};
use crate::bindings::EndpointAdhocPre;
use crate::host::State;
use crate::runtime::RuntimeError;

/// Components that are compiled at once in processes of their own.
const AT_ONCE: usize = 2;
/// The stack of a thread that compiles or loads, in bytes: the compiler walks code by recursion.
const STACK: usize = 8 << 20;

/// A component that is ready to take requests.
pub struct Endpoint {
    pub(crate) digest: String,
    /// Bytes of its compiled code in memory.
    pub(crate) bytes: usize,
    pub(crate) pre: EndpointAdhocPre<State>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The digest of the component, in hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// One digest's place: filled by whoever comes first, awaited by the others.
#[derive(Default)]
struct Slot {
    endpoint: OnceCell<Arc<Endpoint>>,
    used: AtomicU64,
}

impl Slot {
    fn bytes(&self) -> usize {
        self.endpoint.get().map_or(0, |endpoint| endpoint.bytes)
    }
}

type Slots = HashMap<[u8; 32], Arc<Slot>>;

/// The components that are ready, by digest; those that were used last, within bounds.
pub(crate) struct Prepared {
    slots: Mutex<Slots>,
    most: usize,
    most_bytes: usize,
    clock: AtomicU64,
}

impl Prepared {
    /// Keeps at most so many components, with at most so many bytes of compiled code together.
    pub(crate) fn new(most: usize, most_bytes: usize) -> Self {
        Self { slots: Mutex::default(), most: most.max(1), most_bytes, clock: AtomicU64::new(0) }
    }

    /// The endpoint with this digest, if it is ready.
    pub(crate) fn ready(&self, digest: &[u8; 32]) -> Option<Arc<Endpoint>> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.get(digest)?;
        slot.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        slot.endpoint.get().cloned()
    }

    /// How many are ready, and the bytes of their code.
    pub(crate) fn size(&self) -> (usize, usize) {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = slots.values().filter(|slot| slot.endpoint.initialized());
        (ready.count(), slots.values().map(|slot| slot.bytes()).sum())
    }

    /// The endpoint with this digest, made by `make` if it is not there. A failure is not kept.
    pub(crate) async fn get<F>(&self, digest: [u8; 32], make: F) -> Result<Arc<Endpoint>, RuntimeError>
    where
        F: Future<Output = Result<Arc<Endpoint>, RuntimeError>>,
    {
        let slot = self.slot(digest);
        let endpoint = slot.endpoint.get_or_try_init(|| make).await.cloned();
        drop(slot);
        self.shrink(&digest);
        endpoint
    }

    fn slot(&self, digest: [u8; 32]) -> Arc<Slot> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = Arc::clone(slots.entry(digest).or_default());
        slot.used.store(now, Ordering::Relaxed);
        slot
    }

    /// Lets go what was used longest ago, until the rest is within the bounds; never the one at
    /// hand. What is in use stays alive through the endpoints that were handed out. Places that were
    /// not filled and that nobody is waiting at go as well.
    fn shrink(&self, at_hand: &[u8; 32]) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|_, slot| slot.endpoint.initialized() || Arc::strong_count(slot) > 1);
        let ready = |slots: &Slots| slots.values().filter(|slot| slot.endpoint.initialized()).count();
        let mut bytes: usize = slots.values().map(|slot| slot.bytes()).sum();
        while ready(&slots) > self.most || bytes > self.most_bytes {
            let others = slots.iter().filter(|(digest, slot)| *digest != at_hand && slot.endpoint.initialized());
            let Some(oldest) = others.min_by_key(|(_, slot)| slot.used.load(Ordering::Relaxed)) else { break };
            let oldest = *oldest.0;
            bytes -= slots.remove(&oldest).map_or(0, |slot| slot.bytes());
        }
    }
}

/// Compiles, or loads what was compiled before.
pub(crate) struct Compiler {
    pub(crate) engine: Engine,
    artefacts: Option<Arc<Artefacts>>,
    compilation: Compilation,
    turn: Arc<Semaphore>,
}

impl Compiler {
    pub(crate) fn new(engine: Engine, artefacts: Option<Artefacts>, compilation: Compilation) -> Self {
        let turn = Arc::new(Semaphore::new(AT_ONCE));
        Self { engine, artefacts: artefacts.map(Arc::new), compilation, turn }
    }

    /// The compiled component, from its artefact where there is one.
    pub(crate) async fn component(&self, bytes: &[u8], digest: [u8; 32]) -> Result<Component, RuntimeError> {
        self.compiled(bytes, digest, self.compilation.clone()).await
    }

    /// The same for a component that this program made itself, and that costs what it always does.
    pub(crate) async fn own_component(&self, bytes: &[u8], digest: [u8; 32]) -> Result<Component, RuntimeError> {
        self.compiled(bytes, digest, Compilation::Here).await
    }

    /// Forgets what was compiled.
    pub(crate) fn forget(&self, digest: &[u8; 32]) {
        if let Some(artefacts) = &self.artefacts {
            artefacts.remove(digest);
        }
    }

    /// Removes compiled code that was made `before` and that is not of these components.
    pub(crate) fn sweep(&self, live: &HashSet<[u8; 32]>, before: SystemTime) -> usize {
        self.artefacts.as_ref().map_or(0, |artefacts| artefacts.sweep(live, before))
    }

    async fn compiled(
        &self,
        bytes: &[u8],
        digest: [u8; 32],
        compilation: Compilation,
    ) -> Result<Component, RuntimeError> {
        if <[u8; 32]>::from(Sha256::digest(bytes)) != digest {
            return Err(RuntimeError::Digest { digest: hex(&digest) });
        }
        let (engine, artefacts) = (self.engine.clone(), self.artefacts.clone());
        let load = move || Ok(artefacts.and_then(|artefacts| artefacts.load(&engine, &digest)));
        // What was compiled before waits for no compilation.
        if let Some(component) = blocking(load).await? {
            return Ok(component);
        }
        // Own components are a few hundred bytes of code, and wait for nobody.
        let turn = match &compilation {
            Compilation::Here => None,
            Compilation::Apart(command) => {
                let turn = timeout(command.time, Arc::clone(&self.turn).acquire_owned()).await;
                Some(turn.map_err(|_| RuntimeError::Busy)?.map_err(|_| RuntimeError::Stopped)?)
            }
        };
        let (engine, artefacts, bytes) = (self.engine.clone(), self.artefacts.clone(), bytes.to_vec());
        let work = move || {
            // The turn ends with the work, even if whoever waits for it has left.
            let _turn = turn;
            let code = match &compilation {
                Compilation::Here => compile_here(&engine, &bytes)?,
                Compilation::Apart(command) => compile_apart(command, &bytes, &compatibility(&engine))?,
            };
            let component = trusted::component(&engine, &code).map_err(|error| refused(&error))?;
            if let Some(artefacts) = artefacts {
                artefacts.store(&digest, &code);
            }
            Ok(component)
        };
        blocking(work).await
    }
}

fn compile_here(engine: &Engine, bytes: &[u8]) -> Result<Vec<u8>, RuntimeError> {
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(RuntimeError::Refused { reason: "it is precompiled machine code".to_owned() });
    }
    engine.precompile_component(bytes).map_err(|error| refused(&error))
}

fn refused(error: &wasmtime::Error) -> RuntimeError {
    RuntimeError::Refused { reason: format!("{error:#}") }
}

/// Does work on a thread of its own kind: a server that stops does not wait for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RuntimeError> + Send + 'static,
) -> Result<T, RuntimeError> {
    let (done, result) = oneshot::channel();
    let work = move || {
        // Nobody waits any more where this fails.
        let _ = done.send(work());
    };
    std::thread::Builder::new()
        .name("tidegate-compile".to_owned())
        .stack_size(STACK)
        .spawn(work)
        .map_err(|error| RuntimeError::Engine(format!("no thread for the compiler: {error}")))?;
    result.await.map_err(|_| RuntimeError::Refused { reason: "the compiler cannot cope with it".to_owned() })?
}

/// Links a component against the contract, and refuses what could never be given memory.
pub(crate) fn link(
    linker: &Linker<State>,
    component: &Component,
    memory: usize,
) -> Result<EndpointAdhocPre<State>, RuntimeError> {
    let refused = |reason: String| RuntimeError::Refused { reason };
    if let Some(needs) = component.resources_required() {
        let most = u64::try_from(memory).unwrap_or(u64::MAX);
        if needs.max_initial_memory_size.is_some_and(|bytes| bytes > most) {
            return Err(refused(format!("it starts with more than {memory} bytes of memory")));
        }
        let (memories, tables) = (crate::engine::MAX_MEMORIES as u32, crate::engine::MAX_TABLES as u32);
        if needs.num_memories > memories || needs.num_tables > tables {
            return Err(refused(format!("it has more than {memories} memories or {tables} tables")));
        }
    }
    let pre = linker.instantiate_pre(component).map_err(|error| refused(format!("{error:#}")))?;
    EndpointAdhocPre::new(pre).map_err(|error| refused(format!("{error:#}")))
}
