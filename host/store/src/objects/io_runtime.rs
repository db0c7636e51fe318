//! The thread that talks to an object store.
//!
//! Whoever reads a segment computes for long between two waits, and would keep a connection waiting that it shares. So
//! requests run on a thread of their own, and reading from disk on a few that may wait.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads that read and write blocks on disk.
const DISK_THREADS: usize = 4;

/// A runtime that ends with the last of its tasks when this is dropped.
#[derive(Debug)]
pub(crate) struct IoRuntime {
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
    handle: Handle,
}

impl IoRuntime {
    pub(crate) fn start() -> io::Result<IoRuntime> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(DISK_THREADS).thread_name("objects").enable_all();
        let runtime = builder.build()?;
        Ok(IoRuntime { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for IoRuntime {
    fn drop(&mut self) {
        // Within another runtime no one may wait for it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
