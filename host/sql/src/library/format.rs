//! FORMAT.

use datafusion::logical_expr::{Expr, lit};

use super::call::Call;
use crate::fail::Result;
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::Conversion;
use crate::typing::kernel;
use crate::typing::to_json_string;

/// Each value is given as three arguments: as a number if it is one, else as its text; as its text; and how its
/// literal is written (`%T`).
pub(super) fn build(call: &Call<'_>) -> Result<Typed> {
    let count = call.count(1, usize::MAX)?;
    let mut arguments = vec![call.text(0)?];
    for i in 1..count {
        let value = call.value(i)?;
        let how = Conversion::implicit(call.at);
        let text = match &value.ty {
            Type::Struct { .. } | Type::Record(_) | Type::Array(_) => to_json_string(&value),
            // Bytes that are no text have one, too.
            Type::Bytes => Typed::new(kernel("escaped_bytes", call.safe, vec![value.expr.clone()]), Type::String),
            Type::Null => Typed::null().convert(&Type::String, how)?,
            _ => value.clone().convert(&Type::String, how)?,
        };
        let kind = match &value.ty {
            Type::String => "quoted",
            Type::Bytes => "BYTES",
            Type::Date => "DATE",
            Type::Datetime => "DATETIME",
            Type::Time => "TIME",
            Type::Timestamp => "TIMESTAMP",
            Type::Json => "JSON",
            Type::Range(of) => &format!("RANGE<{of}>"),
            Type::Numeric => "NUMERIC",
            Type::BigNumeric => "BIGNUMERIC",
            _ => "plain",
        };
        let first = if value.ty.is_number() && !value.ty.is_decimal() { value.expr } else { text.expr.clone() };
        arguments.extend([first, text.expr, lit(kind)]);
    }
    let expr: Expr = kernel("format_values", call.safe, arguments);
    Ok(Typed::new(expr, Type::String))
}
