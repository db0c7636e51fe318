//! Arrays.

use datafusion::arrow::datatypes::DataType;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::{Expr, cast, lit, when};
use datafusion::scalar::ScalarValue;
use tidegate_model::Code;

use super::{Builder, Call};
use crate::fail::{Planning, Result, fail};
use crate::resolve::{Conversion, Typed, list_of_record, unify};
use crate::types::{Type, is_there};

/// The most elements that GENERATE_ARRAY makes.
const MAX_MADE: i64 = 100_000;

pub(super) const FUNCTIONS: &[(&str, Builder)] = &[
    ("ARRAY_LENGTH", |call| {
        call.count(1, 1)?;
        let value = call.value(0)?;
        let expr = match &value.ty {
            Type::Null => Expr::Literal(ScalarValue::Int64(None), None),
            Type::Record(_) => when(is_there(&value.expr, &value.ty), lit(1_i64)).end().planned()?,
            Type::Array(_) => cast(nested::array_length(value.expr), DataType::Int64),
            ty => return Err(call.fails(format!("ARRAY_LENGTH takes an array, not a value of type {ty}"))),
        };
        Ok(Typed::new(expr, Type::Int64))
    }),
    ("ARRAY_CONCAT", |call| {
        let count = call.count(1, usize::MAX)?;
        let values = (0..count).map(|i| array(call, i)).collect::<Result<Vec<_>>>()?;
        let (values, ty) = unify(values, call.at)?;
        Ok(Typed::new(nested::array_concat(values.into_iter().map(|value| value.expr).collect()), ty))
    }),
    ("ARRAY_REVERSE", |call| {
        call.count(1, 1)?;
        let value = array(call, 0)?;
        Ok(Typed::new(nested::array_reverse(value.expr), value.ty))
    }),
    ("ARRAY_TO_STRING", |call| {
        let count = call.count(2, 3)?;
        let value = array(call, 0)?.convert(&Type::Array(Box::new(Type::String)), Conversion::implicit(call.at))?;
        let mut arguments = vec![value.expr, call.text(1)?];
        if count == 3 {
            arguments.push(call.text(2)?);
        }
        let call = datafusion::functions_nested::string::array_to_string_udf().call(arguments);
        Ok(Typed::new(call, Type::String))
    }),
    ("GENERATE_ARRAY", |call| {
        let count = call.count(2, 3)?;
        let number = |i: usize| match call.value(i)?.convert(&Type::Int64, Conversion::implicit(call.at))?.literal() {
            Some(ScalarValue::Int64(Some(n))) => Ok(*n),
            _ => Err(call.fails("GENERATE_ARRAY takes constant integers")),
        };
        let (start, end) = (number(0)?, number(1)?);
        let step = if count == 3 { number(2)? } else { 1 };
        if step == 0 {
            return Err(call.fails("the step of GENERATE_ARRAY must not be 0"));
        }
        let size = (i128::from(end) - i128::from(start)) / i128::from(step) + 1;
        if size > i128::from(MAX_MADE) {
            let message = format!("GENERATE_ARRAY would make {size} elements; at most {MAX_MADE} are allowed");
            return Err(fail(Code::LimitExceeded, message, call.at));
        }
        let expr = nested::gen_series(lit(start), lit(end), lit(step));
        Ok(Typed::new(expr, Type::Array(Box::new(Type::Int64))))
    }),
];

/// Argument `i` as a real list.
fn array(call: &Call<'_>, i: usize) -> Result<Typed> {
    let value = call.value(i)?;
    match &value.ty {
        Type::Array(_) => Ok(value),
        Type::Record(fields) => {
            let element = Type::Struct { fields: fields.clone(), open: true };
            Ok(Typed::new(list_of_record(value.expr)?, Type::Array(Box::new(element))))
        }
        Type::Null => value.convert(&Type::Array(Box::new(Type::String)), Conversion::implicit(call.at)),
        ty => Err(call.fails(format!("{} takes an array, not a value of type {ty}", call.name))),
    }
}
