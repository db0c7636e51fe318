//! Columns that hold next to nothing, kept as JSON in the overflow.
//!
//! A column costs memory for each row, whether the row has a value or not. Where a batch is made, or several are
//! joined, and the columns would take far more than the events that they came from, those with the fewest
//! values go to the overflow of their rows ([`crate::spilling`]); the batch remembers which ([`SparsePaths`]),
//! and readers look there. So events of a thousand different fields, each in a few rows, cost what they hold.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use datafusion::arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Schema},
};
use serde_json::Value;
use tidegate_model::PRESENCE_FIELD;

use crate::{
    adapt::own_values,
    batch::MemBatch,
    event::{ID, MESSAGE, OVERFLOW, TIMESTAMP},
    shape::push_pointer,
};

/// The key of a schema's metadata that lists the pointers of sparse columns, as a JSON array.
const METADATA_KEY: &str = "tidegate.sparse";

/// What the columns of a batch may take for each byte that its events had as JSON, and on top of that.
const BYTES_PER_BYTE: usize = 4;
const SPARE_BYTES: usize = 1 << 20;

/// Columns that statistics and plans rest on.
const KEPT: [&str; 4] = [ID, TIMESTAMP, MESSAGE, "project"];

/// The paths of a batch or segment of which values stand in the overflow although they have a column. A
/// pointer here has no index of arrays.
#[derive(Debug, Default)]
pub(crate) struct SparsePaths(BTreeSet<String>);

impl SparsePaths {
    /// As the schema of a batch or segment has them.
    pub(crate) fn of_schema(schema: &Schema) -> SparsePaths {
        let listed = schema.metadata().get(METADATA_KEY);
        SparsePaths(listed.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
    }

    /// Whether something at this pointer or below it is among them.
    pub(crate) fn has_at_or_below(&self, pointer: &str) -> bool {
        if self.0.contains(pointer) {
            return true;
        }
        let below = format!("{pointer}/");
        let first = self.0.range::<str, _>((Bound::Included(below.as_str()), Bound::Unbounded)).next();
        first.is_some_and(|first| first.starts_with(&below))
    }

    /// Whether something at this very pointer is.
    pub(crate) fn has(&self, pointer: &str) -> bool {
        self.0.contains(pointer)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The metadata of a schema with these paths.
    pub(crate) fn metadata(&self) -> HashMap<String, String> {
        if self.0.is_empty() {
            return HashMap::new();
        }
        let listed = Value::from(self.0.iter().cloned().collect::<Vec<_>>()).to_string();
        HashMap::from([(METADATA_KEY.to_owned(), listed)])
    }

    pub(crate) fn into_paths(self) -> BTreeSet<String> {
        self.0
    }

    pub(crate) fn extend(&mut self, other: &SparsePaths) {
        self.0.extend(other.0.iter().cloned());
    }
}

/// What a column would be.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) pointer: String,
    /// Values that are there.
    pub(crate) held: usize,
    /// Bytes of the column, without those of texts.
    pub(crate) bytes: usize,
}

/// The columns to leave out of a batch, so that it takes no more than its events, of so many bytes as JSON, allow.
pub(crate) fn choose_columns(uses: &[Use], json_bytes: usize) -> SparsePaths {
    let is_kept = |of: &Use| of.pointer.strip_prefix('/').is_some_and(|name| KEPT.contains(&name));
    let mut by_fill: Vec<&Use> = uses.iter().filter(|of| !is_kept(of)).collect();
    let allowed = json_bytes.saturating_mul(BYTES_PER_BYTE).saturating_add(SPARE_BYTES);
    let mut taken = by_fill.iter().map(|of| of.bytes).fold(0, usize::saturating_add);
    // The least value for the memory first.
    by_fill.sort_by(|one, other| one.held.saturating_mul(other.bytes).cmp(&other.held.saturating_mul(one.bytes)));
    let mut chosen = SparsePaths::default();
    for of in by_fill {
        if taken <= allowed {
            break;
        }
        taken = taken.saturating_sub(of.bytes);
        chosen.0.insert(of.pointer.clone());
    }
    chosen
}

/// What a column is over several batches.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    /// Values that are there.
    held: usize,
    /// Bytes of a place for one.
    width: usize,
}

/// The columns to leave out of the batch that these become.
pub(crate) fn choose(parts: &[Arc<MemBatch>]) -> SparsePaths {
    let rows: usize = parts.iter().map(|part| part.rows.num_rows()).sum();
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    // Elements of each list of records, which are the rows of the columns within it.
    let mut slots: BTreeMap<String, usize> = BTreeMap::new();
    for part in parts {
        for (column, array) in part.rows.schema_ref().fields().iter().zip(part.rows.columns()) {
            if column.name() != OVERFLOW {
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
    let uses = sums.into_iter().map(|(pointer, Sum { held, width })| {
        let bytes = width.saturating_mul(slots_of(&pointer));
        Use { pointer, held, bytes }
    });
    let json_bytes = parts.iter().map(|part| part.bytes).fold(0, usize::saturating_add);
    choose_columns(&uses.collect::<Vec<_>>(), json_bytes)
}

fn measure(array: &ArrayRef, pointer: String, uses: &mut BTreeMap<String, Sum>, slots: &mut BTreeMap<String, usize>) {
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
