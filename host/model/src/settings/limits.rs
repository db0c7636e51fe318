//! The limits of requests as settings: the section `[limits]`.

use super::{GIB, HOUR, KIB, MIB, Setting, SettingError, Unit, number};
use crate::Limits;

/// Every limit that can be set, in the order in which they are listed.
pub const LIMITS: &[Setting<Limits>] = &[
    time!("request_time", "time of a request, its statements included", 10, HOUR, Limits, wall_clock),
    bytes!("statement_memory", "memory of one statement", MIB, 1024 * GIB, Limits, statement_memory),
    bytes!("total_memory", "memory of all running statements together", MIB, 16 * 1024 * GIB, Limits, total_memory),
    count!("rows", "rows of an answer, over every endpoint's own max_limit", 1, 10_000, Limits, rows),
    bytes!("answer_bytes", "size of an answer", KIB, 4 * GIB, Limits, answer_bytes),
    bytes!("text_bytes", "length of a statement's text", 64, MIB, Limits, text.bytes),
    count!("tokens", "tokens of a statement: words, signs, literals, blanks", 16, 500_000, Limits, text.tokens),
    count!("nesting", "how deep the expressions and queries of a statement nest", 8, 256, Limits, text.nesting),
    count!(
        "relations",
        "tables, CTE uses and subqueries that a statement unfolds to",
        1,
        20_000,
        Limits,
        text.relations
    ),
    count!("statements", "statements that one request's component may run", 1, 10_000, Limits, statements),
    time!("component_cpu", "computing time of a component's own code", 10, HOUR, Limits, cpu),
    bytes!("component_memory", "memory of a component", MIB, 4 * GIB, Limits, guest_memory),
    count!("component_rows", "rows that a component may read into its memory", 1, 1_000_000_000, Limits, guest_rows),
    bytes!(
        "component_bytes",
        "size of the rows that a component may read into its memory",
        KIB,
        4 * GIB,
        Limits,
        guest_bytes
    ),
    count!("component_calls", "calls of a component into the server", 10, 1_000_000_000, Limits, host_calls),
    bytes!("component_call_bytes", "what a component may pass in one call", KIB, GIB, Limits, call_bytes),
    count!("component_log_lines", "lines that a component may log", 0, 1_000_000, Limits, log_lines),
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
    use std::time::Duration;

    use super::*;
    use crate::settings::{Access, find};

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
