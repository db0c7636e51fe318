//! What asynchronous code of all commands runs on.

/// As many threads as the machine has processors, with timers and sockets.
pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}
