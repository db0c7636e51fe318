//! Subqueries in expressions.
//!
//! One over nothing but `UNNEST`s of the row's own arrays is an expression over the row (see
//! [`super::of_row`]). The others become the engine's own subqueries, which it turns into joins.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Spans};
use datafusion::functions::core::expr_fn as core;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::expr::{AggregateFunction, Exists, InSubquery};
use datafusion::logical_expr::{
    Expr, FetchType, Limit, LogicalPlan, LogicalPlanBuilder, SkipType, SortExpr, Subquery, lit,
};
use sqlparser::ast::{Expr as Ast, Query};
use tidegate_model::{Code, Position};

use super::aggregate::options;
use super::expr::{Context, Decides, boolean, negate_if};
use super::query::Order;
use super::{Output, Resolved, Resolver, Row, Typed};
use crate::fail::{Planning, Result, fail, invalid, place, unsupported};
use crate::functions::{first, nullable, only};
use crate::types::{Field, Type};

/// The most subqueries that a subquery holds whose plan is needed three times.
const MOST_COPIED: usize = 12;

impl Resolver<'_> {
    pub(crate) fn scalar_subquery(&mut self, query: &Query, cx: &mut Context<'_, '_>) -> Result<Typed> {
        if let Some(of_row) = self.of_row(query, cx)? {
            return of_row.scalar();
        }
        let resolved = self.query(query, cx.environment, Some(cx.scope), Order::Dropped)?;
        let resolved = self.packed(resolved)?;
        let [column] = resolved.columns.as_slice() else {
            return Err(one_column(resolved.columns.len(), place(query)));
        };
        let (ty, value) = (column.ty.clone(), Expr::Column(column.column.clone()));
        let correlated = self.joinable(&resolved.plan, cx, place(query))?;
        if correlated && !is_one_row(&resolved.plan) {
            return self.of_joined(resolved, value, ty);
        }
        let mut resolved = resolved;
        if correlated {
            resolved.plan = one_row(resolved.plan, value.clone())?;
        }
        let subquery = subquery(resolved.plan);
        // Where there is no row it is NULL, whatever the engine knows of the column.
        let never_null = subquery.subquery.schema().fields().iter().all(|field| !field.is_nullable());
        if never_null && !correlated {
            let name = self.fresh();
            let plan = LogicalPlanBuilder::from(subquery.subquery).project([nullable(value).alias(name)]);
            let plan = plan.and_then(LogicalPlanBuilder::build).planned()?;
            return Ok(Typed::new(Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), ..subquery }), ty));
        }
        Ok(Typed::new(Expr::ScalarSubquery(subquery), ty))
    }

    /// A value that depends on the row: the engine makes a join of it, which has a row for each that fits. So
    /// those that fit are collected, and there may be one.
    fn of_joined(&mut self, resolved: Resolved, value: Expr, ty: Type) -> Result<Typed> {
        let Parts { plan, order, limit } = parts(resolved.plan);
        Ok(Typed::new(only(self.collected(plan, value, order, limit)?), ty))
    }

    /// The values of a subquery's rows as one list; NULL without rows.
    fn collected(
        &mut self,
        plan: LogicalPlan,
        value: Expr,
        order: Vec<SortExpr>,
        limit: Option<(usize, Option<usize>)>,
    ) -> Result<Expr> {
        let name = self.fresh();
        let collected = match limit {
            Some((skip, Some(fetch))) => {
                let first = first(skip.saturating_add(fetch), order.iter().map(options).collect(), false);
                let arguments = std::iter::once(value).chain(order.into_iter().map(|key| key.expr)).collect();
                AggregateFunction::new_udf(first, arguments, false, None, Vec::new(), None)
            }
            _ => {
                let collecting = crate::functions::collecting(order.is_empty());
                AggregateFunction::new_udf(collecting, vec![value], false, None, order, None)
            }
        };
        let collected = Expr::AggregateFunction(collected).alias(&name);
        let none: Vec<Expr> = Vec::new();
        let plan = LogicalPlanBuilder::from(plan).aggregate(none, [collected]).and_then(LogicalPlanBuilder::build);
        let rows = Expr::ScalarSubquery(subquery(plan.planned()?));
        Ok(match limit {
            Some((skip, fetch)) => slice(rows, skip, fetch),
            None => rows,
        })
    }

    pub(crate) fn exists(&mut self, query: &Query, negated: bool, cx: &mut Context<'_, '_>) -> Result<Typed> {
        if let Some(of_row) = self.of_row(query, cx)? {
            return Ok(negate_if(negated, of_row.exists()?));
        }
        let resolved = self.query(query, cx.environment, Some(cx.scope), Order::Dropped)?;
        let correlated = self.joinable(&resolved.plan, cx, place(query))?;
        if is_one_row(&resolved.plan) {
            return Ok(boolean(lit(!negated)));
        }
        let mut resolved = resolved;
        if correlated && let Parts { plan, limit: Some((skip, fetch)), .. } = parts(resolved.plan.clone()) {
            match (skip, fetch) {
                (_, Some(0)) => return Ok(boolean(lit(negated))),
                (0, _) => resolved.plan = plan,
                (skip, _) => {
                    let more = self.count(plan)?.gt(lit(i64::try_from(skip).unwrap_or(i64::MAX)));
                    return Ok(negate_if(negated, more));
                }
            }
        }
        if filters(cx) {
            return Ok(boolean(Expr::Exists(Exists { subquery: subquery(resolved.plan), negated })));
        }
        let some = self.count(resolved.plan)?.gt(lit(0_i64));
        Ok(negate_if(negated, some))
    }

    /// How many rows a subquery has, as a value: the engine takes EXISTS and IN in filters only.
    fn count(&mut self, plan: LogicalPlan) -> Result<Expr> {
        let name = self.fresh();
        let none: Vec<Expr> = Vec::new();
        let counted = datafusion::functions_aggregate::expr_fn::count(lit(1_i64)).alias(name);
        let plan = LogicalPlanBuilder::from(plan).aggregate(none, [counted]).and_then(LogicalPlanBuilder::build);
        Ok(Expr::ScalarSubquery(subquery(plan.planned()?)))
    }

    /// `value IN (SELECT ...)` as a value: true if an item is equal, else NULL if one might be.
    fn contained(&mut self, value: Typed, item: &Typed, plan: &LogicalPlan, at: Option<Position>) -> Result<Expr> {
        // The subquery stands here three times, and so does what it holds.
        if subqueries(plan)? > MOST_COPIED {
            let message = "IN (SELECT ...) stands in others too deep here; write EXISTS or a JOIN";
            return Err(fail(Code::LimitExceeded, message, at));
        }
        let outside = super::scope::outer_value(value.clone())?;
        let equal = super::compare(outside, datafusion::logical_expr::Operator::Eq, item.clone(), at)?.expr;
        let filtered = |condition: Expr| {
            LogicalPlanBuilder::from(plan.clone()).filter(condition).and_then(LogicalPlanBuilder::build).planned()
        };
        let found = self.count(filtered(equal)?)?.gt(lit(0_i64));
        let unknown = self.count(filtered(item.expr.clone().is_null())?)?.gt(lit(0_i64));
        let any = self.count(plan.clone())?.gt(lit(0_i64));
        let null = Expr::Literal(datafusion::scalar::ScalarValue::Boolean(None), None);
        let unknown = unknown.or(value.expr.is_null().and(any));
        let result = datafusion::logical_expr::when(found, lit(true)).when(unknown, null).otherwise(lit(false));
        result.planned()
    }

    pub(crate) fn in_subquery(
        &mut self,
        value: &Ast,
        query: &Query,
        negated: bool,
        decides: Decides,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let value = self.expr(value, cx)?;
        if let Some(of_row) = self.of_row(query, cx)? {
            return Ok(negate_if(negated, of_row.contains(value, at)?));
        }
        let mut resolved = self.query(query, cx.environment, Some(cx.scope), Order::Dropped)?;
        resolved = self.packed(resolved)?;
        let [column] = resolved.columns.as_slice() else { return Err(one_column(resolved.columns.len(), at)) };
        let correlated = self.joinable(&resolved.plan, cx, at)?;
        if correlated && is_one_row(&resolved.plan) {
            let (ty, item) = (column.ty.clone(), Expr::Column(column.column.clone()));
            let item = Typed::new(Expr::ScalarSubquery(subquery(one_row(resolved.plan, item)?)), ty);
            let equal = super::compare(value, datafusion::logical_expr::Operator::Eq, item, at)?;
            return Ok(negate_if(negated, equal.expr));
        }
        let item = Typed::new(Expr::Column(column.column.clone()), column.ty.clone());
        // The engine's own knows NULL only where it decides alone, of a value of the row, among the same rows for all.
        let engines = match decides {
            Decides::Nothing => false,
            Decides::RowOrOther => !negated,
            Decides::Row => !negated || !correlated && value.expr.any_column_refs(),
        };
        if !engines {
            return Ok(negate_if(negated, self.contained(value, &item, &resolved.plan, at)?));
        }
        let (value, converted) = super::coerce::comparable(value, item.clone(), at)?;
        if converted.expr != item.expr {
            let name = self.fresh();
            let plan = LogicalPlanBuilder::from(resolved.plan).project([converted.expr.alias(name)]);
            resolved.plan = plan.and_then(LogicalPlanBuilder::build).planned()?;
        }
        Ok(boolean(Expr::InSubquery(InSubquery::new(Box::new(value.expr), subquery(resolved.plan), negated))))
    }

    /// `ARRAY(SELECT ...)`.
    pub(crate) fn array_subquery(&mut self, query: &Query, cx: &mut Context<'_, '_>) -> Result<Typed> {
        let at = place(query);
        if let Some(of_row) = self.of_row(query, cx)? {
            return of_row.array();
        }
        let resolved = self.query(query, cx.environment, Some(cx.scope), Order::Kept)?;
        let item = match (resolved.row, resolved.columns.as_slice()) {
            (Row::Struct, columns) => as_struct(columns),
            (_, [column]) => Typed::new(Expr::Column(column.column.clone()), column.ty.clone()),
            (_, columns) => return Err(one_column(columns.len(), at)),
        };
        let correlated = self.joinable(&resolved.plan, cx, at)?;
        let ty = Type::Array(Box::new(item.ty));
        if correlated && is_one_row(&resolved.plan) {
            let name = self.fresh();
            let one = Expr::ScalarSubquery(subquery(one_row(resolved.plan, item.expr.alias(name))?));
            return Ok(Typed::new(nested::make_array(vec![one]), ty));
        }
        let Parts { plan, order, limit } = parts(resolved.plan);
        let rows = self.collected(plan, item.expr, order, limit)?;
        // No rows make an empty array, not NULL.
        let empty = Typed::new(nested::make_array(Vec::new()), Type::Array(Box::new(Type::Null)));
        let empty = empty.convert(&ty, super::Conversion::implicit(at))?;
        Ok(Typed::new(core::coalesce(vec![rows, empty.expr]), ty))
    }

    /// Whether a subquery reads the outer row. What the engine would make a wrong join of, or none, is refused.
    fn joinable(&self, plan: &LogicalPlan, cx: &Context<'_, '_>, at: Option<Position>) -> Result<bool> {
        let (mut outer, mut own, mut windowed) = (Vec::new(), HashSet::new(), false);
        plan.apply_with_subqueries(|node| {
            own.extend(node.schema().fields().iter().map(|field| field.name().clone()));
            node.apply_expressions(|expr| {
                expr.apply(|part| {
                    if let Expr::OuterReferenceColumn(_, column) = part {
                        outer.push(column.name.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
            windowed |= matches!(node, LogicalPlan::Window(_)) && !node.all_out_ref_exprs().is_empty();
            Ok(TreeNodeRecursion::Continue)
        })
        .planned()?;
        outer.retain(|column| !own.contains(column));
        if outer.iter().any(|column| !cx.scope.has_column(column)) {
            let message =
                "a subquery that uses columns of a query around the enclosing one; select them there, or write a JOIN";
            return Err(unsupported(message, at));
        }
        if windowed {
            let message = "a window function in a subquery that uses columns of the enclosing query; compute it in a WITH, \
                           with PARTITION BY, and compare its columns";
            return Err(unsupported(message, at));
        }
        Ok(!outer.is_empty())
    }

    /// `SELECT AS STRUCT` in a subquery: its columns become one struct.
    fn packed(&mut self, resolved: Resolved) -> Result<Resolved> {
        if resolved.row != Row::Struct {
            return Ok(resolved);
        }
        let Typed { expr, ty } = as_struct(&resolved.columns);
        let name = self.fresh();
        let plan = LogicalPlanBuilder::from(resolved.plan).project([expr.alias(&name)]);
        let plan = plan.and_then(LogicalPlanBuilder::build).planned()?;
        let column = Output { name: "struct".to_owned(), column: Column::new_unqualified(name), ty };
        Ok(Resolved { plan, columns: vec![column], row: Row::Value })
    }
}

/// A row's columns as one struct.
fn as_struct(columns: &[Output]) -> Typed {
    let parts = |output: &Output| [lit(output.name.as_str()), Expr::Column(output.column.clone())];
    let expr = core::named_struct(columns.iter().flat_map(parts).collect());
    let fields = columns.iter().map(|output| Field { name: output.name.clone(), ty: output.ty.clone() });
    Typed::new(expr, Type::Struct { fields: fields.collect(), open: false })
}

/// A plan taken apart for an aggregate that is told the order.
struct Parts {
    plan: LogicalPlan,
    order: Vec<SortExpr>,
    /// How many of the ordered rows are left out, and how many taken.
    limit: Option<(usize, Option<usize>)>,
}

/// The order and the limit that a plan ends with are taken off where it reads the outer row: the engine makes no
/// join of what is below them. A projection on top goes too, because the sort keys may not be among its columns.
fn parts(plan: LogicalPlan) -> Parts {
    let correlated = !plan.all_out_ref_exprs().is_empty();
    let below = match &plan {
        LogicalPlan::Projection(projection) => projection.input.as_ref(),
        _ => &plan,
    };
    let (limit, sorted) = match below {
        LogicalPlan::Limit(limit) => (limits(limit), limit.input.as_ref()),
        other => (None, other),
    };
    let unlimited = !matches!(below, LogicalPlan::Limit(_)) || limit.is_some();
    match sorted {
        LogicalPlan::Sort(sort) if correlated && unlimited => {
            Parts { plan: sort.input.as_ref().clone(), order: sort.expr.clone(), limit }
        }
        LogicalPlan::Sort(sort) => Parts { order: sort.expr.clone(), plan: below.clone(), limit: None },
        _ if correlated && limit.is_some() => Parts { plan: sorted.clone(), order: Vec::new(), limit },
        _ => Parts { plan, order: Vec::new(), limit: None },
    }
}

/// What a limit skips and takes, if that is known.
fn limits(limit: &Limit) -> Option<(usize, Option<usize>)> {
    match (limit.get_skip_type().ok()?, limit.get_fetch_type().ok()?) {
        (SkipType::Literal(skip), FetchType::Literal(fetch)) => Some((skip, fetch)),
        _ => None,
    }
}

/// Whether a plan has exactly one row, whatever the rows below: an aggregate without keys.
fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Sort(sort) => is_one_row(&sort.input),
        LogicalPlan::Limit(limit) => {
            matches!(limits(limit), Some((0, fetch)) if fetch != Some(0)) && is_one_row(&limit.input)
        }
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// How many subqueries a plan holds, those in others too.
fn subqueries(plan: &LogicalPlan) -> Result<usize> {
    let mut count = 0;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                let is = matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_));
                count += usize::from(is);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .planned()?;
    Ok(count)
}

/// A part of a list.
fn slice(list: Expr, skip: usize, fetch: Option<usize>) -> Expr {
    // No array is longer, and the engine takes no more.
    let place = |n: usize| lit(i64::from(i32::try_from(n).unwrap_or(i32::MAX)));
    let end = fetch.map_or(usize::MAX, |fetch| skip.saturating_add(fetch));
    nested::array_slice(list, place(skip.saturating_add(1)), place(end), None)
}

/// Whether the place is a filter.
fn filters(cx: &Context<'_, '_>) -> bool {
    matches!(cx.clause, "WHERE" | "HAVING" | "QUALIFY")
}

fn subquery(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }
}

/// A value of the only row. It stays one under any limit that takes it, and the engine makes no join of a limit.
fn one_row(plan: LogicalPlan, value: Expr) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(parts(plan).plan).project([value]).and_then(LogicalPlanBuilder::build).planned()
}

pub(crate) fn one_column(columns: usize, at: Option<Position>) -> tidegate_model::Failure {
    invalid(format!("a subquery used as a value has one column; this one has {columns}"), at)
}
