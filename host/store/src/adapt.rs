//! Arrays of an older or narrower shape, made to look like the shape of today.
//!
//! Batches and segments hold the columns that their rows had. What readers see is wider: more
//! children in a record, a list where a record was, floats where integers were, text where a path
//! is mixed. Every step here only adds: no value is dropped or cut. Mixed paths need the overflow
//! of the row as well, which is the second pass ([`patch`]).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StringViewBuilder, StructArray, new_null_array},
        buffer::OffsetBuffer,
        compute::{cast, filter},
        datatypes::{DataType, Field, Float64Type, Int64Type},
    },
    common::exec_err,
    error::Result,
};
use serde_json::{Map, Value};

use crate::shape::{Kind, list_of, push_pointer};

/// `array` as `to`, which must be the same or a wider type.
pub(crate) fn adapt(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to) {
        (_, DataType::Utf8View) => to_text(array),
        (DataType::Int64, DataType::Float64) => Ok(cast(array, to)?),
        (DataType::Struct(_), DataType::Struct(wanted)) => {
            let record = array.as_struct();
            let children = wanted
                .iter()
                .map(|child| match record.column_by_name(child.name()) {
                    Some(column) => adapt(column, child.data_type()),
                    None => Ok(new_null_array(child.data_type(), record.len())),
                })
                .collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(StructArray::try_new(wanted.clone(), children, record.nulls().cloned())?))
        }
        (DataType::Struct(_), DataType::List(item)) => to_list(array, item),
        (DataType::List(_), DataType::List(item)) => {
            let list: &ListArray = array.as_list();
            let values = adapt(list.values(), item.data_type())?;
            let nulls = list.nulls().cloned();
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), list.offsets().clone(), values, nulls)?))
        }
        (from, to) => exec_err!("a column of type {from} cannot be read as {to}"),
    }
}

/// Records to lists of one; a row without record becomes NULL and takes no element.
fn to_list(array: &ArrayRef, item: &Arc<Field>) -> Result<ArrayRef> {
    let records = adapt(array, item.data_type())?;
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
    let (elements, lengths) = match &nulls {
        None => (records, vec![1; array.len()]),
        Some(nulls) => {
            let keep = BooleanArray::new(nulls.inner().clone(), None);
            (filter(&records, &keep)?, nulls.iter().map(usize::from).collect())
        }
    };
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, elements, nulls)?))
}

/// Scalars as text: no exponent, no trailing `.0`, `true` and `false`.
fn to_text(array: &ArrayRef) -> Result<ArrayRef> {
    let mut out = StringViewBuilder::with_capacity(array.len());
    match array.data_type() {
        DataType::Boolean => array.as_boolean().iter().for_each(|v| out.append_option(v.map(|v| v.to_string()))),
        DataType::Int64 => {
            array.as_primitive::<Int64Type>().iter().for_each(|v| out.append_option(v.map(|v| v.to_string())));
        }
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().iter().for_each(|v| out.append_option(v.map(float_text)));
        }
        other => return exec_err!("a column of type {other} cannot be read as text"),
    }
    Ok(Arc::new(out.finish()))
}

/// The overflow of a batch: for each row that has one, its values by JSON pointer.
pub(crate) type Spilled = Vec<(usize, Map<String, Value>)>;

/// Parses an overflow column.
pub(crate) fn spilled(column: &ArrayRef) -> Result<Spilled> {
    let texts = column.as_string_view();
    let mut out = Vec::new();
    for (row, text) in texts.iter().enumerate() {
        if let Some(text) = text {
            match serde_json::from_str(text) {
                Ok(Value::Object(map)) => out.push((row, map)),
                _ => return exec_err!("the overflow of a row is not a JSON object"),
            }
        }
    }
    Ok(out)
}

/// A place in an array that the overflow may have a value for.
struct Place<'s> {
    slot: usize,
    pointer: String,
    values: &'s Map<String, Value>,
}

/// Puts the overflow's values into the mixed leaves of an adapted column that stands at `pointer`.
pub(crate) fn patch(array: ArrayRef, kind: &Kind, pointer: &str, spilled: &Spilled) -> Result<ArrayRef> {
    let places = spilled
        .iter()
        .filter(|(_, values)| values.keys().any(|key| key.starts_with(pointer)))
        .map(|(row, values)| Place { slot: *row, pointer: pointer.to_owned(), values })
        .collect::<Vec<_>>();
    patch_places(array, kind, &places)
}

