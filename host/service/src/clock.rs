//! What time it is for a service: that of the system, one that stands still, or one that a test turns forward.
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
    /// The system's, so much later as a test says.
    #[cfg(test)]
    Turned(Turned),
}

/// How much later than the system's a clock is, in microseconds. Copies share it.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub struct Turned(&'static std::sync::atomic::AtomicI64);

#[cfg(test)]
impl PartialEq for Turned {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

#[cfg(test)]
impl Eq for Turned {}

#[cfg(test)]
impl Turned {
    pub(crate) fn new() -> Self {
        Self(Box::leak(Box::default()))
    }

    pub(crate) fn forward(self, minutes: i64) {
        self.0.fetch_add(minutes * 60_000_000, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Clock {
    /// The time in microseconds since 1970, UTC.
    pub fn now(self) -> i64 {
        match self {
            Self::System => chrono::Utc::now().timestamp_micros(),
            Self::Frozen(time) => time,
            #[cfg(test)]
            Self::Turned(turned) => {
                chrono::Utc::now().timestamp_micros() + turned.0.load(std::sync::atomic::Ordering::Relaxed)
            }
        }
    }

    /// Whether it goes: logs are real then, and no examples of an author.
    pub fn is_real(self) -> bool {
        !matches!(self, Self::Frozen(_))
    }
}
