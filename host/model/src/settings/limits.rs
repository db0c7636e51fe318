//! The limits of requests as settings: the section `[limits]`.

use std::time::Duration;

use super::{Access, GIB, HOUR, KIB, MIB, Setting, SettingError, Unit, milliseconds, number, size};
use crate::Limits;

fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Every limit that can be set, in the order in which they are listed.
pub const LIMITS: &[Setting<Limits>] = &[
    Setting {
        name: "request_time",
        what: "time of a request, its statements included",
        access: Access::Number {
            unit: Unit::Time,
            least: 10,
            most: HOUR,
            get: |limits| milliseconds(limits.wall_clock),
            set: |limits, n| limits.wall_clock = Duration::from_millis(n),
        },
    },
    Setting {
        name: "statement_memory",
        what: "memory of one statement",
        access: Access::Number {
            unit: Unit::Bytes,
            least: MIB,
            most: 1024 * GIB,
            get: |limits| number(limits.statement_memory),
            set: |limits, n| limits.statement_memory = size(n),
        },
    },
    Setting {
        name: "total_memory",
        what: "memory of all running statements together",
        access: Access::Number {
            unit: Unit::Bytes,
            least: MIB,
            most: 16 * 1024 * GIB,
            get: |limits| number(limits.total_memory),
            set: |limits, n| limits.total_memory = size(n),
        },
    },
    Setting {
        name: "rows",
        what: "rows of an answer, over every endpoint's own max_limit",
        access: Access::Number {
            unit: Unit::Count,
            least: 1,
            most: 10_000,
            get: |limits| number(limits.rows),
            set: |limits, n| limits.rows = size(n),
        },
    },
    Setting {
        name: "answer_bytes",
        what: "size of an answer",
        access: Access::Number {
            unit: Unit::Bytes,
            least: KIB,
            most: 4 * GIB,
            get: |limits| number(limits.answer_bytes),
            set: |limits, n| limits.answer_bytes = size(n),
        },
    },
    Setting {
        name: "text_bytes",
        what: "length of a statement's text",
        access: Access::Number {
            unit: Unit::Bytes,
            least: 64,
            most: MIB,
            get: |limits| number(limits.text.bytes),
            set: |limits, n| limits.text.bytes = size(n),
        },
    },
    Setting {
        name: "tokens",
        what: "tokens of a statement: words, signs, literals, blanks",
        access: Access::Number {
            unit: Unit::Count,
            least: 16,
            most: 500_000,
            get: |limits| number(limits.text.tokens),
            set: |limits, n| limits.text.tokens = size(n),
        },
    },
    Setting {
        name: "nesting",
        what: "how deep the expressions and queries of a statement nest",
        access: Access::Number {
            unit: Unit::Count,
            least: 8,
            most: 256,
            get: |limits| number(limits.text.nesting),
            set: |limits, n| limits.text.nesting = size(n),
        },
    },
    Setting {
        name: "relations",
        what: "tables, CTE uses and subqueries that a statement unfolds to",
        access: Access::Number {
            unit: Unit::Count,
            least: 1,
            most: 20_000,
            get: |limits| number(limits.text.relations),
            set: |limits, n| limits.text.relations = size(n),
        },
    },
    Setting {
        name: "statements",
        what: "statements that one request's component may run",
        access: Access::Number {
            unit: Unit::Count,
            least: 1,
            most: 10_000,
            get: |limits| u64::from(limits.statements),
            set: |limits, n| limits.statements = small(n),
        },
    },
    Setting {
        name: "component_cpu",
        what: "computing time of a component's own code",
        access: Access::Number {
            unit: Unit::Time,
            least: 10,
            most: HOUR,
            get: |limits| milliseconds(limits.cpu),
            set: |limits, n| limits.cpu = Duration::from_millis(n),
        },
    },
    Setting {
        name: "component_memory",
        what: "memory of a component",
        access: Access::Number {
            unit: Unit::Bytes,
            least: MIB,
            most: 4 * GIB,
            get: |limits| number(limits.guest_memory),
            set: |limits, n| limits.guest_memory = size(n),
        },
    },
    Setting {
        name: "component_rows",
        what: "rows that a component may read into its memory",
        access: Access::Number {
            unit: Unit::Count,
            least: 1,
            most: 1_000_000_000,
            get: |limits| limits.guest_rows,
            set: |limits, n| limits.guest_rows = n,
        },
    },
    Setting {
        name: "component_bytes",
        what: "size of the rows that a component may read into its memory",
        access: Access::Number {
            unit: Unit::Bytes,
            least: KIB,
            most: 4 * GIB,
            get: |limits| number(limits.guest_bytes),
            set: |limits, n| limits.guest_bytes = size(n),
        },
    },
    Setting {
        name: "component_calls",
        what: "calls of a component into the server",
        access: Access::Number {
            unit: Unit::Count,
            least: 10,
            most: 1_000_000_000,
            get: |limits| limits.host_calls,
            set: |limits, n| limits.host_calls = n,
        },
    },
    Setting {
        name: "component_call_bytes",
        what: "what a component may pass in one call",
        access: Access::Number {
            unit: Unit::Bytes,
            least: KIB,
            most: GIB,
            get: |limits| number(limits.call_bytes),
            set: |limits, n| limits.call_bytes = size(n),
        },
    },
    Setting {
        name: "component_log_lines",
        what: "lines that a component may log",
        access: Access::Number {
            unit: Unit::Count,
            least: 0,
            most: 1_000_000,
            get: |limits| u64::from(limits.log_lines),
            set: |limits, n| limits.log_lines = small(n),
        },
    },
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