fn patch_places(array: ArrayRef, kind: &Kind, places: &[Place<'_>]) -> Result<ArrayRef> {
    if places.is_empty() || !kind.has_mixed() {
        return Ok(array);
    }
    match kind {
        Kind::Scalar { .. } => Ok(patch_leaf(&array, places)),
        Kind::List { .. } => Ok(array),
        Kind::Record { many: false, .. } => patch_record(&array, kind, places),
        Kind::Record { many: true, .. } => {
            let list: &ListArray = array.as_list();
            let mut inner = Vec::new();
            for place in places {
                let bounds = (list.offsets().get(place.slot), list.offsets().get(place.slot + 1));
                let (Some(start), Some(end)) = bounds else { continue };
                let single = end - start == 1;
                for (index, slot) in (*start..*end).enumerate() {
                    let pointer = if single { place.pointer.clone() } else { format!("{}/{index}", place.pointer) };
                    inner.push(Place { slot: slot as usize, pointer, values: place.values });
                }
            }
            let values = patch_record(list.values(), kind, &inner)?;
            let DataType::List(item) = list.data_type() else { return Ok(array) };
            let nulls = list.nulls().cloned();
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), list.offsets().clone(), values, nulls)?))
        }
    }
}

fn patch_record(array: &ArrayRef, kind: &Kind, places: &[Place<'_>]) -> Result<ArrayRef> {
    let (Kind::Record { fields, .. }, Some(record)) = (kind, array.as_struct_opt()) else {
        return Ok(Arc::clone(array));
    };
    let mut children = Vec::with_capacity(record.num_columns());
    for ((name, kind), column) in fields.iter().zip(record.columns()) {
        if !kind.has_mixed() {
            children.push(Arc::clone(column));
            continue;
        }
        let inner = places
            .iter()
            .map(|place| {
                let mut pointer = place.pointer.clone();
                push_pointer(&mut pointer, name);
                Place { slot: place.slot, pointer, values: place.values }
            })
            .collect::<Vec<_>>();
        children.push(patch_places(Arc::clone(column), kind, &inner)?);
    }
    // The presence, which no event can contradict.
    children.extend(record.columns().iter().skip(children.len()).cloned());
    let nulls = record.nulls().cloned();
    Ok(Arc::new(StructArray::try_new(record.fields().clone(), children, nulls)?))
}

fn patch_leaf(array: &ArrayRef, places: &[Place<'_>]) -> ArrayRef {
    let texts = array.as_string_view();
    let mut out = StringViewBuilder::with_capacity(texts.len());
    let mut places = places.iter().peekable();
    for (slot, text) in texts.iter().enumerate() {
        while places.peek().is_some_and(|place| place.slot < slot) {
            places.next();
        }
        let spilled = places.peek().filter(|place| place.slot == slot);
        match spilled.and_then(|place| place.values.get(&place.pointer)) {
            Some(value) => out.append_value(value_text(value)),
            None => out.append_option(text),
        }
    }
    Arc::new(out.finish())
}

/// A float without exponent. Whole ones show all their digits, as the integer they may have come
/// from did: the shortest spelling of 58214112156200096.0 ends in 100.
fn float_text(float: f64) -> String {
    if float.fract() == 0.0 && float.abs() < 9.2e18 { (float as i64).to_string() } else { float.to_string() }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().map(float_text).unwrap_or_default(),
        other => other.to_string(),
    }
}

/// The narrowest type that holds both: for joining batches before they are written. Two batches of
/// one source never differ in any other way.
pub(crate) fn join_types(a: &DataType, b: &DataType) -> DataType {
    match (a, b) {
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => DataType::Float64,
        (DataType::Struct(left), DataType::Struct(right)) => {
            let mut fields = left
                .iter()
                .map(|l| match right.iter().find(|r| r.name() == l.name()) {
                    Some(r) => Arc::new(l.as_ref().clone().with_data_type(join_types(l.data_type(), r.data_type()))),
                    None => Arc::clone(l),
                })
                .collect::<Vec<_>>();
            fields.extend(right.iter().filter(|r| left.iter().all(|l| l.name() != r.name())).cloned());
            DataType::Struct(fields.into())
        }
        (DataType::List(left), DataType::List(right)) => list_of(join_types(left.data_type(), right.data_type())),
        (DataType::List(item), record @ DataType::Struct(_)) | (record @ DataType::Struct(_), DataType::List(item)) => {
            list_of(join_types(item.data_type(), record))
        }
        _ => a.clone(),
    }
}
