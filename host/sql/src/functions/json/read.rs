//! Kernels that read JSON text.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::stream::{self, End, Shallow, Size, Tree, Written};
use crate::functions::kernels::Entry;
use crate::functions::rows::{Bad, Body, Item, Items, Made, Row};

pub(in crate::functions) const KERNELS: &[Entry] = &[
    Entry::new(
        "json_value",
        Body::Text(|row, out| {
            let Some(value) = found(row, Shallow)? else { return Ok(None) };
            // A number keeps its digits: 1.10 is no 1.1 where it is a version. That of a JSON, which the
            // third argument tells, is a number and no more.
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
    Entry::new(
        "json_query",
        Body::Text(|row, out| match found_tree(row)? {
            Some(value) => out.json(&value, false).map(Some),
            None => Ok(None),
        }),
    ),
    Entry::new("json_values", Body::Texts(values)),
    Entry::new(
        "json_queries",
        Body::Texts(|row, items| {
            let Some(Value::Array(values)) = found_tree(row)? else { return Ok(None) };
            values.iter().try_for_each(|value| items.text(&value.to_string()))?;
            Ok(Some(()))
        }),
    ),
    Entry::new(
        "json_keys",
        Body::Texts(|row, items| {
            let depth = usize::try_from(row.int(1))
                .ok()
                .filter(|depth| *depth > 0)
                .ok_or("the depth of JSON_KEYS counts from 1")?;
            let Some(value) = parsed(row)? else { return Ok(None) };
            let mut found = BTreeSet::new();
            keys(row, &value, "", depth, &mut found)?;
            found.iter().try_for_each(|key| items.text(key))?;
            Ok(Some(()))
        }),
    ),
    Entry::new(
        "json_type",
        Body::Text(|row, out| {
            let Some(value) = shallow(row)? else { return Ok(None) };
            out.text(kind(&value)).map(Some)
        }),
    ),
    Entry::new(
        "parse_json",
        Body::Text(|row, out| {
            counted(row, row.text(0))?;
            let value: Value = serde_json::from_str(row.text(0)).map_err(|error| {
                let short: String = row.text(0).chars().take(60).collect();
                format!("'{short}' is no JSON: {error}; SAFE.PARSE_JSON gives NULL instead")
            })?;
            out.json(&value, false).map(Some)
        }),
    ),
    Entry::new(
        "json_layout",
        Body::Text(|row, out| {
            match if row.bool(1) { parsed(row)? } else { None } {
                Some(value) => out.json(&value, true)?,
                _ => out.text(row.text(0))?,
            }
            Ok(Some(()))
        }),
    ),
    Entry::new("json_bool", Body::Bool(|row| strict(row, "a BOOL", |value| value.as_bool()))),
    Entry::new(
        "json_int",
        Body::Int(|row| strict(row, "an INT64", |value| if value.is_number() { whole(value) } else { None })),
    ),
    Entry::new("json_float", Body::Float(|row| strict(row, "a FLOAT64", Value::as_f64))),
    Entry::new(
        "json_text",
        Body::Text(|row, out| match strict(row, "a STRING", |value| value.as_str().map(str::to_owned))? {
            Some(text) => out.text(&text).map(Some),
            None => Ok(None),
        }),
    ),
    Entry::new(
        "json_bools",
        Body::Ints(|row, items| each(row, items, "BOOL", |value| Some(Item::Int(value.as_bool()?.into())))),
    ),
    Entry::new(
        "json_ints",
        Body::Ints(|row, items| {
            each(row, items, "INT64", |value| if value.is_number() { whole(value).map(Item::Int) } else { None })
        }),
    ),
    Entry::new(
        "json_floats",
        Body::Floats(|row, items| each(row, items, "FLOAT64", |value| value.as_f64().map(Item::Float))),
    ),
    Entry::new(
        "json_texts",
        Body::Texts(|row, items| each(row, items, "STRING", |value| Some(Item::Text(value.as_str()?.to_owned())))),
    ),
    Entry::new(
        "json_lax_bool",
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
    Entry::new(
        "json_lax_int",
        Body::Int(|row| {
            Ok(shallow(row)?.and_then(|value| match &value {
                Value::Bool(value) => Some(i64::from(*value)),
                Value::String(text) => text.trim().parse().ok().or_else(|| rounded(text.trim().parse().ok()?)),
                Value::Number(number) => number.as_i64().or_else(|| rounded(number.as_f64()?)),
                _ => None,
            }))
        }),
    ),
    Entry::new(
        "json_lax_float",
        Body::Float(|row| {
            Ok(shallow(row)?.and_then(|value| match value {
                Value::Number(number) => number.as_f64(),
                Value::String(text) => text.trim().parse().ok(),
                _ => None,
            }))
        }),
    ),
    Entry::new(
        "json_lax_text",
        Body::Text(|row, out| match shallow(row)?.and_then(|value| scalar(&value)) {
            Some(text) => out.text(&text).map(Some),
            None => Ok(None),
        }),
    ),
];

/// One step of a JSON path.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// The most steps of a path: what JSON_SET makes at its end is as deep, and what is deeper than
/// [`MAX_DEPTH`] cannot be read.
const MAX_STEPS: usize = 100;

/// The most levels of objects and arrays that the parser reads.
pub(super) const MAX_DEPTH: usize = 127;

/// The steps of a path, or why it has none.
pub(super) fn steps(path: &str) -> Result<Vec<Step>, String> {
    match split(path) {
        Some(steps) if steps.len() <= MAX_STEPS => Ok(steps),
        Some(_) => Err(format!("'{}' has more steps than the {MAX_STEPS} that a JSON path may have", short(path))),
        None => Err(format!("'{}' is no JSON path; write e.g. '$.a.b' or '$.list[0]'", short(path))),
    }
}

/// A path may be as long as any text; a message is not.
fn short(path: &str) -> Cow<'_, str> {
    const SHOWN: usize = 60;
    match path.char_indices().nth(SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}...", path.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(path),
    }
}

/// `$.a.b`, `$['a']`, `$."a.b"`, `$.list[0]`; one step more than may be stands for all that follow.
fn split(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.trim().strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() && steps.len() <= MAX_STEPS {
        if let Some(after) = rest.strip_prefix('.') {
            if let Some(quoted) = after.strip_prefix('"') {
                let (key, tail) = quoted.split_once('"')?;
                steps.push(Step::Key(key.to_owned()));
                rest = tail;
            } else {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (key, tail) = after.split_at(end);
                if key.is_empty() {
                    return None;
                }
                steps.push(Step::Key(key.to_owned()));
                rest = tail;
            }
        } else {
            let (inside, tail) = rest.strip_prefix('[')?.split_once(']')?;
            let inside = inside.trim();
            let quoted = ['\'', '"'].iter().find_map(|q| inside.strip_prefix(*q)?.strip_suffix(*q));
            steps.push(match quoted {
                Some(key) => Step::Key(key.to_owned()),
                None => Step::Index(inside.parse().ok()?),
            });
            rest = tail;
        }
    }
    Some(steps)
}

/// The path that an argument is, kept for the rows that follow.
pub(super) fn read_path(row: &Row, i: usize) -> Result<Arc<Vec<Step>>, Bad> {
    row.remember(i, |path| steps(path).map_err(Bad::from))
}

/// The longest text that is read as JSON.
const MAX_TEXT: usize = 4 << 20;
/// Texts up to so many bytes make no tree that is worth counting.
const COUNTED_FROM: usize = 4 << 10;

fn bounded(text: &str) -> Result<(), Bad> {
    if text.len() > MAX_TEXT {
        return Err(Bad::Limit(format!("a text of more than {} MiB is not read as JSON", MAX_TEXT >> 20)));
    }
    Ok(())
}

/// Counts what the tree of a text will take.
fn counted(row: &Row, text: &str) -> Result<(), Bad> {
    bounded(text)?;
    if text.len() < COUNTED_FROM {
        return Ok(());
    }
    row.hold(stream::whole(text, Size).unwrap_or_default())
}

/// The JSON that a text is, if it is one, as a tree that is counted until the row is done.
pub(super) fn tree(row: &Row, text: &str) -> Result<Option<Value>, Bad> {
    counted(row, text)?;
    Ok(stream::whole(text, Tree))
}

/// The JSON that the first argument is, if it is one.
pub(super) fn parsed(row: &Row) -> Result<Option<Value>, Bad> {
    tree(row, row.text(0))
}

/// The same where only a scalar is wanted: lists and objects are empty.
fn shallow(row: &Row) -> Result<Option<Value>, Bad> {
    bounded(row.text(0))?;
    Ok(stream::whole(row.text(0), Shallow))
}

/// What is made of the value at the path of the second argument.
fn found<E: End>(row: &Row, end: E) -> Result<Option<E::Made>, Bad> {
    let (steps, text) = (read_path(row, 1)?, row.text(0));
    // Most log lines are no JSON: do not parse what cannot be.
    let first = text.trim_start().as_bytes().first().copied();
    if !steps.is_empty() && !matches!(first, Some(b'{' | b'[')) {
        return Ok(None);
    }
    bounded(text)?;
    Ok(stream::at(text, &steps, end).flatten())
}

/// The value at the path of the second argument, counted until the row is done.
fn found_tree(row: &Row) -> Result<Option<Value>, Bad> {
    if row.text(0).len() >= COUNTED_FROM {
        let Some(size) = found(row, Size)? else { return Ok(None) };
        row.hold(size)?;
    }
    found(row, Tree)
}

/// A scalar as text; nothing for objects, arrays and null.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The scalars of an array; nothing if it has others.
fn values(row: &Row, items: &mut Items<'_>) -> Made<()> {
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

fn keys(row: &Row, value: &Value, above: &str, depth: usize, found: &mut BTreeSet<String>) -> Result<(), Bad> {
    let Value::Object(fields) = value else { return Ok(()) };
    for (key, value) in fields {
        let plain = key.chars().all(|c| c.is_alphanumeric() || c == '_');
        let key = if plain { key.clone() } else { format!("\"{key}\"") };
        let path = if above.is_empty() { key } else { format!("{above}.{key}") };
        // Each has the keys above it in it.
        row.hold(2 * size_of::<String>() + path.len())?;
        if depth > 1 {
            keys(row, value, &path, depth - 1, found)?;
        }
        found.insert(path);
    }
    Ok(())
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
fn strict<T>(row: &Row, wanted: &str, read: impl Fn(&Value) -> Option<T>) -> Made<T> {
    let Some(value) = shallow(row)? else { return Ok(None) };
    match read(&value) {
        Some(value) => Ok(Some(value)),
        None => Err(format!("the JSON is {} and not {wanted}; the LAX_ functions convert it", kind(&value)).into()),
    }
}

/// The elements of an array, all of exactly one kind; text that is no JSON is NULL, and so is null.
fn each(row: &Row, items: &mut Items<'_>, wanted: &str, read: fn(&Value) -> Option<Item>) -> Made<()> {
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_or_refused() {
        let key = |text: &str| Step::Key(text.to_owned());
        assert_eq!(steps("$").unwrap(), []);
        assert_eq!(
            steps("$.a.b[2]['c d'].\"e.f\"").unwrap(),
            [key("a"), key("b"), Step::Index(2), key("c d"), key("e.f")]
        );
        for bad in ["", "a.b", "$.", "$[", "$[x]", "$..a"] {
            assert!(steps(bad).unwrap_err().contains("is no JSON path"), "{bad}");
        }
        for step in [".a", "[0]", "['a']"] {
            assert_eq!(steps(&format!("${}", step.repeat(MAX_STEPS))).unwrap().len(), MAX_STEPS);
            let refused = steps(&format!("${}", step.repeat(MAX_STEPS + 1))).unwrap_err();
            assert!(refused.contains("more steps than the 100") && refused.len() < 150, "{refused}");
        }
    }

    #[test]
    fn as_deep_as_may_be_is_read() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(serde_json::from_str::<Value>(&nested(MAX_DEPTH)).is_ok());
        assert!(serde_json::from_str::<Value>(&nested(MAX_DEPTH + 1)).is_err());
    }
}
