//! The limits as settings: what each is called, its unit, the bounds within which it may be set.
//!
//! One table serves the configuration file, the environment, the help text and the checks, so
//! that a limit cannot be settable in one place and unknown in another.

use std::fmt;
use std::time::Duration;

use crate::{Limits, nearest};

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

/// One limit that can be set.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its key in `[limits]`; in the environment, `TIDEGATE_LIMITS_` and this in capitals.
    pub name: &'static str,
    /// What it limits.
    pub what: &'static str,
    /// What its number counts.
    pub unit: Unit,
    /// The smallest number that makes sense.
    pub least: u64,
    /// The largest number that is taken.
    pub most: u64,
    get: fn(&Limits) -> u64,
    set: fn(&mut Limits, u64),
}

/// Why a setting is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no such setting.
    #[error("there is no limit {name}; {hint}")]
    Unknown {
        /// The name.
        name: String,
        /// The nearest name, or all.
        hint: String,
    },
    /// The text is no number of the unit.
    #[error("{name} = {text:?} cannot be read; write {how}")]
    Unreadable {
        /// The setting.
        name: &'static str,
        /// What was written.
        text: String,
        /// How it is written.
        how: &'static str,
    },
    /// The number is outside the bounds.
    #[error("{name} is {text}; it can be from {least} to {most}")]
    OutOfBounds {
        /// The setting.
        name: &'static str,
        /// What was written.
        text: String,
        /// The smallest.
        least: String,
        /// The largest.
        most: String,
    },
    /// Two limits contradict each other.
    #[error("{0}")]
    Contradiction(String),
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const HOUR: u64 = 3_600_000;

fn size(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn number(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Every limit that can be set, in the order in which they are told.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "request_time",
        what: "time of a request, its statements included",
        unit: Unit::Time,
        least: 10,
        most: HOUR,
        get: |limits| milliseconds(limits.wall_clock),
        set: |limits, n| limits.wall_clock = Duration::from_millis(n),
    },
    Setting {
        name: "statement_memory",
        what: "memory of one statement",
        unit: Unit::Bytes,
        least: MIB,
        most: 1024 * GIB,
        get: |limits| number(limits.statement_memory),
        set: |limits, n| limits.statement_memory = size(n),
    },
    Setting {
        name: "total_memory",
        what: "memory of all running statements together",
        unit: Unit::Bytes,
        least: MIB,
        most: 16 * 1024 * GIB,
        get: |limits| number(limits.total_memory),
        set: |limits, n| limits.total_memory = size(n),
    },
    Setting {
        name: "rows",
        what: "rows of an answer, over every endpoint's own max_limit",
        unit: Unit::Count,
        least: 1,
        most: 10_000,
        get: |limits| number(limits.rows),
        set: |limits, n| limits.rows = size(n),
    },
    Setting {
        name: "answer_bytes",
        what: "size of an answer",
        unit: Unit::Bytes,
        least: KIB,
        most: 4 * GIB,
        get: |limits| number(limits.answer_bytes),
        set: |limits, n| limits.answer_bytes = size(n),
    },
    Setting {
        name: "text_bytes",
        what: "length of a statement's text",
        unit: Unit::Bytes,
        least: 64,
        most: MIB,
        get: |limits| number(limits.text.bytes),
        set: |limits, n| limits.text.bytes = size(n),
    },
    Setting {
        name: "tokens",
        what: "tokens of a statement: words, signs, literals, blanks",
        unit: Unit::Count,
        least: 16,
        most: 500_000,
        get: |limits| number(limits.text.tokens),
        set: |limits, n| limits.text.tokens = size(n),
    },
    Setting {
        name: "nesting",
        what: "how deep the expressions and queries of a statement nest",
        unit: Unit::Count,
        least: 8,
        most: 256,
        get: |limits| number(limits.text.nesting),
        set: |limits, n| limits.text.nesting = size(n),
    },
    Setting {
        name: "relations",
        what: "tables, CTE uses and subqueries that a statement unfolds to",
        unit: Unit::Count,
        least: 1,
        most: 20_000,
        get: |limits| number(limits.text.relations),
        set: |limits, n| limits.text.relations = size(n),
    },
    Setting {
        name: "statements",
        what: "statements that one request's component may run",
        unit: Unit::Count,
        least: 1,
        most: 10_000,
        get: |limits| u64::from(limits.statements),
        set: |limits, n| limits.statements = small(n),
    },
    Setting {
        name: "component_cpu",
        what: "computing time of a component's own code",
        unit: Unit::Time,
        least: 10,
        most: HOUR,
        get: |limits| milliseconds(limits.cpu),
        set: |limits, n| limits.cpu = Duration::from_millis(n),
    },
    Setting {
        name: "component_memory",
        what: "memory of a component",
        unit: Unit::Bytes,
        least: MIB,
        most: 4 * GIB,
        get: |limits| number(limits.guest_memory),
        set: |limits, n| limits.guest_memory = size(n),
    },
    Setting {
        name: "component_rows",
        what: "rows that a component may read into its memory",
        unit: Unit::Count,
        least: 1,
        most: 1_000_000_000,
        get: |limits| limits.guest_rows,
        set: |limits, n| limits.guest_rows = n,
    },
    Setting {
        name: "component_bytes",
        what: "size of the rows that a component may read into its memory",
        unit: Unit::Bytes,
        least: KIB,
        most: 4 * GIB,
        get: |limits| number(limits.guest_bytes),
        set: |limits, n| limits.guest_bytes = size(n),
    },
    Setting {
        name: "component_calls",
        what: "calls of a component into the server",
        unit: Unit::Count,
        least: 10,
        most: 1_000_000_000,
        get: |limits| limits.host_calls,
        set: |limits, n| limits.host_calls = n,
    },
    Setting {
        name: "component_call_bytes",
        what: "what a component may pass in one call",
        unit: Unit::Bytes,
        least: KIB,
        most: GIB,
        get: |limits| number(limits.call_bytes),
        set: |limits, n| limits.call_bytes = size(n),
    },
    Setting {
        name: "component_log_lines",
        what: "lines that a component may log",
        unit: Unit::Count,
        least: 0,
        most: 1_000_000,
        get: |limits| u64::from(limits.log_lines),
        set: |limits, n| limits.log_lines = small(n),
    },
];

