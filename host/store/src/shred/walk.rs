//! Visits the fields of one event and appends each value to its column, or to the overflow of the row. New fields
//! extend the schema.

use std::fmt::Write;

use serde_json::{Map, Value};
use tidegate_model::HIDDEN_FIELDS;

use crate::{
    field_names::{METADATA, OVERFLOW, PLACE},
    ingest::tape::{Atom, Entries, Item, View},
    schema::{
        json_pointer::push_pointer,
        kind::{Fields, Kind, Scalar},
        senders::{Change, Sender, Senders},
        shape::Shape,
    },
    shred::{
        batch_cost::BatchCost,
        leaf_values::{Appended, append_list, append_scalar},
        limits::MAX_KEY_BYTES,
        misfits::Misfits,
        record_column::{Cells, Column, RecordColumn},
        sender::sender_of,
        value_class::{ValueClass, classify, is_sparse},
    },
};

/// Top-level fields that always get a column. `project` distinguishes tenants; nearly every query reads `metadata`.
const ALWAYS_COLUMNS: [&str; 2] = ["project", METADATA];

/// The pointer of a field `_overflow` that the sender sent; see [`crate::ingest::normalise`].
const OWN_OVERFLOW: &str = "/_overflow";

/// What is counted of a batch.
pub(crate) struct Counts<'s> {
    pub(crate) cost: &'s mut BatchCost,
    pub(crate) misfits: &'s mut Misfits,
    pub(crate) senders: &'s mut Senders,
}

enum Step<'v> {
    Key(&'v str),
    Index(usize),
}

/// Appends the fields of an event to the columns, as the given row. Returns what goes to the overflow of the row: values
/// by JSON pointer.
pub(crate) fn walk(
    event: Item<'_>,
    row: usize,
    fields: &mut Fields,
    cells: &mut Cells,
    Counts { cost, misfits, senders }: Counts<'_>,
) -> Map<String, Value> {
    let mut walk = EventWalk { cost, misfits, senders, event, sender: None, path: Vec::new(), spilled: Map::new() };
    if let View::Object(event) = event.view() {
        walk.object(fields, cells, row, event, 0);
    }
    walk.spilled
}

struct EventWalk<'s, 'v> {
    cost: &'s mut BatchCost,
    misfits: &'s mut Misfits,
    senders: &'s mut Senders,
    event: Item<'v>,
    /// Whose the event is, once that is asked.
    sender: Option<Sender>,
    path: Vec<Step<'v>>,
    /// The overflow of the row.
    spilled: Map<String, Value>,
}

