//! Converts values to the Arrow arrays of results, which any Arrow reader accepts.
//!
//! In the engine, a record is a struct with a hidden field, and texts are string views. The arrays of a result have the
//! same form as its JSON: a record is a list with one struct, and a text is plain UTF-8. The Arrow type depends only on
//! the type in the dialect, so all batches of an answer have the same schema.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray, new_null_array};
use datafusion::arrow::buffer::{OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::{cast, filter, is_not_null};
use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Fields, TimeUnit, TimestampMicrosecondType};
use datafusion::error::Result;

use tidegate_functions::encode::{as_list, mismatch};
use tidegate_functions::range::range_texts;
use tidegate_functions::time::interval_texts;

use crate::types::{Field, Type};

/// The Arrow type of a type in results.
pub fn shown_type(ty: &Type) -> DataType {
    let item = |ty| Arc::new(ArrowField::new("item", ty, true));
    match ty {
        Type::Null => DataType::Null,
        Type::Bool => DataType::Boolean,
        Type::Int64 => DataType::Int64,
        Type::Float64 | Type::Numeric | Type::BigNumeric => ty.arrow(),
        Type::String | Type::Json | Type::Interval | Type::Range(_) => DataType::Utf8,
        Type::Bytes => DataType::Binary,
        Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Type::Datetime => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::Date => DataType::Date32,
        Type::Time => DataType::Time64(TimeUnit::Microsecond),
        Type::Struct { fields, .. } => DataType::Struct(shown_fields(fields)),
        Type::Record(fields) => DataType::List(item(DataType::Struct(shown_fields(fields)))),
        Type::Array(of) => DataType::List(item(shown_type(of))),
    }
}

fn shown_fields(fields: &[Field]) -> Fields {
    let shown = fields.iter().filter(|field| !field.is_presence());
    shown.map(|field| ArrowField::new(&field.name, shown_type(&field.ty), true)).collect()
}

/// Converts `array`, whose values are of type `ty`, to the Arrow type of [`shown_type`].
///
/// # Errors
/// The array cannot hold values of the type, which is a bug of the resolver; the texts are larger than 2 GiB.
pub fn shown_array(array: &ArrayRef, ty: &Type) -> Result<ArrayRef> {
    let target = shown_type(ty);
    if *array.data_type() == DataType::Null || target == DataType::Null {
        return Ok(new_null_array(&target, array.len()));
    }
    Ok(match ty {
        Type::Interval => {
            let texts: ArrayRef = Arc::new(interval_texts(array)?);
            cast(&texts, &target)?
        }
        Type::Range(of) => {
            let texts: ArrayRef = Arc::new(range_texts(array, of)?);
            cast(&texts, &target)?
        }
        Type::Timestamp => {
            let plain = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
            Arc::new(plain.as_primitive::<TimestampMicrosecondType>().clone().with_timezone("UTC"))
        }
        Type::Struct { fields, .. } => Arc::new(shown_struct(array, ty, fields)?),
        Type::Record(fields) => {
            let there = is_not_null(array)?;
            let lengths = there.values().iter().map(usize::from);
            let offsets = OffsetBuffer::from_lengths(lengths);
            let elements = if array.null_count() == 0 { Arc::clone(array) } else { filter(array, &there)? };
            let elements: ArrayRef = Arc::new(shown_struct(&elements, ty, fields)?);
            let item = Arc::new(ArrowField::new("item", elements.data_type().clone(), true));
            Arc::new(ListArray::try_new(item, offsets, elements, array.nulls().cloned())?)
        }
        Type::Array(of) => {
            let list = as_list(array, ty)?;
            // A slice of a list array keeps the values of the whole array. Only the values of the slice are converted.
            let first = list.offsets().first().copied().unwrap_or_default();
            let last = list.offsets().last().copied().unwrap_or_default();
            let (start, length) = (usize::try_from(first).unwrap_or_default(), usize::try_from(last - first));
            let values = shown_array(&list.values().slice(start, length.unwrap_or_default()), of)?;
            let offsets: ScalarBuffer<i32> = list.offsets().iter().map(|offset| offset - first).collect();
            let item = Arc::new(ArrowField::new("item", values.data_type().clone(), true));
            Arc::new(ListArray::try_new(item, OffsetBuffer::new(offsets), values, list.nulls().cloned())?)
        }
        _ => cast(array, &target)?,
    })
}

fn shown_struct(array: &ArrayRef, ty: &Type, fields: &[Field]) -> Result<StructArray> {
    let Some(parts) = array.as_struct_opt() else { return Err(mismatch(array, ty)) };
    let shown = fields.iter().filter(|field| !field.is_presence());
    let columns = shown
        .map(|field| match parts.column_by_name(&field.name) {
            Some(column) => shown_array(column, &field.ty),
            None => Ok(new_null_array(&shown_type(&field.ty), array.len())),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(StructArray::try_new_with_length(shown_fields(fields), columns, parts.nulls().cloned(), array.len())?)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{BooleanArray, StringViewArray};
    use datafusion::arrow::buffer::NullBuffer;
    use tidegate_model::PRESENCE_FIELD;

    use super::*;

    #[test]
    fn a_record_is_shown_as_a_list_of_one_struct_without_its_hidden_field() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None, Some("c")]));
        let presence: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(true)]));
        let fields = [("t", texts), (PRESENCE_FIELD, presence)];
        let (fields, columns): (Vec<_>, Vec<_>) = fields
            .into_iter()
            .map(|(name, array)| (ArrowField::new(name, array.data_type().clone(), true), array))
            .unzip();
        let nulls = NullBuffer::from(vec![true, false, true]);
        let record: ArrayRef = Arc::new(StructArray::new(fields.into(), columns, Some(nulls)));
        let ty = Type::of_stored(record.data_type());
        let list = shown_array(&record, &ty).unwrap();
        assert_eq!(*list.data_type(), shown_type(&ty));
        let list = list.as_list::<i32>();
        assert_eq!((list.len(), list.null_count(), list.values().len()), (3, 1, 2));
        let texts = list.values().as_struct().column_by_name("t").unwrap();
        assert_eq!(texts.as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(list.values().as_struct().num_columns(), 1);
        // A slice is converted with its own rows only.
        let outer = Type::Array(Box::new(Type::String));
        let lists = ListArray::new(
            Arc::new(ArrowField::new("item", DataType::Utf8View, true)),
            OffsetBuffer::from_lengths([1, 2, 3]),
            Arc::new(StringViewArray::from(vec!["a", "b", "c", "d", "e", "f"])),
            None,
        );
        let slice: ArrayRef = Arc::new(lists.slice(1, 1));
        let slice = shown_array(&slice, &outer).unwrap();
        assert_eq!(slice.as_list::<i32>().values().len(), 2);
        assert_eq!(slice.as_list::<i32>().value(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["b", "c"]);
    }
}
