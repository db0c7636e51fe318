//! Single values as they are passed between crates and to and from components (`value` in the WIT contract).

use serde::{Deserialize, Serialize};

use crate::RelativeTime;

/// The type of a parameter or of a result column, as the WIT contract names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
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
