//! Settings that are numbers: `bytes!`, `count!` and `time!`, by their unit. Each is the name, what it determines, its bounds, and
//! the field that holds it.

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
