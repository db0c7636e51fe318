//! Compiling components, or loading what was compiled before.
//!
//! The author of a component decides what compiling it costs. So only a few components are compiled at once, where the
//! options say so in processes of their own ([`crate::subprocess`]). Loading compiled code does not wait for
//! compilations.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::artefacts::{Artefacts, compatibility, trusted};
use crate::error::RuntimeError;
use crate::subprocess::{Compilation, compile_in_subprocess};

/// The most components that are compiled at once in subprocesses.
const AT_ONCE: usize = 2;

/// Bytes of stack for a thread that compiles or loads: the compiler walks code recursively.
const STACK: usize = 8 << 20;

/// Compiles components, or loads what was compiled before.
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

    /// The same for a component that this program generated, which always costs the same: it is compiled in this
    /// process.
    pub(crate) async fn own_component(&self, bytes: &[u8], digest: [u8; 32]) -> Result<Component, RuntimeError> {
        self.compiled(bytes, digest, Compilation::Here).await
    }

    /// Deletes the compiled code of a component from disk.
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
            return Err(RuntimeError::Digest { digest: hex::encode(digest) });
        }
        let (engine, artefacts) = (self.engine.clone(), self.artefacts.clone());
        let load = move || Ok(artefacts.and_then(|artefacts| artefacts.load(&engine, &digest)));
        // Loading does not wait for compilations.
        if let Some(component) = blocking(load).await? {
            return Ok(component);
        }
        // Components that are compiled here are generated ones of a few hundred bytes, or those of a tool; they do not
        // wait.
        let turn = match &compilation {
            Compilation::Here => None,
            Compilation::Subprocess(command) => {
                let turn = timeout(command.time, Arc::clone(&self.turn).acquire_owned()).await;
                Some(turn.map_err(|_| RuntimeError::Busy)?.map_err(|_| RuntimeError::Stopped)?)
            }
        };
        let (engine, artefacts, bytes) = (self.engine.clone(), self.artefacts.clone(), bytes.to_vec());
        let work = move || {
            // The permit is freed when the work ends, even if the caller is gone.
            let _turn = turn;
            let code = match &compilation {
                Compilation::Here => compile_here(&engine, &bytes)?,
                Compilation::Subprocess(command) => compile_in_subprocess(command, &bytes, &compatibility(&engine))?,
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

/// Runs blocking work on a thread of its own. A server that stops does not wait for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RuntimeError> + Send + 'static,
) -> Result<T, RuntimeError> {
    let (done, result) = oneshot::channel();
    let work = move || {
        // The receiver may be gone.
        let _ = done.send(work());
    };
    std::thread::Builder::new()
        .name("tidegate-compile".to_owned())
        .stack_size(STACK)
        .spawn(work)
        .map_err(|error| RuntimeError::Engine(format!("no thread for the compiler: {error}")))?;
    result.await.map_err(|_| RuntimeError::Refused { reason: "the compiler cannot cope with it".to_owned() })?
}
