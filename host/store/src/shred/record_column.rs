//! Columns of records, which grow while rows arrive, and the set of columns of one record ([`Cells`]).
//!
//! A column may have a value in each row or in one of 70,000. So a leaf keeps its values together with the slots that
//! have them, and becomes an Arrow column with NULLs only at the end, if it is dense enough
//! ([`crate::overflow::sparse_columns`]). A slot is a row, until a row holds several records: then the record column
//! keeps the first slot of each row, its slots are the records, and it becomes a list.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, BooleanArray, ListArray, NullBufferBuilder, StructArray, UInt32Array, new_null_array,
        },
        buffer::{BooleanBuffer, OffsetBuffer},
        compute::take,
        datatypes::Field,
    },
    error::Result,
};

use crate::{
    arrays::{leaf::LeafColumn, list::ListColumn},
    overflow::{sparse_columns::ColumnCost, spill::OverflowWriter},
    schema::{
        arrow_fields::{field, presence},
        json_pointer::push_pointer,
        kind::{Fields, Kind},
    },
};

/// A column of records, or of lists of records.
#[derive(Debug)]
pub(crate) struct RecordColumn {
    pub(crate) cells: Cells,
    valid: NullBufferBuilder,
    rows: usize,
    /// The first slot of each row, once some row held several records.
    starts: Option<Vec<u32>>,
}

impl RecordColumn {
    pub(crate) fn new() -> RecordColumn {
        RecordColumn { cells: Cells::default(), valid: NullBufferBuilder::new(0), rows: 0, starts: None }
    }

    fn pad(&mut self, row: usize) {
        let missing = row.saturating_sub(self.rows);
        if missing == 0 {
            return;
        }
        if let Some(starts) = &mut self.starts {
            let next = self.valid.len() as u32;
            starts.extend((0..missing as u32).map(|nth| next + nth));
        }
        self.valid.append_n_nulls(missing);
        self.rows += missing;
    }

    /// Begins `row` with `count` records and returns the slot of the first.
    pub(crate) fn open_row(&mut self, row: usize, count: usize) -> usize {
        self.pad(row);
        if count > 1 && self.starts.is_none() {
            self.starts = Some((0..self.rows as u32).collect());
        }
        self.begin_row();
        let first = self.valid.len();
        match count {
            1 => self.valid.append_non_null(),
            count => self.valid.append_n_non_nulls(count),
        }
        first
    }

    fn begin_row(&mut self) {
        let slot = self.valid.len() as u32;
        if let Some(starts) = &mut self.starts {
            starts.push(slot);
        }
        self.rows += 1;
    }

    /// Whether rows hold several records.
    pub(crate) fn is_list(&self) -> bool {
        self.starts.is_some()
    }

    /// The number of slots for so many rows.
    fn slots(&self, rows: usize) -> usize {
        self.valid.len() + rows.saturating_sub(self.rows)
    }

