//! The logical schema of a source: which paths have a column, and what each of them is.
//!
//! A leaf keeps the type of its first value, except that integers may widen to floats while none of
//! them would lose digits. Any other value that arrives marks the path as *mixed*: from then on it is
//! read as text, of the leaf or of the overflow (JSON text of arrays and records). A record that once
//! held two elements is a list for ever; a value in its place that is no record is kept beside it
//! ([`UNLIKE_FIELD`]). Fields without a column of their own (too many, too deep, too long a name) are
//! read from the overflow, as the rest of the record that they stand in ([`REST_FIELD`]). Segments keep
//! the narrower columns that they were written with, and are adapted when read.

use std::{collections::HashMap, sync::Arc};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use serde::{Deserialize, Serialize};
use tidegate_model::{PRESENCE_FIELD, REST_FIELD, UNLIKE_FIELD};

use crate::event::{ID, MESSAGE, METADATA, OVERFLOW, TIMESTAMP};

/// The type of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Scalar {
    Bool,
    Int,
    Float,
    Text,
    /// Only the column `timestamp`.
    Time,
}

impl Scalar {
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Scalar::Bool => DataType::Boolean,
            Scalar::Int => DataType::Int64,
            Scalar::Float => DataType::Float64,
            Scalar::Text => DataType::Utf8View,
            // The one time type of the service: microseconds, no zone, meaning UTC.
            Scalar::Time => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// One value. `wide`: held an integer that no float can hold exactly. `mixed`: see above.
    Scalar { ty: Scalar, wide: bool, mixed: bool },
    /// An array of scalars of one type.
    List {
        ty: Scalar,
        wide: bool,
        #[serde(default, skip_serializing_if = "is_false")]
        mixed: bool,
    },
    /// A record; `many`: some row held several; `unlike`: some row held what is no record.
    Record {
        many: bool,
        #[serde(default, skip_serializing_if = "is_false")]
        unlike: bool,
        fields: Fields,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Kind {
    pub(crate) fn scalar(ty: Scalar) -> Kind {
        Kind::Scalar { ty, wide: false, mixed: false }
    }

    pub(crate) fn record() -> Kind {
        Kind::Record { many: false, unlike: false, fields: Fields::default() }
    }

    /// The kind of a field that has a column from now on, in a record of which some fields had none for want of
    /// room: it may have been among those, so the overflow is looked at as well.
    pub(crate) fn after_crowd(self) -> Kind {
        match self {
            Kind::Scalar { ty, wide, .. } if ty != Scalar::Time => Kind::Scalar { ty, wide, mixed: true },
            Kind::List { ty, wide, .. } => Kind::List { ty, wide, mixed: true },
            Kind::Record { many, fields, .. } => {
                Kind::Record { many, unlike: true, fields: Fields { rest: true, crowded: true, ..fields } }
            }
            time => time,
        }
    }

    /// The type that readers see.
    pub(crate) fn logical_type(&self) -> DataType {
        match self {
            Kind::Scalar { mixed: true, .. } | Kind::List { mixed: true, .. } => DataType::Utf8View,
            Kind::Scalar { ty, .. } => ty.data_type(),
            Kind::List { ty, .. } => list_of(ty.data_type()),
            Kind::Record { many, unlike, fields } => {
                let children = fields.iter().map(|(name, kind)| field(name, kind.logical_type()));
                let rest = fields.rest.then(|| field(REST_FIELD, DataType::Utf8View));
                let unlike = unlike.then(|| field(UNLIKE_FIELD, DataType::Utf8View));
                let record = DataType::Struct(children.chain(rest).chain(unlike).chain([presence()]).collect());
                if *many { list_of(record) } else { record }
            }
        }
    }

    /// A type in which a batch can store nothing but NULL here. A record shrinks to its presence:
    /// Parquet has no struct without children.
    pub(crate) fn null_type(&self) -> DataType {
        match self {
            Kind::Scalar { ty, .. } => ty.data_type(),
            Kind::List { ty, .. } => list_of(ty.data_type()),
            Kind::Record { .. } => DataType::Struct([presence()].into_iter().collect()),
        }
    }

    /// Whether something at or below this path is read from the overflow, whatever a batch is like.
    pub(crate) fn reads_overflow(&self) -> bool {
        match self {
            Kind::Scalar { mixed, .. } | Kind::List { mixed, .. } => *mixed,
            Kind::Record { unlike, fields, .. } => {
                *unlike || fields.rest || fields.iter().any(|(_, kind)| kind.reads_overflow())
            }
        }
    }

    /// What the path and all below it count towards [`StoreOptions::max_fields`](crate::StoreOptions::max_fields):
    /// a leaf one, a record two, because it has a hidden field beside its own.
    pub(crate) fn count(&self) -> usize {
        match self {
            Kind::Record { fields, .. } => 2 + fields.count(),
            _ => 1,
        }
    }
}

/// The named children of a record, in the order in which they were first seen.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "FieldsText", into = "FieldsText")]
pub(crate) struct Fields {
    entries: Vec<(String, Kind)>,
    index: HashMap<String, usize>,
    /// Some record had fields that are not among these.
    pub(crate) rest: bool,
    /// Some of those had no column because there was no room, and may get one.
    pub(crate) crowded: bool,
}

/// How the catalog has the fields of a record.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum FieldsText {
    All(Vec<(String, Kind)>),
    Some { fields: Vec<(String, Kind)>, rest: bool, crowded: bool },
}

impl Fields {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Kind)> {
        self.entries.iter().map(|(name, kind)| (name.as_str(), kind))
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Kind> {
        self.at(self.find(name)?).map(|(_, kind)| kind)
    }

