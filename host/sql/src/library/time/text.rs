//! Times as text, and text as times.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{cast, lit};

use super::super::call::{Builder, Call};
use super::super::json::text_in;
use super::super::kernel::kernel;
use super::{micros, moment, zone};
use crate::fail::Result;
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::Conversion;

pub(in crate::library) const FUNCTIONS: &[(&str, Builder)] = &[
    ("FORMAT_TIMESTAMP", |call| format(call, &Type::Timestamp)),
    ("FORMAT_DATETIME", |call| format(call, &Type::Datetime)),
    ("FORMAT_DATE", |call| format(call, &Type::Date)),
    ("FORMAT_TIME", |call| {
        call.count(2, 2)?;
        let micros = cast(call.typed(1, &Type::Time)?, DataType::Int64);
        Ok(Typed::new(kernel("format_time", call.safe, vec![call.text(0)?, micros, lit("UTC")]), Type::String))
    }),
    ("PARSE_TIMESTAMP", |call| parse(call, &Type::Timestamp)),
    ("PARSE_DATETIME", |call| parse(call, &Type::Datetime)),
    ("PARSE_DATE", |call| parse(call, &Type::Date)),
    ("PARSE_TIME", |call| parse(call, &Type::Time)),
    ("STRING", |call| {
        call.count(1, 2)?;
        let value = call.value(0)?;
        if matches!(value.ty, Type::Json | Type::String | Type::Null) {
            return text_in(call);
        }
        match zone(call, 1)? {
            None => value.convert(&Type::String, Conversion::cast(call.at, call.safe)),
            Some(zone) => {
                let value = value.convert(&Type::Timestamp, Conversion::implicit(call.at))?;
                Ok(Typed::new(kernel("zoned_text", call.safe, vec![value.expr, zone]), Type::String))
            }
        }
    }),
];

fn format(call: &Call<'_>, ty: &Type) -> Result<Typed> {
    call.count(2, 3)?;
    let zone = zone(call, 2)?.unwrap_or_else(|| lit("UTC"));
    let micros = micros(moment(call, 1, ty)?);
    Ok(Typed::new(kernel("format_time", call.safe, vec![call.text(0)?, micros, zone]), Type::String))
}

fn parse(call: &Call<'_>, ty: &Type) -> Result<Typed> {
    call.count(2, if *ty == Type::Timestamp { 3 } else { 2 })?;
    let zone = zone(call, 2)?.unwrap_or_else(|| lit("UTC"));
    let parsed = kernel("parse_time_as", call.safe, vec![call.text(0)?, call.text(1)?, zone]);
    let expr = match ty {
        Type::Date => cast(parsed, DataType::Date32),
        Type::Time => kernel("time_of_micros", call.safe, vec![parsed]),
        _ => parsed,
    };
    Ok(Typed::new(expr, ty.clone()))
}
