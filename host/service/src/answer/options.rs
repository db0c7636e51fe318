//! How an answer is encoded, and the failures that the encoders share.

use tidegate_model::{Code, Failure};

use super::format::Format;
use super::redaction::redact_failure;

/// How an answer is encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncodingOptions {
    pub(crate) format: Format,
    /// The most rows.
    pub(crate) rows: usize,
    /// The most bytes of the body.
    pub(crate) bytes: usize,
    /// Whether personal data is masked.
    pub(crate) redact: bool,
}

impl EncodingOptions {
    /// The failure that is answered instead. It is redacted where the answer would be, because its text may quote values.
    pub(super) fn failure(self, failure: Failure) -> Failure {
        if self.redact { redact_failure(failure) } else { failure }
    }
}

/// The failure of an answer with more bytes than the limit.
pub(super) fn too_large(limit: usize) -> Failure {
    let message =
        format!("the answer is larger than {limit} bytes; select fewer columns or rows, or narrow the time range");
    Failure::new(Code::LimitExceeded, message)
}

/// The failure of an encoder itself; the cause goes to the log.
pub(super) fn lost(what: impl std::fmt::Display) -> Failure {
    tracing::error!(%what, "an answer cannot be encoded");
    Failure::new(Code::Internal, "the answer could not be encoded; the server's log has the details")
}
