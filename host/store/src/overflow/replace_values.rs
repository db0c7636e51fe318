//! Arrays with the values of some rows replaced by values of the overflow.

use std::{borrow::Cow, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, StringViewBuilder},
        datatypes::{Float64Type, Int64Type},
    },
    error::Result,
};
use serde_json::Value;

use crate::{
    arrays::{json_values::value_text, leaf::Leaf, list::ListColumn},
    schema::kind::Scalar,
};

/// The text that readers see of a JSON value at a mixed path: a text unchanged, anything else as JSON.
pub(crate) fn text_of(json: &str) -> Cow<'_, str> {
    if json.starts_with(['{', '[']) {
        return Cow::Borrowed(json);
    }
    serde_json::from_str::<Value>(json).map_or(Cow::Borrowed(json), |value| Cow::Owned(value_text(&value)))
}

/// The text column with these texts in their rows. `values` ascend by row.
pub(crate) fn with_texts<'t>(array: &ArrayRef, values: impl Iterator<Item = (usize, Cow<'t, str>)>) -> ArrayRef {
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Arc::clone(array);
    }
    let texts = array.as_string_view();
    let mut out = StringViewBuilder::with_capacity(texts.len());
    for (row, own) in texts.iter().enumerate() {
        match values.next_if(|(of, _)| *of == row) {
            Some((_, value)) => out.append_value(value),
            None => out.append_option(own),
        }
    }
    Arc::new(out.finish())
}

/// The leaf column with these JSON values in their rows. `values` ascend by row; a value of another type is ignored.
pub(crate) fn with_scalars<'v>(
    array: &ArrayRef,
    ty: Scalar,
    values: impl Iterator<Item = (usize, &'v str)>,
) -> ArrayRef {
    use datafusion::arrow::array::{BooleanArray, Float64Array, Int64Array};
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Arc::clone(array);
    }
    let mut spilled = |row: usize| values.next_if(|(of, _)| *of == row).and_then(|(_, json)| scalar(json));
    match ty {
        Scalar::Bool => {
            let own = array.as_boolean().iter().enumerate();
            let own = own.map(|(row, own)| spilled(row).and_then(|value| value.as_bool()).or(own));
            Arc::new(own.collect::<BooleanArray>())
        }
        Scalar::Int => {
            let own = array.as_primitive::<Int64Type>().iter().enumerate();
            let own = own.map(|(row, own)| spilled(row).and_then(|value| value.as_i64()).or(own));
            Arc::new(own.collect::<Int64Array>())
        }
        Scalar::Float => {
            let own = array.as_primitive::<Float64Type>().iter().enumerate();
            let own = own.map(|(row, own)| spilled(row).and_then(|value| value.as_f64()).or(own));
            Arc::new(own.collect::<Float64Array>())
        }
        Scalar::Text => {
            let mut out = StringViewBuilder::with_capacity(array.len());
            for (row, own) in array.as_string_view().iter().enumerate() {
                match spilled(row) {
                    Some(Value::String(text)) => out.append_value(text),
                    _ => out.append_option(own),
                }
            }
            Arc::new(out.finish())
        }
        // Times are never in the overflow.
        Scalar::Time => Arc::clone(array),
    }
}

/// The value of a JSON text that is neither an object nor an array.
fn scalar(json: &str) -> Option<Value> {
    if json.starts_with(['{', '[']) { None } else { serde_json::from_str(json).ok() }
}

/// The list column with these JSON arrays in their rows. `values` ascend by row.
pub(crate) fn with_lists<'v>(
    array: &ArrayRef,
    ty: Scalar,
    values: impl Iterator<Item = (usize, &'v str)>,
) -> Result<ArrayRef> {
    let Some(own) = array.as_list_opt::<i32>() else { return Ok(Arc::clone(array)) };
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Ok(Arc::clone(array));
    }
    let mut out = ListColumn::new(ty);
    for row in 0..own.len() {
        let spilled = values.next_if(|(of, _)| *of == row);
        let items = match spilled.map(|(_, json)| serde_json::from_str(json)) {
            Some(Ok(Value::Array(items))) => items,
            _ if own.is_valid(row) => crate::arrays::json_values::scalars(&own.value(row))?,
            _ => continue,
        };
        out.pad(row);
        for item in &items {
            match (&mut out.values, item) {
                (Leaf::Bool(b), Value::Bool(item)) => b.append_value(*item),
                (Leaf::Text(b), Value::String(item)) => b.append_value(item),
                (Leaf::Int(b), item) => b.append_option(item.as_i64()),
                (Leaf::Float(b), item) => b.append_option(item.as_f64()),
                // All elements of a list have one type; see `shred::value_class`.
                _ => {}
            }
        }
        out.end_row();
    }
    out.finish(own.len())
}
