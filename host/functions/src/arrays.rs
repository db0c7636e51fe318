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
            let elements = size(&list.values().slice(from, to.saturating_sub(from)), with_texts);
            elements.saturating_add(array.len().saturating_mul(size_of::<i32>()))
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            columns.map(|column| size(column, with_texts)).fold(0, usize::saturating_add)
        }
        // Of plain values only.
        _ => array.to_data().get_slice_memory_size().unwrap_or(usize::MAX),
    }
}
