//! What time it is for a service: that of the system, or one that stands still.
//!
//! Whatever a request depends on asks here and nowhere else, so that a case of an author's test is
//! the same on every day.

/// The clock of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The system's.
    #[default]
    System,
    /// Always the same time: microseconds since 1970, UTC.
    Frozen(i64),
}

impl Clock {
    /// The time in microseconds since 1970, UTC.
    pub fn now(self) -> i64 {
        match self {
            Self::System => chrono::Utc::now().timestamp_micros(),
            Self::Frozen(time) => time,
        }
    }

    /// Whether it goes: logs are real then, and no examples of an author.
    pub fn is_real(self) -> bool {
        matches!(self, Self::System)
    }
}
