//! Columns that hold next to nothing, kept as JSON in the overflow.
//!
//! A column costs memory for each row, whether the row has a value or not. Where batches are joined and
//! their columns would take far more than the events that they came from, those with the fewest values go
//! to the overflow of their rows; the batch remembers which ([`SparsePaths`]), and readers look there. So
//! events of a thousand different fields, each in a few rows, cost what they hold.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, RecordBatchOptions, StringViewBuilder, StructArray},
        datatypes::{DataType, Fields, Schema},
    },
    error::Result,
};
use serde_json::Value;
use tidegate_model::PRESENCE_FIELD;

use crate::{
    adapt::{own_values, scalars},
    batch::MemBatch,
    event::{ID, MESSAGE, OVERFLOW, TIMESTAMP},
    shape::{field, list_of, push_pointer, top_field},
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

    pub(crate) fn extend(&mut self, other: SparsePaths) {
        self.0.extend(other.0);
    }
}

/// What a column is over several batches.
#[derive(Debug, Default, Clone, Copy)]
struct Use {
    /// Values that are there.
    held: usize,
    /// Bytes of a place for one.
    width: usize,
}

/// The columns to leave out of the batch that these become, so that it takes no more than its events allow.
pub(crate) fn choose(parts: &[Arc<MemBatch>]) -> SparsePaths {
    let rows: usize = parts.iter().map(|part| part.rows.num_rows()).sum();
    let mut uses: BTreeMap<String, Use> = BTreeMap::new();
    // Elements of each list of records, which are the rows of the columns within it.
    let mut slots: BTreeMap<String, usize> = BTreeMap::new();
    for part in parts {
        for (column, array) in part.rows.schema_ref().fields().iter().zip(part.rows.columns()) {
            if column.name() != OVERFLOW && !KEPT.contains(&column.name().as_str()) {
                let mut pointer = String::new();
                push_pointer(&mut pointer, column.name());
                measure(array, pointer, &mut uses, &mut slots);
            }
        }
    }
    let slots_of = |pointer: &str| {
        let lists =
            slots.iter().filter(|(list, _)| pointer.strip_prefix(list.as_str()).is_some_and(|p| p.starts_with('/')));
        lists.max_by_key(|(list, _)| list.len()).map_or(rows, |(_, elements)| *elements)
    };
    let mut by_fill: Vec<(usize, usize, &String)> =
        uses.iter().map(|(pointer, of)| (of.held, of.width.saturating_mul(slots_of(pointer)), pointer)).collect();
    let allowed = parts
        .iter()
        .map(|part| part.bytes)
        .fold(0, usize::saturating_add)
        .saturating_mul(BYTES_PER_BYTE)
        .saturating_add(SPARE_BYTES);
    let mut taken = by_fill.iter().map(|(_, bytes, _)| *bytes).fold(0, usize::saturating_add);
    // The least value for the memory first.
    by_fill.sort_by(|(held, bytes, _), (other_held, other_bytes, _)| {
        (held.saturating_mul(*other_bytes)).cmp(&other_held.saturating_mul(*bytes))
    });
    let mut chosen = SparsePaths::default();
    for (_, bytes, pointer) in by_fill {
        if taken <= allowed {
            break;
        }
        taken = taken.saturating_sub(bytes);
        chosen.0.insert(pointer.clone());
    }
    chosen
}

