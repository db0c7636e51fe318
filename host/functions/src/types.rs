//! The types of the dialect, and how each is held in Arrow.
//!
//! Stored log records are special. A nested object of a log event is *shown* as `ARRAY<STRUCT>` with one element,
//! because clients read it so, but *stored* as a plain struct, because the leaves of a struct can be pruned, filtered and
//! skipped, and those of a list cannot. [`Type::Record`] is that: an array to the dialect, a struct to the engine.
//! `UNNEST` of a record therefore costs nothing.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Fields, TimeUnit};
use tidegate_model::{HIDDEN_FIELDS, PRESENCE_FIELD, REST_FIELD, UNLIKE_FIELD};

/// A type of the dialect.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// The type of `NULL` and of paths that no record ever had.
    Null,
    /// BOOL
    Bool,
    /// INT64
    Int64,
    /// FLOAT64
    Float64,
    /// NUMERIC: a decimal of 29 digits before its point and 9 behind it. Of computed values only.
    Numeric,
    /// BIGNUMERIC: a decimal of 38 digits before its point, or one more, and 38 behind it. Of computed values only.
    BigNumeric,
    /// STRING
    String,
    /// BYTES
    Bytes,
    /// TIMESTAMP: microseconds since the Unix epoch, UTC.
    Timestamp,
    /// DATETIME: a date and time without zone, in microseconds.
    Datetime,
    /// DATE
    Date,
    /// TIME in microseconds.
    Time,
    /// INTERVAL
    Interval,
    /// RANGE of DATE, DATETIME or TIMESTAMP, held as bytes that have its order ([`crate::range`]).
    Range(Box<Type>),
    /// JSON, held as text.
    Json,
    /// ARRAY, held as a list.
    Array(Box<Type>),
    /// STRUCT.
    Struct {
        /// The fields in order.
        fields: Arc<[Field]>,
        /// Whether the struct comes from stored records, whose unknown fields are NULL.
        open: bool,
    },
    /// `ARRAY<STRUCT>` of one element or none, held as a nullable struct. Always from stored
    /// records, so its element is open.
    Record(Arc<[Field]>),
}

/// A named part of a struct or record.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The name as stored; looked up exactly first, then without case.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

impl Type {
    /// The dialect's reading of a stored column.
    pub fn of_stored(data_type: &DataType) -> Self {
        match data_type {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Bool,
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::UInt64 => Self::Int64,
            DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Decimal128(..) => Self::Float64,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Bytes,
            DataType::Timestamp(..) => Self::Timestamp,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Interval(_) => Self::Interval,
            DataType::Struct(fields) => Self::Record(stored_fields(fields)),
            DataType::List(item) | DataType::LargeList(item) => Self::Array(Box::new(match item.data_type() {
                DataType::Struct(fields) => Self::Struct { fields: stored_fields(fields), open: true },
                other => Self::of_stored(other),
            })),
            _ => Self::String,
        }
    }

    /// How the type is held in Arrow where the resolver has to choose (casts, NULLs).
    pub fn arrow(&self) -> DataType {
        match self {
            Self::Null => DataType::Null,
            Self::Bool => DataType::Boolean,
            Self::Int64 => DataType::Int64,
            Self::Float64 => DataType::Float64,
            Self::Numeric => DataType::Decimal128(38, 9),
            Self::BigNumeric => DataType::Decimal256(76, 38),
            Self::String | Self::Json => DataType::Utf8View,
            Self::Bytes | Self::Range(_) => DataType::Binary,
            Self::Timestamp | Self::Datetime => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Interval => DataType::Interval(datafusion::arrow::datatypes::IntervalUnit::MonthDayNano),
            Self::Array(item) => DataType::List(Arc::new(ArrowField::new("item", item.arrow(), true))),
            Self::Struct { fields, .. } | Self::Record(fields) => DataType::Struct(
                fields.iter().map(|field| ArrowField::new(&field.name, field.ty.arrow(), true)).collect::<Fields>(),
            ),
        }
    }

    /// The type of one element, if the type is an array to the dialect. The element of an
    /// unknown path is as unknown.
    pub fn element(&self) -> Option<Type> {
        match self {
            Self::Record(fields) => Some(Self::Struct { fields: Arc::clone(fields), open: true }),
            Self::Array(item) => Some((**item).clone()),
            Self::Null => Some(Self::Null),
            _ => None,
        }
    }