impl Setting {
    /// Its value in `limits`, as it would be written.
    pub fn show(&self, limits: &Limits) -> String {
        self.unit.show((self.get)(limits))
    }
}

impl Limits {
    /// Sets a limit by its name, from text: a plain number, or one with a unit.
    ///
    /// # Errors
    /// Unknown names, with the nearest one; texts that cannot be read; numbers out of bounds.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            let names = || SETTINGS.iter().map(|setting| setting.name);
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
            };
            return Err(SettingError::Unknown { name: name.to_owned(), hint });
        };
        let Setting { name, unit, least, most, set, .. } = *setting;
        let Some(value) = unit.read(text) else {
            return Err(SettingError::Unreadable { name, text: text.to_owned(), how: unit.how() });
        };
        if !(least..=most).contains(&value) {
            let (least, most) = (unit.show(least), unit.show(most));
            return Err(SettingError::OutOfBounds { name, text: text.to_owned(), least, most });
        }
        set(self, value);
        Ok(())
    }

    /// Checks the limits against each other, when all are set.
    ///
    /// # Errors
    /// A statement that could never use what it is allowed.
    pub fn validate(&self) -> Result<(), SettingError> {
        if self.statement_memory <= self.total_memory {
            return Ok(());
        }
        Err(SettingError::Contradiction(format!(
            "statement_memory ({}) is more than total_memory ({}); raise total_memory or lower statement_memory",
            Unit::Bytes.show(number(self.statement_memory)),
            Unit::Bytes.show(number(self.total_memory)),
        )))
    }
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

    fn how(self) -> &'static str {
        match self {
            Self::Bytes => "bytes as a whole number, or with a unit: \"512 KiB\", \"64 MiB\", \"1 GiB\"",
            Self::Time => "a whole number with its unit: \"500 ms\", \"30 s\", \"2 min\"",
            Self::Count => "a whole number",
        }
    }

    fn read(self, text: &str) -> Option<u64> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
        let (number, unit) = text.split_at_checked(digits)?;
        let number: u64 = number.replace('_', "").parse().ok()?;
        let unit = unit.trim().to_ascii_lowercase();
        let (_, factor) = self.factors().iter().find(|(known, _)| *known == unit)?;
        // What is too large to be counted is too large for every bound, and is told as that.
        Some(number.saturating_mul(*factor))
    }

    fn show(self, value: u64) -> String {
        let units: &[(&str, u64)] = match self {
            Self::Bytes => &[("GiB", GIB), ("MiB", MIB), ("KiB", KIB)],
            Self::Time => &[("h", HOUR), ("min", 60_000), ("s", 1_000), ("ms", 1)],
            Self::Count => &[],
        };
        match units.iter().find(|(_, factor)| value > 0 && value.is_multiple_of(*factor)) {
            Some((unit, factor)) => format!("{} {unit}", value / factor),
            None => value.to_string(),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, what, unit, least, most, .. } = self;
        let default = self.show(&Limits::default());
        write!(f, "{name}: {what}; default {default}, from {} to {}", unit.show(*least), unit.show(*most))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_within_its_bounds_and_can_be_written_back() {
        for setting in SETTINGS {
            let mut limits = Limits::default();
            let text = setting.show(&limits);
            limits.set(setting.name, &text).unwrap();
            assert_eq!(limits, Limits::default(), "{setting}");
        }
        Limits::default().validate().unwrap();
    }

    #[test]
    fn every_setting_sets_a_limit_of_its_own() {
        for setting in SETTINGS {
            let mut limits = Limits::default();
            limits.set(setting.name, &setting.unit.show(setting.most)).unwrap();
            let changed = SETTINGS.iter().filter(|other| other.show(&limits) != other.show(&Limits::default()));
            let expected = usize::from((setting.get)(&Limits::default()) != setting.most);
            assert_eq!(changed.count(), expected, "{setting}");
        }
    }

    #[test]
    fn numbers_are_read_with_their_units() {
        let mut limits = Limits::default();
        for (text, bytes) in [("1048576", 1 << 20), ("64 MiB", 64 << 20), ("64mib", 64 << 20), ("2 GB", 2_000_000_000)]
        {
            limits.set("statement_memory", text).unwrap();
            assert_eq!(limits.statement_memory, bytes, "{text}");
        }
        for (text, time) in [("500ms", 500), ("30 s", 30_000), ("2 min", 120_000), ("1h", 3_600_000)] {
            limits.set("request_time", text).unwrap();
            assert_eq!(limits.wall_clock, Duration::from_millis(time), "{text}");
        }
        limits.set("rows", "1_000").unwrap();
        assert_eq!(limits.rows, 1_000);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_remedy() {
        for (name, text, words) in [
            ("statement_memori", "1", "did you mean statement_memory?"),
            ("colour", "1", "there are request_time, statement_memory"),
            ("request_time", "30", "\"30 s\""),
            ("request_time", "0 s", "from 10 ms to 1 h"),
            ("request_time", "soon", "\"30 s\""),
            ("statement_memory", "0", "from 1 MiB to 1024 GiB"),
            ("statement_memory", "12 parsecs", "\"64 MiB\""),
            ("statement_memory", "-1", "cannot be read"),
            ("statement_memory", "99999999 GiB", "from 1 MiB"),
            ("nesting", "1000", "from 8 to 256"),
            ("rows", "many", "a whole number"),
            ("rows", "", "a whole number"),
        ] {
            let message = Limits::default().set(name, text).unwrap_err().to_string();
            assert!(message.contains(words), "{name} = {text}: {message}");
        }
        let mut limits = Limits::default();
        limits.set("total_memory", "64 MiB").unwrap();
        assert!(limits.validate().unwrap_err().to_string().contains("lower statement_memory"));
    }
}
