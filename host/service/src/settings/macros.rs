//! Settings by the type of their value, beside those of numbers, which the crate `tidegate-model` has: `networks!`, `path!`.

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
