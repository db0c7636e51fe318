//! Kernels that read JSON text. All of them can fail: a text of more than 4 MiB is not read.

use std::collections::BTreeSet;

use serde_json::Value;
use tidegate_model::{EqualKeys, JsonTreeError, json_fault, json_tree};

use super::exact;
use super::path::{Step, read_path};
use super::stream::{self, End, Shallow, Size, Tree, Written};
use super::tree::{COUNTED_FROM, bounded, counted, parsed, shallow};
use crate::kernel::Kernel;
use crate::rows::{Body, Item, Items, Out, Row, RowError, RowResult};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows(
        "json_value",
        2..=3,
        Body::Text(|row, out| {
            let Some(value) = found(row, Shallow)? else { return Ok(None) };
            // A number keeps its digits: 1.10 may be a version. In a value of type JSON, which the third argument tells,
            // it is only a number.
            if value.is_f64()
                && !row.bool(2)
                && let Some(digits) = found(row, Written)?
            {
                return out.text(&digits).map(Some);
            }
            let Some(text) = scalar(&value) else { return Ok(None) };
            out.text(&text).map(Some)
        }),
    ),
    Kernel::rows(
        "json_query",
        2..=2,
        Body::Text(|row, out| match found_tree(row)? {
            Some(value) => out.json(&value, false).map(Some),
            None => Ok(None),
        }),
    ),
    Kernel::rows("json_member", 2..=2, Body::Text(|row, out| part(row, Some(Step::Key(row.text(1).to_owned())), out))),
    Kernel::rows(
        "json_element",
        2..=2,
        Body::Text(|row, out| part(row, usize::try_from(row.int(1)).ok().map(Step::Index), out)),
    ),
    Kernel::rows("json_values", 2..=2, Body::Texts(values)),
    Kernel::rows(
        "json_queries",
        2..=2,
        Body::Texts(|row, items| {
            let Some(Value::Array(values)) = found_tree(row)? else { return Ok(None) };
            values.iter().try_for_each(|value| items.text(&value.to_string()))?;
            Ok(Some(()))
        }),
    ),
    Kernel::rows(
        "json_keys",
        3..=3,
        Body::Texts(|row, items| {
            let depth = usize::try_from(row.int(1))
                .ok()
                .filter(|depth| *depth > 0)
                .ok_or("the depth of JSON_KEYS counts from 1")?;
            let Some(value) = parsed(row)? else { return Ok(None) };
            let mut found = BTreeSet::new();
            keys(row, &value, "", depth, row.int(2), &mut found)?;
            found.iter().try_for_each(|key| items.text(key))?;
            Ok(Some(()))
        }),
    ),
    Kernel::rows(
        "json_type",
        1..=1,
        Body::Text(|row, out| {
            let Some(value) = shallow(row)? else { return Ok(None) };
            out.text(kind(&value)).map(Some)
        }),
    ),
    Kernel::rows(
        "parse_json",
        1..=2,
        Body::Text(|row, out| {
            counted(row, row.text(0))?;
            // Of equal keys the first counts here, as in BigQuery.
            let value = json_tree(row.text(0), usize::MAX, EqualKeys::First).map_err(|error| {
                let short: String = row.text(0).chars().take(60).collect();
                let JsonTreeError::NotJson(error) = error else { return format!("'{short}' has too many values") };
                format!("'{short}' is no JSON: {}; SAFE.PARSE_JSON gives NULL instead", json_fault(&error))
            })?;
            if !row.bool(1)
                && let Some(number) = exact::inexact(row.text(0))
            {
                let short: String = number.chars().take(60).collect();
                return Err(format!("the number {short} is not exact as INT64 or FLOAT64; write it as text").into());
            }
            out.json(&value, false).map(Some)
        }),
    ),
    Kernel::rows(
        "json_layout",
        2..=2,
        Body::Text(|row, out| {
            match if row.bool(1) { parsed(row)? } else { None } {
                Some(value) => out.json(&value, true)?,
                _ => out.text(row.text(0))?,
            }
            Ok(Some(()))
        }),
    ),
    Kernel::rows("json_bool", 1..=1, Body::Bool(|row| strict(row, "a BOOL", |value| value.as_bool()))),
    Kernel::rows(
        "json_int",
        1..=1,
        Body::Int(|row| strict(row, "an INT64", |value| if value.is_number() { whole(value) } else { None })),
    ),
    Kernel::rows("json_float", 1..=2, Body::Float(float)),
    // The texts of a JSON, each on its own: its keys if the second argument is true, its scalars if the third one is.
    Kernel::rows(
        "json_words",
        3..=3,
        Body::Text(|row, out| {
            let Some(value) = parsed(row)? else { return Ok(None) };
            words(&value, row.bool(1), row.bool(2), out)?;
            Ok(Some(()))
        }),
    ),
    Kernel::rows(
        "json_flattened",
        1..=1,
        Body::Texts(|row, items| {
            let Some(value) = parsed(row)? else { return Ok(None) };
            flatten(&value, items)?;
            Ok(Some(()))
        }),
    ),
    Kernel::rows(
        "json_text",
        1..=1,
        Body::Text(|row, out| match strict(row, "a STRING", |value| value.as_str().map(str::to_owned))? {
            Some(text) => out.text(&text).map(Some),
            None => Ok(None),
        }),
    ),
    Kernel::rows(
        "json_bools",
        1..=1,
        Body::Ints(|row, items| each(row, items, "BOOL", |value| Some(Item::Int(value.as_bool()?.into())))),
    ),
    Kernel::rows(
        "json_ints",
        1..=1,
        Body::Ints(|row, items| {
            each(row, items, "INT64", |value| if value.is_number() { whole(value).map(Item::Int) } else { None })
        }),
    ),
    Kernel::rows(
        "json_floats",
        1..=1,
        Body::Floats(|row, items| each(row, items, "FLOAT64", |value| value.as_f64().map(Item::Float))),
    ),
    Kernel::rows(
        "json_texts",
        1..=1,
        Body::Texts(|row, items| each(row, items, "STRING", |value| Some(Item::Text(value.as_str()?.to_owned())))),
    ),
    Kernel::rows(
        "json_lax_bool",
        1..=1,
        Body::Bool(|row| {
            Ok(shallow(row)?.and_then(|value| match value {
                Value::Bool(value) => Some(value),
                Value::Number(number) => number.as_f64().map(|number| number != 0.0),
                Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
                Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
                _ => None,
            }))
        }),
    ),
    Kernel::rows(
        "json_lax_int",
        1..=1,
        Body::Int(|row| {
            Ok(shallow(row)?.and_then(|value| match &value {
                Value::Bool(value) => Some(i64::from(*value)),
                Value::String(text) => text.trim().parse().ok().or_else(|| rounded(text.trim().parse().ok()?)),
                Value::Number(number) => number.as_i64().or_else(|| rounded(number.as_f64()?)),
                _ => None,
            }))
        }),
    ),
    Kernel::rows(
        "json_lax_float",
        1..=1,
        Body::Float(|row| {
            Ok(shallow(row)?.and_then(|value| match value {
                Value::Number(number) => number.as_f64(),
                Value::String(text) => text.trim().parse().ok(),
                _ => None,
            }))
        }),
    ),
    Kernel::rows(
        "json_lax_text",
        1..=1,
        Body::Text(|row, out| match shallow(row)?.and_then(|value| scalar(&value)) {
            Some(text) => out.text(&text).map(Some),
            None => Ok(None),
        }),
    ),
];

