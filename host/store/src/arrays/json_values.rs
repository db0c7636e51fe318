//! Arrays back to JSON values and to text. The same text results whether a number came as an integer or as a float.

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray},
        datatypes::{DataType, Float64Type, Int64Type},
    },
    common::exec_err,
    error::Result,
};
use serde_json::Value;

/// The values of a leaf column as JSON.
pub(crate) fn scalars(array: &ArrayRef) -> Result<Vec<Value>> {
    fn all<T>(items: impl Iterator<Item = Option<T>>) -> Vec<Value>
    where
        Value: From<T>,
    {
        items.map(|item| item.map_or(Value::Null, Value::from)).collect()
    }
    Ok(match array.data_type() {
        DataType::Boolean => all(array.as_boolean().iter()),
        DataType::Int64 => all(array.as_primitive::<Int64Type>().iter()),
        // A whole float may have been an integer originally, and is written like one.
        DataType::Float64 => array.as_primitive::<Float64Type>().iter().map(|v| v.map_or(Value::Null, whole)).collect(),
        DataType::Utf8View => all(array.as_string_view().iter()),
        other => return exec_err!("a column of type {other} is not a leaf"),
    })
}

fn whole(float: f64) -> Value {
    if is_whole(float) { Value::from(float as i64) } else { Value::from(float) }
}

fn is_whole(float: f64) -> bool {
    float.fract() == 0.0 && float.abs() < 9.2e18
}

/// A float without exponent. Whole floats show all their digits, as the integer did that they may have been: the
/// shortest text of 58214112156200096.0 would end in 100.
pub(crate) fn float_text(float: f64) -> String {
    if is_whole(float) { (float as i64).to_string() } else { float.to_string() }
}

/// A value as text: a text unchanged, anything else as JSON.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().map(float_text).unwrap_or_default(),
        other => other.to_string(),
    }
}
