//! `ERROR('message')`: a value of whatever type is wanted of it, which is never there.

use datafusion::arrow::array::new_empty_array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::kernels::texts;
use crate::fail::value_error;

const NAME: &str = "raise_error";

/// The error of a message, before it is known what it stands for.
pub(super) fn raised(message: Expr) -> Expr {
    call(DataType::Null, vec![message])
}

/// The error as one in place of a value that `returns` holds; `None` if the value is no error.
pub(crate) fn raised_as(value: &Expr, returns: &DataType) -> Option<Expr> {
    match value {
        Expr::ScalarFunction(error) if error.func.name() == NAME => Some(call(returns.clone(), error.args.clone())),
        _ => None,
    }
}

fn call(returns: DataType, arguments: Vec<Expr>) -> Expr {
    // Volatile: it must not be computed before the statement runs.
    ScalarUDF::from(Raise { returns, signature: Signature::any(1, Volatility::Volatile) }).call(arguments)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Raise {
    returns: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Raise {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if call.number_rows == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(&self.returns)));
        }
        let message = call.args.first().map(|message| message.to_array(call.number_rows)).transpose()?;
        let message = message.as_ref().map(texts).transpose()?;
        Err(value_error(message.as_ref().and_then(|texts| texts.iter().next().flatten()).unwrap_or_default()))
    }
}
