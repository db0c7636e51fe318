//! When each column of a source was last written, so that a column that nothing holds any more frees its place.
//!
//! The number of fields of a source is bounded. Fields that came by mistake, or from one sender's junk, would keep
//! their places for ever. So a source whose bound is half used records for each path when the newest segment with it
//! was made. Once retention has dropped that segment, and no batch in memory has the column, the path is removed from
//! the schema.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::arrow::datatypes::{DataType, Fields as ArrowFields, Schema};
use tidegate_model::PRESENCE_FIELD;

use crate::{
    field_names::{ID, MESSAGE, OVERFLOW, TIMESTAMP},
    overflow::sparse_paths::SparsePaths,
    schema::{
        json_pointer::push_pointer,
        kind::{Fields, Kind},
        shape::Shape,
    },
};

/// For each path, by JSON pointer: when the newest segment with it was made, in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ColumnAges(BTreeMap<String, i64>);

impl ColumnAges {
    /// From the form that the catalog stores. Text that cannot be read counts as no record.
    pub(crate) fn of_text(text: Option<&str>) -> ColumnAges {
        ColumnAges(text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
    }

    /// The form that the catalog stores; `None` if nothing is recorded.
    pub(crate) fn to_text(&self) -> Option<String> {
        if self.0.is_empty() { None } else { serde_json::to_string(&self.0).ok() }
    }

    /// Records that a segment with these columns was made at `at`. A path without a record counts as written at that
    /// time, because some earlier segment has it.
    pub(crate) fn note(&mut self, shape: &Shape, schema: &Schema, at: i64) {
        let mut known = BTreeSet::new();
        paths_of_shape(&shape.fields, "", &mut known);
        self.0.retain(|pointer, _| known.contains(pointer));
        for pointer in &known {
            self.0.entry(pointer.clone()).or_insert(at);
        }
        for pointer in paths_of_schema(schema) {
            if let Some(seen) = self.0.get_mut(&pointer) {
                // A merged segment is as old as the youngest of those that it replaces.
                *seen = at.max(*seen);
            }
        }
    }

    /// The schema without the paths that neither a segment made at or after `oldest` has, nor a batch in `memory`.
    /// `None` if all paths stay.
    pub(crate) fn shrink<'s>(
        &self,
        shape: &Shape,
        memory: impl IntoIterator<Item = &'s Schema>,
        oldest: i64,
    ) -> Option<Shape> {
        if self.0.is_empty() {
            return None;
        }
        let held: BTreeSet<String> = memory.into_iter().flat_map(paths_of_schema).collect();
        let stays = |pointer: &str| held.contains(pointer) || self.0.get(pointer).is_none_or(|seen| *seen >= oldest);
        let mut shrunk = Shape { fields: kept(&shape.fields, "", &stays), senders: shape.senders.clone() };
        shrunk.senders.retain_paths_of(&shrunk.fields);
        (shrunk.count() < shape.count()).then_some(shrunk)
    }
}

fn kept(fields: &Fields, above: &str, stays: &dyn Fn(&str) -> bool) -> Fields {
    let mut out = Fields::default();
    (out.rest, out.crowded) = (fields.rest, fields.crowded);
    for (name, kind) in fields.iter() {
        let mut pointer = above.to_owned();
        push_pointer(&mut pointer, name);
        let always = above.is_empty() && [ID, TIMESTAMP, MESSAGE].contains(&name);
        if !always && !stays(&pointer) {
            // Values of it in the overflow are read like those of any field without a column.
            out.rest |= kind.reads_overflow();
            out.crowded |= kind.reads_overflow();
            continue;
        }
        let kind = match kind {
            Kind::Record { many, unlike, fields } => {
                Kind::Record { many: *many, unlike: *unlike, fields: kept(fields, &pointer, stays) }
            }
            leaf => leaf.clone(),
        };
        out.push(name.to_owned(), kind);
    }
    out
}

fn paths_of_shape(fields: &Fields, above: &str, out: &mut BTreeSet<String>) {
    for (name, kind) in fields.iter() {
        let mut pointer = above.to_owned();
        push_pointer(&mut pointer, name);
        if let Kind::Record { fields, .. } = kind {
            paths_of_shape(fields, &pointer, out);
        }
        out.insert(pointer);
    }
}

/// The paths of a batch or segment: those with a column and the sparse ones.
fn paths_of_schema(schema: &Schema) -> BTreeSet<String> {
    fn below(fields: &ArrowFields, above: &str, out: &mut BTreeSet<String>) {
        for field in fields.iter().filter(|field| field.name() != PRESENCE_FIELD) {
            let mut pointer = above.to_owned();
            push_pointer(&mut pointer, field.name());
            match field.data_type() {
                DataType::Struct(fields) => below(fields, &pointer, out),
                DataType::List(item) => {
                    if let DataType::Struct(fields) = item.data_type() {
                        below(fields, &pointer, out);
                    }
                }
                _ => {}
            }
            out.insert(pointer);
        }
    }
    let mut out = SparsePaths::of_schema(schema).into_paths();
    below(schema.fields(), "", &mut out);
    out.remove(&format!("/{OVERFLOW}"));
    out
}
