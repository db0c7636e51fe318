//! Calls that wait for the store, on threads that may block.

use std::sync::Arc;

use tidegate_model::{Code, Failure};
use tidegate_store::{Store, StoreError};
use tokio::task::JoinError;

use crate::failures::of_store;

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

fn ended_early(error: &JoinError) -> Failure {
    tracing::error!(%error, "a management task broke off");
    Failure::new(Code::Internal, "the request failed; the server's log has the details")
}
