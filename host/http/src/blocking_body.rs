//! Work over the bytes of a request body, kept away from the threads that serve connections where it is much.

use tidegate_model::{Code, Failure};

/// Bodies of so many bytes and more are read on a thread that may block.
pub(crate) const BLOCKING_BYTES: usize = 64 << 10;

/// Runs work that takes time in proportion to `bytes`: on a thread that may block where that is much, so that other
/// connections are served meanwhile.
///
/// # Errors
/// The work's.
pub(crate) async fn off_connections<T: Send + 'static>(
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