    pub(crate) fn at(&self, position: usize) -> Option<(&str, &Kind)> {
        self.entries.get(position).map(|(name, kind)| (name.as_str(), kind))
    }

    pub(crate) fn kind_mut(&mut self, position: usize) -> Option<&mut Kind> {
        self.entries.get_mut(position).map(|(_, kind)| kind)
    }

    pub(crate) fn push(&mut self, name: String, kind: Kind) -> usize {
        let position = self.entries.len();
        self.index.insert(name.clone(), position);
        self.entries.push((name, kind));
        position
    }

    fn count(&self) -> usize {
        self.entries.iter().map(|(_, kind)| kind.count()).sum()
    }

    fn overflow(&self) -> bool {
        let below = |(_, kind): &(String, Kind)| matches!(kind, Kind::Record { fields, .. } if fields.overflow());
        self.rest || self.entries.iter().any(below)
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries && (self.rest, self.crowded) == (other.rest, other.crowded)
    }
}

impl From<FieldsText> for Fields {
    fn from(text: FieldsText) -> Self {
        let (entries, rest, crowded) = match text {
            FieldsText::All(fields) => (fields, false, false),
            FieldsText::Some { fields, rest, crowded } => (fields, rest, crowded),
        };
        let index = entries.iter().enumerate().map(|(i, (name, _))| (name.clone(), i)).collect();
        Fields { entries, index, rest, crowded }
    }
}

impl From<Fields> for FieldsText {
    fn from(Fields { entries, index: _, rest, crowded }: Fields) -> Self {
        if rest { FieldsText::Some { fields: entries, rest, crowded } } else { FieldsText::All(entries) }
    }
}

/// The shape of a whole source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) fields: Fields,
}

impl Default for Shape {
    fn default() -> Self {
        let mut fields = Fields::default();
        fields.push(ID.to_owned(), Kind::scalar(Scalar::Text));
        fields.push(TIMESTAMP.to_owned(), Kind::scalar(Scalar::Time));
        fields.push(MESSAGE.to_owned(), Kind::scalar(Scalar::Text));
        Shape { fields }
    }
}

impl Shape {
    /// What its paths count towards [`StoreOptions::max_fields`](crate::StoreOptions::max_fields).
    pub(crate) fn count(&self) -> usize {
        self.fields.count()
    }

    /// Whether some event has had fields without a column.
    pub(crate) fn overflows(&self) -> bool {
        self.fields.overflow()
    }

    /// The schema that the source's table shows; `_overflow` comes last.
    pub(crate) fn schema(&self) -> SchemaRef {
        let columns = self.fields.iter().map(|(name, kind)| top_field(name, kind.logical_type()));
        let rest = self.fields.rest.then(|| field(REST_FIELD, DataType::Utf8View));
        let columns = columns.chain(rest).chain([field(OVERFLOW, DataType::Utf8View)]);
        Arc::new(Schema::new(columns.collect::<Vec<_>>()))
    }

    /// Grows by what another shape of the same source has, for segments that come back: what was
    /// written with either is read as one of the two, or as text.
    ///
    /// # Errors
    /// The path at which the two cannot both be read, such as a record here and a number there.
    pub(crate) fn join(&mut self, other: &Shape) -> Result<(), String> {
        let mut grown = self.fields.clone();
        join_fields(&mut grown, &other.fields, "")?;
        self.fields = grown;
        Ok(())
    }

