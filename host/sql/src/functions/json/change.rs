//! JSON that is made of other JSON: JSON_SET and its kin. A path that does not fit what stands there
//! changes nothing.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use datafusion::logical_expr::{Expr, lit};

use super::read::{MAX_DEPTH, Step, read_path};
use super::{text_of, to_json_string};
use crate::fail::Result;
use crate::functions::kernels::Entry;
use crate::functions::rows::{Bad, Body, Made, Out, Row};
use crate::functions::{Builder, Call, kernel};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::Conversion;

pub(in crate::functions) const FUNCTIONS: &[(&str, Builder)] = &[
    ("JSON_SET", |call| pairs(call, "json_set")),
    ("JSON_ARRAY_APPEND", |call| pairs(call, "json_append")),
    ("JSON_ARRAY_INSERT", |call| pairs(call, "json_insert")),
    ("JSON_REMOVE", |call| {
        let count = call.count(2, usize::MAX)?;
        let paths = (1..count).map(|i| path(call, i));
        let arguments = std::iter::once(text_of(call, 0)).chain(paths).collect::<Result<Vec<_>>>()?;
        Ok(Typed::new(kernel("json_remove", call.safe, arguments), Type::Json))
    }),
    ("JSON_STRIP_NULLS", |call| {
        let path = if call.count(1, 2)? == 2 { path(call, 1)? } else { lit("$") };
        Ok(Typed::new(kernel("json_strip", call.safe, vec![text_of(call, 0)?, path]), Type::Json))
    }),
];

pub(in crate::functions) const KERNELS: &[Entry] = &[
    Entry::new("json_set", Body::Text(|row, out| changed(row, out, |at, new, row| set(at, new, row.bool(1))))),
    Entry::new("json_append", Body::Text(|row, out| changed(row, out, |at, new, row| append(at, new, row.bool(1))))),
    Entry::new("json_insert", Body::Text(|row, out| changed(row, out, |at, new, row| insert(at, new, row.bool(1))))),
    Entry::new(
        "json_remove",
        Body::Text(|row, out| {
            let Some(mut value) = super::read::parsed(row)? else { return Ok(None) };
            for i in 1..row.count() {
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
    Entry::new(
        "json_strip",
        Body::Text(|row, out| {
            let Some(mut value) = super::read::parsed(row)? else { return Ok(None) };
            let steps = read_path(row, 1)?;
            if let Some(part) = at(&mut value, &steps) {
                strip(part);
            }
            out.json(&value, false).map(Some)
        }),
    ),
    Entry::new("json_zipped", Body::Text(zipped)),
];

/// The path of an argument, checked early where it is a constant.
fn path(call: &Call<'_>, i: usize) -> Result<Expr> {
    let path = call.value(i)?;
    super::check_path(&path, call.at)?;
    Ok(path.convert(&Type::String, Conversion::implicit(call.at))?.expr)
}

/// `JSON_SET(json, path, value, path, value, ...)`, and at the end a flag that is true otherwise.
fn pairs(call: &Call<'_>, name: &'static str) -> Result<Typed> {
    let count = call.count(3, usize::MAX)?;
    let flag = if count.is_multiple_of(2) { call.typed(count - 1, &Type::Bool)? } else { lit(true) };
    let mut arguments = vec![text_of(call, 0)?, flag];
    for i in (1..count - (count + 1) % 2).step_by(2) {
        let value = call.value(i + 1)?;
        let is_list = matches!(value.ty, Type::Array(_) | Type::Record(_));
        arguments.extend([path(call, i)?, to_json_string(&value).expr, lit(is_list)]);
    }
    Ok(Typed::new(kernel(name, call.safe, arguments), Type::Json))
}

fn at<'v>(value: &'v mut Value, steps: &[Step]) -> Option<&'v mut Value> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key.as_str()),
        Step::Index(index) => value.get_mut(*index),
    })
}

/// What is put somewhere.
struct New {
    value: Value,
    /// Whether it is an ARRAY of the statement, whose elements may be meant.
    is_list: bool,
}

/// Where it is put.
struct Place<'v, 's> {
    whole: &'v mut Value,
    steps: &'s [Step],
    room: &'v mut Room,
}

/// How many nulls the arrays of a row may still be filled up with: nothing else bounds what a short
/// path asks for, and it may ask at each of its steps.
struct Room(usize);

impl Room {
    const MOST: usize = 100_000;

    /// Fills an array up, so that there is something at a place.
    fn fill(&mut self, items: &mut Vec<Value>, len: usize) -> std::result::Result<(), Bad> {
        let Some(more) = len.checked_sub(items.len()) else { return Ok(()) };
        self.0 = self.0.checked_sub(more).ok_or_else(|| {
            Bad::Limit(format!(
                "JSON arrays would be filled up with more than the {} elements that one call may add",
                Self::MOST
            ))
        })?;
        items.resize(len, Value::Null);
        Ok(())
    }
}

/// The JSON with each value put at its path, one after the other.
fn changed(row: &Row, out: &mut Out, put: fn(Place<'_, '_>, New, &Row) -> std::result::Result<(), Bad>) -> Made<()> {
    let Some(mut whole) = super::read::parsed(row)? else { return Ok(None) };
    let mut room = Room(Room::MOST);
    for i in (2..row.count()).step_by(3) {
        let steps = read_path(row, i)?;
        let Some(value) = super::read::tree(row, row.text(i + 1))? else { return Ok(None) };
        put(Place { whole: &mut whole, steps: &steps, room: &mut room }, New { value, is_list: row.bool(i + 2) }, row)?;
    }
    // Before this the path and the value bound how deep it is.
    if !within(&whole, MAX_DEPTH) {
        return Err(Bad::Limit(format!("a JSON would be made of more than the {MAX_DEPTH} levels that can be read")));
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

/// `missing` tells whether what is not there is made.
fn set(place: Place<'_, '_>, new: New, missing: bool) -> std::result::Result<(), Bad> {
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
                place.room.fill(items, index.saturating_add(1))?;
                let Some(item) = items.get_mut(*index) else { return Ok(()) };
                item
            }
        };
        value = next;
    }
    *value = new.value;
    Ok(())
}

/// The elements of an array of the statement one by one, or the value.
fn elements(new: New, each: bool) -> Vec<Value> {
    match new.value {
        Value::Array(items) if new.is_list && each => items,
        value => vec![value],
    }
}

fn append(place: Place<'_, '_>, new: New, each: bool) -> std::result::Result<(), Bad> {
    let Some(value) = at(place.whole, place.steps) else { return Ok(()) };
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    if let Value::Array(items) = value {
        items.extend(elements(new, each));
    }
    Ok(())
}

fn insert(place: Place<'_, '_>, new: New, each: bool) -> std::result::Result<(), Bad> {
    let Some((Step::Index(index), above)) = place.steps.split_last() else { return Ok(()) };
    let Some(value) = at(place.whole, above) else { return Ok(()) };
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    if let Value::Array(items) = value {
        place.room.fill(items, *index)?;
        items.splice(*index..*index, elements(new, each));
    }
    Ok(())
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(strip);
        }
        _ => {}
    }
}

/// `JSON_OBJECT(keys, values)`: the values as a JSON array. The first of equal keys wins.
fn zipped(row: &Row, out: &mut Out) -> Made<()> {
    let keys = row.texts(0);
    // A value has two bytes of text at least, and a list grows by doubling.
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
