//! Helpers for arrays that several subjects share: sizes, lists, texts.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::error::{DataFusionError, Result};

use crate::context::value_error;

/// Any string array as a view array, without copying text.
pub(crate) fn texts(array: &ArrayRef) -> Result<StringViewArray> {
    Ok(cast(array, &DataType::Utf8View)?.as_string_view().clone())
}

/// The beginning of a text, for a message. An address is not cut in two: what masks personal data in the
/// message would not know its first half.
pub(crate) fn shortened(text: &str) -> &str {
    const LONGEST: usize = 60;
    if text.len() <= LONGEST {
        return text;
    }
    let short = text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default();
    short.trim_end_matches(|c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '%'))
}

/// The error of a function that was called with other arguments than it takes: a bug of whoever built the call.
pub(crate) fn arity() -> DataFusionError {
    value_error("a function got a wrong number of arguments")
}

/// The type of a list of nullable items.
pub(crate) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// The bytes of a copy of an array, whose texts are shared with the original.
pub fn copied_size(array: &ArrayRef) -> usize {
    size(array, false)
}

/// The bytes of a copy of each row, whose texts are shared with the original.
pub fn copied_sizes(array: &ArrayRef) -> Vec<usize> {
    let each = |width: usize| vec![width; array.len()];
    match array.data_type() {
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let bounds = list.value_offsets().windows(2).map(|bounds| match bounds {
                [from, to] => (usize::try_from(*from).unwrap_or_default(), usize::try_from(*to).unwrap_or_default()),
                _ => (0, 0),
            });
            if !has_lists(item.data_type()) {
                let width = width(item.data_type()).max(1);
                return bounds.map(|(from, to)| to.saturating_sub(from).saturating_mul(width)).collect();
            }
            let elements = copied_sizes(list.values());
            let sum = |sizes: &[usize]| sizes.iter().fold(sizes.len(), |sum, size| sum.saturating_add(*size));
            bounds.map(|(from, to)| elements.get(from..to).map_or(0, sum)).collect()
        }
        DataType::Struct(_) => {
            let mut sums = each(0);
            for column in array.as_struct().columns() {
                let sizes = copied_sizes(column);
                sums.iter_mut().zip(sizes).for_each(|(sum, size)| *sum = sum.saturating_add(size));
            }
            sums
        }
        DataType::Utf8 | DataType::Binary | DataType::FixedSizeList(..) => {
            (0..array.len()).map(|row| copied_size(&array.slice(row, 1))).collect()
        }
        ty => each(width(ty)),
    }
}

/// The bytes of a value of a type without lists.
fn width(ty: &DataType) -> usize {
    match ty {
        DataType::Struct(fields) => fields.iter().map(|field| width(field.data_type())).sum(),
        ty => ty.primitive_width().unwrap_or(size_of::<u128>()),
    }
}

/// Whether a value of the type is a list or a text with bytes of its own, or has one.
pub fn has_lists(ty: &DataType) -> bool {
    match ty {
        DataType::List(_) | DataType::Utf8 | DataType::Binary | DataType::FixedSizeList(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_lists(field.data_type())),
        _ => false,
    }
}

/// The bytes of an array that has its texts for itself.
pub(crate) fn held_size(array: &ArrayRef) -> usize {
    size(array, true)
}

fn size(array: &ArrayRef, with_texts: bool) -> usize {
    match array.data_type() {
        DataType::Utf8View => {
            let texts = if with_texts { array.as_string_view().total_buffer_bytes_used() } else { 0 };
            array.len().saturating_mul(size_of::<u128>()).saturating_add(texts)
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let bound =
                |offset: Option<&i32>| offset.and_then(|offset| usize::try_from(*offset).ok()).unwrap_or_default();
            let (from, to) = (bound(list.value_offsets().first()), bound(list.value_offsets().last()));
            let count = to.saturating_sub(from);
            // At least a byte each: what holds fewer than 2 GiB then has offsets of 32 bits.
            let elements = size(&list.values().slice(from, count), with_texts).max(count);
            elements.saturating_add(array.len().saturating_mul(size_of::<i32>()))
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            columns.map(|column| size(column, with_texts)).fold(0, usize::saturating_add)
        }
        DataType::Boolean => array.len(),
        // Of plain values only.
        _ => array.to_data().get_slice_memory_size().unwrap_or(usize::MAX),
    }
}
