//! Work that may wait or takes long, on threads that may block.

use std::sync::Arc;

use tidegate_model::{Code, Failure};
use tidegate_store::{Store, StoreError};
use tokio::task::JoinError;

use crate::failures::of_store;

/// Bodies of at least so many bytes are parsed on a thread that may block.
pub const BLOCKING_BYTES: usize = 64 << 10;

/// Calls the store where it may wait for a commit, away from the threads that serve connections.
///
/// # Errors
/// The store's.
pub async fn blocking<T: Send + 'static>(
    store: &Arc<Store>,
    work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Failure> {
    let store = Arc::clone(store);
    match tokio::task::spawn_blocking(move || work(&store)).await {
        Ok(done) => done.map_err(of_store),
        Err(error) => Err(ended_early(&error)),
    }
}

/// Runs a change in a task of its own, so that it is completed when the client who asked for it disconnects. Otherwise
/// the catalog could have the change and the registry not.
///
/// # Errors
/// The change's.
pub async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    tokio::spawn(change).await.unwrap_or_else(|error| Err(ended_early(&error)))
}

/// Runs work whose time is proportional to `bytes`, such as those of a request body. If they are many, it runs on a thread that may
/// block, so that other connections are served meanwhile.
///
/// # Errors
/// Those of the work; [`Code::Internal`] if it panics on such a thread.
pub async fn off_connections<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    if bytes < BLOCKING_BYTES {
        return work();
    }
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Failure::new(Code::Internal, "reading the body failed; nothing of it was stored"))?
}

fn ended_early(error: &JoinError) -> Failure {
    tracing::error!(%error, "a management task broke off");
    Failure::new(Code::Internal, "the request failed; the server's log has the details")
}
