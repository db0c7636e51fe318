//! Limits that end a guest where it stands. A limit that the guest may handle is returned to it as a failure instead.

/// A limit that ends the guest where it stands. Limits that it may handle are failures instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HardLimit {
    #[error("CPU time is used up")]
    Cpu,
    #[error("too many calls into the host")]
    HostCalls,
    #[error("too many open handles")]
    Handles,
}
