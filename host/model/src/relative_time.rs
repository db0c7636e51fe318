//! Times that are meant from the time of a request: `now`, `now-5m`. An alert asks for "the last five minutes" with them, and an
//! endpoint can have them as defaults.

/// The units of a distance, and their microseconds.
const UNITS: [(char, i64); 5] =
    [('s', 1_000_000), ('m', 60_000_000), ('h', 3_600_000_000), ('d', 86_400_000_000), ('w', 604_800_000_000)];
/// The longest distance: 100 years.
const FARTHEST: i64 = 36_500 * 86_400_000_000;

/// A time before that of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelativeTime {
    /// How long before, in microseconds.
    back: i64,
    /// Whether SQL and components get it as text in ISO 8601, as the parameter's type is.
    is_text: bool,
}

impl RelativeTime {
    /// The time that a text means: `now`, or `now-` with a number and one of `s m h d w`.
    pub fn of(text: &str, is_text: bool) -> Option<Self> {
        let rest = text.trim().strip_prefix("now")?;
        if rest.is_empty() {
            return Some(Self { back: 0, is_text });
        }
        let rest = rest.strip_prefix('-')?;
        let (unit, size) = UNITS.into_iter().find(|(unit, _)| rest.ends_with(*unit))?;
        let digits = rest.strip_suffix(unit)?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let back = digits.parse::<i64>().ok()?.checked_mul(size)?;
        (back <= FARTHEST).then_some(Self { back, is_text })
    }

    /// How long before the request it is, in microseconds.
    pub fn back(self) -> i64 {
        self.back
    }

    /// Whether SQL and components get it as text.
    pub fn is_text(self) -> bool {
        self.is_text
    }

    /// The time for a request that arrived at `now`, both in microseconds since 1970.
    pub fn at(self, now: i64) -> i64 {
        now.saturating_sub(self.back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_a_number_and_a_unit() {
        for (text, seconds) in [
            ("now", Some(0)),
            ("now-90s", Some(90)),
            ("now-5m", Some(300)),
            ("now-24h", Some(86_400)),
            (" now-7d ", Some(604_800)),
            ("now-2w", Some(1_209_600)),
            ("now-36500d", Some(36_500 * 86_400)),
            ("now-36501d", None),
            ("now-", None),
            ("now-m", None),
            ("now-5", None),
            ("now--5m", None),
            ("now-+5m", None),
            ("now+5m", None),
            ("now-5 m", None),
            ("now-5M", None),
            ("now-99999999999999999999s", None),
            ("now-9223372036854775807w", None),
            ("Now", None),
            ("-5m", None),
            ("", None),
        ] {
            assert_eq!(RelativeTime::of(text, false).map(|time| time.back / 1_000_000), seconds, "{text}");
        }
    }
}