/// The value at one step as JSON; NULL where there is none.
fn part(row: &Row, step: Option<Step>, out: &mut Out) -> RowResult<()> {
    let Some(step) = step else { return Ok(None) };
    match tree_at(row, &[step])? {
        Some(value) => out.json(&value, false).map(Some),
        None => Ok(None),
    }
}

/// The value at the path of the second argument, in the form that `end` makes of it.
fn found<E: End>(row: &Row, end: E) -> Result<Option<E::Output>, RowError> {
    found_at(row, &read_path(row, 1)?, end)
}

fn found_at<E: End>(row: &Row, steps: &[Step], end: E) -> Result<Option<E::Output>, RowError> {
    let text = row.text(0);
    // Most log lines are not JSON: they are not parsed.
    let first = text.trim_start().as_bytes().first().copied();
    if !steps.is_empty() && !matches!(first, Some(b'{' | b'[')) {
        return Ok(None);
    }
    bounded(text)?;
    Ok(stream::at(text, steps, end).flatten())
}

/// The value at the path of the second argument, counted until the row is done.
fn found_tree(row: &Row) -> Result<Option<Value>, RowError> {
    tree_at(row, &read_path(row, 1)?)
}

fn tree_at(row: &Row, steps: &[Step]) -> Result<Option<Value>, RowError> {
    if row.text(0).len() >= COUNTED_FROM {
        let Some(size) = found_at(row, steps, Size)? else { return Ok(None) };
        row.hold(size)?;
    }
    found_at(row, steps, Tree)
}

