//! The answers of a subquery for all keys at once: its plan with the keys taken through each of its nodes.
//!
//! A part that reads nothing of the enclosing row is joined with every key. Above it a condition is computed of the key's own
//! columns, groups and windows are those of each key, a limit takes rows of each key, and an aggregation without groups gives a
//! row for each key, also for one without rows. This is the unnesting of Neumann and Kemper, "Unnesting Arbitrary Queries"
//! (2015), without its rules that leave joins out.

use std::sync::Arc;

use datafusion::common::{Column, JoinType, Result, TableReference, not_impl_err, plan_err};
use datafusion::error::DataFusionError;
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, EmptyRelation, Join, Limit, Sort, Union, Window};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, FetchType, GroupingSet, LogicalPlan, LogicalPlanBuilder, Projection, SkipType, SortExpr,
    WindowFrame, WindowFrameBound, WindowFrameUnits, col, lit, when,
};
use datafusion::scalar::ScalarValue;
use tidegate_model::{Code, Failure};

use super::Names;
use super::keys::{Keyed, Keys};
use crate::engine::shortcuts::shared_part::on_enough_stack;

/// Takes keys through the plan of a subquery.
pub(super) struct Pusher<'k> {
    pub(super) keys: &'k Keys,
    pub(super) names: &'k mut Names,
}

