//! JSON events to columns: one pass over the values, which discovers the schema as it goes.
//!
//! Rules in short (the long form is in [`crate::shape`]): a key becomes a column of the type of
//! its first value; what does not fit, is too deep, or would be one leaf too many goes, as exact
//! JSON, to the overflow of its row under its JSON pointer. A pointer holds an index only inside
//! an array that has several elements, because a single record and an array of one are the same.

use std::{fmt::Write, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, RecordBatch, StringViewBuilder},
        datatypes::Schema,
    },
    error::Result,
};
use serde_json::{Map, Value};
use tidegate_model::PRESENCE_FIELD;

use crate::{
    columns::{Cells, Column, Leaf, ListColumn, RecordColumn},
    event::OVERFLOW,
    shape::{Fields, Kind, Scalar, Shape, field, push_pointer, top_field},
};

/// The bounds of a shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caps {
    pub(crate) leaves: usize,
    pub(crate) depth: usize,
}

/// Shreds normalised events, growing `shape` where they hold something new.
///
/// Each event is taken from `events` when its turn comes, and dropped before the next one.
pub(crate) fn shred(
    events: impl IntoIterator<Item = Result<Value>>,
    shape: &mut Arc<Shape>,
    caps: Caps,
) -> Result<RecordBatch> {
    // Most batches change nothing, but finding out needs the walk: work on a copy that is free to
    // change and publish it only if it did.
    let mut grown = Shape::clone(shape);
    let (mut leaves, mut changed) = (grown.leaves(), false);
    let mut cells = Cells::default();
    let mut overflow = StringViewBuilder::new();
    let mut any_overflow = false;
    let mut rows = 0;

    for event in events {
        let event = event?;
        let mut shredder = Shredder { caps, leaves, changed, path: Vec::new(), spilled: Map::new() };
        if let Value::Object(event) = &event {
            shredder.object(&mut grown.fields, &mut cells, rows, event, 0);
        }
        if shredder.spilled.is_empty() {
            overflow.append_null();
        } else {
            any_overflow = true;
            let spilled = Value::Object(shredder.spilled);
            overflow.append_value(spilled.to_string());
        }
        (leaves, changed) = (shredder.leaves, shredder.changed);
        rows += 1;
    }

    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for (name, array) in cells.finish(&grown.fields, rows)? {
        fields.push(top_field(name, array.data_type().clone()));
        arrays.push(array);
    }
    if any_overflow {
        let array: ArrayRef = Arc::new(overflow.finish());
        fields.push(field(OVERFLOW, array.data_type().clone()));
        arrays.push(array);
    }
    if changed {
        *shape = Arc::new(grown);
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

enum Step<'v> {
    Key(&'v str),
    Index(usize),
}

/// What a value is, once and for all tests below.
enum Found<'v> {
    Scalar(Atom<'v>),
    List(&'v [Value], Scalar, bool),
    Record(&'v Map<String, Value>),
    Records(&'v [Value]),
    /// Arrays of arrays and arrays of unlike things.
    Odd,
}

#[derive(Clone, Copy)]
enum Atom<'v> {
    Bool(bool),
    Int(i64),
    Float(f64),
    /// An integer beyond 64 bits signed.
    Huge(u64),
    Text(&'v str),
}

impl Atom<'_> {
    fn ty(self) -> Scalar {
        match self {
            Atom::Bool(_) => Scalar::Bool,
            Atom::Int(_) => Scalar::Int,
            Atom::Float(_) | Atom::Huge(_) => Scalar::Float,
            Atom::Text(_) => Scalar::Text,
        }
    }

    /// An integer of which a float would lose digits.
    fn wide(self) -> bool {
        match self {
            Atom::Int(int) => !exact(int),
            Atom::Huge(int) => int as f64 as u128 != u128::from(int),
            _ => false,
        }
    }
}

/// Whether a float holds this integer exactly.
fn exact(int: i64) -> bool {
    int as f64 as i128 == i128::from(int)
}

fn atom(value: &Value) -> Option<Atom<'_>> {
    match value {
        Value::Bool(b) => Some(Atom::Bool(*b)),
        Value::String(text) => Some(Atom::Text(text)),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Some(Atom::Int(int)),
            (None, Some(huge)) => Some(Atom::Huge(huge)),
            _ => number.as_f64().map(Atom::Float),
        },
        _ => None,
    }
}

fn classify(value: &Value) -> Found<'_> {
    match value {
        Value::Object(map) => Found::Record(map),
        Value::Array(items) => classify_array(items),
        scalar => atom(scalar).map_or(Found::Odd, Found::Scalar),
    }
}

fn classify_array(items: &[Value]) -> Found<'_> {
    if !items.is_empty() && items.iter().all(Value::is_object) {
        return Found::Records(items);
    }
    let mut ty = None;
    let mut wide = false;
    for item in items {
        let Some(atom) = atom(item) else { return Found::Odd };
        if matches!(atom, Atom::Huge(_)) {
            return Found::Odd;
        }
        wide |= atom.wide();
        ty = match (ty, atom.ty()) {
            (None, new) => Some(new),
            (Some(old), new) if old == new => Some(old),
            (Some(Scalar::Int), Scalar::Float) | (Some(Scalar::Float), Scalar::Int) => Some(Scalar::Float),
            _ => return Found::Odd,
        };
    }
    match ty {
        // Digits would be lost: keep the array as it came.
        Some(Scalar::Float) if wide => Found::Odd,
        Some(ty) => Found::List(items, ty, wide),
        None => Found::Odd,
    }
}

