//! Numbers of settings, and what holds them.

use std::time::Duration;

/// The number of a setting as a size in memory; the largest possible one if it does not fit.
pub fn size(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A size in memory as the number of a setting.
pub fn number(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A time as the number of a setting, in milliseconds.
pub fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What holds the number of a setting. A number that is too large for it becomes the largest that it can hold; the bounds of the
/// settings leave no such number.
pub trait Numeric: Copy {
    /// The number, of a time that of its milliseconds.
    fn to_number(self) -> u64;

    /// What holds a number.
    fn of_number(number: u64) -> Self;
}

impl Numeric for u64 {
    fn to_number(self) -> u64 {
        self
    }

    fn of_number(number: u64) -> Self {
        number
    }
}

impl Numeric for u32 {
    fn to_number(self) -> u64 {
        self.into()
    }

    fn of_number(number: u64) -> Self {
        Self::try_from(number).unwrap_or(Self::MAX)
    }
}

impl Numeric for usize {
    fn to_number(self) -> u64 {
        number(self)
    }

    fn of_number(number: u64) -> Self {
        size(number)
    }
}

impl Numeric for Duration {
    fn to_number(self) -> u64 {
        milliseconds(self)
    }

    fn of_number(number: u64) -> Self {
        Self::from_millis(number)
    }
}
