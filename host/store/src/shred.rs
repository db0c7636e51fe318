//! JSON events to columns: one pass over the values, which discovers the schema as it goes.
//!
//! Rules in short (the long form is in [`crate::shape`]): a key becomes a column of the type of
//! its first value; what does not fit, is too deep, has too long a name, or would be one column too
//! many goes, as exact JSON, to the overflow of its row under its JSON pointer. A pointer holds an
//! index only inside an array that has several elements, because a single record and an array of one
//! are the same.
//!
//! A finished column costs each row of its batch a place, whatever the events hold. So columns that hold
//! next to nothing go to the overflow at the end ([`crate::sparse`]), and a batch ends when it holds much
//! ([`Shredder::is_full`]).

use std::{collections::BTreeSet, fmt::Write, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, RecordBatch, StringViewBuilder},
        datatypes::Schema,
    },
    error::Result,
};
use serde_json::{Map, Value};
use tidegate_model::HIDDEN_FIELDS;

use crate::{
    classify::{Atom, Found, atom, classify, exact, is_sparse},
    columns::{Cells, Column, Leaf, LeafColumn, ListColumn, RecordColumn},
    event::{METADATA, OVERFLOW},
    shape::{Fields, Kind, Scalar, Shape, field, push_pointer, top_field},
    sparse,
    spilling::Spilling,
};

/// The longest name of a column, in bytes. Names stand in the catalog, in every footer and in every
/// plan; a field with a longer one is read from the overflow.
pub(crate) const MAX_KEY_BYTES: usize = 128;

/// The cells (a column's place in a row) of one batch: 16 bytes each for text.
const MAX_CELLS: usize = 1 << 20;

/// Rows of which a column of records takes as much as one cell does.
const ROWS_OF_A_CELL: usize = 32;

/// Top-level fields that have a column in any case: by the one, tenants are told apart.
const ALWAYS_COLUMNS: [&str; 2] = ["project", METADATA];

/// Where an event's own field `_overflow` is kept; see [`crate::event`].
const OWN_OVERFLOW: &str = "/_overflow";

/// The bounds of a shape.
#[derive(Debug, Clone)]
pub(crate) struct Caps {
    /// See [`StoreOptions::max_fields`](crate::StoreOptions::max_fields).
    pub(crate) fields: usize,
    pub(crate) depth: usize,
    /// Pointers of fields that have a column in any case.
    pub(crate) reserved: Arc<BTreeSet<String>>,
}

/// Makes a batch of normalised events, growing the shape where they hold something new.
#[derive(Debug)]
pub(crate) struct Shredder {
    /// A copy that is free to change; it counts only if it did.
    shape: Shape,
    state: State,
    cells: Cells,
    overflow: StringViewBuilder,
    any_overflow: bool,
    rows: usize,
}

impl Shredder {
    pub(crate) fn new(shape: &Shape, caps: Caps) -> Shredder {
        let shape = shape.clone();
        let state =
            State { caps, count: shape.count(), changed: false, values: 0, lists: 0, records: 0, list_cells: 0 };
        let overflow = StringViewBuilder::with_capacity(0);
        Shredder { shape, state, cells: Cells::default(), overflow, any_overflow: false, rows: 0 }
    }

    /// The next row.
    pub(crate) fn add(&mut self, event: &Value) {
        let mut walk = Walk { state: &mut self.state, path: Vec::new(), spilled: Map::new() };
        if let Value::Object(event) = event {
            walk.object(&mut self.shape.fields, &mut self.cells, self.rows, event, 0);
        }
        let spilled = walk.spilled;
        if spilled.is_empty() {
            self.overflow.append_null();
        } else {
            self.any_overflow = true;
            self.overflow.append_value(Value::Object(spilled).to_string());
        }
        self.rows += 1;
    }

    /// Whether the batch should end here: it holds much, or columns that cost each row something.
    pub(crate) fn is_full(&self) -> bool {
        let State { values, lists, records, list_cells, .. } = self.state;
        let each_row = self.rows.saturating_mul(lists + records / ROWS_OF_A_CELL);
        values.saturating_add(list_cells).saturating_add(each_row) > MAX_CELLS
    }

    /// The batch, and the shape if it has grown. The events had so many bytes as JSON.
    pub(crate) fn finish(mut self, bytes: usize) -> Result<(RecordBatch, Option<Shape>)> {
        let mut uses = Vec::new();
        self.cells.measure(&self.shape.fields, self.rows, "", &mut uses);
        let sparse = sparse::choose_columns(&uses, bytes);
        let mut spilling = Spilling::new(&sparse);
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
        Ok((batch, self.state.changed.then_some(self.shape)))
    }
}

enum Step<'v> {
    Key(&'v str),
    Index(usize),
}

/// What a batch costs so far, and what its shape may still take.
#[derive(Debug)]
struct State {
    caps: Caps,
    /// What the shape counts.
    count: usize,
    changed: bool,
    /// Scalars of this batch.
    values: usize,
    /// Columns of this batch that hold four bytes for each row: lists of scalars, and of records.
    lists: usize,
    /// Columns of records, which hold some bits for each row.
    records: usize,
    /// Cells in lists of records.
    list_cells: usize,
}

