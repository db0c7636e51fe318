//! JSON: reading from text, and writing values as text.

pub(super) mod change;

use datafusion::logical_expr::{cast, lit, when};
use datafusion::scalar::ScalarValue;
use tidegate_functions::json::path::steps;
use tidegate_model::{Code, Position};

use super::call::{Builder, Call};
use crate::fail::{Planning, Result, fail, unsupported};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::Conversion;
use crate::typing::kernel;
use crate::typing::{portable_json, to_json_string};

pub(super) const FUNCTIONS: &[(&str, Builder)] = &[
    ("JSON_VALUE", |call| path(call, "json_value", Type::String)),
    ("JSON_EXTRACT_SCALAR", |call| path(call, "json_value", Type::String)),
    ("JSON_QUERY", |call| path(call, "json_query", same(call)?)),
    ("JSON_EXTRACT", |call| path(call, "json_query", same(call)?)),
    ("JSON_VALUE_ARRAY", |call| path(call, "json_values", list(Type::String))),
    ("JSON_EXTRACT_STRING_ARRAY", |call| path(call, "json_values", list(Type::String))),
    ("JSON_QUERY_ARRAY", |call| path(call, "json_queries", list(same(call)?))),
    ("JSON_EXTRACT_ARRAY", |call| path(call, "json_queries", list(same(call)?))),
    ("JSON_KEYS", |call| {
        call.count(1, 3)?;
        let depth = if call.has(1) { call.int(1)? } else { lit(i64::MAX) };
        // How many arrays are gone through to an object.
        let arrays = match call.word(2, &["strict", "lax", "lax recursive"])? {
            None | Some(0) => 0,
            Some(1) => 1,
            Some(_) => i64::MAX,
        };
        Ok(Typed::new(kernel("json_keys", call.safe, vec![text_of(call, 0)?, depth, lit(arrays)]), list(Type::String)))
    }),
    ("JSON_FLATTEN", |call| {
        call.count(1, 1)?;
        Ok(Typed::new(kernel("json_flattened", call.safe, vec![text_of(call, 0)?]), list(Type::Json)))
    }),
    ("JSON_TYPE", |call| read(call, "json_type", Type::String)),
    ("PARSE_JSON", |call| {
        call.count(1, 2)?;
        let rounds = call.word(1, &["exact", "round"])? == Some(1);
        Ok(Typed::new(kernel("parse_json", call.safe, vec![call.text(0)?, lit(rounds)]), Type::Json))
    }),
    ("BOOL", |call| read(call, "json_bool", Type::Bool)),
    ("INT64", |call| read(call, "json_int", Type::Int64)),
    ("FLOAT64", |call| {
        call.count(1, 2)?;
        let exact = call.word(1, &["exact", "round"])? == Some(0);
        Ok(Typed::new(kernel("json_float", call.safe, vec![text_of(call, 0)?, lit(exact)]), Type::Float64))
    }),
    ("BOOL_ARRAY", |call| elements(call, "json_bools", Type::Bool)),
    ("INT64_ARRAY", |call| elements(call, "json_ints", Type::Int64)),
    ("FLOAT64_ARRAY", |call| elements(call, "json_floats", Type::Float64)),
    ("STRING_ARRAY", |call| elements(call, "json_texts", Type::String)),
    ("LAX_BOOL", |call| read(call, "json_lax_bool", Type::Bool)),
    ("LAX_INT64", |call| read(call, "json_lax_int", Type::Int64)),
    ("LAX_FLOAT64", |call| read(call, "json_lax_float", Type::Float64)),
    ("LAX_STRING", |call| read(call, "json_lax_text", Type::String)),
    ("TO_JSON", |call| {
        call.count(1, 2)?;
        let as_text = match call.has(1).then(|| call.value(1)).transpose()?.as_ref().map(Typed::literal) {
            None | Some(Some(ScalarValue::Boolean(Some(false)))) => false,
            Some(Some(ScalarValue::Boolean(Some(true)))) => true,
            Some(_) => return Err(call.fails("stringify_wide_numbers is TRUE or FALSE")),
        };
        let value = call.value(0)?;
        let text = match &value.ty {
            ty if as_text && ty.is_decimal() => {
                Typed::new(kernel("decimal_json", call.safe, vec![value.expr]), Type::String)
            }
            ty if as_text && ty.holds_decimal() => {
                let what = format!("TO_JSON of a decimal within {ty} with stringify_wide_numbers");
                return Err(unsupported(what, Some("write TO_JSON of its fields"), call.at));
            }
            _ if as_text => portable_json(&value),
            _ => to_json_string(&value),
        };
        Ok(Typed::new(text.expr, Type::Json))
    }),
    ("TO_JSON_STRING", |call| {
        let text = portable_json(&call.value(0)?);
        if call.count(1, 2)? == 1 {
            return Ok(text);
        }
        Ok(Typed::new(kernel("json_layout", call.safe, vec![text.expr, call.typed(1, &Type::Bool)?]), Type::String))
    }),
    ("JSON_ARRAY", |call| {
        let mut pieces = vec![lit("[")];
        for i in 0..call.arguments.len() {
            if i > 0 {
                pieces.push(lit(","));
            }
            pieces.push(to_json_string(&call.value(i)?).expr);
        }
        pieces.push(lit("]"));
        Ok(Typed::new(kernel("joined_text", call.safe, pieces), Type::Json))
    }),
    ("JSON_OBJECT", object),
];

