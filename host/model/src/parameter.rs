//! Parameters of endpoints: their declaration, and the check of the values of a request.
//!
//! All parameters of a request are text. They are checked against the manifest before anything runs, so that the answer
//! to an invalid one names it and says what is allowed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Code, Failure, Kind, RelativeTime, Value};

/// The most parameters of an endpoint, and of a request.
pub const MOST_PARAMETERS: usize = 500;

/// The longest accepted value in bytes, if the parameter has no limit of its own.
const DEFAULT_MAX_LENGTH: usize = 16 << 10;

/// What a time may be written as.
const TIME: &str =
    "ISO 8601 timestamp; write e.g. 2026-01-31T12:00:00Z, or now-5m for five minutes ago (s, m, h, d, w)";

/// One declared parameter of an endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The name, used as `@name` in SQL.
    #[schemars(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// The type of the value. SQL gets the parameter as a value of this type.
    #[serde(default)]
    pub kind: Kind,
    /// Whether a missing value is an error.
    #[serde(default)]
    pub required: bool,
    /// The value where none is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The only values that are allowed; empty means any.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// A further rule for the text: `regex` (a regular expression) or `timestamp` (ISO 8601, `now-5m`, or empty for
    /// "no bound").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// The longest accepted text, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// One line for readers of the documentation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A rule for the content of a text parameter, on which SQL relies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Format {
    /// A regular expression (RE2 syntax).
    Regex,
    /// An ISO 8601 timestamp, or one relative to the request; the empty string means that there is none.
    Timestamp,
}

/// The checked arguments of one request, by parameter name. Every declared parameter is in it, with [`Value::Null`] if
/// it was not sent.
pub type Arguments = BTreeMap<String, Value>;

/// A regular expression that matches a text literally and as a whole word: without a letter, digit, `_` or `-` on
/// either side.
pub fn whole_word(text: &str) -> String {
    format!("(^|[^0-9A-Za-z_-]){}([^0-9A-Za-z_-]|$)", regex::escape(text))
}

impl Parameter {
    /// Checks the text of a parameter, or its absence, and converts it to the type of the parameter.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`] naming the parameter and what is allowed.
    pub fn check(&self, sent: Option<&str>) -> Result<Value, Failure> {
        let text = match sent.or(self.default.as_deref()) {
            Some(text) => text,
            None if self.required => return Err(self.refuse(format!("is required{}", self.hint()))),
            None => return Ok(Value::Null),
        };
        if self.required && text.is_empty() {
            return Err(self.refuse(format!("is required and must not be empty{}", self.hint())));
        }
        let limit = self.max_length.unwrap_or(DEFAULT_MAX_LENGTH);
        if text.len() > limit {
            return Err(self.refuse(format!("is {} bytes long; at most {limit} are allowed", text.len())));
        }
        if !self.allowed.is_empty() && !self.allowed.iter().any(|allowed| allowed == text) {
            return Err(self.refuse(format!("has the value '{}'{}", shorten(text), self.hint())));
        }
        match self.format {
            Some(Format::Regex) => {
                if let Err(error) = regex::Regex::new(text) {
                    return Err(self.refuse(format!("is not a valid regular expression: {}", first_reason(&error))));
                }
            }
            Some(Format::Timestamp) if !text.is_empty() => {
                if let Some(time) = RelativeTime::of(text, self.kind != Kind::Timestamp) {
                    return Ok(Value::Relative(time));
                }
                if parse_timestamp(text).is_none() {
                    return Err(self.refuse(format!("has the value '{}', which is no {TIME}", shorten(text))));
                }
            }
            _ => {}
        }
        self.typed(text)
    }

    fn typed(&self, text: &str) -> Result<Value, Failure> {
        let wrong = |what: &str| self.refuse(format!("has the value '{}', which is no {what}", shorten(text)));
        match self.kind {
            Kind::Json if !text.is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() => {
                Err(wrong("JSON"))
            }
            Kind::Text | Kind::Json => Ok(Value::Text(text.to_owned())),
            Kind::Bytes => Ok(Value::Bytes(text.as_bytes().to_vec())),
            Kind::Boolean => text.parse().map(Value::Boolean).map_err(|_| wrong("boolean (true, false)")),
            Kind::Int64 => text.parse().map(Value::Int64).map_err(|_| wrong("integer")),
            Kind::Float64 => text.parse().map(Value::Float64).map_err(|_| wrong("number")),
            Kind::Timestamp if text.is_empty() => Ok(Value::Null),
            Kind::Timestamp => {
                let relative = || RelativeTime::of(text, false).map(Value::Relative);
                parse_timestamp(text).map(Value::Timestamp).or_else(relative).ok_or_else(|| wrong(TIME))
            }
        }
    }

    fn hint(&self) -> String {
        if self.allowed.is_empty() {
            match self.format {
                Some(Format::Regex) => "; it is a regular expression".to_owned(),
                Some(Format::Timestamp) => format!("; it is an {TIME}"),
                None => String::new(),
            }
        } else {
            format!("; allowed are {}", self.allowed.join(", "))
        }
    }

    fn refuse(&self, reason: String) -> Failure {
        Failure::new(Code::InvalidParameter, format!("parameter '{}' {reason}", self.name)).about(&self.name)
    }
}

/// The microseconds since 1970 of the years 1 to 9999, in UTC: what a TIMESTAMP may be.
pub const MOMENTS: RangeInclusive<i64> = -62_135_596_800_000_000..=253_402_300_799_999_999;