impl State {
    /// Whether the shape has room for this much more.
    fn has_room(&self, count: usize) -> bool {
        self.count + count <= self.caps.fields
    }
}

/// One event on its way into the columns.
struct Walk<'s, 'v> {
    state: &'s mut State,
    path: Vec<Step<'v>>,
    /// The overflow of the row.
    spilled: Map<String, Value>,
}

impl<'v> Walk<'_, 'v> {
    fn object(
        &mut self,
        fields: &mut Fields,
        cells: &mut Cells,
        slot: usize,
        object: &'v Map<String, Value>,
        depth: usize,
    ) {
        for (nth, (key, value)) in object.iter().enumerate() {
            if depth == 0 && key == OVERFLOW {
                if let Value::Object(earlier) = value {
                    self.spilled.extend(earlier.iter().map(|(k, v)| (k.clone(), v.clone())));
                    // An event's own field of this name; the others have a column.
                    if earlier.contains_key(OWN_OVERFLOW) {
                        self.mark_rest(fields);
                    }
                }
                continue;
            }
            self.path.push(Step::Key(key));
            match cells.locate(fields, nth, key) {
                Some(position) => {
                    if let Some(kind) = fields.kind_mut(position) {
                        self.value(kind, cells.at(position), slot, value, depth + 1);
                    }
                }
                None => self.new_key(fields, cells, slot, key, value, depth),
            }
            self.path.pop();
        }
    }

    /// A key that the source never had: its first value decides what it is.
    fn new_key(
        &mut self,
        fields: &mut Fields,
        cells: &mut Cells,
        slot: usize,
        key: &str,
        value: &'v Value,
        depth: usize,
    ) {
        let unnameable = key.len() > MAX_KEY_BYTES || HIDDEN_FIELDS.contains(&key);
        let found = classify(value);
        let too_deep = matches!(found, Found::Record(_) | Found::Records(_)) && depth + 1 >= self.state.caps.depth;
        let kind = match found {
            Found::Record(_) | Found::Records(_) => (!too_deep).then(Kind::record),
            // The value itself comes right after, and is marked as what it is.
            _ if depth == 0 && Shape::must_be_record(key) => Some(Kind::record()),
            Found::Scalar(atom) => Some(Kind::scalar(atom.ty())),
            Found::List(_, ty, _) => Some(Kind::List { ty, wide: false, mixed: false }),
            Found::Odd => Some(Kind::Scalar { ty: Scalar::Text, wide: false, mixed: true }),
        };
        let has_place = || (depth == 0 && ALWAYS_COLUMNS.contains(&key)) || self.is_reserved();
        let fits = |kind: &Kind| !unnameable && (self.state.has_room(kind.count()) || has_place());
        let Some(kind) = kind.filter(fits) else {
            self.mark_rest(fields);
            if !unnameable && !too_deep && !fields.crowded {
                fields.crowded = true;
                self.state.changed = true;
            }
            return self.spill(value);
        };
        self.state.count += kind.count();
        self.state.changed = true;
        let kind = if fields.crowded { kind.after_crowd() } else { kind };
        let position = fields.push(key.to_owned(), kind);
        if let Some(kind) = fields.kind_mut(position) {
            self.value(kind, cells.at(position), slot, value, depth + 1);
        }
    }

    fn value(&mut self, kind: &mut Kind, cell: &mut Option<Column>, row: usize, value: &'v Value, depth: usize) {
        match (kind, classify(value)) {
            (Kind::Scalar { ty, wide, mixed }, Found::Scalar(atom)) => {
                self.scalar((ty, wide, mixed), cell, row, value, atom);
            }
            (Kind::List { ty, wide, mixed }, Found::List(items, found, found_wide)) => {
                self.list((ty, wide, mixed), cell, row, value, (items, found, found_wide));
            }
            (Kind::Record { fields, .. }, Found::Record(object)) => {
                self.state.records += usize::from(cell.is_none());
                let Column::Record(column) = cell.get_or_insert_with(|| Column::Record(RecordColumn::new())) else {
                    return self.spill(value);
                };
                let slot = column.open_row(row, 1);
                self.object(fields, &mut column.cells, slot, object, depth);
            }
            (Kind::Record { many, fields, .. }, Found::Records(items)) if !is_sparse(items) => {
                self.state.records += usize::from(cell.is_none());
                let Column::Record(column) = cell.get_or_insert_with(|| Column::Record(RecordColumn::new())) else {
                    return self.spill(value);
                };
                if items.len() > 1 {
                    if !*many {
                        *many = true;
                        self.state.changed = true;
                    }
                    self.state.list_cells += items.len().saturating_mul(fields.iter().count().max(1));
                }
                let was_list = column.is_list();
                let first = column.open_row(row, items.len());
                self.state.lists += usize::from(!was_list && column.is_list());
                for (index, item) in items.iter().enumerate() {
                    if items.len() > 1 {
                        self.path.push(Step::Index(index));
                    }
                    if let Value::Object(object) = item {
                        self.object(fields, &mut column.cells, first + index, object, depth);
                    }
                    if items.len() > 1 {
                        self.path.pop();
                    }
                }
            }
            (
                Kind::Scalar { mixed: unlike, .. } | Kind::List { mixed: unlike, .. } | Kind::Record { unlike, .. },
                _,
            ) => {
                self.unlike(unlike, value);
            }
        }
    }

    /// Whether the field at hand has a column in any case.
    fn is_reserved(&self) -> bool {
        if self.state.caps.reserved.is_empty() {
            return false;
        }
        let mut pointer = String::new();
        for step in &self.path {
            if let Step::Key(key) = step {
                push_pointer(&mut pointer, key);
            }
        }
        self.state.caps.reserved.contains(&pointer)
    }

    /// Says that a record has fields without a column.
    fn mark_rest(&mut self, fields: &mut Fields) {
        if !fields.rest {
            fields.rest = true;
            self.state.changed = true;
        }
    }

    /// A value of another kind than the path has held so far.
    fn unlike(&mut self, marked: &mut bool, value: &Value) {
        if !*marked {
            *marked = true;
            self.state.changed = true;
        }
        self.spill(value);
    }

    fn scalar(
        &mut self,
        (ty, wide, mixed): (&mut Scalar, &mut bool, &mut bool),
        cell: &mut Option<Column>,
        row: usize,
        value: &'v Value,
        atom: Atom<'v>,
    ) {
        // Integers widen once, and only if none of them, ever, would lose digits.
        let widens = matches!((*ty, atom), (Scalar::Int, Atom::Float(_))) && !*wide && !*mixed;
        if widens {
            *ty = Scalar::Float;
            self.state.changed = true;
        }
        let Column::Leaf(leaf) = cell.get_or_insert_with(|| Column::Leaf(LeafColumn::new(*ty))) else {
            return self.spill(value);
        };
        if *ty == Scalar::Float {
            leaf.values.widen();
        }
        match (&mut leaf.values, atom) {
            (Leaf::Bool(b), Atom::Bool(v)) => b.append_value(v),
            (Leaf::Text(b), Atom::Text(v)) => b.append_value(v),
            (Leaf::Time(b), Atom::Int(v)) => b.append_value(v),
            (Leaf::Int(b), Atom::Int(v)) => {
                b.append_value(v);
                if !exact(v) && !*wide {
                    *wide = true;
                    self.state.changed = true;
                }
            }
            (Leaf::Float(b), Atom::Float(v)) => b.append_value(v),
            // The nearest float for arithmetic; the digits, if any are lost, in the overflow.
            (Leaf::Float(b), Atom::Int(v)) => {
                b.append_value(v as f64);
                if atom.wide() {
                    self.spill(value);
                }
            }
            (Leaf::Float(b), Atom::Huge(v)) => {
                b.append_value(v as f64);
                if atom.wide() {
                    self.spill(value);
                }
            }
            _ => return self.unlike(mixed, value),
        }
        leaf.end_value(row);
        self.state.values += 1;
    }

    fn list(
        &mut self,
        (ty, wide, mixed): (&mut Scalar, &mut bool, &mut bool),
        cell: &mut Option<Column>,
        row: usize,
        value: &'v Value,
        (items, found, found_wide): (&'v [Value], Scalar, bool),
    ) {
        if (*ty, found) == (Scalar::Int, Scalar::Float) && !*wide && !*mixed {
            *ty = Scalar::Float;
            self.state.changed = true;
        }
        let fits = *ty == found || (*ty == Scalar::Float && found == Scalar::Int && !found_wide);
        if !fits {
            return self.unlike(mixed, value);
        }
        self.state.lists += usize::from(cell.is_none());
        let Column::List(list) = cell.get_or_insert_with(|| Column::List(ListColumn::new(*ty))) else {
            return self.spill(value);
        };
        if *ty == Scalar::Float {
            list.values.widen();
        }
        if found_wide && !*wide {
            *wide = true;
            self.state.changed = true;
        }
        list.pad(row);
        self.state.values += items.len();
        for item in items {
            match (&mut list.values, atom(item)) {
                (Leaf::Bool(b), Some(Atom::Bool(v))) => b.append_value(v),
                (Leaf::Text(b), Some(Atom::Text(v))) => b.append_value(v),
                (Leaf::Int(b), Some(Atom::Int(v))) => b.append_value(v),
                (Leaf::Float(b), Some(Atom::Float(v))) => b.append_value(v),
                (Leaf::Float(b), Some(Atom::Int(v))) => b.append_value(v as f64),
                // `fits` rules the rest out.
                _ => {}
            }
        }
        list.end_row();
    }

    fn spill(&mut self, value: &Value) {
        let mut pointer = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) => push_pointer(&mut pointer, key),
                Step::Index(index) => {
                    let _ = write!(pointer, "/{index}");
                }
            }
        }
        self.spilled.insert(pointer, value.clone());
    }
}
