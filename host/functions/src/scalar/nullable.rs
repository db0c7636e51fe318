//! Helpers for subqueries that are used as values.
//!
//! Such a subquery is NULL where it has no row, but the engine believes the schema of its column: that of a literal or
//! a count says that it cannot be NULL, and the NULL is then an error. [`nullable`] changes the schema. The engine turns
//! a subquery that reads the outer row into a join, which has a row for each that matches: the values are collected
//! into a list, of which [`only`] takes the single one.

use datafusion::arrow::array::{Array, AsArray, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::arrays::arity;
use crate::context::value_error;
use crate::wording::MORE_THAN_ONE_ROW;

/// The only item of a list; NULL of an empty one.
pub fn only(list: Expr) -> Expr {
    ScalarUDF::from(Only::new()).call(vec![list])
}

/// The same value, which may be NULL as far as the engine knows.
pub fn nullable(value: Expr) -> Expr {
    ScalarUDF::from(Nullable::new()).call(vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Nullable {
    signature: Signature,
}

impl Nullable {
    pub(crate) fn new() -> Self {
        // Volatile: otherwise a literal would be put in its place, and that is never NULL again.
        Self { signature: Signature::any(1, Volatility::Volatile) }
    }
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
pub(crate) struct Only {
    signature: Signature,
}

impl Only {
    pub(crate) fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
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
                _ => return Err(value_error(MORE_THAN_ONE_ROW)),
            });
        }
        Ok(ColumnarValue::Array(take(lists.values(), &UInt32Array::from(places), None)?))
    }
}
