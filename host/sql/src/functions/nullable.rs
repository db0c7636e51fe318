//! A value as one that may be NULL.
//!
//! A subquery used as a value is NULL where it has no row, but the engine takes the subquery's
//! column at its word: one of a literal or a count "cannot be NULL", and the NULL is then an error.

use std::sync::LazyLock;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::kernels::arity;

static NULLABLE: LazyLock<ScalarUDF> = LazyLock::new(|| {
    // Volatile: otherwise a literal would be put in its place, and that is never NULL again.
    ScalarUDF::from(Nullable { signature: Signature::any(1, Volatility::Volatile) })
});

/// The same value, which may be NULL as far as the engine knows.
pub(crate) fn nullable(value: Expr) -> Expr {
    NULLABLE.call(vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Nullable {
    signature: Signature,
}

impl ScalarUDFImpl for Nullable {
    fn name(&self) -> &'static str {
        "nullable"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        arguments.first().cloned().ok_or_else(arity)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = arguments.arg_fields.first().ok_or_else(arity)?;
        Ok(field.as_ref().clone().with_nullable(true).into())
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        call.args.into_iter().next().ok_or_else(arity)
    }
}
