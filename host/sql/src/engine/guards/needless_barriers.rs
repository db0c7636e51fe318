//! Taking barriers out of a plan that does not need them: those of grants if nothing above them can fail, those of policies
//! if nothing could move below them.
//!
//! A barrier costs the optimizer time, and keeps it from handing orders, limits and counts on to the scan. Most statements
//! of a log viewer have nothing above it that may not be computed below it, and are as quick without: of most this is
//! seen before they are optimized, of some only afterwards.

use std::collections::HashMap;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, Filter, Join, LogicalPlan, Projection};

use crate::barrier::{
    is_barrier, is_comparison, is_literal, is_plain, is_policy, is_stored, may_fail, opened, without_grants,
};
use crate::exprs::{any, is_subquery};

/// What may still happen to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is to be optimized: conditions move down, parts of expressions are computed early.
    Resolved,
    /// It is optimized: operators are made of it.
    Optimized,
}

/// The resolved plan without the barriers that it does not need.
///
/// # Errors
/// None that is known: walking a plan does not fail.
pub(crate) fn without_needless(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = if may_fail(&plan)? { plan } else { without_grants(plan)? };
    Ok(without_needless_policies(&plan, Stage::Resolved)?.unwrap_or(plan))
}

/// The plan without the barriers of policies, if nothing that stands above them could be computed below them:
/// conditions are comparisons, and columns are stored ones. Then order, limits and counts reach the scan as they do for
/// who reads all rows.
///
/// # Errors
/// None that is known: walking a plan does not fail.
pub(crate) fn without_needless_policies(plan: &LogicalPlan, stage: Stage) -> Result<Option<LogicalPlan>> {
    if !plan.exists(|node| Ok(is_policy(node)))? || above_policies(plan, stage).is_none() {
        return Ok(None);
    }
    let without = plan.clone().transform_down(|node| {
        Ok(match opened(&node).filter(|_| is_policy(&node)) {
            Some(input) => Transformed::yes(input.clone()),
            None => Transformed::no(node),
        })
    })?;
    Ok(Some(without.data))
}

/// What a node hands on of the rows of policies.
struct Rows {
    reach: Reach,
    /// Of each column, whether it is a stored value, or one that is computed for rows of the policy alone.
    stored: Vec<bool>,
}

/// What of what stands above a node could move down to a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// Nothing: there is no barrier below, or something that nothing passes.
    Nothing,
    /// Conditions, through groups.
    Conditions,
    /// Whatever is computed.
    All,
}

/// The columns that a node reads, as [`Rows::stored`].
struct Columns(HashMap<Column, bool>);

