//! TO_JSON_STRING.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result as EngineResult;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use crate::encode::{ColumnEncoder, Style};
use crate::engine::memory::count_made;
use crate::functions::kernels::arity;
use crate::functions::rows::{MAX_BATCH, MAX_VALUE, limit};
use crate::typed::Typed;
use crate::types::Type;

/// TO_JSON_STRING: a function of its own for each type, because the text depends on it.
pub(crate) fn to_json_string(value: &Typed) -> Typed {
    let function =
        ScalarUDF::from(ToJson { ty: value.ty.clone(), signature: Signature::any(1, Volatility::Immutable) });
    Typed::new(function.call(vec![value.expr.clone()]), Type::String)
}

#[derive(Debug)]
struct ToJson {
    ty: Type,
    signature: Signature,
}

impl PartialEq for ToJson {
    fn eq(&self, other: &Self) -> bool {
        self.ty == other.ty
    }
}

impl Eq for ToJson {}

impl std::hash::Hash for ToJson {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.ty.to_string().hash(state);
    }
}

impl ScalarUDFImpl for ToJson {
    fn name(&self) -> &'static str {
        "to_json_string"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> EngineResult<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let Some(argument) = call.args.first() else { return Err(arity()) };
        let constant = matches!(argument, ColumnarValue::Scalar(_));
        let array = argument.to_array(if constant { 1 } else { call.number_rows })?;
        let encoder = ColumnEncoder::new(&array, &self.ty, Style::Text)?;
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
