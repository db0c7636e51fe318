//! TODO header

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{error::Result, source::Source, wal::idempotency::KeyedRequest};

pub(crate) struct PendingCall {
    pub(crate) source: Arc<Source>,
    pub(crate) rows: usize,
    pub(crate) body: Vec<u8>,
    pub(crate) once: Option<KeyedRequest>,
    pub(crate) reply: oneshot::Sender<Result<StoredCall>>,
    /// Held until the answer: this is what bounds the queue.
    pub(crate) room: OwnedSemaphorePermit,
}

/// What is told of a call that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredCall {
    pub(crate) rows: usize,
    /// Of an earlier call with the same key: its events with a time far ahead.
    pub(crate) future_times: Option<usize>,
}

/// Why nothing is written at present.
#[derive(Debug, Clone)]
pub(crate) struct WriteFailure {
    pub(crate) reason: String,
    /// Only a restart can help.
    pub(crate) lasting: bool,
}
