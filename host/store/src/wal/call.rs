//! An ingest call that waits for the writer thread, and the answer to its caller.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{
    error::Result,
    memory::call_columns::MadeColumns,
    source::Source,
    wal::idempotency::{KeyedRequest, NamedEvents},
};

pub(crate) struct PendingCall {
    pub(crate) source: Arc<Source>,
    pub(crate) rows: usize,
    pub(crate) body: Vec<u8>,
    pub(crate) columns: Option<MadeColumns>,
    pub(crate) once: Option<Box<KeyedRequest>>,
    pub(crate) named: Option<Box<NamedEvents>>,
    pub(crate) reply: oneshot::Sender<Result<StoredCall>>,
    /// Held until the answer. These permits bound the queue.
    pub(crate) room: OwnedSemaphorePermit,
}

/// The answer to the caller of a stored call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredCall {
    pub(crate) rows: usize,
    /// If an earlier call with the same key was answered: the number of its events with a time far ahead.
    pub(crate) future_times: Option<usize>,
}

/// Why nothing can be written at present.
#[derive(Debug, Clone)]
pub(crate) struct WriteFailure {
    pub(crate) reason: String,
    /// Whether only a restart can help.
    pub(crate) lasting: bool,
}
