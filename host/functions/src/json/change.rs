//! Kernels that change JSON: JSON_SET, JSON_REMOVE and the like. A path that does not fit the value changes nothing.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::path::{MAX_DEPTH, Step, read_path};
use super::tree::{parsed, tree};
use crate::kernel::Kernel;
use crate::rows::{Body, Out, Row, RowError, RowResult};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows(
        "json_set",
        5..=usize::MAX,
        Body::Text(|row, out| changed(row, out, |at, new, row| set(at, new, row.bool(1)))),
    ),
    Kernel::rows(
        "json_append",
        5..=usize::MAX,
        Body::Text(|row, out| changed(row, out, |at, new, row| append(at, new, row.bool(1)))),
    ),
    Kernel::rows(
        "json_insert",
        5..=usize::MAX,
        Body::Text(|row, out| changed(row, out, |at, new, row| insert(at, new, row.bool(1)))),
    ),
    Kernel::rows_with_nulls(
        "json_remove",
        2..=usize::MAX,
        Body::Text(|row, out| {
            if !row.has(0) {
                return Ok(None);
            }
            let Some(mut value) = parsed(row)? else { return Ok(None) };
            // A path of NULL removes nothing.
            for i in (1..row.count()).filter(|i| row.has(*i)) {
                let steps = read_path(row, i)?;
                let Some((last, above)) = steps.split_last() else {
                    return Err("JSON_REMOVE cannot remove the whole JSON, '$'".into());
                };
                match (at(&mut value, above), last) {
                    (Some(Value::Object(fields)), Step::Key(key)) => {
                        fields.shift_remove(key.as_str());
                    }
                    (Some(Value::Array(items)), Step::Index(index)) if *index < items.len() => {
                        items.remove(*index);
                    }
                    _ => {}
                }
            }
            out.json(&value, false).map(Some)
        }),
    ),
    Kernel::rows(
        "json_strip",
        4..=4,
        Body::Text(|row, out| {
            let Some(mut value) = parsed(row)? else { return Ok(None) };
            let steps = read_path(row, 1)?;
            if let Some(part) = at(&mut value, &steps) {
                strip(part, row.bool(2), row.bool(3));
                if is_stripped(part, row.bool(2), row.bool(3)) {
                    *part = Value::Null;
                }
            }
            out.json(&value, false).map(Some)
        }),
    ),
    Kernel::rows("json_zipped", 2..=2, Body::Text(zipped)),
];

fn at<'v>(value: &'v mut Value, steps: &[Step]) -> Option<&'v mut Value> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key.as_str()),
        Step::Index(index) => value.get_mut(*index),
    })
}

/// A value to put into a JSON.
struct New {
    value: Value,
    /// Whether it is an ARRAY of the dialect, whose elements may be put one by one.
    is_list: bool,
}

/// The place to put it at.
struct Place<'v, 's> {
    whole: &'v mut Value,
    steps: &'s [Step],
    padding: &'v mut Padding,
}

/// How many nulls may still be added to the arrays of a row, so that they have the element that a path names. Nothing
/// else bounds them: a short path can name a far element, at each of its steps.
struct Padding(usize);

impl Padding {
    const MOST: usize = 100_000;

    /// Adds nulls to an array up to a length.
    fn fill(&mut self, items: &mut Vec<Value>, len: usize) -> std::result::Result<(), RowError> {
        let Some(more) = len.checked_sub(items.len()) else { return Ok(()) };
        self.0 = self.0.checked_sub(more).ok_or_else(|| {
            RowError::Limit(format!(
                "JSON arrays would be filled up with more than the {} elements that one call may add",
                Self::MOST
            ))
        })?;
        items.resize(len, Value::Null);
        Ok(())
    }
}

/// The JSON with each value put at its path, one after the other.
fn changed(
    row: &Row,
    out: &mut Out,
    put: fn(Place<'_, '_>, New, &Row) -> std::result::Result<(), RowError>,
) -> RowResult<()> {
    let Some(mut whole) = parsed(row)? else { return Ok(None) };
    let mut padding = Padding(Padding::MOST);
    for i in (2..row.count()).step_by(3) {
        let steps = read_path(row, i)?;
        let Some(value) = tree(row, row.text(i + 1))? else { return Ok(None) };
        put(
            Place { whole: &mut whole, steps: &steps, padding: &mut padding },
            New { value, is_list: row.bool(i + 2) },
            row,
        )?;
    }
    // The depth was bounded only for the path and the value each.
    if !within(&whole, MAX_DEPTH) {
        return Err(RowError::Limit(format!(
            "a JSON would be made of more than the {MAX_DEPTH} levels that can be read"
        )));
    }
    out.json(&whole, false).map(Some)
}

