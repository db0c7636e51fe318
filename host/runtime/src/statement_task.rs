//! Work of the query engine in a task of its own.
//!
//! Host functions are polled on the stack of the guest, which is small, and planning a statement may recurse deeply.

use tidegate_model::{Code, Failure};
use tokio::task::JoinHandle;
use tracing::Instrument;

/// Runs `work` in a task of its own and waits for it. Dropping the returned future aborts the task.
pub(crate) async fn run_in_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    struct Aborting<T>(JoinHandle<T>);
    impl<T> Drop for Aborting<T> {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let mut task = Aborting(tokio::spawn(work.in_current_span()));
    (&mut task.0).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a statement's task did not end");
        Err(Failure::new(Code::Internal, "the statement failed; the server's log has the reason"))
    })
}
