//! Why the bytes of an object are not there, in words for a caller: without addresses.

use object_store::client::{HttpError, HttpErrorKind};

use crate::read_memory::NoMemory;

/// Why an object cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ObjectError {
    #[error("its object is missing")]
    Missing,
    #[error("its object has {found} bytes, and {named} were named")]
    OtherLength { found: u64, named: u64 },
    #[error("its object is shorter than was named")]
    BeyondEnd,
    /// The store did not do it now; that may pass.
    #[error("{0}")]
    Refused(&'static str),
    /// Whoever wants the bytes may not hold them.
    #[error("there is no memory for its bytes")]
    NoMemory(#[from] NoMemory),
}

impl ObjectError {
    pub(crate) fn of(error: &object_store::Error) -> ObjectError {
        match error {
            object_store::Error::NotFound { .. } => ObjectError::Missing,
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                ObjectError::Refused("the object store denies access")
            }
            _ => {
                let kind = first_of::<HttpError>(error).map(HttpError::kind);
                ObjectError::Refused(match kind {
                    Some(HttpErrorKind::Timeout) => "the object store does not answer in time",
                    Some(HttpErrorKind::Connect) => "the object store cannot be reached",
                    _ => "the object store fails",
                })
            }
        }
    }

    /// Whether the object is missing or another one, so that trying again cannot help.
    pub(crate) fn is_damage(&self) -> bool {
        !matches!(self, ObjectError::Refused(_) | ObjectError::NoMemory(_))
    }
}

/// The first error of a type in a chain of causes.
pub(crate) fn first_of<'e, T: std::error::Error + 'static>(
    error: &'e (dyn std::error::Error + 'static),
) -> Option<&'e T> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref() {
            return Some(found);
        }
        next = current.source();
    }
    None
}