    fn finish(
        &mut self,
        fields: &Fields,
        rows: usize,
        path: &str,
        spilling: &mut OverflowWriter<'_>,
    ) -> Result<ArrayRef> {
        self.pad(rows);
        let slots = self.valid.len();
        let outer = match &self.starts {
            Some(starts) if spilling.has_at_or_below(path) => {
                let ends = starts.iter().copied().chain([slots as u32]).map(|start| start as i32);
                Some(spilling.enter_list(&ends.collect::<Vec<_>>(), path))
            }
            _ => None,
        };
        let mut names = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (name, array) in self.cells.finish(fields, slots, path, spilling)? {
            names.push(field(name, array.data_type().clone()));
            arrays.push(array);
        }
        if let Some(outer) = outer {
            spilling.leave_list(outer);
        }
        let valid = self.valid.finish();
        // NULL where the record is NULL: readers may look at a field without the NULLs of its parent.
        names.push(presence());
        arrays.push(Arc::new(BooleanArray::new(BooleanBuffer::new_set(slots), valid.clone())));
        let records = StructArray::try_new(names.into(), arrays, valid.clone())?;
        let Some(starts) = self.starts.take() else {
            return Ok(Arc::new(records));
        };

        // A row without records has one empty slot. In the list it has no element.
        let full = |slot: u32| valid.as_ref().is_none_or(|valid| valid.is_valid(slot as usize));
        let kept: UInt32Array = (0..slots as u32).filter(|slot| full(*slot)).collect();
        let records = take(&records, &kept, None)?;
        let mut lengths = Vec::with_capacity(rows);
        let mut present = NullBufferBuilder::new(rows);
        for (row, start) in starts.iter().enumerate() {
            let end = starts.get(row + 1).copied().unwrap_or(slots as u32);
            present.append(full(*start));
            lengths.push(if full(*start) { (end - start) as usize } else { 0 });
        }
        let item = Arc::new(Field::new_list_field(records.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(ListArray::try_new(item, offsets, records, present.finish())?))
    }
}

/// A column of any class.
#[derive(Debug)]
pub(crate) enum Column {
    Leaf(LeafColumn),
    List(ListColumn),
    Record(RecordColumn),
}

impl Column {
    fn finish(&mut self, kind: &Kind, rows: usize, path: &str, spilling: &mut OverflowWriter<'_>) -> Result<ArrayRef> {
        match (self, kind) {
            (Column::Leaf(leaf), _) => leaf.finish(rows),
            (Column::List(list), _) => list.finish(rows),
            (Column::Record(record), Kind::Record { fields, .. }) => record.finish(fields, rows, path, spilling),
            (Column::Record(_), kind) => Ok(new_null_array(&kind.null_type(), rows)),
        }
    }
}

/// The columns of one record, at the positions of its fields in the schema.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    columns: Vec<Option<Column>>,
    /// The position of the n-th key of the last record. Events of a source mostly have the same keys in the same order,
    /// so that this saves the lookup in the hash table.
    guesses: Vec<u32>,
}

impl Cells {
    /// The position of `key`, which is the `nth` key of its record.
    pub(crate) fn locate(&mut self, fields: &Fields, nth: usize, key: &str) -> Option<usize> {
        if let Some(guess) = self.guesses.get(nth)
            && fields.at(*guess as usize).is_some_and(|(name, _)| name == key)
        {
            return Some(*guess as usize);
        }
        let position = fields.find(key)?;
        if self.guesses.len() <= nth {
            self.guesses.resize(nth + 1, u32::MAX);
        }
        if let Some(guess) = self.guesses.get_mut(nth) {
            *guess = position as u32;
        }
        Some(position)
    }

    pub(crate) fn at(&mut self, position: usize) -> &mut Option<Column> {
        while self.columns.len() <= position {
            self.columns.push(None);
        }
        // The loop above made the entry.
        #[expect(clippy::indexing_slicing, reason = "grown to hold `position` just above")]
        &mut self.columns[position]
    }

    /// Appends the cost of all leaf columns below `path` for so many slots.
    pub(crate) fn measure(&self, fields: &Fields, slots: usize, path: &str, uses: &mut Vec<ColumnCost>) {
        for ((name, kind), column) in fields.iter().zip(&self.columns) {
            let mut pointer = path.to_owned();
            push_pointer(&mut pointer, name);
            match (column, kind) {
                (Some(Column::Leaf(leaf)), _) => {
                    let bytes = leaf.values.width().saturating_mul(slots);
                    uses.push(ColumnCost { pointer, held: leaf.slots.len(), bytes });
                }
                (Some(Column::Record(record)), Kind::Record { fields, .. }) => {
                    record.cells.measure(fields, record.slots(slots), &pointer, uses);
                }
                _ => {}
            }
        }
    }

    /// The columns that have values, with their names. Columns that are to be moved to the overflow are handed to
    /// `spilling` instead.
    pub(crate) fn finish<'f>(
        &mut self,
        fields: &'f Fields,
        slots: usize,
        path: &str,
        spilling: &mut OverflowWriter<'_>,
    ) -> Result<Vec<(&'f str, ArrayRef)>> {
        let mut out = Vec::new();
        for (position, (name, kind)) in fields.iter().enumerate() {
            let Some(Some(column)) = self.columns.get_mut(position) else { continue };
            let mut pointer = path.to_owned();
            push_pointer(&mut pointer, name);
            match column {
                Column::Leaf(leaf) if spilling.is_moved(&pointer) => {
                    spilling.move_leaf(leaf.values.finish(), Some(std::mem::take(&mut leaf.slots)), &pointer);
                }
                column => out.push((name, column.finish(kind, slots, &pointer, spilling)?)),
            }
        }
        Ok(out)
    }
}
