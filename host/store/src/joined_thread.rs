//! A thread of the store, whose end is waited for once, however many ask it to end.
//!
//! Uses: errors.

use std::{
    sync::{Mutex, PoisonError},
    thread::{Builder, JoinHandle},
};

use crate::error::{Result, StoreError};

/// A thread that was started.
#[derive(Debug)]
pub(crate) struct JoinedThread {
    name: &'static str,
    /// `None` once it was waited for.
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl JoinedThread {
    pub(crate) fn start(name: &'static str, run: impl FnOnce() + Send + 'static) -> Result<JoinedThread> {
        let handle = Builder::new().name(name.to_owned()).spawn(run);
        let handle = handle.map_err(StoreError::io(format!("starting the thread {name}")))?;
        Ok(JoinedThread { name, handle: Mutex::new(Some(handle)) })
    }

    /// Waits for its end, for which somebody has asked. A second call does nothing.
    pub(crate) fn join(&self) {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if handle.is_some_and(|handle| handle.join().is_err()) {
            tracing::error!(thread = self.name, "a thread of the store panicked");
        }
    }
}
