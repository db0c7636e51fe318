//! Calls of kernels.

use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;
use tidegate_functions::scalar::{json_text, portable_json_text};
use tidegate_functions::table::kernel_function;

use super::constant::folded;
use crate::typed::Typed;
use crate::types::Type;

/// A call of a kernel. A safe one gives NULL where the other fails.
pub(crate) fn kernel(name: &'static str, safe: bool, arguments: Vec<Expr>) -> Expr {
    let Some(early) = kernel_function(name, safe, false) else {
        // The names stand in this crate: a missing one is a bug that every test of its function meets.
        return Expr::Literal(ScalarValue::Null, None);
    };
    // The engine would fold a constant even where it is too long for that, and keep it in the plan or copy it into each
    // row: such a call is left for when the statement runs.
    if let Some(late) = kernel_function(name, safe, true)
        && arguments.iter().all(|argument| !argument.any_column_refs())
    {
        let value = folded(Typed::new(early.call(arguments.clone()), Type::Null)).expr;
        return match value {
            Expr::Literal(..) => value,
            _ => late.call(arguments),
        };
    }
    early.call(arguments)
}

/// TO_JSON_STRING.
pub(crate) fn portable_json(value: &Typed) -> Typed {
    Typed::new(portable_json_text(value.expr.clone(), &value.ty), Type::String)
}

/// The text of TO_JSON.
pub(crate) fn to_json_string(value: &Typed) -> Typed {
    Typed::new(json_text(value.expr.clone(), &value.ty), Type::String)
}
