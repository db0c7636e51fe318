//! Moving the values of columns into the overflow of their rows.
//!
//! A moved value is recorded as a position in its array, and written as JSON only at the end, row by row. Trees of
//! values, or a text for each value, would take many times that memory.

use std::{fmt::Write, mem, sync::Arc};

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, AsArray, ListArray, RecordBatch, RecordBatchOptions, StringViewArray, StringViewBuilder,
            StructArray,
        },
        datatypes::{DataType, Fields, Schema},
    },
    error::Result,
};
use serde_json::Value;
use tidegate_model::PRESENCE_FIELD;

use crate::{
    arrays::{json_values::scalars, list_values::own_values},
    field_names::OVERFLOW,
    overflow::{slot_rows::SlotRows, sparse_paths::SparsePaths},
    schema::{
        arrow_fields::{field, list_of, top_field},
        json_pointer::push_pointer,
    },
};

/// `rows` without the columns at `paths`, whose values are in the overflow of their rows.
pub(crate) fn spill(rows: &RecordBatch, paths: &SparsePaths) -> Result<RecordBatch> {
    if paths.is_empty() {
        return Ok(rows.clone());
    }
    let mut spilling = OverflowWriter::new(paths);
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    let mut own = None;
    for (column, array) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        if column.name() == OVERFLOW {
            own = Some(array.as_string_view());
            continue;
        }
        let mut path = String::new();
        push_pointer(&mut path, column.name());
        if !spilling.has_at_or_below(&path) {
            fields.push(column.as_ref().clone());
            columns.push(Arc::clone(array));
        } else if let Some(kept) = spilling.column(array, &path)? {
            fields.push(top_field(column.name(), kept.data_type().clone()).as_ref().clone());
            columns.push(kept);
        }
    }
    if let Some(overflow) = spilling.finish(own, rows.num_rows())? {
        fields.push(field(OVERFLOW, DataType::Utf8View).as_ref().clone());
        columns.push(overflow);
    }
    let mut known = SparsePaths::of_schema(rows.schema_ref());
    known.extend(paths);
    let schema = Arc::new(Schema::new_with_metadata(fields, known.metadata()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

/// A column whose values are moved.
#[derive(Debug)]
struct MovedColumn {
    values: ArrayRef,
    /// The slot of each value, unless each slot has one.
    slots: Option<Vec<u32>>,
    path: String,
    places: Arc<SlotRows>,
}

/// A value of such a column: the row that gets it, the number of the column, and the position in its array.
#[derive(Debug, Clone, Copy)]
struct MovedValue {
    row: u32,
    column: u32,
    index: u32,
}

/// Collects values of columns and writes them to the overflow.
#[derive(Debug)]
pub(crate) struct OverflowWriter<'p> {
    paths: &'p SparsePaths,
    /// The slots of the columns that come next.
    places: Arc<SlotRows>,
    columns: Vec<MovedColumn>,
    parts: Vec<MovedValue>,
}

impl<'p> OverflowWriter<'p> {
    pub(crate) fn new(paths: &'p SparsePaths) -> Self {
        Self { paths, places: Arc::new(SlotRows::Rows), columns: Vec::new(), parts: Vec::new() }
    }

    /// Whether this column or one below it is to be moved.
    pub(crate) fn has_at_or_below(&self, path: &str) -> bool {
        self.paths.has_at_or_below(path)
    }

    /// Whether this column is to be moved.
    pub(crate) fn is_moved(&self, path: &str) -> bool {
        self.paths.has(path)
    }

    /// Enters the elements of the list column at `path`. Returns the argument for [`Self::leave_list`].
    pub(crate) fn enter_list(&mut self, offsets: &[i32], path: &str) -> Arc<SlotRows> {
        let elements = Arc::new(self.places.elements(offsets, path));
        mem::replace(&mut self.places, elements)
    }

    pub(crate) fn leave_list(&mut self, outer: Arc<SlotRows>) {
        self.places = outer;
    }

    /// Takes the values of the column at `path`, and their slots unless each slot has one.
    pub(crate) fn move_leaf(&mut self, values: ArrayRef, slots: Option<Vec<u32>>, path: &str) {
        let column = self.columns.len() as u32;
        for index in (0..values.len()).filter(|index| values.is_valid(*index)) {
            let slot = match &slots {
                Some(slots) => slots.get(index).map(|slot| *slot as usize),
                None => Some(index),
            };
            if let Some(row) = slot.and_then(|slot| self.places.row(slot)) {
                self.parts.push(MovedValue { row, column, index: index as u32 });
            }
        }
        let places = Arc::clone(&self.places);
        self.columns.push(MovedColumn { values, slots, path: path.to_owned(), places });
    }

    /// The overflow column of so many rows, some of which may have an overflow already; `None` if it is empty.
    pub(crate) fn finish(mut self, own: Option<&StringViewArray>, rows: usize) -> Result<Option<ArrayRef>> {
        if self.parts.is_empty() {
            return Ok(own.map(|own| Arc::new(own.clone()) as ArrayRef));
        }
        self.parts.sort_by_key(|part| part.row);
        let mut parts = self.parts.iter().peekable();
        let mut out = StringViewBuilder::with_capacity(rows);
        let mut text = String::new();
        for row in 0..rows {
            text.clear();
            if let Some(own) = own.filter(|own| own.is_valid(row)) {
                text.push_str(own.value(row));
            }
            while let Some(part) = parts.next_if(|part| part.row as usize == row) {
                // No pointer occurs twice.
                match text.pop() {
                    None => text.push('{'),
                    Some(_) if text.len() == 1 => {}
                    Some(_) => text.push(','),
                }
                self.write(*part, &mut text)?;
                text.push('}');
            }
            out.append_option((!text.is_empty()).then_some(text.as_str()));
        }
        Ok(Some(Arc::new(out.finish())))
    }

    /// Writes `"pointer":value`.
    fn write(&self, part: MovedValue, text: &mut String) -> Result<()> {
        let Some(column) = self.columns.get(part.column as usize) else { return Ok(()) };
        let index = part.index as usize;
        let slot = match &column.slots {
            Some(slots) => slots.get(index).map_or(0, |slot| *slot as usize),
            None => index,
        };
        let value = column.values.slice(index, 1);
        let value = match value.data_type() {
            DataType::List(_) => Value::Array(scalars(&own_values(value.as_list()).1)?),
            _ => scalars(&value)?.pop().unwrap_or(Value::Null),
        };
        // Writing to a text cannot fail.
        let _ = write!(text, "{}:{value}", Value::from(column.places.pointer(slot, &column.path)));
        Ok(())
    }

    /// What remains of a column at `path`.
    fn column(&mut self, array: &ArrayRef, path: &str) -> Result<Option<ArrayRef>> {
        if self.is_moved(path) {
            self.move_leaf(Arc::clone(array), None, path);
            return Ok(None);
        }
        match array.data_type() {
            DataType::Struct(fields) => Ok(Some(Arc::new(self.record(array, fields, path)?))),
            DataType::List(item) => {
                let DataType::Struct(fields) = item.data_type() else { return Ok(Some(Arc::clone(array))) };
                let list: &ListArray = array.as_list();
                let (offsets, values) = own_values(list);
                let outer = self.enter_list(&offsets, path);
                let kept = self.record(&values, fields, path);
                self.leave_list(outer);
                let kept: ArrayRef = Arc::new(kept?);
                let DataType::List(item) = list_of(kept.data_type().clone()) else { return Ok(None) };
                Ok(Some(Arc::new(ListArray::try_new(item, offsets, kept, list.nulls().cloned())?)))
            }
            _ => Ok(Some(Arc::clone(array))),
        }
    }

    fn record(&mut self, array: &ArrayRef, fields: &Fields, path: &str) -> Result<StructArray> {
        let record = array.as_struct();
        let (mut kept, mut columns) = (Vec::new(), Vec::new());
        for (child, column) in fields.iter().zip(record.columns()) {
            let mut inner = path.to_owned();
            push_pointer(&mut inner, child.name());
            if child.name() == PRESENCE_FIELD || !self.has_at_or_below(&inner) {
                kept.push(Arc::clone(child));
                columns.push(Arc::clone(column));
            } else if let Some(column) = self.column(column, &inner)? {
                kept.push(field(child.name(), column.data_type().clone()));
                columns.push(column);
            }
        }
        Ok(StructArray::try_new_with_length(kept.into(), columns, record.nulls().cloned(), record.len())?)
    }
}
