//! Why the file of a segment cannot be read, in words for an operator and without paths.

use std::io;

/// What is wrong with the bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Damage(pub(crate) String);

impl Damage {
    pub(crate) fn new(what: impl Into<String>) -> Damage {
        Damage(what.into())
    }
}

/// Why the file of a segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SegmentFileError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are not those that were written.
    #[error(transparent)]
    Damaged(#[from] Damage),
}

impl SegmentFileError {
    /// The same in words without paths.
    pub(crate) fn reason(&self) -> String {
        match self {
            SegmentFileError::Io(error) if error.kind() == io::ErrorKind::NotFound => "its file is missing".to_owned(),
            SegmentFileError::Io(error) => format!("it cannot be read: {error}"),
            SegmentFileError::Damaged(Damage(reason)) => reason.clone(),
        }
    }

    /// Whether the file is damaged or missing, so that trying again cannot help.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            SegmentFileError::Io(error) => {
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
                    || error.raw_os_error() == Some(EIO)
            }
            SegmentFileError::Damaged(_) => true,
        }
    }
}

/// The error number of the operating system for a disk that cannot read.
pub(crate) const EIO: i32 = 5;
