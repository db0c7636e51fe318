//! Events to a record batch: one pass over the values, which extends the schema as it goes.
//!
//! The rules: a new key becomes a column of the type of its first value. A value that does not fit its column, is
//! nested too deeply, has too long a name, or would need one column too many, is stored unchanged, as JSON, in the
//! overflow of its row under its JSON pointer. A pointer contains an index only inside an array of several elements,
//! because a record and an array of one record are the same value. See [`crate::schema::kind`] for what can stand at a
//! path.
//!
//! When the batch is finished, columns that hold few values for their size are moved to the overflow
//! ([`crate::overflow::sparse_columns`]).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{ArrayRef, RecordBatch, StringViewBuilder},
        datatypes::Schema,
    },
    error::Result,
};
use serde_json::Value;

use crate::{
    field_names::OVERFLOW,
    ingest::tape::Item,
    overflow::{sparse_columns, spill::OverflowWriter},
    schema::{
        arrow_fields::{field, top_field},
        shape::Shape,
    },
    shred::{
        batch_cost::BatchCost,
        limits::ShapeLimits,
        misfits::Misfits,
        record_column::Cells,
        walk::{Counts, walk},
    },
};

/// Makes a batch of normalised events and extends the schema where they have something new.
#[derive(Debug)]
pub(crate) struct Shredder {
    /// A copy of the schema, which is returned only if it changed.
    shape: Shape,
    cost: BatchCost,
    misfits: Misfits,
    cells: Cells,
    overflow: StringViewBuilder,
    any_overflow: bool,
    rows: usize,
}

impl Shredder {
    pub(crate) fn new(shape: &Shape, limits: ShapeLimits) -> Shredder {
        Shredder {
            shape: shape.clone(),
            cost: BatchCost::new(shape, limits),
            misfits: Misfits::default(),
            cells: Cells::default(),
            overflow: StringViewBuilder::with_capacity(0),
            any_overflow: false,
            rows: 0,
        }
    }

    /// Appends an event as the next row.
    pub(crate) fn add(&mut self, event: Item<'_>) {
        let Shape { fields, senders } = &mut self.shape;
        let counts = Counts { cost: &mut self.cost, misfits: &mut self.misfits, senders };
        let spilled = walk(event, self.rows, fields, &mut self.cells, counts);
        if spilled.is_empty() {
            self.overflow.append_null();
        } else {
            self.any_overflow = true;
            self.overflow.append_value(Value::Object(spilled).to_string());
        }
        self.rows += 1;
    }

    /// The fields that have had values of another kind.
    pub(crate) fn misfits(&self) -> &Misfits {
        &self.misfits
    }

    /// Whether the events so far need another schema than the shredder was made with.
    pub(crate) fn has_grown(&self) -> bool {
        self.cost.changed
    }

    /// Scalars so far, those in lists included.
    pub(crate) fn values(&self) -> usize {
        self.cost.values
    }

    /// Whether the batch should end here; see [`BatchCost::is_full`].
    pub(crate) fn is_full(&self) -> bool {
        self.cost.is_full(self.rows)
    }

    /// The batch, and the schema if it has grown. `bytes` is the length of the events as JSON.
    pub(crate) fn finish(mut self, bytes: usize) -> Result<(RecordBatch, Option<Shape>)> {
        let mut uses = Vec::new();
        self.cells.measure(&self.shape.fields, self.rows, "", &mut uses);
        let sparse = sparse_columns::choose_columns(&uses, bytes);
        let mut spilling = OverflowWriter::new(&sparse);
        let mut fields = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (name, array) in self.cells.finish(&self.shape.fields, self.rows, "", &mut spilling)? {
            fields.push(top_field(name, array.data_type().clone()));
            arrays.push(array);
        }
        let own = self.any_overflow.then(|| self.overflow.finish());
        if let Some(array) = spilling.finish(own.as_ref(), self.rows)? {
            fields.push(field(OVERFLOW, array.data_type().clone()));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, sparse.metadata()));
        let batch = RecordBatch::try_new(schema, arrays)?;
        Ok((batch, self.cost.changed.then_some(self.shape)))
    }
}
