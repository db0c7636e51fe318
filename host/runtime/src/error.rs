//! Why a runtime does not start or a component cannot be made ready.

use tidegate_model::{Code, Failure};

/// Why a runtime does not start or an endpoint is not ready.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The engine does not start.
    #[error("the component engine does not start: {0}")]
    Engine(String),
    /// The folder of compiled code cannot be used.
    #[error("the folder of compiled code {folder} cannot be used: {source}")]
    Artefacts {
        /// The folder.
        folder: String,
        /// Why.
        source: std::io::Error,
    },
    /// The component is not the one with the given digest.
    #[error("the component does not have the digest {digest}")]
    Digest {
        /// The digest that it should have.
        digest: String,
    },
    /// The component cannot be compiled or linked.
    #[error("the component cannot be used: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// The trial instantiation failed.
    #[error("the component does not start: {0}")]
    Start(Failure),
    /// Too many components are being compiled.
    #[error("other components are being compiled; try again later")]
    Busy,
    /// The process is shutting down.
    #[error("the runtime has stopped")]
    Stopped,
}

impl RuntimeError {
    /// Whether the same call may succeed later without a change.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::Busy) || matches!(self, Self::Start(failure) if failure.code == Code::Overloaded)
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        let code = match &error {
            error if error.passes() => Code::Overloaded,
            RuntimeError::Refused { .. } | RuntimeError::Start(_) => Code::Refused,
            RuntimeError::Busy => Code::Overloaded,
            RuntimeError::Engine(_)
            | RuntimeError::Artefacts { .. }
            | RuntimeError::Digest { .. }
            | RuntimeError::Stopped => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}
