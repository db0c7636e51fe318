//! The logical schema of a source: which paths it has, and what each of them is.
//!
//! A shape only grows. A leaf keeps the type of its first value, except that integers may widen to
//! floats while none of them would lose digits; any other scalar that arrives marks the path as
//! *mixed*: from then on it is read as text, from the leaf or from the overflow. A record that once
//! held two elements is a list for ever. Segments keep the narrower columns that they were written
//! with, and are adapted when read.

use std::{collections::HashMap, sync::Arc};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use serde::{Deserialize, Serialize};
use tidegate_model::PRESENCE_FIELD;

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
    List { ty: Scalar, wide: bool },
    /// A record; `many`: some row held several.
    Record { many: bool, fields: Fields },
}

impl Kind {
    pub(crate) fn scalar(ty: Scalar) -> Kind {
        Kind::Scalar { ty, wide: false, mixed: false }
    }

    /// The type that readers see.
    pub(crate) fn logical_type(&self) -> DataType {
        match self {
            Kind::Scalar { mixed: true, .. } => DataType::Utf8View,
            Kind::Scalar { ty, .. } => ty.data_type(),
            Kind::List { ty, .. } => list_of(ty.data_type()),
            Kind::Record { many, fields } => {
                let children = fields.iter().map(|(name, kind)| field(name, kind.logical_type()));
                let record = DataType::Struct(children.chain([presence()]).collect());
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

    /// Whether some leaf at or below this path is read through the overflow.
    pub(crate) fn has_mixed(&self) -> bool {
        match self {
            Kind::Scalar { mixed, .. } => *mixed,
            Kind::List { .. } => false,
            Kind::Record { fields, .. } => fields.iter().any(|(_, kind)| kind.has_mixed()),
        }
    }

    fn leaves(&self) -> usize {
        match self {
            Kind::Record { fields, .. } => fields.iter().map(|(_, kind)| kind.leaves()).sum(),
            _ => 1,
        }
    }
}

/// The named children of a record, in the order in which they were first seen.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(String, Kind)>", into = "Vec<(String, Kind)>")]
pub(crate) struct Fields {
    entries: Vec<(String, Kind)>,
    index: HashMap<String, usize>,
}

impl Fields {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Kind)> {
        self.entries.iter().map(|(name, kind)| (name.as_str(), kind))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
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

    /// Takes back the last `push`.
    pub(crate) fn pop(&mut self) {
        if let Some((name, _)) = self.entries.pop() {
            self.index.remove(&name);
        }
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl From<Vec<(String, Kind)>> for Fields {
    fn from(entries: Vec<(String, Kind)>) -> Self {
        let index = entries.iter().enumerate().map(|(i, (name, _))| (name.clone(), i)).collect();
        Fields { entries, index }
    }
}

impl From<Fields> for Vec<(String, Kind)> {
    fn from(fields: Fields) -> Self {
        fields.entries
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
    pub(crate) fn leaves(&self) -> usize {
        self.fields.iter().map(|(_, kind)| kind.leaves()).sum()
    }

    /// The schema that the source's table shows; `_overflow` comes last.
    pub(crate) fn schema(&self) -> SchemaRef {
        let columns = self.fields.iter().map(|(name, kind)| top_field(name, kind.logical_type()));
        Arc::new(Schema::new(columns.chain([field(OVERFLOW, DataType::Utf8View)]).collect::<Vec<_>>()))
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
    pub(crate) fn resolve<'k>(&self, column: &str, keys: impl IntoIterator<Item = &'k str>) -> Option<&Kind> {
        let mut kind = self.fields.get(column)?;
        for key in keys {
            match kind {
                Kind::Record { many: false, .. } if key == PRESENCE_FIELD => kind = &PRESENCE,
                Kind::Record { many: false, fields } => kind = fields.get(key)?,
                _ => return None,
            }
        }
        Some(kind)
    }

    /// `metadata` is a record or nothing: one bad first event must not turn it into a text for
    /// ever, since every query goes through it.
    pub(crate) fn must_be_record(name: &str) -> bool {
        name == METADATA
    }
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
    Ok(())
}

fn join_kinds(mine: &mut Kind, theirs: &Kind, path: &str) -> Result<(), String> {
    match (mine, theirs) {
        (Kind::Scalar { ty, wide, mixed }, Kind::Scalar { ty: other, wide: other_wide, mixed: other_mixed })
            if (*ty == Scalar::Time) == (*other == Scalar::Time) =>
        {
            *mixed |= other_mixed;
            *wide |= other_wide;
            if *ty != *other {
                match (*ty, *other) {
                    (Scalar::Int, Scalar::Float) | (Scalar::Float, Scalar::Int) if !*wide => *ty = Scalar::Float,
                    _ => *mixed = true,
                }
            }
            Ok(())
        }
        (Kind::List { ty, wide }, Kind::List { ty: other, wide: other_wide }) => {
            *wide |= other_wide;
            match (*ty, *other) {
                (mine, theirs) if mine == theirs => Ok(()),
                (Scalar::Int, Scalar::Float) | (Scalar::Float, Scalar::Int) if !*wide => {
                    *ty = Scalar::Float;
                    Ok(())
                }
                _ => Err(path.to_owned()),
            }
        }
        (Kind::Record { many, fields }, Kind::Record { many: other_many, fields: other }) => {
            *many |= other_many;
            join_fields(fields, other, path)
        }
        _ => Err(path.to_owned()),
    }
}

/// What stands at the presence of a record.
static PRESENCE: Kind = Kind::Scalar { ty: Scalar::Bool, wide: false, mixed: false };

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
