//! Taking the barriers of policies out of an optimized plan in which nothing could move below them.
//!
//! A barrier keeps the engine from handing orders, limits and counts on to the scan. Most statements of a log viewer have
//! nothing above it that may not be computed below it, and are as quick without.

use std::collections::HashMap;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Join, LogicalPlan};

use super::plain_conditions::{is_comparison, is_literal, is_plain, is_stored};
use super::security_barrier::{is_policy, opened};

/// The optimized plan without the barriers of policies, if nothing that stands above them could be computed below them:
/// conditions are comparisons, and columns are stored ones. Then order, limits and counts reach the scan as they do for
/// who reads all rows, and the conditions of the policies come first all the same.
///
/// # Errors
/// None that is known: walking a plan does not fail.
pub(super) fn without_needless_policies(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    if !plan.exists(|node| Ok(is_policy(node)))? {
        return Ok(None);
    }
    let mut names = HashMap::new();
    plan.apply(|node| {
        if let LogicalPlan::Projection(projection) = node {
            let columns = projection.schema.columns().into_iter();
            names.extend(columns.zip(projection.expr.iter().cloned().map(|expr| expr.unalias())));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !Above(names).lets_through(plan, &mut false) {
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

/// What stands above barriers: the expressions of columns that projections make.
struct Above(HashMap<Column, Expr>);

impl Above {
    /// Whether the barriers below a node may go, as far as the node and what is below it are concerned. `open` is set if
    /// what stands above the node could move down to a barrier.
    fn lets_through(&self, node: &LogicalPlan, open: &mut bool) -> bool {
        if is_policy(node) {
            *open = true;
            return true;
        }
        let mut below = false;
        if !node.inputs().into_iter().all(|input| self.lets_through(input, &mut below)) {
            return false;
        }
        // A barrier within a subquery that became no join is not looked at: it stays, and all others with it.
        let has_subquery = |expr: &Expr| {
            expr.exists(|part| Ok(matches!(part, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_))))
                .unwrap_or(true)
        };
        if node.expressions().iter().any(has_subquery) {
            return false;
        }
        *open |=
            below && !matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Distinct(_));
        if !below {
            return true;
        }
        match node {
            LogicalPlan::Projection(projection) => projection.expr.iter().all(|expr| self.is_stored(expr)),
            LogicalPlan::Filter(filter) => {
                split_conjunction(&filter.predicate).into_iter().all(|part| self.is_plain(part))
            }
            LogicalPlan::Join(join) => self.is_plain_join(join),
            LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.iter().all(|expr| self.is_stored(expr)),
            LogicalPlan::Sort(sort) => sort.fetch.is_none() || sort.expr.iter().all(|key| self.is_stored(&key.expr)),
            _ => true,
        }
    }

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

    fn is_plain(&self, condition: &Expr) -> bool {
        is_plain(condition) && condition.column_refs().into_iter().all(|column| self.is_stored_column(column))
    }

    fn is_stored(&self, expr: &Expr) -> bool {
        let expr = match expr {
            Expr::Alias(alias) => &alias.expr,
            other => other,
        };
        is_literal(expr)
            || is_stored(expr) && expr.column_refs().into_iter().all(|column| self.is_stored_column(column))
    }

    /// Whether a column is one of a table or an aggregation, under whatever names.
    fn is_stored_column(&self, column: &Column) -> bool {
        match self.0.get(column) {
            // A projection that hands a column on under the same name.
            Some(Expr::Column(same)) if same == column => true,
            Some(expr) => self.is_stored(expr),
            None => true,
        }
    }
}