/// A scalar as text; `None` for objects, arrays and null.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The scalars of an array; NULL if it has other elements.
fn values(row: &Row, items: &mut Items<'_>) -> RowResult<()> {
    let Some(Value::Array(values)) = found_tree(row)? else { return Ok(None) };
    for value in &values {
        match (value, scalar(value)) {
            (Value::Null, _) => items.push(Item::Null)?,
            (_, Some(text)) => items.text(&text)?,
            (_, None) => return Ok(None),
        }
    }
    Ok(Some(()))
}

/// The paths of the keys down to a depth; objects in arrays have theirs if so many arrays lie around them at most.
fn keys(
    row: &Row,
    value: &Value,
    above: &str,
    depth: usize,
    arrays: i64,
    found: &mut BTreeSet<String>,
) -> Result<(), RowError> {
    if let Value::Array(items) = value {
        return match arrays {
            0 => Ok(()),
            left => items.iter().try_for_each(|item| match item {
                Value::Array(_) if left == 1 => Ok(()),
                item => keys(row, item, above, depth, left, found),
            }),
        };
    }
    let Value::Object(fields) = value else { return Ok(()) };
    for (key, value) in fields {
        let plain = key.chars().all(|c| c.is_alphanumeric() || c == '_');
        let key = if plain { key.clone() } else { format!("\"{key}\"") };
        let path = if above.is_empty() { key } else { format!("{above}.{key}") };
        // Each key contains those above it.
        row.hold(2 * size_of::<String>() + path.len())?;
        if depth > 1 {
            keys(row, value, &path, depth - 1, arrays, found)?;
        }
        found.insert(path);
    }
    Ok(())
}

/// Between two texts of a JSON, which are not one text.
const BETWEEN_WORDS: char = '\u{0}';

fn words(value: &Value, keys: bool, values: bool, out: &mut Out) -> Result<(), RowError> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| words(item, keys, values, out)),
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            if keys {
                out.text(key)?;
                out.char(BETWEEN_WORDS)?;
            }
            words(value, keys, values, out)
        }),
        scalar_value if values => match scalar(scalar_value) {
            Some(text) => {
                out.text(&text)?;
                out.char(BETWEEN_WORDS)
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The elements of arrays in arrays; a value that is none is the only element.
fn flatten(value: &Value, items: &mut Items<'_>) -> Result<(), RowError> {
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| flatten(value, items)),
        value => items.text(&value.to_string()),
    }
}

/// A number as FLOAT64; where the second argument asks for it, exactly.
fn float(row: &Row) -> RowResult<f64> {
    let exact = row.bool(1);
    strict(row, "a FLOAT64", |value| {
        let float = value.as_f64()?;
        let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
        #[expect(clippy::cast_possible_truncation, reason = "what is cut off makes it another number")]
        let is_exact = whole.is_none_or(|whole| float as i128 == whole);
        (is_exact || !exact).then_some(float)
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A value of exactly one kind; text that is no JSON is NULL.
fn strict<T>(row: &Row, wanted: &str, read: impl Fn(&Value) -> Option<T>) -> RowResult<T> {
    let Some(value) = shallow(row)? else { return Ok(None) };
    match read(&value) {
        Some(value) => Ok(Some(value)),
        None => Err(format!("the JSON is {} and not {wanted}; the LAX_ functions convert it", kind(&value)).into()),
    }
}

/// The elements of an array, all of exactly one kind; text that is no JSON is NULL, and so is null.
fn each(row: &Row, items: &mut Items<'_>, wanted: &str, read: fn(&Value) -> Option<Item>) -> RowResult<()> {
    let values = match parsed(row)? {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(values)) => values,
        Some(other) => return Err(format!("the JSON is {} and not an array of {wanted}", kind(&other)).into()),
    };
    for value in &values {
        match read(value) {
            Some(item) => items.push(item)?,
            None => return Err(format!("the JSON array has {} among its {wanted}", kind(value)).into()),
        }
    }
    Ok(Some(()))
}

fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64()?;
        if number.fract() == 0.0 { rounded(number) } else { None }
    })
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn rounded(number: f64) -> Option<i64> {
    let number = number.round();
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number).then_some(number as i64)
}
