//! `ERROR('message')`: a function of any type that has no value and always fails.

use datafusion::arrow::array::new_empty_array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::arrays::texts;
use crate::context::value_error;

/// A call that fails with a message. Its type is NULL until it is known in whose place it stands ([`raised_as`]).
pub fn raised(message: Expr) -> Expr {
    call(DataType::Null, vec![message])
}

/// A call of [`raised`] in the place of a value of type `returns`; `None` if the value is no such call.
pub fn raised_as(value: &Expr, returns: &DataType) -> Option<Expr> {
    match value {
        Expr::ScalarFunction(error) if error.func.inner().downcast_ref::<Raised>().is_some() => {
            Some(call(returns.clone(), error.args.clone()))
        }
        _ => None,
    }
}

fn call(returns: DataType, arguments: Vec<Expr>) -> Expr {
    ScalarUDF::from(Raised::new(returns)).call(arguments)
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Raised {
    returns: DataType,
    signature: Signature,
}

impl Raised {
    pub(crate) fn new(returns: DataType) -> Self {
        // Volatile: it must not be computed before the statement runs.
        Self { returns, signature: Signature::any(1, Volatility::Volatile) }
    }

    pub(crate) fn returns(&self) -> &DataType {
        &self.returns
    }
}

impl ScalarUDFImpl for Raised {
    fn name(&self) -> &'static str {
        "raise_error"
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
