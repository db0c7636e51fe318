//! Records as records of a wider type: the common type of records with different fields, which the resolver finds for
//! UNION, CASE and arrays.
//!
//! It works on whole columns: a field that stays as it is is handed on without a copy. So the cost grows with the
//! number of fields, not of rows, apart from values that become text.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, StringViewArray, StringViewBuilder, StructArray, new_null_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Fields};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use tidegate_model::{PRESENCE_FIELD, REST_FIELD, UNLIKE_FIELD};

use crate::arrays::arity;
use crate::context::{count_made, planning};
use crate::encode::{ColumnEncoder, Style, as_list, mismatch};
use crate::log_json::{Kept, kept_text};
use crate::rows::{MAX_BATCH, MAX_VALUE, limit};
use crate::types::{Field, Type, has_hidden};

/// Its name, by which lineage knows that fields keep theirs.
pub const UNITED: &str = "united";

/// A value that is a record, or holds some, as `to`: the common type of it and others.
pub fn united(value: Expr, from: &Type, to: &Type) -> Expr {
    // The columns of fields that the value lacks are part of the plan.
    planning::charge(to.width(usize::MAX).saturating_mul(planning::COLUMN));
    ScalarUDF::from(United::new(from.clone(), to.clone())).call(vec![value])
}

#[derive(Debug)]
pub(crate) struct United {
    from: Type,
    to: Type,
    signature: Signature,
}

impl United {
    pub(crate) fn new(from: Type, to: Type) -> Self {
        Self { from, to, signature: Signature::any(1, Volatility::Immutable) }
    }

    /// The types of the value and of the result.
    pub(crate) fn types(&self) -> (&Type, &Type) {
        (&self.from, &self.to)
    }
}

impl PartialEq for United {
    fn eq(&self, other: &Self) -> bool {
        self.from == other.from && self.to == other.to
    }
}

impl Eq for United {}

impl Hash for United {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.from.to_string(), self.to.to_string()).hash(state);
    }
}

impl ScalarUDFImpl for United {
    fn name(&self) -> &'static str {
        UNITED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.arrow())
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(argument) = call.args.first() else { return Err(arity()) };
        let constant = matches!(argument, ColumnarValue::Scalar(_));
        let array = argument.to_array(if constant { 1 } else { call.number_rows })?;
        let united = Uniting::default().value(&array, &self.from, &self.to)?;
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&united, 0)?));
        }
        Ok(ColumnarValue::Array(united))
    }
}

/// The conversion of one batch.
#[derive(Default)]
struct Uniting {
    /// Columns of NULLs, by type and length: columns of one type share their array.
    nulls: HashMap<(DataType, usize), ArrayRef>,
    /// Bytes of text that were made.
    made: usize,
}

impl Uniting {
    fn value(&mut self, array: &ArrayRef, from: &Type, to: &Type) -> Result<ArrayRef> {
        match (from, to) {
            (Type::Null, to) => self.null(to, array.len()),
            (from, to) if from == to => match to.arrow() {
                held if *array.data_type() == held => Ok(Arc::clone(array)),
                held => Ok(cast(array, &held)?),
            },
            (
                Type::Record(own) | Type::Struct { fields: own, .. },
                Type::Record(all) | Type::Struct { fields: all, .. },
            ) => self.record(array, own, all),
            (Type::Record(own), Type::Array(item)) if let Type::Struct { fields: all, .. } = &**item => {
                self.list_of_record(array, own, all)
            }
            (Type::Array(own), Type::Array(item)) => {
                let list = as_list(array, from)?;
                let items = self.value(list.values(), own, item)?;
                let item = Arc::new(ArrowField::new("item", items.data_type().clone(), true));
                Ok(Arc::new(ListArray::try_new(item, list.offsets().clone(), items, list.nulls().cloned())?))
            }
            // Only an empty list meets a record.
            (Type::Array(_), Type::Record(_)) => self.null(to, array.len()),
            (from, Type::Record(all)) if has_hidden(all, UNLIKE_FIELD) => {
                let json = self.json(array, from, false)?;
                self.unlike(json, all)
            }
            (from, Type::String) => Ok(Arc::new(self.json(array, from, true)?)),
            (_, to) => Ok(cast(array, &to.arrow())?),
        }
    }

    fn null(&mut self, ty: &Type, rows: usize) -> Result<ArrayRef> {
        Ok(match ty {
            Type::Record(fields) | Type::Struct { fields, .. } => {
                let columns =
                    fields.iter().map(|field| self.null(&field.ty, rows)).collect::<Result<Vec<ArrayRef>>>()?;
                structure(fields, columns, rows, Some(NullBuffer::new_null(rows)))?
            }
            ty => {
                let held = ty.arrow();
                let made = self.nulls.entry((held.clone(), rows)).or_insert_with(|| new_null_array(&held, rows));
                Arc::clone(made)
            }
        })
    }

