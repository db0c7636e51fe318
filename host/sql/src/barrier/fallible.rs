//! Whether what stands above a barrier can fail, and so tell of rows that it should not be computed for.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator};
use tidegate_functions::Fallibility;
use tidegate_functions::make::fallibility;

use super::is_barrier;
use super::plain::is_literal;

/// Whether any expression above the barriers may fail.
///
/// # Errors
/// None that is known: walking a plan does not fail.
pub(crate) fn may_fail(plan: &LogicalPlan) -> Result<bool> {
    let mut fails = false;
    plan.apply(|node| {
        if is_barrier(node) {
            return Ok(TreeNodeRecursion::Jump);
        }
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            fails |= expr_may_fail(expr, &schema)?;
            Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(fails)
}

/// Whether an expression over columns of a schema may fail for some value of them.
///
/// # Errors
/// None that is known: walking an expression does not fail.
pub(crate) fn expr_may_fail(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let mut fails = false;
    expr.apply(|part| {
        fails |= match part {
            Expr::Column(_)
            | Expr::Literal(..)
            | Expr::Alias(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_)
            | Expr::Between(_)
            | Expr::InList(_)
            | Expr::Case(_)
            | Expr::TryCast(_)
            // Aggregates and windows are computed where they stand; their arguments are looked at.
            | Expr::AggregateFunction(_)
            | Expr::WindowFunction(_) => false,
            Expr::BinaryExpr(binary) => match binary.op {
                Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
                | Operator::And
                | Operator::Or
                | Operator::IsDistinctFrom
                | Operator::IsNotDistinctFrom => false,
                Operator::RegexMatch | Operator::RegexNotMatch => !is_literal(&binary.right),
                _ => true,
            },
            Expr::Like(like) => !is_literal(&like.pattern),
            Expr::Cast(cast) => {
                !cast.expr.get_type(schema).is_ok_and(|from| always_casts(&from, cast.field.data_type()))
            }
            Expr::ScalarFunction(call) => {
                match fallibility(&call.func) {
                    Fallibility::Fallible => true,
                    Fallibility::FallibleUnlessLiterals => !call.args.iter().skip(1).all(is_literal),
                    Fallibility::Infallible => false,
                }
            }
            Expr::Exists(exists) => may_fail(&exists.subquery.subquery)?,
            Expr::InSubquery(of) => may_fail(&of.subquery.subquery)?,
            // A subquery used as a value fails where it has two rows.
            _ => true,
        };
        Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(fails)
}

/// Whether every value of a type has a counterpart in another.
fn always_casts(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        // Anything can be shown as text.
        (_, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => true,
        // Stored and computed times lie within the years 1 to 9999.
        (DataType::Timestamp(..), DataType::Date32) => true,
        (DataType::Boolean | DataType::Int8 | DataType::Int16 | DataType::Int32, DataType::Int64) => true,
        (DataType::Int64, DataType::Float64 | DataType::Decimal128(38, 9) | DataType::Decimal256(76, 38)) => true,
        (DataType::Decimal128(38, 9), DataType::Decimal256(76, 38)) => true,
        (from, to) => from == to,
    }
}
