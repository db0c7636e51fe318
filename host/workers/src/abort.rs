//! Tasks of the runtime that end with their owner.

use tokio::task::JoinHandle;

/// A task of the runtime that is aborted when this is dropped.
#[derive(Debug)]
pub(crate) struct AbortOnDrop<T>(pub(crate) JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