impl Pusher<'_> {
    /// The rows of `node` for each key, with the key and its values beside the columns of the node.
    ///
    /// # Errors
    /// If a node cannot be computed for several keys.
    pub(super) fn over(&mut self, node: &LogicalPlan) -> Result<Keyed> {
        on_enough_stack(|| self.over_inner(node))
    }

    fn over_inner(&mut self, node: &LogicalPlan) -> Result<Keyed> {
        tidegate_functions::context::check()?;
        if !self.keys.are_read_by(node)? {
            return self.with_every_key(node);
        }
        match node {
            LogicalPlan::Projection(projection) => {
                let input = self.over(&projection.input)?;
                let mut exprs = Vec::with_capacity(projection.expr.len() + 1 + input.values.len());
                for (expr, (qualifier, field)) in projection.expr.iter().zip(projection.schema.iter()) {
                    let replaced = self.keys.replaced(expr.clone(), &input.values)?;
                    exprs.push(named(replaced, qualifier, field.name()));
                }
                exprs.extend(own_columns(&input));
                let Keyed { plan, key, values } = input;
                Ok(Keyed { plan: LogicalPlanBuilder::from(plan).project(exprs)?.build()?, key, values })
            }
            LogicalPlan::Filter(filter) => {
                let Keyed { plan, key, values } = self.over(&filter.input)?;
                let condition = self.keys.replaced(filter.predicate.clone(), &values)?;
                Ok(Keyed { plan: LogicalPlanBuilder::from(plan).filter(condition)?.build()?, key, values })
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let Keyed { plan, key, values } = self.over(&sort.input)?;
                let expr = self.sorts(&sort.expr, &values)?;
                let plan = LogicalPlan::Sort(Sort { expr, input: Arc::new(plan), fetch: None });
                Ok(Keyed { plan, key, values })
            }
            LogicalPlan::Limit(limit) => self.over_limit(limit),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Keyed { plan, key, values } = self.over(input)?;
                Ok(Keyed { plan: LogicalPlanBuilder::from(plan).distinct()?.build()?, key, values })
            }
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => self.over_one_group(aggregate),
            LogicalPlan::Aggregate(aggregate) => self.over_groups(aggregate),
            LogicalPlan::Window(window) => self.over_windows(window),
            LogicalPlan::Join(join) => self.over_join(join),
            LogicalPlan::Union(union) => self.over_union(union),
            LogicalPlan::SubqueryAlias(alias) => {
                let Keyed { plan, key, values } = self.over(&alias.input)?;
                let plan = LogicalPlanBuilder::from(plan).alias(alias.alias.clone())?.build()?;
                let own = |column: Column| Column::new(Some(alias.alias.clone()), column.name);
                Ok(Keyed { plan, key: own(key), values: values.into_iter().map(own).collect() })
            }
            LogicalPlan::Unnest(unnest) => {
                let Keyed { plan, key, values } = self.over(&unnest.input)?;
                Ok(Keyed { plan: node.with_new_exprs(Vec::new(), vec![plan])?, key, values })
            }
            node => not_impl_err!("a correlated subquery with the node {}", node.display()),
        }
    }

    /// The rows of a plan that reads no key, once for each of the keys.
    fn with_every_key(&mut self, node: &LogicalPlan) -> Result<Keyed> {
        let Keyed { plan, key, values } = self.keys.copy(self.names)?;
        if let LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema }) = node
            && schema.fields().is_empty()
        {
            return Ok(Keyed { plan, key, values });
        }
        let plan = LogicalPlanBuilder::from(plan).cross_join(node.clone())?.build()?;
        Ok(Keyed { plan, key, values })
    }

    fn sorts(&self, sorts: &[SortExpr], values: &[Column]) -> Result<Vec<SortExpr>> {
        let sort = |sort: &SortExpr| Ok(sort.with_expr(self.keys.replaced(sort.expr.clone(), values)?));
        sorts.iter().map(sort).collect()
    }

    /// The first rows of each key.
    fn over_limit(&mut self, limit: &Limit) -> Result<Keyed> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) = (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return not_impl_err!("a correlated subquery with a computed LIMIT");
        };
        // The columns above a sort are computed of each row, so they may be computed above the limit.
        if let LogicalPlan::Projection(Projection { expr, input, .. }) = limit.input.as_ref() {
            let limited = LogicalPlan::Limit(Limit { input: Arc::clone(input), ..limit.clone() });
            return self.over(&LogicalPlan::Projection(Projection::try_new(expr.clone(), Arc::new(limited))?));
        }
        let (below, sorts) = match limit.input.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => (&sort.input, sort.expr.as_slice()),
            _ => (&limit.input, &[][..]),
        };
        let Keyed { plan, key, values } = self.over(below)?;
        let (mut columns, mut order): (Vec<Expr>, Vec<SortExpr>) = (Vec::new(), Vec::new());
        for sort in self.sorts(sorts, &values)? {
            let name = self.names.next();
            columns.push(sort.expr.clone().alias(&name));
            order.push(sort.with_expr(col(Column::new_unqualified(name))));
        }
        let kept: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        columns.splice(0..0, kept.iter().cloned());
        let name = self.names.next();
        let before = WindowFrameBound::Preceding(ScalarValue::UInt64(None));
        let frame = WindowFrame::new_bounds(WindowFrameUnits::Rows, before, WindowFrameBound::CurrentRow);
        let number = row_number().partition_by(vec![col(key.clone())]).order_by(order).window_frame(frame);
        let number = number.build()?.alias(&name);
        let number = LogicalPlanBuilder::from(plan).project(columns)?.window([number])?;
        let place = || col(Column::new_unqualified(&name));
        let bound = |rows: usize| lit(u64::try_from(rows).unwrap_or(u64::MAX));
        let mut taken = place().gt(bound(skip));
        if let Some(fetch) = fetch {
            taken = taken.and(place().lt_eq(bound(skip.saturating_add(fetch))));
        }
        Ok(Keyed { plan: number.filter(taken)?.project(kept)?.build()?, key, values })
    }

    /// Groups of each key.
    fn over_groups(&mut self, aggregate: &Aggregate) -> Result<Keyed> {
        let Keyed { plan, key, values } = self.over(&aggregate.input)?;
        let mut groups = Vec::with_capacity(aggregate.group_expr.len() + 1);
        for group in &aggregate.group_expr {
            groups.push(match group {
                Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
                    // A set without keys is a group even where there are no rows.
                    if sets.iter().any(Vec::is_empty) {
                        return Err(grand_total());
                    }
                    // First, so that the bits of GROUPING are those of the other keys.
                    let with_key = |set: &Vec<Expr>| [&[col(key.clone())], set.as_slice()].concat();
                    Expr::GroupingSet(GroupingSet::GroupingSets(sets.iter().map(with_key).collect()))
                }
                Expr::GroupingSet(_) => return Err(grand_total()),
                group => self.keys.replaced(group.clone(), &values)?,
            });
        }
        if !matches!(groups.as_slice(), [Expr::GroupingSet(_)]) {
            groups.push(col(key.clone()));
        }
        let mut calls = self.calls(aggregate, &values)?;
        let mut firsts = Vec::with_capacity(values.len());
        for value in values {
            let name = self.names.next();
            calls.push(first_value(col(value), Vec::new()).alias(&name));
            firsts.push(Column::new_unqualified(name));
        }
        let plan = LogicalPlanBuilder::from(plan).aggregate(groups, calls)?.build()?;
        Ok(Keyed { plan, key, values: firsts })
    }

    fn calls(&self, aggregate: &Aggregate, values: &[Column]) -> Result<Vec<Expr>> {
        aggregate.aggr_expr.iter().map(|call| self.keys.replaced(call.clone(), values)).collect()
    }

    /// One row for each key: that of its rows, and for a key without rows that of an aggregation of no rows.
    fn over_one_group(&mut self, aggregate: &Aggregate) -> Result<Keyed> {
        let Keyed { plan, key, values } = self.over(&aggregate.input)?;
        let calls = self.calls(aggregate, &values)?;
        let some = LogicalPlanBuilder::from(plan).aggregate([col(key)], calls)?.build()?;
        let no_rows = EmptyRelation { produce_one_row: false, schema: Arc::clone(aggregate.input.schema()) };
        let calls = aggregate.aggr_expr.iter().map(|call| self.keys.without_values(call.clone()));
        let none = LogicalPlanBuilder::from(LogicalPlan::EmptyRelation(no_rows));
        let none = none.aggregate(Vec::<Expr>::new(), calls.collect::<Result<Vec<_>>>()?)?.build()?;
        let (some, some_columns) = self.renamed(some)?;
        let (none, none_columns) = self.renamed(none)?;
        let Some((own_key, some_columns)) = some_columns.split_first() else {
            return plan_err!("an aggregation without its key");
        };
        let Keyed { plan, key, values } = self.keys.copy(self.names)?;
        let joined = LogicalPlanBuilder::from(some)
            .join(plan, JoinType::Right, (vec![own_key.clone()], vec![key.clone()]), None)?
            .cross_join(none)?;
        let mut exprs = Vec::new();
        for ((qualifier, field), (of_rows, of_none)) in
            aggregate.schema.iter().zip(some_columns.iter().zip(&none_columns))
        {
            let value = when(col(own_key.clone()).is_null(), col(of_none.clone())).otherwise(col(of_rows.clone()))?;
            exprs.push(value.alias_qualified(qualifier.cloned(), field.name()));
        }
        exprs.extend(std::iter::once(&key).chain(&values).cloned().map(col));
        Ok(Keyed { plan: joined.project(exprs)?.build()?, key, values })
    }

    /// The plan with names of its own for its columns.
    fn renamed(&mut self, plan: LogicalPlan) -> Result<(LogicalPlan, Vec<Column>)> {
        let (mut exprs, mut columns) = (Vec::new(), Vec::new());
        for column in plan.schema().columns() {
            let name = self.names.next();
            exprs.push(col(column).alias(&name));
            columns.push(Column::new_unqualified(name));
        }
        Ok((LogicalPlanBuilder::from(plan).project(exprs)?.build()?, columns))
    }

    /// Windows over the rows of each key.
    fn over_windows(&mut self, window: &Window) -> Result<Keyed> {
        let Keyed { plan, key, values } = self.over(&window.input)?;
        let mut calls = Vec::with_capacity(window.window_expr.len());
        for call in &window.window_expr {
            let (call, name) = match self.keys.replaced(call.clone(), &values)? {
                Expr::Alias(alias) => (*alias.expr, alias.name),
                other => {
                    let name = other.schema_name().to_string();
                    (other, name)
                }
            };
            let Expr::WindowFunction(mut call) = call else { return plan_err!("a window without a call") };
            call.params.partition_by.push(col(key.clone()));
            calls.push(Expr::WindowFunction(call).alias(name));
        }
        Ok(Keyed { plan: LogicalPlanBuilder::from(plan).window(calls)?.build()?, key, values })
    }

    /// A join of the rows of each key. A side that keeps rows without a partner has to know the keys.
    fn over_join(&mut self, join: &Join) -> Result<Keyed> {
        let reads = |side: &LogicalPlan| self.keys.are_read_by(side);
        let (on_left, on_right) = (reads(&join.left)?, reads(&join.right)?);
        let both = match join.join_type {
            JoinType::Inner => on_left && on_right,
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => on_right,
            JoinType::Right => on_left,
            JoinType::Full => true,
            _ => return not_impl_err!("a correlated subquery with this join"),
        };
        if join.null_aware {
            return not_impl_err!("a correlated subquery with a join that knows NULL");
        }
        let of_left = match join.join_type {
            JoinType::Inner => on_left || !on_right,
            kind => kind != JoinType::Right,
        };
        let mut one = if both || of_left { Some(self.over(&join.left)?) } else { None };
        let mut other = if both || !of_left { Some(self.over(&join.right)?) } else { None };
        let side = |keyed: &Option<Keyed>, side: &Arc<LogicalPlan>| match keyed {
            Some(keyed) => Arc::new(keyed.plan.clone()),
            None => Arc::clone(side),
        };
        let (left, right) = (side(&one, &join.left), side(&other, &join.right));
        let mut on = join.on.clone();
        if let (Some(one), Some(other)) = (&one, &other) {
            on.push((col(one.key.clone()), col(other.key.clone())));
        }
        let (first, second) = if of_left { (&mut one, &mut other) } else { (&mut other, &mut one) };
        let Some(keyed) = first.take().or_else(|| second.take()) else { return plan_err!("a join without a key") };
        let replaced = |expr: Expr| self.keys.replaced(expr, &keyed.values);
        let filter = join.filter.clone().map(replaced).transpose()?;
        let on = on.into_iter().map(|(one, other)| Ok((replaced(one)?, replaced(other)?))).collect::<Result<_>>()?;
        let Join { join_type, join_constraint, null_equality, null_aware, .. } = *join;
        let plan = Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware)?;
        let plan = LogicalPlan::Join(plan);
        match other {
            Some(other) if join_type == JoinType::Full => self.either(plan, join, &keyed, &other),
            _ => Ok(Keyed { plan, ..keyed }),
        }
    }

    /// The rows of a full join, with the key of whichever side has one.
    fn either(&mut self, plan: LogicalPlan, join: &Join, one: &Keyed, other: &Keyed) -> Result<Keyed> {
        let mut exprs: Vec<Expr> = join.schema.columns().into_iter().map(col).collect();
        let mut columns = Vec::new();
        let ones = std::iter::once(&one.key).chain(&one.values);
        for (left, right) in ones.zip(std::iter::once(&other.key).chain(&other.values)) {
            let name = self.names.next();
            // The values are those of the side that has the key, and may be NULL there.
            let value = when(col(one.key.clone()).is_null(), col(right.clone())).otherwise(col(left.clone()))?;
            exprs.push(value.alias(&name));
            columns.push(Column::new_unqualified(name));
        }
        let plan = LogicalPlanBuilder::from(plan).project(exprs)?.build()?;
        let mut columns = columns.into_iter();
        let Some(key) = columns.next() else { return plan_err!("a join without its key") };
        Ok(Keyed { plan, key, values: columns.collect() })
    }

    /// The rows of all inputs for each key.
    fn over_union(&mut self, union: &Union) -> Result<Keyed> {
        let key = self.names.next();
        let values: Vec<String> = (0..self.keys.len()).map(|_| self.names.next()).collect();
        let mut all: Option<LogicalPlanBuilder> = None;
        for input in &union.inputs {
            let columns = input.schema().columns();
            let keyed = self.over(input)?;
            let own = columns.into_iter().zip(union.schema.iter());
            let mut exprs: Vec<Expr> =
                own.map(|(column, (qualifier, field))| named(col(column), qualifier, field.name())).collect();
            exprs.push(col(keyed.key).alias(&key));
            exprs.extend(keyed.values.into_iter().zip(&values).map(|(value, name)| col(value).alias(name)));
            let part = LogicalPlanBuilder::from(keyed.plan).project(exprs)?;
            all = Some(match all {
                Some(all) => all.union(part.build()?)?,
                None => part,
            });
        }
        let Some(all) = all else { return plan_err!("a union of nothing") };
        let values = values.into_iter().map(Column::new_unqualified).collect();
        Ok(Keyed { plan: all.build()?, key: Column::new_unqualified(key), values })
    }
}

/// A grand total is a row also for a key without rows, and the groups beside it are not.
fn grand_total() -> DataFusionError {
    let message = "ROLLUP, CUBE and a GROUPING SETS with () in a subquery that uses columns of the enclosing query in another way than \
                   by = are not supported; write UNION ALL of SELECTs, each with its GROUP BY and the total without";
    DataFusionError::External(Box::new(Failure::new(Code::Unsupported, message)))
}

/// The columns of the key and its values.
fn own_columns(keyed: &Keyed) -> impl Iterator<Item = Expr> {
    std::iter::once(&keyed.key).chain(&keyed.values).cloned().map(col).collect::<Vec<_>>().into_iter()
}

/// An expression under a name that a column of the plan had before.
fn named(expr: Expr, qualifier: Option<&TableReference>, name: &str) -> Expr {
    let is_named = match &expr {
        Expr::Column(column) => column.relation.as_ref() == qualifier && column.name == name,
        Expr::Alias(alias) => alias.relation.as_ref() == qualifier && alias.name == name,
        _ => false,
    };
    if is_named { expr } else { expr.alias_qualified(qualifier.cloned(), name) }
}
