//! Conversion between the types of the WIT package and those of the model, in both directions.

use tidegate_model::{Code, Failure, Kind, Quota, Value};

use crate::bindings::tidegate::endpoint::types as wit;

/// The longest message of a failure that is copied into a guest, in bytes.
const MAX_MESSAGE: usize = 4096;

pub(crate) fn kind_out(kind: Kind) -> wit::Kind {
    match kind {
        Kind::Boolean => wit::Kind::Boolean,
        Kind::Int64 => wit::Kind::Int64,
        Kind::Float64 => wit::Kind::Float64,
        Kind::Text => wit::Kind::Text,
        Kind::Bytes => wit::Kind::Bytes,
        Kind::Timestamp => wit::Kind::Timestamp,
        Kind::Json => wit::Kind::Json,
    }
}

pub(crate) fn kind_in(kind: wit::Kind) -> Kind {
    match kind {
        wit::Kind::Boolean => Kind::Boolean,
        wit::Kind::Int64 => Kind::Int64,
        wit::Kind::Float64 => Kind::Float64,
        wit::Kind::Text => Kind::Text,
        wit::Kind::Bytes => Kind::Bytes,
        wit::Kind::Timestamp => Kind::Timestamp,
        wit::Kind::Json => Kind::Json,
    }
}

/// A value as a guest gets it, of a request that was received at `now`.
pub(crate) fn value_out(value: &Value, now: i64) -> wit::Value {
    match value {
        Value::Null => wit::Value::Null,
        Value::Boolean(value) => wit::Value::Boolean(*value),
        Value::Int64(value) => wit::Value::Int64(*value),
        Value::Float64(value) => wit::Value::Float64(*value),
        Value::Text(value) => wit::Value::Text(value.clone()),
        Value::Bytes(value) => wit::Value::Bytes(value.clone()),
        Value::Timestamp(value) => wit::Value::Timestamp(*value),
        Value::Relative(time) => value_out(&Value::of_time(*time, now), now),
    }
}

pub(crate) fn value_in(value: wit::Value) -> Value {
    match value {
        wit::Value::Null => Value::Null,
        wit::Value::Boolean(value) => Value::Boolean(value),
        wit::Value::Int64(value) => Value::Int64(value),
        wit::Value::Float64(value) => Value::Float64(value),
        wit::Value::Text(value) => Value::Text(value),
        wit::Value::Bytes(value) => Value::Bytes(value),
        wit::Value::Timestamp(value) => Value::Timestamp(value),
    }
}

/// A failure as the guest gets it. Details that the contract has no field for stay in the host, which remembers the
/// failure itself.
pub(crate) fn failure_out(failure: &Failure) -> wit::Failure {
    let message = shorten(&failure.message, MAX_MESSAGE).to_owned();
    let about = || failure.location.clone().unwrap_or_default();
    let exhausted = |quota, message| wit::Failure::Exhausted(wit::Exhaustion { quota, message });
    match failure.code {
        Code::InvalidParameter => wit::Failure::InvalidArgument(wit::ArgumentError { name: about(), reason: message }),
        Code::UnknownStatement => wit::Failure::UnknownStatement(about()),
        Code::Unauthorized | Code::InvalidToken | Code::Forbidden => wit::Failure::Denied(message),
        Code::Syntax
        | Code::UnknownTable
        | Code::UnknownColumn
        | Code::UnknownFunction
        | Code::InvalidQuery
        | Code::Unsupported
        | Code::InvalidValue => {
            let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            let position =
                failure.position.map(|place| wit::Position { line: narrow(place.line), column: narrow(place.column) });
            wit::Failure::BadQuery(wit::QueryError { code: failure.code.name().to_owned(), message, position })
        }
        Code::LimitExceeded => exhausted(quota_of(failure), message),
        Code::Timeout => exhausted(wit::Quota::WallClock, message),
        Code::Overloaded | Code::TooManyRequests => exhausted(wit::Quota::Concurrency, message),
        Code::DataUnavailable | Code::DataDamaged | Code::StorageFull | Code::Unconfirmed | Code::IssuerUnavailable => {
            wit::Failure::Unavailable(message)
        }
        Code::InvalidBody
        | Code::Refused
        | Code::NotFound
        | Code::Conflict
        | Code::PreconditionFailed
        | Code::KeyReused
        | Code::MethodNotAllowed
        | Code::TooLarge
        | Code::SlowRequest
        | Code::UnsupportedMediaType
        | Code::ComponentFailed
        | Code::Internal => wit::Failure::Other(message),
    }
}

/// The failure for a limit that a guest may handle. `quota` tells the guest which limit it is.
pub(crate) fn exhausted(quota: Quota, message: String) -> Failure {
    Failure::new(Code::LimitExceeded, message).quota(quota)
}

fn quota_of(failure: &Failure) -> wit::Quota {
    match failure.quota {
        Some(Quota::Rows) => wit::Quota::Rows,
        Some(Quota::Bytes) => wit::Quota::Bytes,
        Some(Quota::Statements) => wit::Quota::Statements,
        Some(Quota::Memory) => wit::Quota::Memory,
        None => wit::Quota::Other,
    }
}

/// What is wrong with a JSON text of a guest, if anything. It is parsed as a whole, because that bounds its nesting
/// (128 levels), and later readers need no limit of their own.
pub(crate) fn json_fault(json: &str) -> Option<String> {
    serde_json::from_str::<serde_json::Value>(json).err().map(|error| error.to_string())
}

/// The beginning of a text, at most `bytes` long, cut at a character boundary.
pub(crate) fn shorten(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}
