//! TO_JSON_STRING: any value as JSON text.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::arrays::arity;
use crate::context::count_made;
use crate::encode::{ColumnEncoder, Style};
use crate::rows::{MAX_BATCH, MAX_VALUE, limit};
use crate::types::Type;

/// The JSON text of a value of type `ty`: a function of its own for each type of the dialect, because the text depends
/// on it and Arrow's types do not tell all of it.
pub fn json_text(value: Expr, ty: &Type) -> Expr {
    ScalarUDF::from(JsonText::new(ty.clone(), false)).call(vec![value])
}

/// The same with numbers that every reader of JSON reads as they are.
pub fn portable_json_text(value: Expr, ty: &Type) -> Expr {
    ScalarUDF::from(JsonText::new(ty.clone(), true)).call(vec![value])
}

#[derive(Debug)]
pub(crate) struct JsonText {
    ty: Type,
    portable: bool,
    signature: Signature,
}

impl JsonText {
    pub(crate) fn new(ty: Type, portable: bool) -> Self {
        Self { ty, portable, signature: Signature::any(1, Volatility::Immutable) }
    }

    /// The type of the value.
    pub(crate) fn ty(&self) -> &Type {
        &self.ty
    }

    /// Whether its numbers are those that every reader of JSON reads as they are.
    pub(crate) fn is_portable(&self) -> bool {
        self.portable
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.ty == other.ty && self.portable == other.portable
    }
}

impl Eq for JsonText {}

impl std::hash::Hash for JsonText {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.ty.to_string(), self.portable).hash(state);
    }
}

impl ScalarUDFImpl for JsonText {
    fn name(&self) -> &'static str {
        if self.portable { "to_json_string" } else { "to_json" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(argument) = call.args.first() else { return Err(arity()) };
        let constant = matches!(argument, ColumnarValue::Scalar(_));
        let array = argument.to_array(if constant { 1 } else { call.number_rows })?;
        let style = if self.portable { Style::Portable } else { Style::Text };
        let encoder = ColumnEncoder::new(&array, &self.ty, style)?;
        let mut builder = StringViewBuilder::new();
        let mut text = Vec::new();
        let mut made = 0_usize;
        for row in 0..array.len() {
            let too_long = || limit("TO_JSON_STRING would make too long a text; take fewer fields or rows");
            if encoder.text_size(row) > MAX_VALUE {
                return Err(too_long());
            }
            text.clear();
            encoder.write(row, &mut text);
            made = made.saturating_add(text.len());
            if text.len() > MAX_VALUE || made > MAX_BATCH {
                return Err(too_long());
            }
            builder.append_value(String::from_utf8_lossy(&text));
        }
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&builder.finish(), 0)?));
        }
        let texts: ArrayRef = Arc::new(builder.finish());
        count_made(&texts)?;
        Ok(ColumnarValue::Array(texts))
    }
}
