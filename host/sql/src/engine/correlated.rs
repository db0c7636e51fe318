//! Subqueries that use columns of the enclosing query. The engine turns them into joins or fails, with errors that often
//! do not say why. So when a statement cannot be planned, it is checked for a subquery that cannot become a join.

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;
use tidegate_model::Failure;

use crate::fail::{correlated, from_engine, known};

/// Why a statement cannot be planned.
pub(crate) fn of_planning(error: DataFusionError, plan: &LogicalPlan) -> Failure {
    match known(&error) {
        Some(failure) => failure,
        None if has_stuck(plan) => correlated(&error.to_string()),
        None => from_engine(error),
    }
}

/// Whether one of its subqueries cannot become a join.
fn has_stuck(plan: &LogicalPlan) -> bool {
    let mut stuck = false;
    // The closures never fail, so neither do the walks.
    let _ = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                stuck |= match part {
                    Expr::ScalarSubquery(subquery)
                    | Expr::InSubquery(InSubquery { subquery, .. })
                    | Expr::Exists(Exists { subquery, .. }) => is_stuck(subquery),
                    _ => false,
                };
                Ok(if stuck { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    });
    stuck
}

/// Decided by the engine's own rule: what it cannot pull out of a subquery stays in it.
fn is_stuck(Subquery { subquery, outer_ref_columns, .. }: &Subquery) -> bool {
    if outer_ref_columns.is_empty() {
        return false;
    }
    let mut pull_up = PullUpCorrelatedExpr::new().with_need_handle_count_bug(true);
    let Ok(rest) = subquery.as_ref().clone().rewrite(&mut pull_up).data() else { return true };
    let outer = |node: &LogicalPlan| Ok(node.contains_outer_reference());
    !pull_up.can_pull_up || rest.exists(outer).unwrap_or(true)
}