impl<'v> EventWalk<'_, 'v> {
    fn object(&mut self, fields: &mut Fields, cells: &mut Cells, slot: usize, object: Entries<'v>, depth: usize) {
        for (nth, (key, value)) in object.enumerate() {
            if depth == 0 && key == OVERFLOW {
                if let View::Object(earlier) = value.view() {
                    self.spilled.extend(earlier.map(|(key, value)| (key.to_owned(), value.to_value())));
                    // A field of this name that the sender sent has no column; the reserved fields have one.
                    if value.field(OWN_OVERFLOW).is_some() {
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

    /// A key that the source has not had before. Its first value decides what it is.
    fn new_key(
        &mut self,
        fields: &mut Fields,
        cells: &mut Cells,
        slot: usize,
        key: &str,
        value: Item<'v>,
        depth: usize,
    ) {
        let is_place = depth == 0 && PLACE.contains(&key);
        let unnameable = key.len() > MAX_KEY_BYTES || HIDDEN_FIELDS.contains(&key) || is_place;
        let found = classify(value);
        let too_deep =
            matches!(found, ValueClass::Record(_) | ValueClass::Records(_)) && depth + 1 >= self.cost.limits.depth;
        let kind = match found {
            ValueClass::Record(_) | ValueClass::Records(_) => (!too_deep).then(Kind::record),
            // The value itself is handled below; it is not a record, and the path is marked `unlike` for it.
            _ if depth == 0 && Shape::must_be_record(key) => Some(Kind::record()),
            ValueClass::Scalar(atom) => Some(Kind::scalar(atom.ty())),
            ValueClass::List(_, ty, _) => Some(Kind::List { ty, wide: false, mixed: false }),
            // The value itself is handled below, and makes it mixed.
            ValueClass::Odd => Some(Kind::scalar(Scalar::Text)),
        };
        let has_place = || (depth == 0 && ALWAYS_COLUMNS.contains(&key)) || self.is_reserved();
        let fits = |kind: &Kind| !unnameable && (self.cost.has_room(kind.count()) || has_place());
        let Some(kind) = kind.filter(fits) else {
            self.mark_rest(fields);
            if !unnameable && !too_deep && !fields.crowded {
                fields.crowded = true;
                self.cost.changed = true;
            }
            return self.spill(value);
        };
        self.cost.count += kind.count();
        self.cost.changed = true;
        let kind = if fields.crowded { kind.after_crowd() } else { kind };
        let position = fields.push(key.to_owned(), kind);
        if let Some(kind) = fields.kind_mut(position) {
            self.value(kind, cells.at(position), slot, value, depth + 1);
        }
    }

    fn value(&mut self, kind: &mut Kind, cell: &mut Option<Column>, row: usize, value: Item<'v>, depth: usize) {
        // Most values are scalars in a column of scalars.
        if let (Kind::Scalar { ty, wide, mixed }, Some(atom)) = (&mut *kind, value.atom()) {
            let before = *ty;
            let appended = append_scalar(self.cost, (ty, wide, *mixed), cell, row, atom);
            if *ty == Scalar::Float && (before == Scalar::Int || !self.senders.is_empty()) {
                let is_fraction = matches!(atom, Atom::Float(_)) || appended == Appended::Rounded;
                self.note(Change::Fraction, before == Scalar::Int, is_fraction);
            }
            return self.complete(appended, mixed, value);
        }
        match (kind, classify(value)) {
            (Kind::List { ty, wide, mixed }, ValueClass::List(items, found, found_wide)) => {
                let appended = append_list(self.cost, (ty, wide, *mixed), cell, row, (items, found, found_wide));
                self.complete(appended, mixed, value);
            }
            (Kind::Record { fields, .. }, ValueClass::Record(object)) => {
                self.cost.records += usize::from(cell.is_none());
                let Column::Record(column) = cell.get_or_insert_with(|| Column::Record(RecordColumn::new())) else {
                    return self.spill(value);
                };
                let slot = column.open_row(row, 1);
                self.object(fields, &mut column.cells, slot, object, depth);
            }
            (Kind::Record { many, fields, .. }, ValueClass::Records(items)) if !is_sparse(&items) => {
                self.cost.records += usize::from(cell.is_none());
                let Column::Record(column) = cell.get_or_insert_with(|| Column::Record(RecordColumn::new())) else {
                    return self.spill(value);
                };
                if items.len() > 1 {
                    if !*many {
                        *many = true;
                        self.cost.changed = true;
                    }
                    self.cost.list_cells += items.len().saturating_mul(fields.iter().count().max(1));
                }
                let was_list = column.is_list();
                let first = column.open_row(row, items.len());
                self.cost.lists += usize::from(!was_list && column.is_list());
                let several = items.len() > 1;
                for (index, item) in items.enumerate() {
                    if several {
                        self.path.push(Step::Index(index));
                    }
                    if let View::Object(object) = item.view() {
                        self.object(fields, &mut column.cells, first + index, object, depth);
                    }
                    if several {
                        self.path.pop();
                    }
                }
            }
            (Kind::Scalar { mixed, .. } | Kind::List { mixed, .. }, _) => self.mixed(mixed, value),
            (Kind::Record { unlike, .. }, _) => self.unlike(unlike, value),
        }
    }

    /// Does what is left after a scalar or list was appended, or was not.
    fn complete(&mut self, appended: Appended, mixed: &mut bool, value: Item<'_>) {
        match appended {
            Appended::Whole => {}
            Appended::Rounded | Appended::OtherColumn => self.spill(value),
            Appended::OtherType => self.mixed(mixed, value),
        }
    }

    /// Whether the current path is reserved (see [`crate::Store::reserve_fields`]).
    fn is_reserved(&self) -> bool {
        if self.cost.limits.reserved.is_empty() {
            return false;
        }
        self.cost.limits.reserved.contains(&self.path_pointer())
    }

    /// The JSON pointer of the current path, without places in lists.
    fn path_pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            if let Step::Key(key) = step {
                push_pointer(&mut pointer, key);
            }
        }
        pointer
    }

    /// Records in the schema that a record has fields without a column.
    fn mark_rest(&mut self, fields: &mut Fields) {
        if !fields.rest {
            fields.rest = true;
            self.cost.changed = true;
        }
    }

    /// Notes who sent a value that changes what readers see at the current path, if it `does`.
    fn note(&mut self, change: Change, is_first: bool, does: bool) {
        if !does {
            return;
        }
        let pointer = self.path_pointer();
        if !is_first && !self.senders.knows(change, &pointer) {
            return;
        }
        let (event, key) = (self.event, self.cost.limits.tenant.clone());
        let sender = self.sender.get_or_insert_with(|| match key {
            Some(names) => sender_of(event, &names),
            None => Sender::Unknown,
        });
        self.cost.changed |= self.senders.note(change, &pointer, is_first, sender);
    }

    /// Handles a value that is not of the type of its leaf or list.
    fn mixed(&mut self, mixed: &mut bool, value: Item<'_>) {
        self.note(Change::Unlike, !*mixed, true);
        self.unlike(mixed, value);
    }

    /// Handles a value of another kind than the path has had so far.
    fn unlike(&mut self, marked: &mut bool, value: Item<'_>) {
        if !*marked {
            *marked = true;
            self.cost.changed = true;
        }
        let pointer = self.pointer();
        self.misfits.count(&pointer);
        self.spilled.insert(pointer, value.to_value());
    }

    fn spill(&mut self, value: Item<'_>) {
        let pointer = self.pointer();
        self.spilled.insert(pointer, value.to_value());
    }

    /// The JSON pointer of the current path.
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) => push_pointer(&mut pointer, key),
                Step::Index(index) => {
                    let _ = write!(pointer, "/{index}");
                }
            }
        }
        pointer
    }
}