fn measure(array: &ArrayRef, pointer: String, uses: &mut BTreeMap<String, Use>, slots: &mut BTreeMap<String, usize>) {
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

/// The rows with the columns of `paths` in their overflow.
pub(crate) fn spill(rows: &RecordBatch, paths: &SparsePaths) -> Result<RecordBatch> {
    if paths.0.is_empty() {
        return Ok(rows.clone());
    }
    let mut spilling = Spilling { paths, values: vec![Vec::new(); rows.num_rows()] };
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    let mut overflow = None;
    for (column, array) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        if column.name() == OVERFLOW {
            overflow = Some(array.as_string_view());
            continue;
        }
        let mut path = String::new();
        push_pointer(&mut path, column.name());
        if !paths.has_at_or_below(&path) {
            fields.push(column.as_ref().clone());
            columns.push(Arc::clone(array));
        } else if let Some(kept) = spilling.column(array, &path, &Places::Rows)? {
            fields.push(top_field(column.name(), kept.data_type().clone()).as_ref().clone());
            columns.push(kept);
        }
    }
    if overflow.is_some() || spilling.values.iter().any(|values| !values.is_empty()) {
        let mut out = StringViewBuilder::with_capacity(rows.num_rows());
        for (row, values) in spilling.values.into_iter().enumerate() {
            let own = overflow.filter(|overflow| overflow.is_valid(row)).map(|overflow| overflow.value(row));
            out.append_option(with_values(own, values));
        }
        fields.push(field(OVERFLOW, DataType::Utf8View).as_ref().clone());
        columns.push(Arc::new(out.finish()));
    }
    let mut known = SparsePaths::of_schema(rows.schema_ref());
    known.0.extend(paths.0.iter().cloned());
    let schema = Arc::new(Schema::new_with_metadata(fields, known.metadata()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

/// The overflow of a row with more values; no pointer is in both.
fn with_values(own: Option<&str>, values: Vec<(String, Value)>) -> Option<String> {
    if values.is_empty() {
        return own.map(str::to_owned);
    }
    let added = Value::Object(values.into_iter().collect()).to_string();
    let own = own.and_then(|own| own.strip_suffix('}')).filter(|own| own.len() > 1);
    Some(match (own, added.strip_prefix('{')) {
        (Some(own), Some(added)) => format!("{own},{added}"),
        _ => added,
    })
}

/// Which rows the slots of an array belong to, and under which pointers.
enum Places {
    /// One for each row; the pointer is the path.
    Rows,
    /// Elements of lists: the row, and the pointer of the element, for the part of the path that is so long.
    Elements(Vec<(usize, String)>, usize),
}

impl Places {
    /// The row of a slot, and the pointer there of the column at `path`.
    fn of(&self, slot: usize, path: &str) -> Option<(usize, String)> {
        match self {
            Places::Rows => Some((slot, path.to_owned())),
            Places::Elements(elements, list) => {
                let (row, element) = elements.get(slot)?;
                Some((*row, format!("{element}{}", path.get(*list..)?)))
            }
        }
    }

    /// Those of the elements of a list column at `path`.
    fn elements(&self, offsets: &[i32], path: &str) -> Places {
        let mut elements = Vec::new();
        for (slot, bounds) in offsets.windows(2).enumerate() {
            let (&[start, end], Some((row, pointer))) = (bounds, self.of(slot, path)) else { continue };
            elements.extend((0..end - start).map(|index| match end - start {
                1 => (row, pointer.clone()),
                _ => (row, format!("{pointer}/{index}")),
            }));
        }
        Places::Elements(elements, path.len())
    }
}

struct Spilling<'p> {
    paths: &'p SparsePaths,
    /// What each row gets into its overflow.
    values: Vec<Vec<(String, Value)>>,
}

impl Spilling<'_> {
    /// What stays of a column at `path`.
    fn column(&mut self, array: &ArrayRef, path: &str, places: &Places) -> Result<Option<ArrayRef>> {
        if self.paths.0.contains(path) {
            self.leaf(array, path, places)?;
            return Ok(None);
        }
        match array.data_type() {
            DataType::Struct(fields) => Ok(Some(Arc::new(self.record(array, fields, path, places)?))),
            DataType::List(item) => {
                let DataType::Struct(fields) = item.data_type() else { return Ok(Some(Arc::clone(array))) };
                let list: &ListArray = array.as_list();
                let (offsets, values) = own_values(list);
                let kept: ArrayRef = Arc::new(self.record(&values, fields, path, &places.elements(&offsets, path))?);
                let DataType::List(item) = list_of(kept.data_type().clone()) else { return Ok(None) };
                Ok(Some(Arc::new(ListArray::try_new(item, offsets, kept, list.nulls().cloned())?)))
            }
            _ => Ok(Some(Arc::clone(array))),
        }
    }

    fn record(&mut self, array: &ArrayRef, fields: &Fields, path: &str, places: &Places) -> Result<StructArray> {
        let record = array.as_struct();
        let (mut kept, mut columns) = (Vec::new(), Vec::new());
        for (child, column) in fields.iter().zip(record.columns()) {
            let mut inner = path.to_owned();
            push_pointer(&mut inner, child.name());
            if child.name() == PRESENCE_FIELD || !self.paths.has_at_or_below(&inner) {
                kept.push(Arc::clone(child));
                columns.push(Arc::clone(column));
            } else if let Some(column) = self.column(column, &inner, places)? {
                kept.push(field(child.name(), column.data_type().clone()));
                columns.push(column);
            }
        }
        Ok(StructArray::try_new_with_length(kept.into(), columns, record.nulls().cloned(), record.len())?)
    }

    fn leaf(&mut self, array: &ArrayRef, path: &str, places: &Places) -> Result<()> {
        for slot in (0..array.len()).filter(|slot| array.is_valid(*slot)) {
            let Some((row, pointer)) = places.of(slot, path) else { continue };
            let one = array.slice(slot, 1);
            let value = match one.data_type() {
                DataType::List(_) => Value::Array(scalars(&own_values(one.as_list()).1)?),
                _ => scalars(&one)?.pop().unwrap_or(Value::Null),
            };
            if let Some(values) = self.values.get_mut(row) {
                values.push((pointer, value));
            }
        }
        Ok(())
    }
}