    fn record(&mut self, array: &ArrayRef, own: &[Field], all: &[Field]) -> Result<ArrayRef> {
        let rows = array.len();
        let record = array.as_struct_opt().ok_or_else(|| mismatch(array, &Type::Record(own.into())))?;
        let types: HashMap<&str, &Type> = own.iter().map(|field| (field.name.as_str(), &field.ty)).collect();
        let missing = |field: &&Field| !field.is_hidden() && !types.contains_key(field.name.as_str());
        let mut kept = match record.column_by_name(REST_FIELD).filter(|_| has_hidden(own, REST_FIELD)) {
            Some(rest) => Kept::of(
                cast(rest, &DataType::Utf8View)?.as_string_view(),
                all.iter().filter(missing).map(|field| field.name.as_str()),
            ),
            None => Kept::default(),
        };
        let mut columns = Vec::with_capacity(all.len());
        for field in all {
            let column = record.column_by_name(&field.name);
            columns.push(match (field.name.as_str(), types.get(field.name.as_str()).zip(column)) {
                (REST_FIELD, Some(_)) => self.counted(kept.rest())?,
                (PRESENCE_FIELD, None) => Arc::new(presence(rows, record.nulls())) as ArrayRef,
                (_, Some((ty, column))) => self.value(column, ty, &field.ty)?,
                (name, None) => match kept.take(name) {
                    Some(json) => self.kept(&json, &field.ty)?,
                    None => self.null(&field.ty, rows)?,
                },
            });
        }
        structure(all, columns, rows, record.nulls().cloned())
    }

    /// A record as a list of the one element that it stands for.
    fn list_of_record(&mut self, array: &ArrayRef, own: &[Field], all: &[Field]) -> Result<ArrayRef> {
        let items = self.record(array, own, all)?;
        let item = Arc::new(ArrowField::new("item", items.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, array.len()));
        Ok(Arc::new(ListArray::try_new(item, offsets, items, array.nulls().cloned())?))
    }

    /// Values that were kept as JSON, in the type of the column of their field.
    fn kept(&mut self, json: &StringViewArray, ty: &Type) -> Result<ArrayRef> {
        let Type::Record(fields) = ty else {
            let mut texts = StringViewBuilder::new();
            for json in json {
                texts.append_option(json.and_then(kept_text));
            }
            return self.counted(texts.finish());
        };
        let names = fields.iter().filter(|field| !field.is_hidden()).map(|field| field.name.as_str());
        let mut kept = Kept::of(json, names);
        let unlike = kept.unlike(json);
        let there = BooleanArray::from(kept.there());
        let nulls: NullBuffer =
            (0..json.len()).map(|row| there.is_valid(row) || unlike.is_valid(row)).collect::<Vec<_>>().into();
        let mut columns = Vec::with_capacity(fields.len());
        for field in fields.iter() {
            columns.push(match field.name.as_str() {
                REST_FIELD => self.counted(kept.rest())?,
                UNLIKE_FIELD => self.counted(unlike.clone())?,
                PRESENCE_FIELD => Arc::new(there.clone()),
                name => match kept.take(name) {
                    Some(json) => self.kept(&json, &field.ty)?,
                    None => self.null(&field.ty, json.len())?,
                },
            });
        }
        structure(fields, columns, json.len(), Some(nulls))
    }

    /// Values that stand in the place of records.
    fn unlike(&mut self, json: StringViewArray, all: &[Field]) -> Result<ArrayRef> {
        let (rows, nulls) = (json.len(), json.nulls().cloned());
        let json: ArrayRef = Arc::new(json);
        let column = |field: &Field| match field.name.as_str() {
            UNLIKE_FIELD => Ok(Arc::clone(&json)),
            _ => self.null(&field.ty, rows),
        };
        let columns = all.iter().map(column).collect::<Result<Vec<_>>>()?;
        structure(all, columns, rows, nulls)
    }

    /// The values as JSON; a text is itself where they are to be `plain`.
    fn json(&mut self, array: &ArrayRef, from: &Type, plain: bool) -> Result<StringViewArray> {
        let encoder = ColumnEncoder::new(array, from, Style::Text)?;
        let (mut texts, mut text) = (StringViewBuilder::new(), Vec::new());
        for row in 0..array.len() {
            if encoder.is_null(row) {
                texts.append_null();
                continue;
            }
            let too_long =
                || limit("a field that is several kinds of value would make too long a text; take fewer rows");
            if encoder.text_size(row) > MAX_VALUE {
                return Err(too_long());
            }
            text.clear();
            if plain {
                encoder.write_cell(row, &mut text)
            } else {
                encoder.write(row, &mut text)
            }
            self.made = self.made.saturating_add(text.len());
            if text.len() > MAX_VALUE || self.made > MAX_BATCH {
                return Err(too_long());
            }
            texts.append_value(String::from_utf8_lossy(&text));
        }
        let texts = texts.finish();
        self.counted(texts.clone())?;
        Ok(texts)
    }

    /// Counts the memory of text that was made.
    fn counted(&mut self, texts: StringViewArray) -> Result<ArrayRef> {
        let texts: ArrayRef = Arc::new(texts);
        count_made(&texts)?;
        Ok(texts)
    }
}

fn structure(fields: &[Field], columns: Vec<ArrayRef>, rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let named = fields.iter().zip(&columns);
    let held: Fields =
        named.map(|(field, column)| ArrowField::new(&field.name, column.data_type().clone(), true)).collect();
    Ok(Arc::new(StructArray::try_new_with_length(held, columns, nulls, rows)?))
}

/// The presence field of records that have none of their own.
fn presence(rows: usize, nulls: Option<&NullBuffer>) -> BooleanArray {
    let there = |row| nulls.is_none_or(|nulls| nulls.is_valid(row)).then_some(true);
    (0..rows).map(there).collect()
}
