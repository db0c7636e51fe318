//! Settings by the type of their value: `bytes!` and `count!` for sizes, `plain!` for numbers, `time!`, `path!`.

/// A number of bytes, held as a size.
macro_rules! bytes {
    ($name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Number {
                unit: Unit::Bytes,
                least: $least,
                most: $most,
                get: |o: &$holder| number(o.$($field).+),
                set: |o, n| o.$($field).+ = size(n),
            },
        }
    };
}

/// A number of things, held as a size.
macro_rules! count {
    ($name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Number {
                unit: Unit::Count,
                least: $least,
                most: $most,
                get: |o: &$holder| number(o.$($field).+),
                set: |o, n| o.$($field).+ = size(n),
            },
        }
    };
}

/// A number held as it is.
macro_rules! plain {
    ($unit:ident, $name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Number {
                unit: Unit::$unit,
                least: $least,
                most: $most,
                get: |o: &$holder| o.$($field).+,
                set: |o, n| o.$($field).+ = n,
            },
        }
    };
}

macro_rules! time {
    ($name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Number {
                unit: Unit::Time,
                least: $least,
                most: $most,
                get: |o: &$holder| milliseconds(o.$($field).+),
                set: |o, n| o.$($field).+ = Duration::from_millis(n),
            },
        }
    };
}

/// Addresses and ranges of them.
macro_rules! networks {
    ($name:literal, $what:literal, $holder:ty, $($field:ident).+) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::List {
                how: "addresses or ranges with commas between them, such as \"10.0.0.0/8, 127.0.0.1\", or nothing",
                get: |o: &$holder| o.$($field).+.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
                set: |o, text| crate::networks::networks(text).map(|read| o.$($field).+ = read).is_ok(),
            },
        }
    };
}

/// A file that there may be.
macro_rules! path {
    ($name:literal, $what:literal, $($field:ident).+) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Text {
                how: "a path, or nothing",
                get: |o: &Options| o.$($field).+.as_ref().map_or_else(String::new, |path| path.display().to_string()),
                set: |o, text| {
                    o.$($field).+ = (!text.is_empty()).then(|| text.into());
                    true
                },
            },
        }
    };
}
