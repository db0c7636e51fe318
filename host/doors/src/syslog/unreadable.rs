//! Why a message of RFC 5424 is not read.

/// Why a message is not read, in words for its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("a syslog message begins with its priority, as in <190>1")]
    NoPriority,
    #[error("after the priority comes the version 1 of the protocol")]
    NoVersion,
    #[error("the structured data has more than 100 elements")]
    TooManyElements,
    /// Its text, or its header, would have a token in it.
    #[error("the element [tidegate@...] of the structured data is not well formed, or not in its place")]
    BrokenCredentials,
}
