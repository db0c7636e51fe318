//! Components made ready: compiled or loaded once, linked, tried, and kept by digest.
//!
//! Compiling costs what the author of the component makes it cost, so one component is compiled at
//! a time, on a thread for blocking work; whoever else wants the same digest waits for it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use tokio::sync::{OnceCell, Semaphore};
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

use crate::artefacts::{Artefacts, hex};
use crate::bindings::EndpointAdhocPre;
use crate::host::State;
use crate::runtime::RuntimeError;

/// A component that is ready to take requests.
pub struct Endpoint {
    pub(crate) digest: String,
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

/// The components that are ready, by digest.
pub(crate) struct Prepared {
    slots: Mutex<HashMap<[u8; 32], Arc<Slot>>>,
    capacity: usize,
    clock: AtomicU64,
}

impl Prepared {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { slots: Mutex::default(), capacity: capacity.max(1), clock: AtomicU64::new(0) }
    }

    /// The endpoint with this digest, made by `make` if it is not there. A failure is not kept.
    pub(crate) async fn get<F>(&self, digest: [u8; 32], make: F) -> Result<Arc<Endpoint>, RuntimeError>
    where
        F: Future<Output = Result<Arc<Endpoint>, RuntimeError>>,
    {
        let slot = self.slot(digest);
        slot.endpoint.get_or_try_init(|| make).await.cloned()
    }

    fn slot(&self, digest: [u8; 32]) -> Arc<Slot> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= self.capacity && !slots.contains_key(&digest) {
            // What is in use stays alive through the endpoints that were handed out.
            let oldest = slots.iter().min_by_key(|(_, slot)| slot.used.load(Ordering::Relaxed)).map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                slots.remove(&oldest);
            }
        }
        let slot = Arc::clone(slots.entry(digest).or_default());
        slot.used.store(now, Ordering::Relaxed);
        slot
    }
}

/// Compiles, one at a time.
pub(crate) struct Compiler {
    pub(crate) engine: Engine,
    pub(crate) artefacts: Option<Arc<Artefacts>>,
    pub(crate) turn: Arc<Semaphore>,
}

impl Compiler {
    pub(crate) fn new(engine: Engine, artefacts: Option<Artefacts>) -> Self {
        Self { engine, artefacts: artefacts.map(Arc::new), turn: Arc::new(Semaphore::new(1)) }
    }

    /// The compiled component, from its artefact where there is one.
    pub(crate) async fn component(&self, bytes: &[u8], digest: [u8; 32]) -> Result<Component, RuntimeError> {
        let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(|_| RuntimeError::Stopped)?;
        let (engine, artefacts, bytes) = (self.engine.clone(), self.artefacts.clone(), bytes.to_vec());
        let work = move || {
            // The turn ends with the work, even if whoever waits for it has left.
            let _turn = turn;
            if <[u8; 32]>::from(Sha256::digest(&bytes)) != digest {
                return Err(RuntimeError::Digest { digest: hex(&digest) });
            }
            if let Some(component) = artefacts.as_ref().and_then(|artefacts| artefacts.load(&engine, &digest)) {
                return Ok(component);
            }
            if Engine::detect_precompiled(&bytes).is_some() {
                return Err(RuntimeError::Refused { reason: "it is precompiled machine code".to_owned() });
            }
            let component = Component::from_binary(&engine, &bytes)
                .map_err(|error| RuntimeError::Refused { reason: format!("{error:#}") })?;
            if let Some(artefacts) = artefacts {
                artefacts.store(&digest, &component);
            }
            Ok(component)
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| {
            if error.is_panic() {
                RuntimeError::Refused { reason: "the compiler cannot cope with it".to_owned() }
            } else {
                RuntimeError::Stopped
            }
        })?
    }
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
