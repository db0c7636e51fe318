//! Values as JSON, as results show them (the rules are those of the HTTP interface).
//!
//! TIMESTAMP is an integer of microseconds, DATETIME is ISO text without zone, a stored record is an array of one
//! element at every level, INT64 is a number, NULL is null. A column is prepared once ([`ColumnEncoder::new`]), then
//! its rows are written (`write`).

mod write;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, Int64Array, ListArray, StringViewArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use datafusion::error::Result;

use tidegate_model::{REST_FIELD, UNLIKE_FIELD};

use crate::decimal::texts_of;
use crate::range::{range_parts, range_texts};
use crate::time::interval_texts;
use crate::types::{Field, Type, has_hidden};
use write::write_text;

/// How times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As results: timestamps are integers.
    Result,
    /// As `TO_JSON`: timestamps are ISO text.
    Text,
    /// As `TO_JSON_STRING`: so are INT64 that a reader of JSON may round, and numbers are written as CAST writes them.
    Portable,
}

/// Writes the values of one array as JSON.
#[derive(Debug)]
pub struct ColumnEncoder {
    nulls: Option<NullBuffer>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Null,
    Bool(BooleanArray),
    Int(Int64Array),
    PortableInt(Int64Array),
    Float(Float64Array),
    PortableFloat(Float64Array),
    /// The texts of decimals.
    Decimal(StringViewArray),
    PortableDecimal(StringViewArray),
    Text(StringViewArray),
    /// Text that is JSON itself.
    Json(StringViewArray),
    Bytes(BinaryArray),
    Timestamp(Int64Array),
    Instant(Int64Array),
    /// With whether three digits of a second are enough where the others are zeros; so are those of TIME.
    Datetime(Int64Array, bool),
    Date(Int64Array),
    Time(Int64Array, bool),
    /// Fields with their names as they are written, `"name":`.
    Struct(Parts),
    /// A record: `[{...}]`, and `[]` for none.
    Record(Parts),
    List(OffsetBuffer<i32>, Box<ColumnEncoder>),
}

/// The fields of a struct, and the JSON that a stored one keeps beside them.
#[derive(Debug)]
struct Parts {
    fields: Vec<(Vec<u8>, ColumnEncoder)>,
    rest: Option<StringViewArray>,
    unlike: Option<StringViewArray>,
}

