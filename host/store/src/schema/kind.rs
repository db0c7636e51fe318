//! What can stand at a path of a source, and the named fields of a record.
//!
//! A leaf keeps the type of its first value, with one exception: integers become floats as long as no integer loses
//! digits. Any other value that arrives later marks the path as *mixed*. From then on readers see text: of the leaf, or
//! of the overflow (JSON text for arrays and records).
//!
//! A record that once held two elements is a list of records from then on. A value in its place that is not a record is
//! shown beside it, in the hidden field [`UNLIKE_FIELD`](tidegate_model::UNLIKE_FIELD). Fields without a column of
//! their own (too many, too deep, too long a name) are read from the overflow, in the hidden field
//! [`REST_FIELD`](tidegate_model::REST_FIELD) of their record.
//!
//! Segments keep the columns that they were written with; readers convert them.

use std::collections::HashMap;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};
use tidegate_model::{REST_FIELD, UNLIKE_FIELD};

use crate::schema::arrow_fields::{field, list_of, presence};

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

/// What a path holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// One value. `wide`: has held an integer that no float represents exactly. `mixed`: has held other types; see
    /// above.
    Scalar { ty: Scalar, wide: bool, mixed: bool },
    /// An array of scalars of one type.
    List {
        ty: Scalar,
        wide: bool,
        #[serde(default, skip_serializing_if = "is_false")]
        mixed: bool,
    },
    /// A record. `many`: some row held several. `unlike`: some row held a value that is not a record.
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

    /// The kind of a field that gets a column now, in a record of which some fields had no column because there were
    /// too many. It may have been one of those, so readers must look into the overflow as well.
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

    /// The Arrow type that readers see.
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

    /// A type in which a batch can store nothing but NULL. A record is reduced to its presence, because Parquet has no
    /// struct without children.
    pub(crate) fn null_type(&self) -> DataType {
        match self {
            Kind::Scalar { ty, .. } => ty.data_type(),
            Kind::List { ty, .. } => list_of(ty.data_type()),
            Kind::Record { .. } => DataType::Struct([presence()].into_iter().collect()),
        }
    }

    /// Whether readers of this path must look into the overflow in every batch.
    pub(crate) fn reads_overflow(&self) -> bool {
        match self {
            Kind::Scalar { mixed, .. } | Kind::List { mixed, .. } => *mixed,
            Kind::Record { unlike, fields, .. } => {
                *unlike || fields.rest || fields.iter().any(|(_, kind)| kind.reads_overflow())
            }
        }
    }

    /// How many fields the path and all below it count as, for
    /// [`StoreOptions::max_fields`](crate::StoreOptions::max_fields): a leaf one, a record two, because it has a hidden
    /// field besides its own.
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
    /// Some of those got no column because there were too many, and may get one later.
    pub(crate) crowded: bool,
}

/// The serialized form of the fields of a record. Changing it would make stored schemas unreadable.
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

    pub(crate) fn count(&self) -> usize {
        self.entries.iter().map(|(_, kind)| kind.count()).sum()
    }

    pub(crate) fn overflow(&self) -> bool {
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
