//! Arrays.

use datafusion::arrow::datatypes::DataType;
use datafusion::functions_nested::concat::array_concat_udf;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::functions_nested::reverse::array_reverse_udf;
use datafusion::logical_expr::{Expr, cast, lit, when};
use datafusion::scalar::ScalarValue;
use tidegate_functions::scalar::{all_or_null, bounded};
use tidegate_model::Code;

use super::call::{Builder, Call};
use super::over_bytes::over_bytes;
use crate::fail::{Planning, Result, fail};
use crate::typed::Typed;
use crate::types::{Type, is_there};
use crate::typing::kernel;
use crate::typing::{Conversion, common_of, list_of_record, unify};

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
        // A NULL has no type of its own that the others would have to become.
        let list = |i: usize| Ok(if call.value(i)?.ty == Type::Null { Typed::null() } else { array(call, i)? });
        let (values, ty) = unify((0..count).map(list).collect::<Result<Vec<_>>>()?, call.at)?;
        if ty == Type::Null {
            return Ok(Typed::null());
        }
        let values = values.into_iter().map(|value| value.expr).collect();
        Ok(Typed::new(all_or_null(array_concat_udf(), values), ty))
    }),
    ("ARRAY_REVERSE", |call| {
        call.count(1, 1)?;
        let value = array(call, 0)?;
        Ok(Typed::new(bounded(array_reverse_udf(), vec![value.expr]), value.ty))
    }),
    ("ARRAY_FIRST", |call| element(call, 1)),
    ("ARRAY_LAST", |call| element(call, -1)),
    ("ARRAY_SLICE", |call| {
        call.count(3, 3)?;
        let value = array(call, 0)?;
        Ok(Typed::new(kernel("array_slice_of", call.safe, vec![value.expr, call.int(1)?, call.int(2)?]), value.ty))
    }),
    ("ARRAY_INCLUDES", |call| {
        call.count(2, 2)?;
        let value = array(call, 0)?;
        let Some(item) = value.ty.element() else { return Ok(Typed::null()) };
        let wanted = call.typed(1, &item)?;
        let found = match item {
            Type::Float64 => kernel("float_included", call.safe, vec![wanted.clone(), value.expr]),
            _ => nested::array_has(value.expr, wanted.clone()),
        };
        let null = Expr::Literal(ScalarValue::Boolean(None), None);
        Ok(Typed::new(when(wanted.is_null(), null).otherwise(found).planned()?, Type::Bool))
    }),
    ("ARRAY_INCLUDES_ANY", |call| includes(call, "arrays_share_any", "floats_share_any")),
    ("ARRAY_INCLUDES_ALL", |call| includes(call, "arrays_share_all", "floats_share_all")),
    ("ARRAY_IS_DISTINCT", |call| {
        call.count(1, 1)?;
        let value = array(call, 0)?;
        if of_floats(&value.ty) {
            return Ok(Typed::new(kernel("floats_differ", call.safe, vec![value.expr]), Type::Bool));
        }
        let all = nested::array_length(value.expr.clone());
        Ok(Typed::new(all.eq(nested::array_length(nested::array_distinct(value.expr))), Type::Bool))
    }),
    ("ARRAY_TO_STRING", |call| {
        over_bytes(call, |call| {
            let text = Type::Array(Box::new(Type::String));
            call.count(2, 3)?;
            let value = array(call, 0)?.convert(&text, Conversion::implicit(call.at))?;
            let mut arguments = vec![value.expr, call.text(1)?];
            if call.arguments.len() == 3 {
                arguments.push(call.text(2)?);
            }
            Ok(Typed::new(kernel("join_array", call.safe, arguments), Type::String))
        })
    }),
    ("ARRAY_MIN", |call| by_subquery(call, "MIN")),
    ("ARRAY_MAX", |call| by_subquery(call, "MAX")),
    ("ARRAY_SUM", |call| by_subquery(call, "SUM")),
    ("ARRAY_AVG", |call| by_subquery(call, "AVG")),
    ("GENERATE_ARRAY", |call| {
        let count = call.count(2, 3)?;
        let values = (0..count).map(|i| call.value(i)).collect::<Result<Vec<_>>>()?;
        let ty = match common_of(&values, call.at) {
            Ok(ty) if ty.is_number() => ty,
            _ if values.iter().any(|value| value.ty == Type::Float64) => Type::Float64,
            _ => Type::Int64,
        };
        let mut values = (0..count).map(|i| call.typed(i, &ty)).collect::<Result<Vec<_>>>()?;
        let name = match &ty {
            Type::Float64 => "float_series",
            Type::Int64 => "int_series",
            _ => {
                if count == 2 {
                    values.push(Typed::new(lit(1_i64), Type::Int64).convert(&ty, Conversion::implicit(call.at))?.expr);
                }
                "decimal_series"
            }
        };
        Ok(Typed::new(kernel(name, call.safe, values), Type::Array(Box::new(ty))))
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

fn element(call: &Call<'_>, at: i64) -> Result<Typed> {
    call.count(1, 1)?;
    let value = call.value(0)?;
    if let Type::Record(fields) = &value.ty {
        return Ok(Typed::new(value.expr.clone(), Type::Struct { fields: fields.clone(), open: true }));
    }
    let value = array(call, 0)?;
    let item = value.ty.element().unwrap_or(Type::Null);
    Ok(Typed::new(nested::array_element(value.expr, lit(at)), item))
}

fn of_floats(ty: &Type) -> bool {
    *ty == Type::Array(Box::new(Type::Float64))
}

/// The kernel `function`; of FLOAT64, which it would compare by bits, the other.
fn includes(call: &Call<'_>, function: &'static str, of_float: &'static str) -> Result<Typed> {
    call.count(2, 2)?;
    let (values, ty) = unify(vec![array(call, 0)?, array(call, 1)?], call.at)?;
    let values = values.into_iter().map(|value| value.expr).collect();
    Ok(Typed::new(kernel(if of_floats(&ty) { of_float } else { function }, call.safe, values), Type::Bool))
}

fn by_subquery(call: &Call<'_>, aggregate: &str) -> Result<Typed> {
    let message = format!("{} is not supported; write (SELECT {aggregate}(x) FROM UNNEST(list) AS x)", call.name);
    Err(fail(Code::Unsupported, message, call.at))
}
