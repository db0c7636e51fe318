//! Conditions that may be looked at for rows which a tenant may not read.
//!
//! Below the condition of a row policy lie the rows of all tenants. What is computed for them takes time that depends on
//! them: by `event_message LIKE '%password=h%' AND` thirty slow expressions, a caller would read a text of others letter by
//! letter, from the time of its own query. So only comparisons of a stored value with a constant pass the barrier of a
//! policy. They take the same time for every value, and are the ones by which statistics leave out rows. Texts, patterns,
//! CASE, functions, and conditions of which one decides whether another is looked at (OR) wait above it.

use std::collections::HashMap;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Between, Expr, Join, LogicalPlan, Operator};

use super::field_path::path_of;
use super::security_barrier::{is_literal, is_policy, opened};

/// Whether a condition compares a stored value with a constant, and does nothing else.
pub(super) fn is_plain(condition: &Expr) -> bool {
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

fn is_comparison(op: Operator) -> bool {
    matches!(op, Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// Whether an expression is a stored value, if need be in a wider type.
fn is_stored(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => {
            let to = cast.field.data_type();
            matches!(to, DataType::Int64 | DataType::Float64 | DataType::Timestamp(..)) && is_stored(&cast.expr)
        }
        other => path_of(other).is_some(),
    }
}

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
