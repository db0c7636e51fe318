//! Single values as they are passed between crates and to and from components (`value` in the WIT contract).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RelativeTime;

/// The type of a parameter or of a result column, as the WIT contract names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Kind {
    /// True or false.
    Boolean,
    /// A 64-bit signed integer.
    Int64,
    /// A 64-bit float.
    Float64,
    /// UTF-8 text; the default for a parameter.
    #[default]
    Text,
    /// Bytes.
    Bytes,
    /// A point in time: microseconds since the Unix epoch, UTC.
    Timestamp,
    /// Anything nested, as JSON text.
    Json,
}

/// One value, typed.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// A 64-bit signed integer.
    Int64(i64),
    /// A 64-bit float.
    Float64(f64),
    /// UTF-8 text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Microseconds since the Unix epoch, UTC.
    Timestamp(i64),
    /// A time before that of the request. It stays so until the request runs: an answer that is kept, and made anew later, is
    /// that of its question.
    Relative(RelativeTime),
}

impl Value {
    /// A relative time as the time that it is for a request that arrived at `now`, in microseconds since 1970.
    pub fn of_time(time: RelativeTime, now: i64) -> Self {
        let micros = time.at(now);
        if !time.is_text() {
            return Self::Timestamp(micros);
        }
        let text = chrono::DateTime::from_timestamp_micros(micros)
            .map(|time| time.to_rfc3339_opts(chrono::SecondsFormat::Micros, true));
        Self::Text(text.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_time_is_one_of_the_request_in_the_type_of_its_parameter() {
        let of = |is_text| RelativeTime::of("now-5m", is_text).map(|time| Value::of_time(time, 1_000_000_000_000_000));
        assert_eq!(of(false), Some(Value::Timestamp(999_999_700_000_000)));
        assert_eq!(of(true), Some(Value::Text("2001-09-09T01:41:40.000000Z".to_owned())));
    }
}
