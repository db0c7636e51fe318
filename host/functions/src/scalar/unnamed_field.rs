//! The field of a struct whose name is empty. JSON has such keys, and the engine's own function refuses them.

use datafusion::arrow::array::{Array, AsArray, make_array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::functions::core::expr_fn as core;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::arrays::arity;

/// A field of a struct that has one of this name.
pub fn field(record: Expr, name: &str) -> Expr {
    if name.is_empty() {
        return ScalarUDF::from(UnnamedField::new()).call(vec![record]);
    }
    core::get_field(record, name)
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnnamedField {
    signature: Signature,
}

impl UnnamedField {
    pub(crate) fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for UnnamedField {
    fn name(&self) -> &'static str {
        "unnamed_field"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let Some(DataType::Struct(fields)) = arguments.first() else { return Err(arity()) };
        let field = fields.iter().find(|field| field.name().is_empty());
        field.map(|field| field.data_type().clone()).ok_or_else(arity)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let record = call.args.first().ok_or_else(arity)?.to_array(call.number_rows)?;
        let record = record.as_struct_opt().ok_or_else(arity)?;
        let values = record.column_by_name("").ok_or_else(arity)?;
        // Where the struct is NULL, so is its field.
        let nulls = NullBuffer::union(values.logical_nulls().as_ref(), record.nulls());
        if *values.data_type() == DataType::Null {
            return Ok(ColumnarValue::Array(std::sync::Arc::clone(values)));
        }
        Ok(ColumnarValue::Array(make_array(values.to_data().into_builder().nulls(nulls).build()?)))
    }
}
