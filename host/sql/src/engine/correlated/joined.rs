//! Joins in the place of subqueries that the engine makes no join of.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, Result, not_impl_err, plan_err};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::error::DataFusionError;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, col, lit, not};
use tidegate_model::{Code, Failure};

use super::keys::{Keys, outer_columns, walk, with_subquery};
use super::pushed::Pusher;
use super::{Names, is_stuck};
use crate::barrier::is_barrier;
use crate::engine::shortcuts::shared_part::{on_enough_stack, once};
use crate::exprs::{any, is_subquery, subquery_of};

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
    /// How many plans were made parts that are computed once.
    parts: usize,
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
            let mut source = None;
            for expr in &mut exprs {
                let replaced = std::mem::take(expr).transform_up(|part| {
                    if subquery_of(&part).is_none() {
                        return Ok(Transformed::no(part));
                    }
                    let (part, replaced) = self.replaced(part, &mut inputs, &mut source)?;
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

    /// The value of a subquery over the rows of the only input, which gets a column for it; and whether anything changed. `source`
    /// becomes the input as it is before it gets any such column.
    fn replaced(
        &mut self,
        subquery: Expr,
        inputs: &mut [LogicalPlan],
        source: &mut Option<LogicalPlan>,
    ) -> Result<(Expr, bool)> {
        let Some(plan) = subquery_of(&subquery) else { return Ok((subquery, false)) };
        if !is_for_us(plan)? {
            return match self.over(plan)? {
                Some(joined) => Ok((with_subquery(subquery, |_| Ok(joined))?, true)),
                None => Ok((subquery, false)),
            };
        }
        let [input] = inputs else {
            return not_impl_err!("a correlated subquery in the condition of a join");
        };
        if source.is_none() {
            *input = self.readable_twice(std::mem::take(input))?;
        }
        let source = source.get_or_insert_with(|| input.clone());
        let (plan, negated) = scalar(subquery, input.schema(), &mut self.names)?;
        let mut keys = Keys::of(&plan)?;
        // The rows with the answers of subqueries beside this one are read where it reads these.
        if !keys.are_of(source.schema()) {
            *input = self.readable_twice(std::mem::take(input))?;
            *source = input.clone();
        }
        let (keyed, key) = keys.keyed(input.clone(), source.clone(), self.next_part(), &mut self.names)?;
        let Some(value) = plan.schema().columns().into_iter().next() else {
            return plan_err!("a value without column");
        };
        let answers = Pusher { keys: &keys, names: &mut self.names }.over(&plan)?;
        let (own_key, own_value) = (self.names.next(), self.names.next());
        let columns = [col(answers.key).alias(&own_key), col(value).alias(&own_value)];
        let answers = LogicalPlanBuilder::from(answers.plan).project(columns)?.build()?;
        let answers = self.over(&answers)?.unwrap_or(answers);
        let own_key = Column::new_unqualified(own_key);
        // Every key has an answer. The answers are on the side that is held in memory, and the rows pass by.
        *input = LogicalPlanBuilder::from(answers)
            .join(keyed, JoinType::Right, (vec![own_key.clone()], vec![key]), None)?
            .build()?;
        let value = col(Column::new_unqualified(own_value));
        Ok((if negated { not(value) } else { value }, true))
    }

    /// A plan that gives the same rows to each of its readers: to the rows that are answered, and to the keys of these.
    fn readable_twice(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        // The rows of a round are the rows of another one in the next.
        if reads_round(&plan)? {
            let message = "in the repeated query of a recursive table, a subquery that uses columns of the enclosing query in \
                           another way than by = is not supported; compute it in a CTE after the recursive one";
            return Err(DataFusionError::External(Box::new(Failure::new(Code::Unsupported, message))));
        }
        if is_read_alike(&plan)? {
            return Ok(plan);
        }
        Ok(once(plan, self.next_part()))
    }

    fn next_part(&mut self) -> usize {
        self.parts += 1;
        self.parts
    }
}

/// Whether a plan reads the rows of the last round of a recursive table that stands around it.
fn reads_round(plan: &LogicalPlan) -> Result<bool> {
    let (mut within, mut read) = (HashSet::new(), HashSet::new());
    plan.apply(|node| {
        match node {
            LogicalPlan::RecursiveQuery(query) => drop(within.insert(query.name.clone())),
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source)?;
                read.extend(provider.downcast_ref::<CteWorkTable>().map(|table| table.name().to_owned()));
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(!read.is_subset(&within))
}

/// Whether a plan has the same rows each time that it is read, and is not worth being held: rows of one table, each computed by
/// itself.
fn is_read_alike(plan: &LogicalPlan) -> Result<bool> {
    let mut alike = true;
    plan.apply(|node| {
        let is_row = match node {
            LogicalPlan::TableScan(scan) => scan.source.get_logical_plan().is_none() && scan.fetch.is_none(),
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::EmptyRelation(_) => true,
            node => is_barrier(node),
        };
        alike &= is_row && !node.expressions().iter().any(|expr| expr.is_volatile() || any(expr, is_subquery));
        Ok(if alike { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(alike)
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
