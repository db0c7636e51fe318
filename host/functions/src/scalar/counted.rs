//! Counting the memory of arrays that the engine copies.

use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::arrays::arity;
use crate::context::count_copied;

/// The array, with its memory counted: one that is chosen among others, by CASE for example, is copied.
pub fn counted(array: Expr) -> Expr {
    ScalarUDF::from(Counted::new()).call(vec![array])
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Counted {
    signature: Signature,
}

impl Counted {
    pub(crate) fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Counted {
    fn name(&self) -> &'static str {
        "counted"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        arguments.first().cloned().ok_or_else(arity)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = call.args.into_iter().next().ok_or_else(arity)?;
        if let ColumnarValue::Array(array) = &value {
            count_copied(array)?;
        }
        Ok(value)
    }
}
