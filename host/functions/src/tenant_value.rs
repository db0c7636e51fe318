//! The value of a tenant key in a row: what stands at a path of the event, if there is exactly one such value.
//!
//! A text is itself, numbers and BOOL are their JSON text; in a field that has held fractions, 42.0 is 42. Everything else is
//! no value: a list, a record, NULL. A path leads through records; of a list of records, those that have the field count, and if they do not agree,
//! the row is nobody's. Fields without a column of their own, and values of another kind than their column, are read from
//! the JSON in which they are kept.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::error::{DataFusionError, Result};
use serde_json::Value;
use tidegate_model::{REST_FIELD, UNLIKE_FIELD, tenant_number};

use crate::kernel::{Fallibility, Kernel};

pub(crate) const KERNELS: &[Kernel] = &[
    // The value below the first argument at the names in the second, a JSON array of texts.
    Kernel::arrays("tenant_value", 2, DataType::Utf8View, |arguments, _| values(arguments))
        .with_fallibility(Fallibility::Infallible),
];

/// What was found in a part of a row.
#[derive(Debug, PartialEq)]
enum Found {
    /// The path leads nowhere.
    Nothing,
    One(String),
    /// Several values, or one that stands for no tenant.
    Nobody,
}

impl Found {
    /// What two parts of a row have together.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, found) | (found, Self::Nothing) => found,
            (Self::One(own), Self::One(other)) if own == other => Self::One(own),
            _ => Self::Nobody,
        }
    }
}

fn values(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [base, names] = arguments else {
        return Err(DataFusionError::Internal("tenant_value takes a value and names".to_owned()));
    };
    let texts = datafusion::arrow::compute::cast(names, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>();
    // The names are a literal: the same for all rows.
    let names = if texts.is_empty() || texts.is_null(0) { None } else { serde_json::from_str(texts.value(0)).ok() };
    let names: Vec<String> = names.unwrap_or_default();
    // Names below a text are those in the JSON of fields without a column.
    let of_row = if *base.data_type() == DataType::Utf8View && !names.is_empty() { hidden } else { stored };
    let mut out = StringViewBuilder::with_capacity(base.len());
    for row in 0..base.len() {
        match of_row(base, row, &names) {
            Found::One(value) => out.append_value(value),
            Found::Nothing | Found::Nobody => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

/// The value below a stored one.
fn stored(at: &ArrayRef, row: usize, names: &[String]) -> Found {
    if at.is_null(row) {
        return Found::Nothing;
    }
    match (at.data_type(), names.split_first()) {
        (DataType::Struct(_), Some((name, rest))) => {
            let record = at.as_struct();
            let own = record.column_by_name(name).map_or(Found::Nothing, |field| stored(field, row, rest));
            let kept = record.column_by_name(REST_FIELD).map_or(Found::Nothing, |kept| hidden(kept, row, names));
            own.and(kept)
        }
        // In the place of a record, its JSON; else the record itself, which is no value.
        (DataType::Struct(_), None) => {
            let unlike = at.as_struct().column_by_name(UNLIKE_FIELD).filter(|unlike| unlike.is_valid(row));
            unlike.map_or(Found::Nobody, |unlike| hidden(unlike, row, names))
        }
        (DataType::List(_), Some(_)) => {
            let items = at.as_list::<i32>().value(row);
            (0..items.len()).map(|item| stored(&items, item, names)).fold(Found::Nothing, Found::and)
        }
        (DataType::Utf8View, None) => Found::One(at.as_string_view().value(row).to_owned()),
        (DataType::Int64, None) => Found::One(at.as_primitive::<Int64Type>().value(row).to_string()),
        (DataType::Boolean, None) => Found::One(at.as_boolean().value(row).to_string()),
        (DataType::Float64, None) => {
            tenant_number(at.as_primitive::<Float64Type>().value(row)).map_or(Found::Nobody, Found::One)
        }
        // A text stands in the place of a record.
        (DataType::Utf8View, Some(_)) => Found::Nothing,
        _ => Found::Nobody,
    }
}

/// The value below what a hidden field keeps as JSON.
fn hidden(at: &ArrayRef, row: usize, names: &[String]) -> Found {
    match at.as_string_view_opt().filter(|_| at.is_valid(row)).map(|texts| serde_json::from_str(texts.value(row))) {
        None => Found::Nothing,
        Some(Ok(json)) => kept(&json, names),
        Some(Err(_)) => Found::Nobody,
    }
}

/// The value below one that is kept as JSON.
fn kept(at: &Value, names: &[String]) -> Found {
    match (at, names.split_first()) {
        (Value::Null, _) => Found::Nothing,
        (Value::Object(fields), Some((name, rest))) => {
            fields.get(name).map_or(Found::Nothing, |field| kept(field, rest))
        }
        (Value::Array(items), Some(_)) => items.iter().map(|item| kept(item, names)).fold(Found::Nothing, Found::and),
        (_, Some(_)) => Found::Nothing,
        (Value::String(text), None) => Found::One(text.clone()),
        (Value::Bool(flag), None) => Found::One(flag.to_string()),
        (Value::Number(number), None) if number.is_i64() => Found::One(number.to_string()),
        // An integer beyond 64 bits is a float, as it is in a column.
        (Value::Number(number), None) => {
            tenant_number(number.as_f64().unwrap_or(f64::NAN)).map_or(Found::Nobody, Found::One)
        }
        (Value::Object(_) | Value::Array(_), None) => Found::Nobody,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{StringArray, StringViewArray};
    use serde_json::json;

    use super::*;

    fn of_json(json: &Value, names: &[&str]) -> Option<String> {
        let base: ArrayRef = Arc::new(StringViewArray::from(vec![json.to_string()]));
        let names: ArrayRef = Arc::new(StringArray::from(vec![json!(names).to_string()]));
        let found = values(&[base, names]).unwrap();
        let found = found.as_string_view();
        found.is_valid(0).then(|| found.value(0).to_owned())
    }

    #[test]
    fn records_that_disagree_are_nobodys() {
        for (json, expected) in [
            (json!({"p": "a"}), Some("a")),
            (json!([{"p": "a"}, {"p": "a"}, {"q": 1}]), Some("a")),
            (json!([{"p": "a"}, {"p": "b"}]), None),
            (json!([{"p": "a"}, {"p": ["a"]}]), None),
            (json!([{"p": "a"}, {"p": null}]), Some("a")),
            (json!({"p": 42}), Some("42")),
            (json!({"p": 42.0}), Some("42")),
            (json!({"p": 4.5}), Some("4.5")),
            (json!({"p": u64::MAX}), Some("1.8446744073709552e+19")),
            (json!({"p": true}), Some("true")),
            (json!({"p": {"p": "a"}}), None),
            (json!({"P": "a"}), None),
            (json!("text"), None),
            (json!({}), None),
        ] {
            assert_eq!(of_json(&json, &["p"]).as_deref(), expected, "{json}");
        }
        let deep = json!([{"a": [{"b": "x"}]}, {"a": {"b": "x"}}, {"a": "y"}]);
        assert_eq!(of_json(&deep, &["a", "b"]).as_deref(), Some("x"));
    }
}
