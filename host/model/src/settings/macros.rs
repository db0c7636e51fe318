//! Settings that are numbers: `bytes!`, `count!` and `time!`, by their unit. Each is the name, what it determines, its bounds, and
//! the field that holds it.

use std::time::Duration;

use super::{milliseconds, number, size};

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

/// A setting that is a number of a unit.
#[macro_export]
macro_rules! numeric {
    ($unit:ident, $name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        $crate::Setting {
            name: $name,
            what: $what,
            access: $crate::Access::Number {
                unit: $crate::Unit::$unit,
                least: $least,
                most: $most,
                get: |o: &$holder| $crate::Numeric::to_number(o.$($field).+),
                set: |o, number| o.$($field).+ = $crate::Numeric::of_number(number),
            },
        }
    };
}

/// A number of bytes.
#[macro_export]
macro_rules! bytes {
    ($($setting:tt)*) => { $crate::numeric!(Bytes, $($setting)*) };
}

/// A number of things.
#[macro_export]
macro_rules! count {
    ($($setting:tt)*) => { $crate::numeric!(Count, $($setting)*) };
}

/// A time, in milliseconds.
#[macro_export]
macro_rules! time {
    ($($setting:tt)*) => { $crate::numeric!(Time, $($setting)*) };
}