/// Whether a value has no more levels of objects and arrays than so many.
fn within(value: &Value, levels: usize) -> bool {
    let inside = |value: &Value| levels.checked_sub(1).is_some_and(|left| within(value, left));
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(inside),
        Value::Object(fields) => levels > 0 && fields.values().all(inside),
        _ => true,
    }
}

/// `missing` tells whether a value that does not exist is created.
fn set(place: Place<'_, '_>, new: New, missing: bool) -> std::result::Result<(), RowError> {
    let mut value = place.whole;
    if !missing && at(value, place.steps).is_none() {
        return Ok(());
    }
    for step in place.steps {
        let next = match step {
            Step::Key(key) => {
                if value.is_null() {
                    *value = Value::Object(Map::new());
                }
                let Value::Object(fields) = value else { return Ok(()) };
                fields.entry(key.as_str()).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if value.is_null() {
                    *value = Value::Array(Vec::new());
                }
                let Value::Array(items) = value else { return Ok(()) };
                place.padding.fill(items, index.saturating_add(1))?;
                let Some(item) = items.get_mut(*index) else { return Ok(()) };
                item
            }
        };
        value = next;
    }
    *value = new.value;
    Ok(())
}

/// The elements of an ARRAY of the dialect one by one, or the value.
fn elements(new: New, each: bool) -> Vec<Value> {
    match new.value {
        Value::Array(items) if new.is_list && each => items,
        value => vec![value],
    }
}

fn append(place: Place<'_, '_>, new: New, each: bool) -> std::result::Result<(), RowError> {
    let Some(value) = at(place.whole, place.steps) else { return Ok(()) };
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    if let Value::Array(items) = value {
        items.extend(elements(new, each));
    }
    Ok(())
}

fn insert(place: Place<'_, '_>, new: New, each: bool) -> std::result::Result<(), RowError> {
    let Some((Step::Index(index), above)) = place.steps.split_last() else { return Ok(()) };
    let Some(value) = at(place.whole, above) else { return Ok(()) };
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    if let Value::Array(items) = value {
        place.padding.fill(items, *index)?;
        items.splice(*index..*index, elements(new, each));
    }
    Ok(())
}

/// Removes nulls, from arrays only if `arrays`, and what is empty then if `empty`.
fn strip(value: &mut Value, arrays: bool, empty: bool) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| strip(field, arrays, empty));
            fields.retain(|_, field| !is_stripped(field, arrays, empty));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| strip(item, arrays, empty));
            if arrays {
                items.retain(|item| !is_stripped(item, arrays, empty));
            }
        }
        _ => {}
    }
}

/// Whether a value goes that was stripped itself.
fn is_stripped(value: &Value, arrays: bool, empty: bool) -> bool {
    match value {
        Value::Object(fields) => empty && fields.is_empty(),
        Value::Array(items) => empty && arrays && items.is_empty(),
        other => other.is_null(),
    }
}

/// `JSON_OBJECT(keys, values)`: the values as a JSON array. The first of equal keys wins.
fn zipped(row: &Row, out: &mut Out) -> RowResult<()> {
    let keys = row.texts(0);
    // A value has at least two bytes of text, and a list grows by doubling.
    row.hold(row.text(1).len().saturating_mul(size_of::<&RawValue>()))?;
    let Ok(values) = serde_json::from_str::<Vec<&RawValue>>(row.text(1)) else { return Ok(None) };
    if keys.len() != values.len() {
        let message = format!("JSON_OBJECT got {} keys and {} values", keys.len(), values.len());
        return Err(message.into());
    }
    let mut known = std::collections::HashSet::new();
    out.char('{')?;
    for (key, value) in keys.into_iter().zip(values) {
        let key = key.ok_or("a key of JSON_OBJECT is NULL")?;
        if !known.insert(key) {
            continue;
        }
        if known.len() > 1 {
            out.char(',')?;
        }
        out.json(&Value::from(key), false)?;
        out.char(':')?;
        out.text(value.get())?;
    }
    out.char('}')?;
    Ok(Some(()))
}
