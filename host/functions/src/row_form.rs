//! Values in the form in which they are compared by their bytes. The engine copies each value into it, also where many views
//! or lists share one long text, and counts nothing: so the bytes are added up, and counted, before they are made.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, GenericByteArray};
use datafusion::arrow::datatypes::{ByteArrayType, DataType};
use datafusion::arrow::row::{RowConverter, Rows};
use datafusion::error::Result;

use crate::context::{Transient, failed};

/// The rows of columns in that form. `held` counts them, and what is held while they are made.
pub(crate) fn row_forms(converter: &RowConverter, columns: &[ArrayRef], held: &mut Transient) -> Result<Rows> {
    let mut bytes = 0_usize;
    for column in columns {
        bytes = bytes.saturating_add(form_size(column)?);
    }
    held.grow(bytes).map_err(failed)?;
    let rows = converter.convert_columns(columns)?;
    held.grow(rows.size().saturating_sub(bytes)).map_err(failed)?;
    Ok(rows)
}

/// The bytes of the form of a text: in blocks of 8, or of 32 if it is long, each with a byte behind it.
fn padded(length: usize) -> usize {
    if length <= 32 { 1 + length.div_ceil(8) * 9 } else { 4 + length.div_ceil(32).saturating_mul(33) }
}

/// At most the bytes that are held for the forms of the values of an array, those of their parts among them.
fn form_size(array: &ArrayRef) -> Result<usize> {
    let sum = |lengths: &mut dyn Iterator<Item = usize>| lengths.map(padded).fold(0, usize::saturating_add);
    Ok(match array.data_type() {
        DataType::Utf8View => sum(&mut array.as_string_view().lengths().map(|length| length as usize)),
        DataType::BinaryView => sum(&mut array.as_binary_view().lengths().map(|length| length as usize)),
        DataType::Utf8 => sum(&mut lengths(array.as_string::<i32>())),
        DataType::LargeUtf8 => sum(&mut lengths(array.as_string::<i64>())),
        DataType::Binary => sum(&mut lengths(array.as_binary::<i32>())),
        DataType::LargeBinary => sum(&mut lengths(array.as_binary::<i64>())),
        DataType::Struct(_) => {
            let mut parts = 0_usize;
            for column in array.as_struct().columns() {
                parts = parts.saturating_add(form_size(column)?);
            }
            // The forms of the parts are made first, and copied.
            parts.saturating_mul(2).saturating_add(array.len())
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let bound = |at: Option<&i32>| at.and_then(|at| usize::try_from(*at).ok()).unwrap_or_default();
            let (from, to) = (bound(list.value_offsets().first()), bound(list.value_offsets().last()));
            listed(&list.values().slice(from, to.saturating_sub(from)), array.len())?
        }
        DataType::FixedSizeList(..) => listed(array.as_fixed_size_list().values(), array.len())?,
        DataType::Null | DataType::Boolean => array.len().saturating_mul(2),
        ty => match ty.primitive_width() {
            Some(width) => array.len().saturating_mul(1 + width),
            None => array.to_data().get_slice_memory_size()?.saturating_mul(4),
        },
    })
}

/// The same for so many lists. The forms of their elements are made first, too, and each is then padded as a text is.
fn listed(elements: &ArrayRef, lists: usize) -> Result<usize> {
    let size = form_size(elements)?;
    let copied = size.saturating_add(size / 8).saturating_add(elements.len().saturating_mul(padded(33)));
    Ok(size.saturating_add(copied).saturating_add(lists))
}

fn lengths<T: ByteArrayType>(array: &GenericByteArray<T>) -> impl Iterator<Item = usize> {
    array.offsets().lengths()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{BinaryArray, Int64Array, ListArray, StringArray, StringViewArray, StructArray};
    use datafusion::arrow::buffer::OffsetBuffer;
    use datafusion::arrow::datatypes::Field;
    use datafusion::arrow::row::SortField;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;
    use crate::context::{ExecutionContext, Patterns, StatementMemory};

    fn converter(of: &ArrayRef) -> RowConverter {
        RowConverter::new(vec![SortField::new(of.data_type().clone())]).unwrap()
    }

    fn list_of(values: ArrayRef, lengths: &[usize]) -> ArrayRef {
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths.iter().copied()), values, None))
    }

    #[test]
    fn forms_take_no_more_than_was_counted() {
        let texts = ["", "a", "12345678", "123456789", &"x".repeat(32), &"x".repeat(33), &"x".repeat(1_000)];
        let all: [ArrayRef; 4] = [
            Arc::new(StringViewArray::from_iter_values(texts)),
            Arc::new(StringArray::from_iter_values(texts)),
            Arc::new(BinaryArray::from_iter_values(texts)),
            Arc::new(Int64Array::from_iter_values(0..7)),
        ];
        let (views, numbers) = (Arc::clone(all.first().unwrap()), Arc::clone(all.last().unwrap()));
        let lists = list_of(Arc::clone(&views), &[0, 2, 5]);
        let records: ArrayRef = Arc::new(StructArray::try_from(vec![("t", views), ("n", numbers)]).unwrap());
        let nested = list_of(list_of(Arc::clone(&records), &[3, 4]), &[1, 1]);
        for array in all.into_iter().chain([lists, records, nested]) {
            for array in [array.slice(1, array.len() - 1), array] {
                let rows = converter(&array).convert_columns(std::slice::from_ref(&array)).unwrap();
                let made: usize = rows.iter().map(|row| row.as_ref().len()).sum();
                let counted = form_size(&array).unwrap();
                assert!((made..=made * 10).contains(&counted), "{} {made} {counted}", array.data_type());
            }
        }
    }

    /// Rows that share one long text are refused before a copy is made for each.
    #[test]
    fn a_shared_long_text_counts_for_each_row() {
        let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(["x".repeat(16 << 20)]));
        let places = datafusion::arrow::array::UInt32Array::from(vec![0; 8_192]);
        let shared = datafusion::arrow::compute::take(&text, &places, None).unwrap();
        let lists = list_of(Arc::clone(&shared), &[8_000, 192]);
        let all = Arc::new(GreedyMemoryPool::new(1 << 30));
        let memory = Arc::new(StatementMemory::new(all.clone(), 1 << 30));
        ExecutionContext::of_run(Arc::clone(&memory), Arc::new(Patterns::new(&(all as _)))).enter(|| {
            for array in [shared, lists] {
                let mut held = Transient::default();
                assert!(row_forms(&converter(&array), &[array], &mut held).is_err());
            }
            assert!(memory.peak() < 1 << 20, "{}", memory.peak());
        });
    }
}