    /// What stands at a column and the keys below it; nothing when a list is in the way.
    pub(crate) fn resolve<'k>(&self, column: &str, keys: impl IntoIterator<Item = &'k str>) -> Option<Part<'_>> {
        let mut part = match column {
            REST_FIELD if self.fields.rest => Part::Rest(&self.fields),
            column => Part::Value(self.fields.get(column)?),
        };
        for key in keys {
            let Part::Value(Kind::Record { many: false, unlike, fields }) = part else { return None };
            part = match key {
                PRESENCE_FIELD => Part::Presence(fields),
                REST_FIELD if fields.rest => Part::Rest(fields),
                UNLIKE_FIELD if *unlike => Part::Unlike,
                key => Part::Value(fields.get(key)?),
            };
        }
        Some(part)
    }

    /// Whether a record above this path, or the event itself, has had fields without a column.
    pub(crate) fn has_rest_above(&self, column: &str, keys: &[&str]) -> bool {
        let mut fields = &self.fields;
        for key in std::iter::once(&column).chain(keys) {
            if fields.rest {
                return true;
            }
            match fields.get(key) {
                Some(Kind::Record { fields: inner, .. }) => fields = inner,
                _ => return false,
            }
        }
        false
    }

    /// `metadata` is a record or nothing: one bad first event must not turn it into a text for
    /// ever, since every query goes through it.
    pub(crate) fn must_be_record(name: &str) -> bool {
        name == METADATA
    }
}

/// What a path of the table's schema names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part<'s> {
    /// A leaf, list or record.
    Value(&'s Kind),
    /// The hidden [`PRESENCE_FIELD`] of a record.
    Presence(&'s Fields),
    /// The hidden [`REST_FIELD`] of a record with these fields.
    Rest(&'s Fields),
    /// The hidden [`UNLIKE_FIELD`] of a record.
    Unlike,
}

fn join_fields(mine: &mut Fields, theirs: &Fields, above: &str) -> Result<(), String> {
    for (name, kind) in theirs.iter() {
        let path = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
        match mine.find(name).and_then(|at| mine.kind_mut(at)) {
            Some(known) => join_kinds(known, kind, &path)?,
            None => {
                mine.push(name.to_owned(), kind.clone());
            }
        }
    }
    mine.rest |= theirs.rest;
    mine.crowded |= theirs.crowded;
    Ok(())
}

/// Integers beside floats become floats where none loses digits; all else that differs is mixed.
fn join_scalars(mine: &mut Scalar, theirs: Scalar, wide: bool, mixed: &mut bool) {
    match (*mine, theirs) {
        (mine, theirs) if mine == theirs => {}
        (Scalar::Int, Scalar::Float) | (Scalar::Float, Scalar::Int) if !wide => *mine = Scalar::Float,
        _ => *mixed = true,
    }
}

fn join_kinds(mine: &mut Kind, theirs: &Kind, path: &str) -> Result<(), String> {
    match (mine, theirs) {
        (Kind::Scalar { ty, wide, mixed }, Kind::Scalar { ty: other, wide: other_wide, mixed: other_mixed })
            if (*ty == Scalar::Time) == (*other == Scalar::Time) =>
        {
            *mixed |= other_mixed;
            *wide |= other_wide;
            join_scalars(ty, *other, *wide, mixed);
            Ok(())
        }
        (Kind::List { ty, wide, mixed }, Kind::List { ty: other, wide: other_wide, mixed: other_mixed }) => {
            *mixed |= other_mixed;
            *wide |= other_wide;
            join_scalars(ty, *other, *wide, mixed);
            Ok(())
        }
        (
            Kind::Record { many, unlike, fields },
            Kind::Record { many: other_many, unlike: other_unlike, fields: other },
        ) => {
            *many |= other_many;
            *unlike |= other_unlike;
            join_fields(fields, other, path)
        }
        _ => Err(path.to_owned()),
    }
}

/// The last child of every record; see [`PRESENCE_FIELD`].
pub(crate) fn presence() -> FieldRef {
    field(PRESENCE_FIELD, DataType::Boolean)
}

/// A nullable field.
pub(crate) fn field(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}

/// A column of a batch, segment or table. Identity and time are never NULL; declaring so lets the
/// planner use the order of `timestamp` whatever NULL order a query asks for.
pub(crate) fn top_field(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, name != ID && name != TIMESTAMP))
}

/// A list of nullable elements.
pub(crate) fn list_of(data_type: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(data_type, true)))
}

/// One step of a JSON pointer, escaped as RFC 6901 asks.
pub(crate) fn push_pointer(pointer: &mut String, key: &str) {
    pointer.push('/');
    for c in key.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}
