//! Moments, in the unit that the contract has.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment: microseconds since 1970-01-01T00:00:00Z, in UTC.
///
/// Sums and differences stop at the first and the last moment that there is; they never overflow.
///
/// ```
/// use std::time::Duration;
/// use tidegate_sdk::Timestamp;
///
/// let moment = Timestamp::from_micros(1_769_860_830_000_000); // 2026-01-31T12:00:30Z
/// let minute = moment.floor(Duration::from_secs(60));
/// assert_eq!(moment.since(minute), Duration::from_secs(30));
/// assert_eq!(minute + Duration::from_secs(30), moment);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment `micros` microseconds after (before, if negative) 1970-01-01T00:00:00Z.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The start of the span of this length that the moment lies in, where spans are counted from
    /// 1970-01-01T00:00:00Z: the minute of a moment is `moment.floor(Duration::from_secs(60))`. A span of less than a
    /// microsecond changes nothing.
    pub fn floor(self, span: Duration) -> Self {
        match micros(span) {
            0 => self,
            span => Self(self.0.saturating_sub(self.0.rem_euclid(span))),
        }
    }

    /// How long it is from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_before_1970_start_where_they_should() {
        let second = Duration::from_secs(1);
        assert_eq!(Timestamp(-1).floor(second), Timestamp(-1_000_000));
        assert_eq!(Timestamp(0).floor(second), Timestamp(0));
        assert_eq!(Timestamp(1_999_999).floor(second), Timestamp(1_000_000));
        assert_eq!(Timestamp(7).floor(Duration::ZERO), Timestamp(7));
    }

    #[test]
    fn nothing_overflows() {
        assert_eq!(Timestamp(i64::MAX) + Duration::MAX, Timestamp(i64::MAX));
        assert_eq!(Timestamp(i64::MIN) - Duration::MAX, Timestamp(i64::MIN));
        assert_eq!(Timestamp(i64::MIN).floor(Duration::from_secs(60)), Timestamp(i64::MIN));
        assert_eq!(Timestamp(0).since(Timestamp(9)), Duration::ZERO);
        assert_eq!(Timestamp(i64::MAX).since(Timestamp(i64::MIN)), Duration::from_micros(i64::MAX as u64));
    }
}
