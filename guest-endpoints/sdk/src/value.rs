//! Single values: parameters, arguments and scalars, in Rust's types.

use crate::contract::Value;
use crate::{Json, Timestamp};

/// A Rust type that a parameter or a scalar can be read as: `i64`, `f64` (also of an integer), `bool`, `String` (also of
/// JSON), `Vec<u8>`, [`Timestamp`], and `Option` of each, which is `None` for null.
pub trait FromValue: Sized {
    /// The kind, as `endpoint.toml` calls it.
    const KIND: &'static str;

    /// The value; `None` if it is of another kind.
    fn from_value(value: Value) -> Option<Self>;

    /// What null is read as; `None` if a value is needed.
    fn from_null() -> Option<Self> {
        None
    }
}

impl FromValue for i64 {
    const KIND: &'static str = "int64";

    fn from_value(value: Value) -> Option<Self> {
        if let Value::Int64(value) = value { Some(value) } else { None }
    }
}

impl FromValue for f64 {
    const KIND: &'static str = "float64";

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Float64(value) => Some(value),
            Value::Int64(value) => Some(value as Self),
            _ => None,
        }
    }
}

impl FromValue for bool {
    const KIND: &'static str = "boolean";

    fn from_value(value: Value) -> Option<Self> {
        if let Value::Boolean(value) = value { Some(value) } else { None }
    }
}

impl FromValue for String {
    const KIND: &'static str = "text";

    fn from_value(value: Value) -> Option<Self> {
        if let Value::Text(value) = value { Some(value) } else { None }
    }
}

impl FromValue for Vec<u8> {
    const KIND: &'static str = "bytes";

    fn from_value(value: Value) -> Option<Self> {
        if let Value::Bytes(value) = value { Some(value) } else { None }
    }
}

impl FromValue for Timestamp {
    const KIND: &'static str = "timestamp";

    fn from_value(value: Value) -> Option<Self> {
        if let Value::Timestamp(micros) = value { Some(Self::from_micros(micros)) } else { None }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    const KIND: &'static str = T::KIND;

    fn from_value(value: Value) -> Option<Self> {
        T::from_value(value).map(Some)
    }

    fn from_null() -> Option<Self> {
        Some(None)
    }
}

macro_rules! into_value {
    ($($from:ty => |$name:ident| $value:expr;)*) => {
        $(impl From<$from> for Value {
            fn from($name: $from) -> Self {
                $value
            }
        })*
    };
}

into_value! {
    bool => |value| Self::Boolean(value);
    i64 => |value| Self::Int64(value);
    i32 => |value| Self::Int64(value.into());
    u32 => |value| Self::Int64(value.into());
    f64 => |value| Self::Float64(value);
    &str => |value| Self::Text(value.to_owned());
    &String => |value| Self::Text(value.clone());
    String => |value| Self::Text(value);
    &[u8] => |value| Self::Bytes(value.to_owned());
    Vec<u8> => |value| Self::Bytes(value);
    Timestamp => |value| Self::Timestamp(value.micros());
    Json => |value| Self::Text(value.0);
}

/// `None` is null.
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `value` is read as.
    fn read<T: FromValue>(value: impl Into<Value>) -> Option<T> {
        match value.into() {
            Value::Null => T::from_null(),
            value => T::from_value(value),
        }
    }

    #[test]
    fn values_come_back_as_they_went() {
        assert_eq!(read(5_i64), Some(5_i64));
        assert_eq!(read(5_u32), Some(5_i64));
        assert_eq!(read(true), Some(true));
        assert_eq!(read("ä"), Some("ä".to_owned()));
        assert_eq!(read(vec![1_u8]), Some(vec![1_u8]));
        assert_eq!(read(Timestamp::from_micros(-1)), Some(Timestamp::from_micros(-1)));
        assert_eq!(read(7_i64), Some(7.0));
        assert_eq!(read(Some("x")), Some(Some("x".to_owned())));
    }

    #[test]
    fn null_is_none_where_it_may_be() {
        assert_eq!(read::<Option<i64>>(None::<i64>), Some(None));
        assert_eq!(read::<i64>(None::<i64>), None);
    }

    #[test]
    fn other_kinds_are_refused() {
        assert_eq!(read::<i64>("5"), None);
        assert_eq!(read::<i64>(5.0), None);
        assert_eq!(read::<bool>(1_i64), None);
        assert_eq!(read::<Option<String>>(1_i64), None);
        assert_eq!(read::<Timestamp>(1_i64), None);
    }
}
