//! The unit of the number of a setting, and its text form.

use super::{GIB, HOUR, KIB, MIB};

/// The unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes: `1048576`, `"512 KiB"`, `"64 MiB"`, `"1 GiB"`.
    Bytes,
    /// Time: `"500 ms"`, `"30 s"`, `"2 min"`; stored in milliseconds.
    Time,
    /// A number without unit.
    Count,
}

impl Unit {
    /// The suffixes of a number, each with its factor. An empty suffix means that the unit may be left out.
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

    /// The text form of a number of this unit, for a person.
    pub fn how(self) -> &'static str {
        match self {
            Self::Bytes => "bytes as a whole number, or with a unit: \"512 KiB\", \"64 MiB\", \"1 GiB\"",
            Self::Time => "a whole number with its unit: \"500 ms\", \"30 s\", \"2 min\"",
            Self::Count => "a whole number",
        }
    }

    /// Parses a number; `None` if that fails.
    pub fn read(self, text: &str) -> Option<u64> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
        let (number, unit) = text.split_at_checked(digits)?;
        let number: u64 = number.replace('_', "").parse().ok()?;
        let unit = unit.trim().to_ascii_lowercase();
        let (_, factor) = self.factors().iter().find(|(known, _)| *known == unit)?;
        // A number that overflows is beyond every bound and is reported as that.
        Some(number.saturating_mul(*factor))
    }

    /// A number as text, in the largest unit in which it is whole.
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