    /// How many columns the type is held in: one, or those of all its fields. Counting ends at `most`, because types that
    /// fields share may have too many in total.
    pub fn width(&self, most: usize) -> usize {
        match self {
            Self::Array(item) => item.width(most),
            Self::Struct { fields, .. } | Self::Record(fields) => fields
                .iter()
                .fold(1, |width, field| if width > most { width } else { width + field.ty.width(most - width) }),
            _ => 1,
        }
    }

    /// Whether it is a type of numbers.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Int64 | Self::Float64) || self.is_decimal()
    }

    /// Whether it is NUMERIC or BIGNUMERIC.
    pub fn is_decimal(&self) -> bool {
        matches!(self, Self::Numeric | Self::BigNumeric)
    }

    /// Whether it is NUMERIC or BIGNUMERIC, or has such values in it.
    pub fn holds_decimal(&self) -> bool {
        match self {
            Self::Array(item) => item.holds_decimal(),
            Self::Struct { fields, .. } | Self::Record(fields) => fields.iter().any(|field| field.ty.holds_decimal()),
            other => other.is_decimal(),
        }
    }

    /// Whether a value is one value: no list, struct or JSON.
    pub fn is_plain(&self) -> bool {
        !matches!(self, Self::Array(_) | Self::Record(_) | Self::Struct { .. } | Self::Json)
    }

    /// Whether the engine can order values. Equal INTERVALs are held differently (24 hours, a day).
    pub fn is_sortable(&self) -> bool {
        self.is_plain() && *self != Self::Interval
    }

    /// Whether a value can be a group or a key of DISTINCT.
    pub fn is_groupable(&self) -> bool {
        match self {
            Self::Array(item) => item.is_groupable(),
            Self::Struct { fields, open: false } => fields.iter().all(|field| field.ty.is_groupable()),
            _ => self.is_plain(),
        }
    }

    /// The field of a struct by name, with its position: exactly, else without case. A hidden field is never found: an
    /// event's own key of that name is another.
    pub fn field(fields: &[Field], name: &str) -> Option<(usize, Field)> {
        let by =
            |matches: &dyn Fn(&str) -> bool| fields.iter().position(|field| !field.is_hidden() && matches(&field.name));
        let at = by(&|field| field == name).or_else(|| by(&|field| field.eq_ignore_ascii_case(name)))?;
        fields.get(at).map(|field| (at, field.clone()))
    }
}

/// Whether a record has this one of the hidden fields.
pub fn has_hidden(fields: &[Field], name: &str) -> bool {
    fields.iter().any(|field| field.name == name)
}

impl Field {
    /// Whether the field is the store's own, which no name in a statement refers to.
    pub fn is_hidden(&self) -> bool {
        HIDDEN_FIELDS.contains(&self.name.as_str())
    }

    /// Whether the field only says that its record is there, which a result shows by itself.
    pub fn is_presence(&self) -> bool {
        self.name == PRESENCE_FIELD
    }
}

fn stored_fields(fields: &Fields) -> Arc<[Field]> {
    let stored = |name: &str, data_type: &DataType| match name {
        REST_FIELD | UNLIKE_FIELD => Type::Json,
        _ => Type::of_stored(data_type),
    };
    fields
        .iter()
        .map(|field| Field { name: field.name().clone(), ty: stored(field.name(), field.data_type()) })
        .collect()
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Bool => f.write_str("BOOL"),
            Self::Int64 => f.write_str("INT64"),
            Self::Float64 => f.write_str("FLOAT64"),
            Self::Numeric => f.write_str("NUMERIC"),
            Self::BigNumeric => f.write_str("BIGNUMERIC"),
            Self::String => f.write_str("STRING"),
            Self::Bytes => f.write_str("BYTES"),
            Self::Timestamp => f.write_str("TIMESTAMP"),
            Self::Datetime => f.write_str("DATETIME"),
            Self::Date => f.write_str("DATE"),
            Self::Time => f.write_str("TIME"),
            Self::Interval => f.write_str("INTERVAL"),
            Self::Range(of) => write!(f, "RANGE<{of}>"),
            Self::Json => f.write_str("JSON"),
            Self::Array(item) => write!(f, "ARRAY<{item}>"),
            Self::Struct { .. } => f.write_str("STRUCT"),
            Self::Record(_) => f.write_str("ARRAY<STRUCT>"),
        }
    }
}
