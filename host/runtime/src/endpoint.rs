//! A component that is ready to take requests, and how it is linked.

use std::fmt;

use wasmtime::component::{Component, Linker};

use crate::bindings::EndpointAdhocPre;
use crate::engine::{MAX_MEMORIES, MAX_TABLES};
use crate::error::RuntimeError;
use crate::host::State;

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

/// Links a component against the contract, and refuses one that needs more memory than it can ever get.
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
        let (memories, tables) = (MAX_MEMORIES as u32, MAX_TABLES as u32);
        if needs.num_memories > memories || needs.num_tables > tables {
            return Err(refused(format!("it has more than {memories} memories or {tables} tables")));
        }
    }
    let pre = linker.instantiate_pre(component).map_err(|error| refused(format!("{error:#}")))?;
    EndpointAdhocPre::new(pre).map_err(|error| refused(format!("{error:#}")))
}
