//! Which physical expressions travel, and which messages of them are decoded.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion_proto::protobuf::PhysicalExprNode;
use datafusion_proto::protobuf::physical_expr_node::ExprType;

use crate::error::{refused, unsendable};
use crate::literal_check;

/// A cast to a field of which more than the type counts, which the engine's message cannot say.
pub(crate) fn cast_to_field(expr: &Arc<dyn PhysicalExpr>) -> Option<&CastExpr> {
    let cast = expr.downcast_ref::<CastExpr>()?;
    let again = |cast: &CastExpr| {
        CastExpr::new_with_target_field(Arc::clone(cast.expr()), Arc::clone(cast.target_field()), None)
    };
    (!is_plain(cast) && again(cast) == *cast).then_some(cast)
}

fn is_plain(cast: &CastExpr) -> bool {
    CastExpr::new(Arc::clone(cast.expr()), cast.cast_type().clone(), None) == *cast
}

/// Whether an expression has nothing that its message would lose.
///
/// # Errors
/// What it has.
pub(crate) fn sendable(expr: &Arc<dyn PhysicalExpr>) -> Result<()> {
    let is_whole = if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        is_plain(cast) && literal_check::data_type(cast.cast_type()).is_ok()
    } else if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let (left, right) = (Arc::clone(binary.left()), Arc::clone(binary.right()));
        let is_named = Operator::from_proto_name(&format!("{:?}", binary.op())).is_some();
        is_named && BinaryExpr::new(left, *binary.op(), right) == *binary
    } else if let Some(literal) = expr.downcast_ref::<Literal>() {
        Literal::new(literal.value().clone()) == *literal
            && literal_check::data_type(&literal.value().data_type()).is_ok()
    } else if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        call.return_field(&Schema::empty())?.metadata().is_empty()
    } else {
        true
    };
    if is_whole { Ok(()) } else { unsendable(format!("{expr} has a flag that its message cannot say")) }
}

/// Whether the message of an expression over these columns may be decoded. What stands below it is looked at by itself.
///
/// # Errors
/// If it is not in the list, or is a column that is not there.
pub(crate) fn allowed(node: &PhysicalExprNode, columns: &Schema) -> Result<()> {
    let Some(kind) = &node.expr_type else { return refused("an expression is empty") };
    // The number by which the copies of an expression that changes while the plan runs know each other.
    if node.expr_id.is_some() != matches!(kind, ExprType::DynamicFilter(_)) {
        return refused("an expression has a number, or has none");
    }
    match kind {
        ExprType::Column(column) => {
            let index = usize::try_from(column.index).unwrap_or(usize::MAX);
            // The engine does not keep names of columns up to date; their places count.
            if index < columns.fields().len() {
                Ok(())
            } else {
                refused("an expression names a column that is not there")
            }
        }
        // It takes the second ones by the places of the first.
        ExprType::DynamicFilter(filter)
            if !filter.remapped_children.is_empty() && filter.remapped_children.len() != filter.children.len() =>
        {
            refused("a filter that changes has other columns than it had")
        }
        ExprType::ScalarUdf(call) if call.fun_definition.is_none() => refused("a function has no definition"),
        ExprType::BinaryExpr(binary) if binary.operands.len() < 2 => refused("an operation has no operands"),
        ExprType::Literal(literal) => literal_check::literal(literal),
        ExprType::Cast(cast) => cast.arrow_type.as_ref().map_or(Ok(()), literal_check::arrow_type),
        ExprType::TryCast(cast) => cast.arrow_type.as_ref().map_or(Ok(()), literal_check::arrow_type),
        ExprType::BinaryExpr(_)
        | ExprType::IsNullExpr(_)
        | ExprType::IsNotNullExpr(_)
        | ExprType::NotExpr(_)
        | ExprType::Case(_)
        | ExprType::Negative(_)
        | ExprType::InList(_)
        | ExprType::LikeExpr(_)
        | ExprType::ScalarUdf(_)
        | ExprType::ScalarSubquery(_)
        | ExprType::DynamicFilter(_) => Ok(()),
        _ => refused("the plan has an expression that may not be here"),
    }
}
