//! Why a segment that was named cannot be read.

use tidegate_model::{Code, Failure};
use uuid::Uuid;

use crate::segment::file_error::SegmentFileError;

/// Why a segment cannot be read, in words without paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// Its file is missing, damaged, or another one.
    #[error("segment {segment} cannot be read: {reason}")]
    Damaged {
        /// The segment.
        segment: Uuid,
        /// What is wrong with it.
        reason: String,
    },
    /// It cannot be read now, for a reason that may pass.
    #[error("segment {segment} cannot be read now: {reason}; try again later")]
    Unavailable {
        /// The segment.
        segment: Uuid,
        /// What refused.
        reason: String,
    },
    /// The statement may not hold what would have to be read.
    #[error("segment {segment} cannot be read: {reason}")]
    NoMemory {
        /// The segment.
        segment: Uuid,
        /// What the memory of the statement says.
        reason: String,
    },
}

impl SegmentError {
    pub(super) fn of(segment: Uuid, error: &SegmentFileError) -> SegmentError {
        let reason = error.reason();
        match error.is_damage() {
            true => SegmentError::Damaged { segment, reason },
            false => SegmentError::Unavailable { segment, reason },
        }
    }

    /// The failure of a statement that needs the segment: the same as when a scan finds it.
    pub fn failure(&self) -> Failure {
        let (code, segment) = match self {
            SegmentError::Damaged { segment, .. } => (Code::DataDamaged, segment),
            SegmentError::Unavailable { segment, .. } => (Code::DataUnavailable, segment),
            SegmentError::NoMemory { segment, .. } => (Code::LimitExceeded, segment),
        };
        Failure::new(code, self.to_string()).about(&*segment.to_string())
    }
}
