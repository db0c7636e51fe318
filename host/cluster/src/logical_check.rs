//! Which logical expressions may stand in a subquery over arrays. The engine would also decode others: subqueries with
//! whole plans in them, which read files.

use datafusion::error::Result;
use datafusion_proto::protobuf::LogicalExprNode;
use datafusion_proto::protobuf::logical_expr_node::ExprType;

use crate::error::refused;
use crate::literal_check;

/// Checks an expression and all below it. Its depth is bounded by that of messages.
///
/// # Errors
/// If one of them is not in the list.
pub(crate) fn checked(node: &LogicalExprNode) -> Result<()> {
    let Some(kind) = &node.expr_type else { return refused("an expression is empty") };
    match kind {
        ExprType::Column(_) => Ok(()),
        ExprType::Literal(of) => literal_check::literal(of),
        ExprType::Alias(of) => one(of.expr.as_deref()),
        ExprType::BinaryExpr(of) => all(&of.operands),
        ExprType::IsNullExpr(of) => one(of.expr.as_deref()),
        ExprType::IsNotNullExpr(of) => one(of.expr.as_deref()),
        ExprType::NotExpr(of) => one(of.expr.as_deref()),
        ExprType::IsTrue(of) => one(of.expr.as_deref()),
        ExprType::IsFalse(of) => one(of.expr.as_deref()),
        ExprType::IsUnknown(of) => one(of.expr.as_deref()),
        ExprType::IsNotTrue(of) => one(of.expr.as_deref()),
        ExprType::IsNotFalse(of) => one(of.expr.as_deref()),
        ExprType::IsNotUnknown(of) => one(of.expr.as_deref()),
        ExprType::Negative(of) => one(of.expr.as_deref()),
        ExprType::Cast(of) => {
            of.arrow_type.as_ref().map_or(Ok(()), literal_check::arrow_type)?;
            one(of.expr.as_deref())
        }
        ExprType::TryCast(of) => {
            of.arrow_type.as_ref().map_or(Ok(()), literal_check::arrow_type)?;
            one(of.expr.as_deref())
        }
        ExprType::Like(of) => one(of.expr.as_deref()).and_then(|()| one(of.pattern.as_deref())),
        ExprType::Ilike(of) => one(of.expr.as_deref()).and_then(|()| one(of.pattern.as_deref())),
        ExprType::Between(of) => {
            one(of.expr.as_deref())?;
            one(of.low.as_deref())?;
            one(of.high.as_deref())
        }
        ExprType::InList(of) => one(of.expr.as_deref()).and_then(|()| all(&of.list)),
        ExprType::Case(of) => {
            maybe(of.expr.as_deref())?;
            for branch in &of.when_then_expr {
                one(branch.when_expr.as_ref())?;
                one(branch.then_expr.as_ref())?;
            }
            maybe(of.else_expr.as_deref())
        }
        ExprType::ScalarUdfExpr(of) if of.fun_definition.is_some() => all(&of.args),
        ExprType::AggregateUdfExpr(of) if of.fun_definition.is_some() => {
            all(&of.args)?;
            maybe(of.filter.as_deref())?;
            of.order_by.iter().try_for_each(|key| one(key.expr.as_ref()))
        }
        _ => refused("an expression may not stand in a subquery over arrays"),
    }
}

fn one(node: Option<&LogicalExprNode>) -> Result<()> {
    match node {
        Some(node) => checked(node),
        None => refused("an expression is missing"),
    }
}

fn maybe(node: Option<&LogicalExprNode>) -> Result<()> {
    node.map_or(Ok(()), checked)
}

fn all(nodes: &[LogicalExprNode]) -> Result<()> {
    nodes.iter().try_for_each(checked)
}