/// What a node hands on, if the barriers below it may go, as far as the node and what is below it are concerned.
fn above_policies(node: &LogicalPlan, stage: Stage) -> Option<Rows> {
    let of_all = |reach| Rows { reach, stored: vec![true; node.schema().fields().len()] };
    if is_policy(node) {
        return Some(of_all(Reach::All));
    }
    let inputs = node.inputs();
    let rows = inputs.iter().map(|input| above_policies(input, stage)).collect::<Option<Vec<_>>>()?;
    // A barrier within a subquery that became no join is not looked at: it stays, and all others with it.
    if node.expressions().iter().any(|expr| any(expr, is_subquery)) {
        return None;
    }
    let reach = rows.iter().map(|rows| rows.reach).max().unwrap_or(Reach::Nothing);
    if reach == Reach::Nothing {
        return Some(of_all(reach));
    }
    let named = inputs.iter().zip(&rows).flat_map(|(input, rows)| {
        let columns = input.schema().columns().into_iter();
        columns.zip(rows.stored.iter().copied())
    });
    let columns = Columns(named.collect());
    let same = || Rows { reach, stored: rows.iter().flat_map(|rows| rows.stored.iter().copied()).collect() };
    let handed_on = match node {
        LogicalPlan::Projection(Projection { expr, .. }) => {
            let stored: Vec<_> = expr.iter().map(|expr| columns.is_stored(expr)).collect();
            (reach < Reach::All || !stored.contains(&false)).then_some(Rows { reach, stored })
        }
        LogicalPlan::Filter(Filter { predicate, .. }) => {
            split_conjunction(predicate).into_iter().all(|part| columns.is_plain(part)).then(same)
        }
        LogicalPlan::Join(join) => columns.is_plain_join(join).then(|| of_join(join, same())),
        LogicalPlan::Aggregate(aggregate) => columns.is_plain_aggregate(aggregate, reach, stage).then(|| {
            let groups = aggregate.group_expr.iter().map(|expr| columns.is_stored(expr));
            let stored = match stage {
                Stage::Resolved => groups.chain(aggregate.aggr_expr.iter().map(|_| true)).collect(),
                Stage::Optimized => vec![true; node.schema().fields().len()],
            };
            Rows { reach: stage.through_groups(), stored }
        }),
        // A limit that stands above a sort becomes part of it, and has the scan ordered by its keys.
        LogicalPlan::Sort(sort) => {
            let is_ordered_below = reach == Reach::All && (stage == Stage::Resolved || sort.fetch.is_some());
            (!is_ordered_below || sort.expr.iter().all(|key| columns.is_stored(&key.expr))).then(same)
        }
        LogicalPlan::Limit(_) | LogicalPlan::SubqueryAlias(_) => Some(same()),
        node if is_barrier(node) => Some(same()),
        LogicalPlan::Union(_) => {
            let stored = (0..node.schema().fields().len())
                .map(|nth| rows.iter().all(|rows| rows.stored.get(nth).is_some_and(|stored| *stored)))
                .collect();
            Some(Rows { reach, stored })
        }
        LogicalPlan::Distinct(Distinct::All(_)) => Some(Rows { reach: stage.through_groups(), ..same() }),
        LogicalPlan::Window(_) | LogicalPlan::Distinct(_) if stage == Stage::Optimized => Some(of_all(Reach::Nothing)),
        _ if stage == Stage::Optimized => Some(of_all(reach)),
        _ => None,
    };
    // Of grouping sets, one expression has several columns.
    handed_on.filter(|rows| rows.stored.len() == node.schema().fields().len())
}

/// What a join hands on of the rows of its inputs: semi joins and marks have columns of one input only.
fn of_join(join: &Join, both: Rows) -> Rows {
    let columns = join.schema.fields().len();
    if both.stored.len() == columns {
        return both;
    }
    let is_stored = !both.stored.contains(&false);
    Rows { reach: both.reach, stored: vec![is_stored; columns] }
}

impl Stage {
    /// What passes groups.
    fn through_groups(self) -> Reach {
        match self {
            Self::Resolved => Reach::Conditions,
            Self::Optimized => Reach::Nothing,
        }
    }
}

impl Columns {
    fn is_plain_join(&self, join: &Join) -> bool {
        let equal = join.on.iter().all(|(left, right)| self.is_stored(left) && self.is_stored(right));
        let between = |part: &Expr| match part {
            Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
                self.is_stored(&binary.left) && self.is_stored(&binary.right)
            }
            _ => false,
        };
        let filter = join.filter.iter().flat_map(split_conjunction);
        equal && filter.into_iter().all(|part| self.is_plain(part) || between(part))
    }

    /// Whether nothing of an aggregation is computed below it that is computed at all.
    fn is_plain_aggregate(&self, aggregate: &Aggregate, reach: Reach, stage: Stage) -> bool {
        let is_stored = |expr: &Expr| match expr.clone().unalias() {
            Expr::AggregateFunction(AggregateFunction { params, .. }) => {
                let order = params.order_by.iter().map(|key| &key.expr);
                params.args.iter().chain(order).chain(params.filter.as_deref()).all(|expr| self.is_stored(expr))
            }
            _ => false,
        };
        reach < Reach::All
            || aggregate.group_expr.iter().all(|expr| self.is_stored(expr))
                && (stage == Stage::Optimized || aggregate.aggr_expr.iter().all(is_stored))
    }

    fn is_plain(&self, condition: &Expr) -> bool {
        is_plain(condition) && self.are_stored(condition)
    }

    /// Whether an expression is a constant or a stored value, under whatever name.
    fn is_stored(&self, expr: &Expr) -> bool {
        let expr = match expr {
            Expr::Alias(alias) => &alias.expr,
            other => other,
        };
        is_literal(expr) || is_stored(expr) && self.are_stored(expr)
    }

    fn are_stored(&self, expr: &Expr) -> bool {
        expr.column_refs().into_iter().all(|column| self.0.get(column).is_some_and(|stored| *stored))
    }
}
