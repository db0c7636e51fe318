//! The path of a field in an optimized plan, where every field that is read stands by its path from a column on.

use datafusion::common::Column;
use datafusion::logical_expr::Expr;

/// A column, or a path of fields below one.
pub(super) fn path_of(expr: &Expr) -> Option<(&Column, Vec<String>)> {
    match expr {
        Expr::Column(column) => Some((column, Vec::new())),
        Expr::ScalarFunction(call) if call.func.name() == "get_field" => {
            let (base, names) = call.args.split_first()?;
            let (column, mut path) = path_of(base)?;
            for name in names {
                let Expr::Literal(name, _) = name else { return None };
                path.push(name.try_as_str().flatten()?.to_owned());
            }
            Some((column, path))
        }
        _ => None,
    }
}
