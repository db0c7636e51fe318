//! Runs work over the bytes of a request body, outside the threads that serve connections if the body is large.

use tidegate_model::{Code, Failure};

/// Bodies of at least so many bytes are parsed on a blocking thread.
pub(crate) const BLOCKING_BYTES: usize = 64 << 10;

/// Runs work whose time is proportional to `bytes`. For large bodies it runs on a blocking thread, so that other
/// connections are served meanwhile.
///
/// # Errors
/// Those of the work; [`Code::Internal`] if it panics on a blocking thread.
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
