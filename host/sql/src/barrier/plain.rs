//! Conditions that may be looked at for rows which a tenant may not read.
//!
//! Below the condition of a row policy lie the rows of all tenants. What is computed for them takes time that depends on
//! them: by `event_message LIKE '%password=h%' AND` thirty slow expressions, a caller would read a text of others letter by
//! letter, from the time of its own query. So only comparisons of a stored value with a constant pass the barrier of a
//! policy. They take the same time for every value, and are the ones by which statistics leave out rows. Texts, patterns,
//! CASE, functions, and conditions of which one decides whether another is looked at (OR) wait above it.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, Expr, Operator};

use crate::exprs::path_of;

/// Whether a condition compares a stored value with a constant, and does nothing else.
pub(crate) fn is_plain(condition: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            let (left, right) = (&binary.left, &binary.right);
            is_stored(left) && is_literal(right) || is_literal(left) && is_stored(right)
        }
        Expr::InList(InList { expr, list, .. }) => is_stored(expr) && list.iter().all(is_literal),
        Expr::Between(Between { expr, low, high, .. }) => is_stored(expr) && is_literal(low) && is_literal(high),
        Expr::IsNull(of)
        | Expr::IsNotNull(of)
        | Expr::IsTrue(of)
        | Expr::IsNotTrue(of)
        | Expr::IsFalse(of)
        | Expr::IsNotFalse(of)
        | Expr::Not(of) => is_stored(of),
        // A column of BOOL, or TRUE.
        other => is_stored(other) || is_literal(other),
    }
}

pub(crate) fn is_comparison(op: Operator) -> bool {
    matches!(op, Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// Whether an expression is a constant.
pub(crate) fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) => true,
        Expr::Cast(cast) => is_literal(&cast.expr),
        _ => false,
    }
}

/// Whether an expression is a stored value, if need be in a wider type.
pub(crate) fn is_stored(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => {
            let to = cast.field.data_type();
            matches!(to, DataType::Int64 | DataType::Float64 | DataType::Timestamp(..)) && is_stored(&cast.expr)
        }
        other => path_of(other).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::functions::core::expr_fn::get_field;
    use datafusion::logical_expr::{col, lit};

    use super::*;

    #[test]
    fn only_comparisons_with_constants_are_plain() {
        let path = || get_field(get_field(col("metadata"), "request"), "path");
        for plain in [
            col("a").eq(lit(1)),
            lit(1).lt(col("a")),
            path().not_eq(lit("x")),
            path().in_list(vec![lit("x"), lit("y")], true),
            col("a").between(lit(1), lit(2)),
            path().is_null(),
            Expr::Not(Box::new(col("a"))),
            col("a"),
        ] {
            assert!(is_plain(&plain), "{plain}");
        }
        for other in [
            col("a").eq(col("b")),
            col("a").like(lit("%x%")),
            col("a").eq(lit(1)).or(col("b").eq(lit(2))),
            col("a").eq(lit(1)).and(col("b").eq(lit(2))),
            Expr::Not(Box::new(col("a").eq(lit(1)))),
            (col("a") + lit(1)).eq(lit(2)),
            datafusion::functions::expr_fn::lower(col("a")).eq(lit("x")),
            datafusion::functions::expr_fn::lower(col("a")).is_null(),
        ] {
            assert!(!is_plain(&other), "{other}");
        }
    }
}