/// Parses a timestamp: ISO 8601 with offset, with `Z`, or without zone (which means UTC); also a date alone, a blank
/// for the `T`, and a trailing ` UTC`. Returns microseconds, which are within [`MOMENTS`].
pub fn parse_timestamp(text: &str) -> Option<i64> {
    // The year that is written is not the year in UTC where an offset is written, too: the range is that of the result.
    moment_of(text).filter(|micros| MOMENTS.contains(micros))
}

/// The same, of any year.
fn moment_of(text: &str) -> Option<i64> {
    use chrono::{DateTime, NaiveDate, NaiveDateTime};
    let text = text.trim();
    let text = text.strip_suffix(" UTC").unwrap_or(text);
    if let Ok(instant) = DateTime::parse_from_rfc3339(text) {
        return Some(instant.timestamp_micros());
    }
    for format in ["%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z", "%Y-%m-%d %H:%M%#z"] {
        if let Ok(instant) = DateTime::parse_from_str(text, format) {
            return Some(instant.timestamp_micros());
        }
    }
    for format in ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"] {
        if let Ok(instant) = NaiveDateTime::parse_from_str(text.trim_end_matches(['Z', 'z']), format) {
            return Some(instant.and_utc().timestamp_micros());
        }
    }
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_micros())
}

fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(80).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The last line of the error of a regular expression: the reason, without the drawing of the position.
fn first_reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn interval() -> Parameter {
        Parameter {
            name: "interval".into(),
            required: true,
            allowed: ["minutely", "hourly", "daily"].map(String::from).to_vec(),
            ..Parameter::default()
        }
    }

    #[test]
    fn a_missing_or_foreign_value_names_the_parameter_and_what_is_allowed() {
        for sent in [None, Some(""), Some("weekly"), Some("Hourly")] {
            let failure = interval().check(sent).unwrap_err();
            assert_eq!(failure.code, Code::InvalidParameter);
            assert!(failure.message.contains("'interval'"), "{failure}");
            assert!(failure.message.contains("minutely, hourly, daily"), "{failure}");
        }
        assert_eq!(interval().check(Some("daily")).unwrap(), Value::Text("daily".into()));
    }

    #[test]
    fn a_bad_regular_expression_says_why() {
        let parameter = Parameter { name: "project".into(), format: Some(Format::Regex), ..Parameter::default() };
        let failure = parameter.check(Some("a(b")).unwrap_err();
        assert!(failure.message.contains("unclosed group"), "{failure}");
    }

    #[test]
    fn timestamps_are_read_as_people_write_them() {
        let expected = 1_763_633_702_000_000;
        for text in [
            "2025-11-20T10:15:02Z",
            "2025-11-20T10:15:02.000000Z",
            "2025-11-20T12:15:02+02:00",
            "2025-11-20 10:15:02",
            "2025-11-20 10:15:02 UTC",
            "2025-11-20 10:15:02+00",
            "2025-11-20T10:15:02",
        ] {
            assert_eq!(parse_timestamp(text), Some(expected), "{text}");
        }
        assert_eq!(parse_timestamp("2025-11-20"), Some(1_763_596_800_000_000));
        for text in ["", "soon", "2025-13-01T00:00:00Z", "12"] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn timestamps_lie_within_the_years_1_to_9999_after_their_offset() {
        for (text, expected) in [
            ("0001-01-01T00:00:00Z", Some(*MOMENTS.start())),
            ("9999-12-31 23:59:59.999999", Some(*MOMENTS.end())),
            ("0000-12-31T23:00:00-01:00", Some(*MOMENTS.start())),
            ("0000-12-31", None),
            ("0001-01-01 00:00:00+00:01", None),
            ("9999-12-31 23:00:00-14:00", None),
            ("+10000-01-01", None),
            ("-0001-01-01T00:00:00Z", None),
        ] {
            assert_eq!(parse_timestamp(text), expected, "{text}");
        }
    }

    #[test]
    fn an_empty_timestamp_is_no_bound() {
        let parameter = Parameter { name: "start".into(), format: Some(Format::Timestamp), ..Parameter::default() };
        assert_eq!(parameter.check(Some("")).unwrap(), Value::Text(String::new()));
        assert_eq!(parameter.check(None).unwrap(), Value::Null);
        assert!(parameter.check(Some("yesterday")).is_err());
    }

    #[test]
    fn a_time_may_be_relative_and_no_other_parameter() {
        let text = Parameter { name: "start".into(), format: Some(Format::Timestamp), ..Parameter::default() };
        let typed = Parameter { name: "start".into(), kind: Kind::Timestamp, ..Parameter::default() };
        let both = Parameter { format: Some(Format::Timestamp), ..typed.clone() };
        for (parameter, is_text) in [(&text, true), (&typed, false), (&both, false)] {
            let expected = RelativeTime::of("now-5m", is_text).map(Value::Relative);
            assert_eq!(parameter.check(Some("now-5m")).ok(), expected);
            let by_default = Parameter { default: Some("now-5m".into()), ..parameter.clone() };
            assert_eq!(by_default.check(None).ok(), expected);
            assert!(parameter.check(Some("now-5x")).unwrap_err().message.contains("now-5m"));
        }
        let plain = Parameter { name: "word".into(), ..Parameter::default() };
        assert_eq!(plain.check(Some("now-5m")).unwrap(), Value::Text("now-5m".into()));
    }
}
