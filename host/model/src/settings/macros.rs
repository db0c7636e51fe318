//! Settings that are numbers, by the type of their value: `bytes!` and `count!` for sizes, `plain!` and `small!` for numbers,
//! `time!`. Each is the name, what it determines, its bounds, and the field that holds it.

/// A number of bytes, held as a size.
#[macro_export]
macro_rules! bytes {
    ($name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        $crate::Setting {
            name: $name,
            what: $what,
            access: $crate::Access::Number {
                unit: $crate::Unit::Bytes,
                least: $least,
                most: $most,
                get: |o: &$holder| $crate::number(o.$($field).+),
                set: |o, n| o.$($field).+ = $crate::size(n),
            },
        }
    };
}

/// A number of things, held as a size.
#[macro_export]
macro_rules! count {
    ($name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        $crate::Setting {
            name: $name,
            what: $what,
            access: $crate::Access::Number {
                unit: $crate::Unit::Count,
                least: $least,
                most: $most,
                get: |o: &$holder| $crate::number(o.$($field).+),
                set: |o, n| o.$($field).+ = $crate::size(n),
            },
        }
    };
}

/// A number held as it is.
#[macro_export]
macro_rules! plain {
    ($unit:ident, $name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        $crate::Setting {
            name: $name,
            what: $what,
            access: $crate::Access::Number {
                unit: $crate::Unit::$unit,
                least: $least,
                most: $most,
                get: |o: &$holder| o.$($field).+,
                set: |o, n| o.$($field).+ = n,
            },
        }
    };
}

/// A time, in milliseconds.
#[macro_export]
macro_rules! time {
    ($name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        $crate::Setting {
            name: $name,
            what: $what,
            access: $crate::Access::Number {
                unit: $crate::Unit::Time,
                least: $least,
                most: $most,
                get: |o: &$holder| $crate::milliseconds(o.$($field).+),
                set: |o, n| o.$($field).+ = ::std::time::Duration::from_millis(n),
            },
        }
    };
}

/// A small number of things.
#[macro_export]
macro_rules! small {
    ($name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        $crate::Setting {
            name: $name,
            what: $what,
            access: $crate::Access::Number {
                unit: $crate::Unit::Count,
                least: $least,
                most: $most,
                get: |o: &$holder| u64::from(o.$($field).+),
                set: |o, n| o.$($field).+ = u32::try_from(n).unwrap_or(u32::MAX),
            },
        }
    };
}
