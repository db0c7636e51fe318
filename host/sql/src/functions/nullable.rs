//! What a subquery is that is used as a value.
//!
//! It is NULL where it has no row, but the engine takes the subquery's column at its word: one of a literal or
//! a count "cannot be NULL", and the NULL is then an error. And of one that reads the outer row the engine makes
//! a join, which has a row for each that fits: so these are collected, and one of them is taken.

use std::sync::LazyLock;

use datafusion::arrow::array::{Array, AsArray, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::kernels::arity;
use crate::fail::value_error;

static NULLABLE: LazyLock<ScalarUDF> = LazyLock::new(|| {
    // Volatile: otherwise a literal would be put in its place, and that is never NULL again.
    ScalarUDF::from(Nullable { signature: Signature::any(1, Volatility::Volatile) })
});

static ONLY: LazyLock<ScalarUDF> =
    LazyLock::new(|| ScalarUDF::from(Only { signature: Signature::any(1, Volatility::Immutable) }));

/// The only item of a list; NULL of an empty one.
pub(crate) fn only(list: Expr) -> Expr {
    ONLY.call(vec![list])
}

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

#[derive(Debug, PartialEq, Eq, Hash)]
struct Only {
    signature: Signature,
}

impl ScalarUDFImpl for Only {
    fn name(&self) -> &'static str {
        "only"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(DataType::List(item)) => Ok(item.data_type().clone()),
            _ => Err(arity()),
        }
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let lists = call.args.first().ok_or_else(arity)?.to_array(call.number_rows)?;
        let lists = lists.as_list_opt::<i32>().ok_or_else(arity)?;
        let mut places = Vec::with_capacity(lists.len());
        for row in 0..lists.len() {
            let first = lists.value_offsets().get(row).copied().and_then(|at| u32::try_from(at).ok());
            let length = if lists.is_null(row) { 0 } else { lists.value_length(row) };
            places.push(match length {
                0 => None,
                1 => first,
                _ => {
                    return Err(value_error(
                        "a scalar subquery returned more than one row; add LIMIT 1 or an aggregate",
                    ));
                }
            });
        }
        Ok(ColumnarValue::Array(take(lists.values(), &UInt32Array::from(places), None)?))
    }
}
