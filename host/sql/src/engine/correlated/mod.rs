//! Subqueries that use columns of the enclosing query.
//!
//! The engine turns those into joins that compare such columns by `=`, and is left to it where it can. The others become joins
//! here ([`joined`]): the distinct values of the columns are taken as keys ([`keys`]), the subquery is computed for all of them
//! at once ([`pushed`]), and each row is joined with the answer of its key. The rows of the enclosing query are then read twice,
//! and must be the same: but for those of a table, they are computed once and held (`SharedPart`), as are the keys. What is left
//! fails in the engine, with errors that often do not say why, so a statement that cannot be planned is checked for a subquery
//! that cannot become a join.

mod joined;
mod keys;
mod pushed;

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;
use tidegate_model::Failure;

use crate::engine::shortcuts::shared_part::all_parts;
use crate::exprs::subquery_of;
use crate::fail::{Result, correlated, from_engine, known};

/// The plan with joins in the place of the subqueries that the engine makes no join of.
///
/// # Errors
/// If there is a subquery that cannot become a join, or the statement is stopped or too large.
pub(crate) fn joined(plan: LogicalPlan) -> Result<LogicalPlan> {
    joined::with_joins(plan).map_err(|error| match (known(&error), error) {
        (Some(failure), _) => failure,
        (None, DataFusionError::NotImplemented(why)) => correlated(&why),
        (None, error) => from_engine(error),
    })
}

/// Names for columns, which no column of a resolved plan has: none has a space at its begin.
#[derive(Debug, Default)]
struct Names(usize);

impl Names {
    fn next(&mut self) -> String {
        self.0 += 1;
        format!(" key {}", self.0)
    }
}

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
    // The closures never fail, so neither do the walks.
    let parts = all_parts(plan).unwrap_or_default();
    let mut stuck = false;
    for plan in parts.values().map(|part| part.input.as_ref()).chain([plan]) {
        let _ = keys::walk(plan, |part| {
            stuck |= subquery_of(part).is_some_and(|plan| is_stuck(plan));
            Ok(if stuck { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
    }
    stuck
}

/// Decided by the engine's own rule: what it cannot pull out of a subquery stays in it.
fn is_stuck(subquery: &LogicalPlan) -> bool {
    let outer = |node: &LogicalPlan| Ok(node.contains_outer_reference());
    if !subquery.exists(outer).unwrap_or(true) {
        return false;
    }
    let mut pull_up = PullUpCorrelatedExpr::new().with_need_handle_count_bug(true);
    let Ok(rest) = subquery.clone().rewrite(&mut pull_up).data() else { return true };
    !pull_up.can_pull_up || rest.exists(outer).unwrap_or(true)
}
