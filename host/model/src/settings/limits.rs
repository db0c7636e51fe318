//! The limits of requests as settings: the section `[limits]`.

use std::time::Duration;

use super::{Access, GIB, HOUR, KIB, MIB, Setting, SettingError, Unit, milliseconds, number, size};
use crate::Limits;

/// What a limit is held as. In a setting it is a number of its unit.
trait Held: Copy {
    fn number(self) -> u64;
    /// The nearest value that there is.
    fn of(number: u64) -> Self;
}

impl Held for u64 {
    fn number(self) -> u64 {
        self
    }

    fn of(number: u64) -> Self {
        number
    }
}

impl Held for u32 {
    fn number(self) -> u64 {
        self.into()
    }

    fn of(number: u64) -> Self {
        Self::try_from(number).unwrap_or(Self::MAX)
    }
}

impl Held for usize {
    fn number(self) -> u64 {
        number(self)
    }

    fn of(number: u64) -> Self {
        size(number)
    }
}

impl Held for Duration {
    fn number(self) -> u64 {
        milliseconds(self)
    }

    fn of(number: u64) -> Self {
        Self::from_millis(number)
    }
}

/// A limit: its name, what it determines, its unit, the least and the most that it can be, and its field.
macro_rules! limit {
    ($name:literal, $what:literal, $unit:ident, $least:expr, $most:expr, $($field:ident).+) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Number {
                unit: Unit::$unit,
                least: $least,
                most: $most,
                get: |limits| limits.$($field).+.number(),
                set: |limits, number| limits.$($field).+ = Held::of(number),
            },
        }
    };
}

/// Every limit that can be set, in the order in which they are listed.
pub const LIMITS: &[Setting<Limits>] = &[
    limit!("request_time", "time of a request, its statements included", Time, 10, HOUR, wall_clock),
    limit!("statement_memory", "memory of one statement", Bytes, MIB, 1024 * GIB, statement_memory),
    limit!("total_memory", "memory of all running statements together", Bytes, MIB, 16 * 1024 * GIB, total_memory),
    limit!("rows", "rows of an answer, over every endpoint's own max_limit", Count, 1, 10_000, rows),
    limit!("answer_bytes", "size of an answer", Bytes, KIB, 4 * GIB, answer_bytes),
    limit!("text_bytes", "length of a statement's text", Bytes, 64, MIB, text.bytes),
    limit!("tokens", "tokens of a statement: words, signs, literals, blanks", Count, 16, 500_000, text.tokens),
    limit!("nesting", "how deep the expressions and queries of a statement nest", Count, 8, 256, text.nesting),
    limit!(
        "relations",
        "tables, CTE uses and subqueries that a statement unfolds to",
        Count,
        1,
        20_000,
        text.relations
    ),
    limit!("statements", "statements that one request's component may run", Count, 1, 10_000, statements),
    limit!("component_cpu", "computing time of a component's own code", Time, 10, HOUR, cpu),
    limit!("component_memory", "memory of a component", Bytes, MIB, 4 * GIB, guest_memory),
    limit!("component_rows", "rows that a component may read into its memory", Count, 1, 1_000_000_000, guest_rows),
    limit!(
        "component_bytes",
        "size of the rows that a component may read into its memory",
        Bytes,
        KIB,
        4 * GIB,
        guest_bytes
    ),
    limit!("component_calls", "calls of a component into the server", Count, 10, 1_000_000_000, host_calls),
    limit!("component_call_bytes", "what a component may pass in one call", Bytes, KIB, GIB, call_bytes),
    limit!("component_log_lines", "lines that a component may log", Count, 0, 1_000_000, log_lines),
];

impl Limits {
    /// Checks the limits against each other, after all are set.
    ///
    /// # Errors
    /// The limit of a statement is above that of all statements together.
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::settings::find;

    fn set(limits: &mut Limits, name: &str, text: &str) -> Result<(), SettingError> {
        find(LIMITS, "limits", name)?.set(limits, text)
    }

    #[test]
    fn every_default_is_within_its_bounds_and_can_be_written_back() {
        for setting in LIMITS {
            let mut limits = Limits::default();
            let text = setting.show(&limits);
            setting.set(&mut limits, &text).unwrap();
            assert_eq!(limits, Limits::default(), "{}", setting.name);
        }
        Limits::default().validate().unwrap();
    }

    #[test]
    fn every_setting_sets_a_limit_of_its_own() {
        for setting in LIMITS {
            let Access::Number { unit, most, .. } = setting.access else { unreachable!("limits are numbers") };
            let mut limits = Limits::default();
            let default = setting.show(&limits);
            setting.set(&mut limits, &unit.show(most)).unwrap();
            let changed = LIMITS.iter().filter(|other| other.show(&limits) != other.show(&Limits::default()));
            assert_eq!(changed.count(), usize::from(default != unit.show(most)), "{}", setting.name);
        }
    }

    #[test]
    fn numbers_are_read_with_their_units() {
        let mut limits = Limits::default();
        for (text, bytes) in [("1048576", 1 << 20), ("64 MiB", 64 << 20), ("64mib", 64 << 20), ("2 GB", 2_000_000_000)]
        {
            set(&mut limits, "statement_memory", text).unwrap();
            assert_eq!(limits.statement_memory, bytes, "{text}");
        }
        for (text, time) in [("500ms", 500), ("30 s", 30_000), ("2 min", 120_000), ("1h", 3_600_000)] {
            set(&mut limits, "request_time", text).unwrap();
            assert_eq!(limits.wall_clock, Duration::from_millis(time), "{text}");
        }
        set(&mut limits, "rows", "1_000").unwrap();
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
            let message = set(&mut Limits::default(), name, text).unwrap_err().to_string();
            assert!(message.contains(words), "{name} = {text}: {message}");
        }
        let mut limits = Limits::default();
        set(&mut limits, "total_memory", "64 MiB").unwrap();
        assert!(limits.validate().unwrap_err().to_string().contains("lower statement_memory"));
    }
}