impl ColumnEncoder {
    /// An encoder for the values of `array`, which are of type `ty`.
    ///
    /// # Errors
    /// If the array cannot hold values of the type: a bug of the resolver.
    pub fn new(array: &ArrayRef, ty: &Type, style: Style) -> Result<Self> {
        let as_int = |via: DataType| -> Result<Int64Array> {
            Ok(cast(&cast(array, &via)?, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
        };
        let micros = || as_int(DataType::Timestamp(TimeUnit::Microsecond, None));
        let values = match ty {
            _ if *array.data_type() == DataType::Null => Values::Null,
            Type::Null => Values::Null,
            Type::Bool => Values::Bool(cast(array, &DataType::Boolean)?.as_boolean().clone()),
            Type::Int64 => {
                let values = cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
                if style == Style::Portable { Values::PortableInt(values) } else { Values::Int(values) }
            }
            Type::Float64 => {
                let values = cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone();
                if style == Style::Portable { Values::PortableFloat(values) } else { Values::Float(values) }
            }
            Type::Numeric | Type::BigNumeric => {
                let texts = texts_of(array)?;
                if style == Style::Portable { Values::PortableDecimal(texts) } else { Values::Decimal(texts) }
            }
            Type::String => Values::Text(cast(array, &DataType::Utf8View)?.as_string_view().clone()),
            Type::Interval => Values::Text(interval_texts(array)?),
            Type::Range(of) if style == Style::Result => Values::Text(range_texts(array, of)?),
            Type::Range(of) => {
                let [start, end] = range_parts(array, of)?;
                let fields = [("start", start), ("end", end)].into_iter();
                let fields = fields.map(|(name, bound)| Ok((key(name), Self::new(&bound, of, style)?)));
                Values::Struct(Parts { fields: fields.collect::<Result<_>>()?, rest: None, unlike: None })
            }
            Type::Json => Values::Json(cast(array, &DataType::Utf8View)?.as_string_view().clone()),
            Type::Bytes => Values::Bytes(cast(array, &DataType::Binary)?.as_binary().clone()),
            Type::Timestamp if style != Style::Result => Values::Instant(micros()?),
            Type::Timestamp => Values::Timestamp(micros()?),
            Type::Datetime => Values::Datetime(micros()?, style != Style::Result),
            Type::Date => {
                let days = cast(array, &DataType::Date32)?;
                Values::Date(
                    cast(&cast(&days, &DataType::Int32)?, &DataType::Int64)?.as_primitive::<Int64Type>().clone(),
                )
            }
            Type::Time => Values::Time(as_int(DataType::Time64(TimeUnit::Microsecond))?, style != Style::Result),
            Type::Struct { fields, .. } => Values::Struct(Self::parts(array, fields, style)?),
            Type::Record(fields) => Values::Record(Self::parts(array, fields, style)?),
            Type::Array(item) => {
                let list = as_list(array, ty)?;
                Values::List(list.offsets().clone(), Box::new(Self::new(list.values(), item, style)?))
            }
        };
        Ok(Self { nulls: array.nulls().cloned(), values })
    }

    fn parts(array: &ArrayRef, fields: &[Field], style: Style) -> Result<Parts> {
        let Some(parts) = array.as_struct_opt() else {
            return Err(mismatch(array, &Type::Record(fields.into())));
        };
        let hidden = |name: &str| -> Result<Option<StringViewArray>> {
            if !has_hidden(fields, name) {
                return Ok(None);
            }
            let Some(column) = parts.column_by_name(name) else { return Ok(None) };
            Ok(Some(cast(column, &DataType::Utf8View)?.as_string_view().clone()))
        };
        let (rest, unlike) = (hidden(REST_FIELD)?, hidden(UNLIKE_FIELD)?);
        let fields = fields
            .iter()
            .filter(|field| !field.is_hidden())
            .filter_map(|field| parts.column_by_name(&field.name).map(|column| (field, column)))
            .map(|(field, column)| Ok((key(&field.name), Self::new(column, &field.ty, style)?)))
            .collect::<Result<Vec<_>>>()?;
        Ok(Parts { fields, rest, unlike })
    }

    /// Whether the value of a row is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        matches!(self.values, Values::Null) || self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// How many bytes of text and bytes the value of a row holds: its JSON is at most six times as
    /// long, apart from names and numbers. Found without reading the text.
    pub fn text_size(&self, row: usize) -> usize {
        if self.is_null(row) {
            return 0;
        }
        let all = |parts: &Parts| {
            let kept = [&parts.rest, &parts.unlike].into_iter().flatten().filter(|kept| kept.is_valid(row));
            // Each nested record is written with a bracket on either side.
            let kept = kept.map(|kept| kept.value(row).len().saturating_mul(2));
            let fields = parts.fields.iter().map(|(key, field)| field.text_size(row).saturating_add(key.len()));
            fields.chain(kept).fold(0, usize::saturating_add)
        };
        match &self.values {
            Values::Text(array) | Values::Json(array) => array.value(row).len(),
            Values::Bytes(array) => array.value(row).len(),
            Values::Struct(fields) | Values::Record(fields) => all(fields),
            Values::List(offsets, items) => {
                let Some((start, end)) = offsets.get(row).zip(offsets.get(row + 1)) else { return 0 };
                let sizes = (*start..*end).map(|at| items.text_size(usize::try_from(at).unwrap_or_default()) + 1);
                sizes.fold(0, usize::saturating_add)
            }
            _ => 8,
        }
    }
}

/// The name of a field as it is written.
fn key(name: &str) -> Vec<u8> {
    let mut key = Vec::new();
    write_text(name, &mut key);
    key.push(b':');
    key
}

/// An array of lists of any form, of type `ty`, as one with 32-bit offsets.
///
/// # Errors
/// If the array holds no lists.
pub fn as_list(array: &ArrayRef, ty: &Type) -> Result<ListArray> {
    match array.data_type() {
        DataType::List(_) => Ok(array.as_list::<i32>().clone()),
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Ok(cast(array, &DataType::List(item.clone()))?.as_list::<i32>().clone())
        }
        _ => Err(mismatch(array, ty)),
    }
}

/// The error of an array that cannot hold values of a type: a bug of whoever named the type.
pub fn mismatch(array: &ArrayRef, ty: &Type) -> datafusion::error::DataFusionError {
    datafusion::error::DataFusionError::Internal(format!("{} cannot hold values of type {ty}", array.data_type()))
}
