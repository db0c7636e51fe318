//! What a batch costs so far, and what its schema may still take.
//!
//! A column costs memory for each row of its batch, whether or not the row has a value. So a batch ends when the cells
//! of its finished columns would be too many, whatever its number of rows.

use crate::{schema::shape::Shape, shred::limits::ShapeLimits};

/// The most cells (one column in one row) of a batch. A cell of text takes 16 bytes.
const MAX_CELLS: usize = 1 << 20;

/// A column of records takes a few bits for each row: as much for this many rows as one cell.
const ROWS_OF_A_CELL: usize = 32;

/// Counts of one batch and of the schema that it extends.
#[derive(Debug)]
pub(crate) struct BatchCost {
    /// The bounds of the schema.
    pub(crate) limits: ShapeLimits,
    /// The fields of the schema, as they count towards the limit.
    pub(crate) count: usize,
    /// Whether the schema has changed.
    pub(crate) changed: bool,
    /// Scalars in this batch, those in lists included.
    pub(crate) values: usize,
    /// Columns of this batch that take four bytes for each row: lists of scalars and lists of records.
    pub(crate) lists: usize,
    /// Columns of records, which take some bits for each row.
    pub(crate) records: usize,
    /// Cells in lists of records.
    pub(crate) list_cells: usize,
}

impl BatchCost {
    /// The cost of an empty batch.
    pub(crate) fn new(shape: &Shape, limits: ShapeLimits) -> BatchCost {
        BatchCost { limits, count: shape.count(), changed: false, values: 0, lists: 0, records: 0, list_cells: 0 }
    }

    /// Whether the schema may have this many more fields.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        self.count + count <= self.limits.fields
    }

    /// Whether a batch of so many rows should end here.
    pub(crate) fn is_full(&self, rows: usize) -> bool {
        let each_row = rows.saturating_mul(self.lists + self.records / ROWS_OF_A_CELL);
        self.values.saturating_add(self.list_cells).saturating_add(each_row) > MAX_CELLS
    }
}
