//! The choice of sparse columns: those that hold so few values that they are better kept as JSON in the overflow.
//!
//! A column takes memory for each row, whether or not the row has a value. When the columns of a batch would take far
//! more memory than the JSON of its events, those with the fewest values for their size are removed until the rest is
//! within the bound. So events of a thousand different fields, each in a few rows, cost what they hold.

use std::collections::BTreeMap;

use datafusion::arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::DataType,
};
use tidegate_model::PRESENCE_FIELD;

use crate::{
    arrays::list_values::own_values,
    field_names::{ID, MESSAGE, OVERFLOW, PLACE, TIMESTAMP},
    overflow::sparse_paths::SparsePaths,
    schema::json_pointer::push_pointer,
};

/// Bytes that the columns of a batch may take: so many for each byte of its events as JSON, plus a constant.
const BYTES_PER_BYTE: usize = 4;

const SPARE_BYTES: usize = 1 << 20;

/// Columns that are never removed: statistics and plans depend on them.
const KEPT: [&str; 4] = [ID, TIMESTAMP, MESSAGE, "project"];

/// What a column would cost.
#[derive(Debug)]
pub(crate) struct ColumnCost {
    pub(crate) pointer: String,
    /// Values that are not NULL.
    pub(crate) held: usize,
    /// Bytes of the column, without those of texts.
    pub(crate) bytes: usize,
}

/// The columns to remove from a batch, so that the rest is within the bound for events of so many bytes as JSON.
pub(crate) fn choose_columns(uses: &[ColumnCost], json_bytes: usize) -> SparsePaths {
    let is_kept = |of: &ColumnCost| of.pointer.strip_prefix('/').is_some_and(|name| KEPT.contains(&name));
    let mut by_fill: Vec<&ColumnCost> = uses.iter().filter(|of| !is_kept(of)).collect();
    let allowed = json_bytes.saturating_mul(BYTES_PER_BYTE).saturating_add(SPARE_BYTES);
    let mut taken = by_fill.iter().map(|of| of.bytes).fold(0, usize::saturating_add);
    // Ascending by values per byte.
    by_fill.sort_by(|one, other| one.held.saturating_mul(other.bytes).cmp(&other.held.saturating_mul(one.bytes)));
    let mut chosen = SparsePaths::default();
    for of in by_fill {
        if taken <= allowed {
            break;
        }
        taken = taken.saturating_sub(of.bytes);
        chosen.insert(of.pointer.clone());
    }
    chosen
}

/// A column over several batches.
#[derive(Debug, Default, Clone, Copy)]
struct ColumnTotal {
    /// Values that are not NULL.
    held: usize,
    /// Bytes for each slot.
    width: usize,
}

/// The columns to remove from the batch that these are joined to. Its events had so many bytes as JSON.
pub(crate) fn choose(batches: &[&RecordBatch], json_bytes: usize) -> SparsePaths {
    let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    let mut sums: BTreeMap<String, ColumnTotal> = BTreeMap::new();
    // For each list of records: the number of its elements, which are the rows of the columns inside it.
    let mut slots: BTreeMap<String, usize> = BTreeMap::new();
    for batch in batches {
        for (column, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            if column.name() != OVERFLOW && !PLACE.contains(&column.name().as_str()) {
                let mut pointer = String::new();
                push_pointer(&mut pointer, column.name());
                measure(array, pointer, &mut sums, &mut slots);
            }
        }
    }
    let slots_of = |pointer: &str| {
        let lists =
            slots.iter().filter(|(list, _)| pointer.strip_prefix(list.as_str()).is_some_and(|p| p.starts_with('/')));
        lists.max_by_key(|(list, _)| list.len()).map_or(rows, |(_, elements)| *elements)
    };
    let uses = sums.into_iter().map(|(pointer, ColumnTotal { held, width })| {
        let bytes = width.saturating_mul(slots_of(&pointer));
        ColumnCost { pointer, held, bytes }
    });
    choose_columns(&uses.collect::<Vec<_>>(), json_bytes)
}

fn measure(
    array: &ArrayRef,
    pointer: String,
    uses: &mut BTreeMap<String, ColumnTotal>,
    slots: &mut BTreeMap<String, usize>,
) {
    match array.data_type() {
        DataType::Struct(fields) => {
            for (child, column) in fields.iter().zip(array.as_struct().columns()) {
                if child.name() != PRESENCE_FIELD {
                    let mut inner = pointer.clone();
                    push_pointer(&mut inner, child.name());
                    measure(column, inner, uses, slots);
                }
            }
        }
        DataType::List(item) if matches!(item.data_type(), DataType::Struct(_)) => {
            let (_, values) = own_values(array.as_list());
            *slots.entry(pointer.clone()).or_default() += values.len();
            measure(&values, pointer, uses, slots);
        }
        other => {
            let width = match other {
                DataType::Utf8View => 16,
                DataType::Boolean => 1,
                DataType::List(_) => 4,
                _ => 8,
            };
            let of = uses.entry(pointer).or_default();
            of.held += array.len() - array.null_count();
            of.width = of.width.max(width);
        }
    }
}