fn list(item: Type) -> Type {
    Type::Array(Box::new(item))
}

/// What is read out of a JSON is a JSON, and out of a text a text.
fn same(call: &Call<'_>) -> Result<Type> {
    Ok(if call.value(0)?.ty == Type::Json { Type::Json } else { Type::String })
}

/// The JSON text of an argument, which may be any value.
fn text_of(call: &Call<'_>, i: usize) -> Result<datafusion::logical_expr::Expr> {
    let value = call.value(i)?;
    match value.ty {
        Type::Record(_) | Type::Array(_) | Type::Struct { .. } => Ok(to_json_string(&value).expr),
        _ => call.text(i),
    }
}

fn read(call: &Call<'_>, name: &'static str, ty: Type) -> Result<Typed> {
    call.count(1, 1)?;
    Ok(Typed::new(kernel(name, call.safe, vec![text_of(call, 0)?]), ty))
}

/// STRING of a JSON (of a time it is another function).
pub(super) fn text_in(call: &Call<'_>) -> Result<Typed> {
    read(call, "json_text", Type::String)
}

fn object(call: &Call<'_>) -> Result<Typed> {
    let count = call.arguments.len();
    if !count.is_multiple_of(2) {
        return Err(call.fails("JSON_OBJECT takes keys and values in turn, e.g. JSON_OBJECT('a', 1, 'b', 2)"));
    }
    if count == 2 && matches!(call.value(0)?.ty, Type::Array(_)) {
        let values = call.value(1)?;
        if !matches!(values.ty, Type::Array(_) | Type::Record(_)) {
            return Err(call.fails("JSON_OBJECT of an array of keys takes an array of values"));
        }
        let there = values.expr.clone().is_not_null();
        let values = when(there, to_json_string(&values).expr).end().planned()?;
        return Ok(Typed::new(
            kernel("json_zipped", call.safe, vec![call.typed(0, &list(Type::String))?, values]),
            Type::Json,
        ));
    }
    let mut pieces = vec![lit("{")];
    let mut known: Vec<String> = Vec::new();
    for i in (0..count).step_by(2) {
        let key = call.value(i)?;
        if key.literal().is_some_and(ScalarValue::is_null) {
            return Err(call.fails("a key of JSON_OBJECT is NULL"));
        }
        // The first of equal keys wins.
        if let Some(text) = key.literal_text() {
            if known.iter().any(|known| known == text) {
                continue;
            }
            known.push(text.to_owned());
        }
        let key = key.convert(&Type::String, Conversion::implicit(call.at))?;
        if pieces.len() > 1 {
            pieces.push(lit(","));
        }
        pieces.extend([to_json_string(&key).expr, lit(":"), to_json_string(&call.value(i + 1)?).expr]);
    }
    pieces.push(lit("}"));
    Ok(Typed::new(kernel("joined_text", call.safe, pieces), Type::Json))
}

fn path(call: &Call<'_>, name: &'static str, ty: Type) -> Result<Typed> {
    call.count(1, 2)?;
    let subject = text_of(call, 0)?;
    let is_json = call.value(0)?.ty == Type::Json;
    let path = if call.arguments.len() == 2 { call.value(1)? } else { Typed::text("$") };
    check_path(&path, call.at)?;
    let path = path.convert(&Type::String, Conversion::implicit(call.at))?;
    let mut arguments = vec![subject, path.expr];
    if name == "json_value" && is_json {
        // Both are held as text, and only of a text do the digits matter.
        arguments.push(lit(true));
    }
    Ok(Typed::new(kernel(name, call.safe, arguments), ty))
}

/// A path that is a constant must be one.
fn check_path(path: &Typed, at: Option<Position>) -> Result<()> {
    if let Some(text) = path.literal_text()
        && let Err(message) = steps(text)
    {
        return Err(fail(Code::InvalidQuery, message, at));
    }
    Ok(())
}

/// The elements of a JSON array, each of one kind.
fn elements(call: &Call<'_>, name: &'static str, item: Type) -> Result<Typed> {
    call.count(1, 1)?;
    let values = kernel(name, call.safe, vec![text_of(call, 0)?]);
    // Truth is held as 0 and 1 until here.
    let values = if item == Type::Bool { cast(values, list(item.clone()).arrow()) } else { values };
    Ok(Typed::new(values, list(item)))
}
