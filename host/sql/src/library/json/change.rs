//! JSON_SET, JSON_REMOVE and the like.

use datafusion::logical_expr::{Expr, lit};

use super::super::call::{Builder, Call};
use super::{check_path, text_of};
use crate::fail::Result;
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::Conversion;
use crate::typing::kernel;
use crate::typing::to_json_string;

pub(in crate::library) const FUNCTIONS: &[(&str, Builder)] = &[
    ("JSON_SET", |call| pairs(call, "json_set")),
    ("JSON_ARRAY_APPEND", |call| pairs(call, "json_append")),
    ("JSON_ARRAY_INSERT", |call| pairs(call, "json_insert")),
    ("JSON_REMOVE", |call| {
        let count = call.count(2, usize::MAX)?;
        let paths = (1..count).map(|i| path(call, i));
        let arguments = std::iter::once(text_of(call, 0)).chain(paths).collect::<Result<Vec<_>>>()?;
        Ok(Typed::new(kernel("json_remove", call.safe, arguments), Type::Json))
    }),
    ("JSON_STRIP_NULLS", |call| {
        call.count(1, 4)?;
        let path = if call.has(1) { path(call, 1)? } else { lit("$") };
        let arguments = vec![text_of(call, 0)?, path, call.flag(2, true)?, call.flag(3, false)?];
        Ok(Typed::new(kernel("json_strip", call.safe, arguments), Type::Json))
    }),
];

/// The path of an argument, checked early where it is a constant.
fn path(call: &Call<'_>, i: usize) -> Result<Expr> {
    let path = call.value(i)?;
    check_path(&path, call.at)?;
    Ok(path.convert(&Type::String, Conversion::implicit(call.at))?.expr)
}

/// `JSON_SET(json, path, value, path, value, ...)`, and at the end a flag that is true otherwise.
fn pairs(call: &Call<'_>, name: &'static str) -> Result<Typed> {
    let count = call.count(3, usize::MAX)? - usize::from(call.named_last);
    if count.is_multiple_of(2) {
        return Err(call.fails(format!("{} takes paths and values in turn, and a flag with its name", call.name)));
    }
    let flag = if call.named_last { call.typed(count, &Type::Bool)? } else { lit(true) };
    let mut arguments = vec![text_of(call, 0)?, flag];
    for i in (1..count).step_by(2) {
        let value = call.value(i + 1)?;
        let is_list = matches!(value.ty, Type::Array(_) | Type::Record(_));
        arguments.extend([path(call, i)?, to_json_string(&value).expr, lit(is_list)]);
    }
    Ok(Typed::new(kernel(name, call.safe, arguments), Type::Json))
}
