//! Schema evolution: an array of an older or narrower type is converted to the type that the source has now.
//!
//! Batches and segments keep the columns that their rows had. What readers see is wider: more fields in a record, a
//! list where a record was, floats where integers were, text where a path is mixed or UUIDs are packed. Each conversion
//! only adds; no value is lost or shortened. One goes the other way: a tenant reads the whole numbers that it sent as such,
//! though others sent fractions, whose rows it does not read. Values that rows keep in their overflow are inserted afterwards ([`crate::overflow::patch`]).

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
use serde_json::Value;

use crate::{
    arrays::{
        json_values::{float_text, scalars},
        list_values::own_values,
        packed_uuids::{PACKED, pack, unpack, without_extension},
    },
    schema::arrow_fields::list_of,
};

/// `array` converted to the type `to`, which must be the same or a wider type.
pub(crate) fn adapt(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to) {
        (DataType::FixedSizeBinary(_), DataType::Utf8View) => Ok(unpack(array.as_fixed_size_binary())?),
        (DataType::Utf8View, to) if *to == PACKED => pack(array.as_string_view()),
        (_, DataType::Utf8View) => to_text(array),
        (DataType::Int64, DataType::Float64) => Ok(cast(array, to)?),
        (DataType::Float64, DataType::Int64) => {
            Ok(Arc::new(array.as_primitive::<Float64Type>().unary_opt::<_, Int64Type>(whole)))
        }
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
            let (offsets, values) = own_values(array.as_list());
            let values = adapt(&values, item.data_type())?;
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, array.nulls().cloned())?))
        }
        (from, to) => exec_err!("a column of type {from} cannot be read as {to}"),
    }
}

/// A float as the integer that it is; `None` for any other.
fn whole(float: f64) -> Option<i64> {
    // The bounds are floats: 2^63 itself is too large.
    let fits = float.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and within bounds")]
    fits.then_some(float as i64)
}

/// Records to lists of one record. A row without a record becomes NULL and gets no element.
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

/// Scalars as text: no exponent, no trailing `.0`, `true` and `false`. Lists as JSON.
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
        DataType::List(_) => {
            let (offsets, values) = own_values(array.as_list());
            let values = scalars(&values)?;
            for (row, bounds) in offsets.windows(2).enumerate() {
                let &[start, end] = bounds else { continue };
                let own = values.get(start as usize..end as usize).unwrap_or_default();
                out.append_option(array.is_valid(row).then(|| Value::from(own.to_vec()).to_string()));
            }
        }
        other => return exec_err!("a column of type {other} cannot be read as text"),
    }
    Ok(Arc::new(out.finish()))
}

/// The narrowest field that holds the values of both, for joining batches before they are written. It is required if
/// both are.
pub(crate) fn join_fields(a: &Field, b: &Field) -> Field {
    let joined = without_extension(a.clone().with_data_type(join_types(a.data_type(), b.data_type())));
    if a.is_nullable() || b.is_nullable() { optional(&joined) } else { joined }
}

/// The field for rows that may lack it. What lies in a record that some row lacks is optional too.
pub(crate) fn optional(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| Arc::new(optional(field))).collect()),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type).with_nullable(true)
}

/// The narrowest type that holds both. Two batches of one source differ in no other way than those below.
fn join_types(a: &DataType, b: &DataType) -> DataType {
    match (a, b) {
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => DataType::Float64,
        (DataType::Struct(left), DataType::Struct(right)) => {
            let mut fields = left
                .iter()
                .map(|l| match right.iter().find(|r| r.name() == l.name()) {
                    Some(r) => Arc::new(join_fields(l, r)),
                    None => Arc::new(optional(l)),
                })
                .collect::<Vec<_>>();
            let others = right.iter().filter(|r| left.iter().all(|l| l.name() != r.name()));
            fields.extend(others.map(|r| Arc::new(optional(r))));
            DataType::Struct(fields.into())
        }
        (DataType::List(left), DataType::List(right)) => list_of(join_types(left.data_type(), right.data_type())),
        (DataType::List(item), record @ DataType::Struct(_)) | (record @ DataType::Struct(_), DataType::List(item)) => {
            // The elements of a list are optional.
            let record = optional(&Field::new_list_field(record.clone(), true));
            list_of(join_types(item.data_type(), record.data_type()))
        }
        _ if a == b => a.clone(),
        // A path with values of several types is read as text, and so are UUIDs.
        (DataType::Utf8View | DataType::FixedSizeBinary(_), _)
        | (_, DataType::Utf8View | DataType::FixedSizeBinary(_)) => DataType::Utf8View,
        _ => a.clone(),
    }
}
