//! Joins in the place of subqueries that the engine makes no join of.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, Result, not_impl_err, plan_err};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, col, lit, not, when};
use tidegate_functions::scalar::{raised, raised_as};

use super::keys::{Keys, outer_columns, subquery_of, walk, with_subquery};
use super::pushed::Pusher;
use super::{Names, is_stuck};
use crate::engine::shortcuts::shared_part::on_enough_stack;
use crate::exprs::{any, is_subquery};

/// The plan with joins in the place of the subqueries that the engine makes no join of. A resolved plan; whoever calls this knows
/// that it has correlated subqueries.
///
/// # Errors
/// If there is a subquery that cannot become a join.
pub(crate) fn with_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    let joined = Joiner::default().over(&plan)?;
    Ok(joined.unwrap_or(plan))
}

/// Whether a subquery is for this file.
fn is_for_us(subquery: &LogicalPlan) -> Result<bool> {
    let outer = outer_columns(subquery)?;
    if outer.is_empty() {
        return Ok(false);
    }
    let mut windowed = false;
    subquery.apply(|node| {
        windowed |= matches!(node, LogicalPlan::Window(_)) && !node.all_out_ref_exprs().is_empty();
        Ok(TreeNodeRecursion::Continue)
    })?;
    if windowed || is_stuck(subquery) {
        return Ok(true);
    }
    let mut within = false;
    walk(subquery, |part| {
        if let Some(inner) = subquery_of(part) {
            within = within || !outer.is_disjoint(&outer_columns(inner)?) || is_for_us(inner)?;
        }
        Ok(if within { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(within)
}

#[derive(Default)]
struct Joiner {
    names: Names,
}

impl Joiner {
    /// The plan with joins; `None` where nothing changes.
    fn over(&mut self, node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        on_enough_stack(|| self.over_inner(node))
    }

    fn over_inner(&mut self, node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let mut changed = false;
        let mut inputs = Vec::new();
        for input in node.inputs() {
            let input = match self.over(input)? {
                Some(joined) => {
                    changed = true;
                    joined
                }
                None => input.clone(),
            };
            inputs.push(input);
        }
        let mut exprs = node.expressions();
        if exprs.iter().any(|expr| any(expr, is_subquery)) {
            let source = match inputs.as_slice() {
                [input] => Some(input.clone()),
                _ => None,
            };
            for expr in &mut exprs {
                let replaced = std::mem::take(expr).transform_up(|part| {
                    if subquery_of(&part).is_none() {
                        return Ok(Transformed::no(part));
                    }
                    let (part, replaced) = self.replaced(part, &mut inputs, source.as_ref())?;
                    changed |= replaced;
                    Ok(Transformed::yes(part))
                })?;
                *expr = replaced.data;
            }
        }
        if !changed {
            return Ok(None);
        }
        let plan = node.with_new_exprs(exprs, inputs)?;
        restored(plan, node.schema()).map(Some)
    }

    /// The value of a subquery over the rows of the only input, which gets a column for it; and whether anything changed.
    fn replaced(
        &mut self,
        subquery: Expr,
        inputs: &mut [LogicalPlan],
        source: Option<&LogicalPlan>,
    ) -> Result<(Expr, bool)> {
        let Some(plan) = subquery_of(&subquery) else { return Ok((subquery, false)) };
        if !is_for_us(plan)? {
            return match self.over(plan)? {
                Some(joined) => Ok((with_subquery(subquery, |_| Ok(joined))?, true)),
                None => Ok((subquery, false)),
            };
        }
        let ([input], Some(source)) = (inputs, source) else {
            return not_impl_err!("a correlated subquery in the condition of a join");
        };
        let (plan, negated) = scalar(subquery, input.schema(), &mut self.names)?;
        let mut keys = Keys::of(&plan)?;
        // The rows with the answers of subqueries beside this one are not computed again where it does not read these.
        let source = if keys.are_of(source.schema()) { source.clone() } else { input.clone() };
        let (keyed, key) = keys.keyed(input.clone(), source, &mut self.names)?;
        let Some(value) = plan.schema().columns().into_iter().next() else {
            return plan_err!("a value without column");
        };
        let ty = plan.schema().field(0).data_type().clone();
        let answers = Pusher { keys: &keys, names: &mut self.names }.over(&plan)?;
        let (own_key, own_value) = (self.names.next(), self.names.next());
        let columns = [col(answers.key).alias(&own_key), col(value).alias(&own_value)];
        let answers = LogicalPlanBuilder::from(answers.plan).project(columns)?.build()?;
        let answers = self.over(&answers)?.unwrap_or(answers);
        let own_key = Column::new_unqualified(own_key);
        // The answers are on the side that is held in memory, and the rows pass by.
        *input = LogicalPlanBuilder::from(answers)
            .join(keyed, JoinType::Right, (vec![own_key.clone()], vec![key]), None)?
            .build()?;
        // Every key has an answer. A row without one has had another value when the keys were computed.
        let message = "a subquery uses a column of the enclosing query whose values are others each time they are computed, \
                       as of RAND() or LIMIT without ORDER BY";
        let none = raised(lit(message));
        let none = raised_as(&none, &ty).unwrap_or(none);
        let value = when(col(own_key).is_null(), none).otherwise(col(Column::new_unqualified(own_value)))?;
        Ok((if negated { not(value) } else { value }, true))
    }
}

/// A subquery of an expression over `rows` as one that gives one row with one value, and whether that is to be negated.
fn scalar(subquery: Expr, rows: &DFSchema, names: &mut Names) -> Result<(LogicalPlan, bool)> {
    let counted = |plan: LogicalPlan, names: &mut Names| {
        let (count_of, some) = (names.next(), names.next());
        LogicalPlanBuilder::from(plan)
            .aggregate(Vec::<Expr>::new(), [count(lit(1_i64)).alias(&count_of)])?
            .project([col(Column::new_unqualified(count_of)).gt(lit(0_i64)).alias(some)])?
            .build()
    };
    match subquery {
        Expr::ScalarSubquery(subquery) => Ok((subquery.subquery.as_ref().clone(), false)),
        Expr::Exists(Exists { subquery, negated }) => {
            Ok((counted(subquery.subquery.as_ref().clone(), names)?, negated))
        }
        // Where rows are kept by it, so what may be equal counts as not equal.
        Expr::InSubquery(InSubquery { expr, subquery, negated: false }) => {
            let plan = subquery.subquery.as_ref().clone();
            let Some(item) = plan.schema().columns().into_iter().next() else { return plan_err!("IN without column") };
            let outer = expr.transform(|part| {
                Ok(match part {
                    Expr::Column(column) => {
                        let field = Arc::clone(rows.field_from_column(&column)?);
                        Transformed::yes(Expr::OuterReferenceColumn(field, column))
                    }
                    part => Transformed::no(part),
                })
            })?;
            let equal = col(item).eq(outer.data);
            Ok((counted(LogicalPlanBuilder::from(plan).filter(equal)?.build()?, names)?, false))
        }
        _ => not_impl_err!("this correlated subquery"),
    }
}

/// The plan with the columns of a schema only, in their order.
fn restored(plan: LogicalPlan, wanted: &DFSchema) -> Result<LogicalPlan> {
    let columns = wanted.columns();
    if plan.schema().columns() == columns {
        return Ok(plan);
    }
    let known: HashSet<Column> = plan.schema().columns().into_iter().collect();
    let columns = columns.into_iter().enumerate().map(|(at, column)| match known.contains(&column) {
        true => Ok(col(column)),
        // An expression that is called as it is computed.
        false => match plan.schema().columns().get(at) {
            Some(other) => Ok(col(other.clone()).alias_qualified(column.relation, column.name)),
            None => plan_err!("a column is lost"),
        },
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