struct Shredder<'v> {
    caps: Caps,
    leaves: usize,
    changed: bool,
    path: Vec<Step<'v>>,
    /// The overflow of the row at hand.
    spilled: Map<String, Value>,
}

impl<'v> Shredder<'v> {
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
                }
                continue;
            }
            self.path.push(Step::Key(key));
            if depth > 0 && key == PRESENCE_FIELD {
                self.spill(value);
                self.path.pop();
                continue;
            }
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
        let found = classify(value);
        let record_only = depth == 0 && Shape::must_be_record(key);
        let kind = match found {
            Found::Record(_) | Found::Records(_) if depth + 1 < self.caps.depth => {
                Kind::Record { many: false, fields: Fields::default() }
            }
            Found::Scalar(atom) if !record_only && self.leaves < self.caps.leaves => Kind::scalar(atom.ty()),
            Found::List(_, ty, _) if !record_only && self.leaves < self.caps.leaves => Kind::List { ty, wide: false },
            _ => return self.spill(value),
        };
        let is_record = matches!(kind, Kind::Record { .. });
        let position = fields.push(key.to_owned(), kind);
        if !is_record {
            self.leaves += 1;
            self.changed = true;
        }
        let mut barren = false;
        if let Some(kind) = fields.kind_mut(position) {
            self.value(kind, cells.at(position), slot, value, depth + 1);
            barren = matches!(kind, Kind::Record { fields, .. } if fields.is_empty());
        }
        // A record none of whose values became a column would be a struct without children.
        if barren {
            fields.pop();
            cells.clear(position);
        }
    }

    fn value(&mut self, kind: &mut Kind, cell: &mut Option<Column>, row: usize, value: &'v Value, depth: usize) {
        match (kind, classify(value)) {
            (Kind::Scalar { ty, wide, mixed }, Found::Scalar(atom)) => {
                self.scalar((ty, wide, mixed), cell, row, value, atom);
            }
            (Kind::List { ty, wide }, Found::List(items, found, found_wide)) => {
                self.list((ty, wide), cell, row, value, (items, found, found_wide));
            }
            (Kind::Record { fields, .. }, Found::Record(object)) if depth < self.caps.depth => {
                let Column::Record(column) = cell.get_or_insert_with(|| Column::Record(RecordColumn::new())) else {
                    return self.spill(value);
                };
                let slot = column.open_row(row, 1);
                self.object(fields, &mut column.cells, slot, object, depth);
            }
            (Kind::Record { many, fields }, Found::Records(items)) if depth < self.caps.depth => {
                let Column::Record(column) = cell.get_or_insert_with(|| Column::Record(RecordColumn::new())) else {
                    return self.spill(value);
                };
                if items.len() > 1 && !*many {
                    *many = true;
                    self.changed = true;
                }
                let first = column.open_row(row, items.len());
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
            _ => self.spill(value),
        }
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
            self.changed = true;
        }
        let Column::Leaf(leaf) = cell.get_or_insert_with(|| Column::Leaf(Leaf::new(*ty))) else {
            return self.spill(value);
        };
        if *ty == Scalar::Float {
            leaf.widen();
        }
        leaf.pad(row);
        match (leaf, atom) {
            (Leaf::Bool(b), Atom::Bool(v)) => b.append_value(v),
            (Leaf::Text(b), Atom::Text(v)) => b.append_value(v),
            (Leaf::Time(b), Atom::Int(v)) => b.append_value(v),
            (Leaf::Int(b), Atom::Int(v)) => {
                b.append_value(v);
                if !exact(v) && !*wide {
                    *wide = true;
                    self.changed = true;
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
            _ => {
                if !*mixed {
                    *mixed = true;
                    self.changed = true;
                }
                self.spill(value);
            }
        }
    }

    fn list(
        &mut self,
        (ty, wide): (&mut Scalar, &mut bool),
        cell: &mut Option<Column>,
        row: usize,
        value: &'v Value,
        (items, found, found_wide): (&'v [Value], Scalar, bool),
    ) {
        if (*ty, found) == (Scalar::Int, Scalar::Float) && !*wide {
            *ty = Scalar::Float;
            self.changed = true;
        }
        let fits = *ty == found || (*ty == Scalar::Float && found == Scalar::Int && !found_wide);
        if !fits {
            return self.spill(value);
        }
        let Column::List(list) = cell.get_or_insert_with(|| Column::List(ListColumn::new(*ty))) else {
            return self.spill(value);
        };
        if *ty == Scalar::Float {
            list.values.widen();
        }
        if found_wide && !*wide {
            *wide = true;
            self.changed = true;
        }
        list.pad(row);
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
