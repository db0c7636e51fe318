//! What the number of a setting counts, and how it is written.

use super::{GIB, HOUR, KIB, MIB};

/// What a setting's number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes: `1048576`, `"512 KiB"`, `"64 MiB"`, `"1 GiB"`.
    Bytes,
    /// Time: `"500 ms"`, `"30 s"`, `"2 min"`; held in milliseconds.
    Time,
    /// Things.
    Count,
}

impl Unit {
    /// The units that may follow a number, each with its factor; one of them stands for no unit.
    fn factors(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Bytes => &[
                ("", 1),
                ("b", 1),
                ("kib", KIB),
                ("mib", MIB),
                ("gib", GIB),
                ("kb", 1_000),
                ("mb", 1_000_000),
                ("gb", 1_000_000_000),
            ],
            Self::Time => &[("ms", 1), ("s", 1_000), ("min", 60_000), ("h", HOUR)],
            Self::Count => &[("", 1)],
        }
    }

    /// How a number of this unit is written.
    pub fn how(self) -> &'static str {
        match self {
            Self::Bytes => "bytes as a whole number, or with a unit: \"512 KiB\", \"64 MiB\", \"1 GiB\"",
            Self::Time => "a whole number with its unit: \"500 ms\", \"30 s\", \"2 min\"",
            Self::Count => "a whole number",
        }
    }

    /// The number that a text means; nothing if it cannot be read.
    pub fn read(self, text: &str) -> Option<u64> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
        let (number, unit) = text.split_at_checked(digits)?;
        let number: u64 = number.replace('_', "").parse().ok()?;
        let unit = unit.trim().to_ascii_lowercase();
        let (_, factor) = self.factors().iter().find(|(known, _)| *known == unit)?;
        // What is too large to be counted is too large for every bound, and is told as that.
        Some(number.saturating_mul(*factor))
    }

    /// A number as it would be written, in the largest unit in which it is whole.
    pub fn show(self, value: u64) -> String {
        let units: &[(&str, u64)] = match self {
            Self::Bytes => &[("GiB", GIB), ("MiB", MIB), ("KiB", KIB)],
            Self::Time => &[("h", HOUR), ("min", 60_000), ("s", 1_000), ("ms", 1)],
            Self::Count => &[],
        };
        match units.iter().find(|(_, factor)| value > 0 && value.is_multiple_of(*factor)) {
            Some((unit, factor)) => format!("{} {unit}", value / factor),
            None if self == Self::Time => format!("{value} s"),
            None => value.to_string(),
        }
    }
}
