//! The types of the dialect (`tidegate_functions::types`), and conditions over values of them.

use datafusion::functions::core::expr_fn as core;
use datafusion::logical_expr::Expr;
use tidegate_model::{PRESENCE_FIELD, UNLIKE_FIELD};

pub(crate) use tidegate_functions::types::has_hidden;
pub use tidegate_functions::types::{Field, Type};

/// Whether a value that is an array to the dialect is there at all. Of a record it reads the
/// hidden field, so that the test costs one narrow column and not the whole record.
pub(crate) fn is_there(expr: &Expr, ty: &Type) -> Expr {
    match ty {
        Type::Record(fields) if fields.iter().any(Field::is_hidden) => {
            core::get_field(expr.clone(), PRESENCE_FIELD).is_not_null()
        }
        _ => expr.clone().is_not_null(),
    }
}

/// Whether a value is not NULL. A record is not where a value of another kind stands in its place, either.
pub(crate) fn is_value(expr: &Expr, ty: &Type) -> Expr {
    let there = is_there(expr, ty);
    match ty {
        Type::Record(fields) if has_hidden(fields, UNLIKE_FIELD) => {
            there.or(core::get_field(expr.clone(), UNLIKE_FIELD).is_not_null())
        }
        _ => there,
    }
}
