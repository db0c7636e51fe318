//! The options of an encoding, and the failures that all encoders share.

use tidegate_model::{Code, Failure};

use super::format::Format;
use super::redaction::redact_failure;

/// The options of an encoding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncodingOptions {
    pub(crate) format: Format,
    /// The limit of rows.
    pub(crate) rows: usize,
    /// The limit of the body in bytes.
    pub(crate) bytes: usize,
    /// Whether personal data is masked.
    pub(crate) redact: bool,
}

impl EncodingOptions {
    /// Redacts a failure if the answer would be redacted, because its text may quote values.
    pub(super) fn failure(self, failure: Failure) -> Failure {
        if self.redact { redact_failure(failure) } else { failure }
    }
}

/// The failure of an answer that exceeds the limit of bytes.
pub(super) fn too_large(limit: usize) -> Failure {
    let message =
        format!("the answer is larger than {limit} bytes; select fewer columns or rows, or narrow the time range");
    Failure::new(Code::LimitExceeded, message)
}

/// The failure of the encoder itself. The cause is logged and not sent.
pub(super) fn lost(what: impl std::fmt::Display) -> Failure {
    tracing::error!(%what, "an answer cannot be encoded");
    Failure::new(Code::Internal, "the answer could not be encoded; the server's log has the details")
}
