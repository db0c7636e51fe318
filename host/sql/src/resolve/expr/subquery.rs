//! Subqueries in expressions.
//!
//! One over nothing but `UNNEST`s of the row's own arrays is an expression over the row (see
//! [`super::array_subquery`]). The others become the engine's own subqueries, which it turns into joins.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Spans};
use datafusion::functions::core::expr_fn as core;
use datafusion::functions_aggregate::expr_fn as aggregates;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::expr::{AggregateFunction, Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, SortExpr, Subquery, lit, when};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{Expr as Ast, Query};
use tidegate_functions::aggregate::{collecting, first};
use tidegate_functions::scalar::{nullable, only};
use tidegate_model::{Code, Position};

use super::array_subquery::one_column;
use super::subquery_plan::{OrderedPlan, is_one_row, ordered_plan, slice, subqueries};
use super::{boolean, negate_if};
use crate::fail::{Planning, Result, fail, place};
use crate::resolve::context::{Context, Decides};
use crate::resolve::resolved::{Order, Output, Resolved, Row};
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Scope, outer_value};
use crate::resolve::sorting::sort_options;
use crate::resolve::stored::is_stored;
use crate::typed::Typed;
use crate::types::{Field, Type};
use crate::typing::{Conversion, comparable, compare, holds_float, may_be_nan, nan_last};

/// The most subqueries within a subquery whose plan is copied three times.
const MOST_COPIED: usize = 12;

impl Resolver<'_> {
    /// The query of an expression, resolved by the layer of queries.
    fn query_within(&mut self, query: &Query, cx: &Context<'_, '_>, order: Order) -> Result<Resolved> {
        self.subqueries_in_arms |= cx.guarded;
        (self.resolve_query)(self, query, cx.environment, Some(cx.scope), order)
    }

    /// `(SELECT ...)`.
    pub(super) fn scalar_subquery(&mut self, query: &Query, cx: &mut Context<'_, '_>) -> Result<Typed> {
        if let Some(subquery) = self.array_subquery(query, cx)? {
            return subquery.scalar();
        }
        let resolved = self.query_within(query, cx, Order::Dropped)?;
        let resolved = self.packed(resolved)?;
        let [column] = resolved.columns.as_slice() else {
            return Err(one_column(resolved.columns.len(), place(query)));
        };
        let (ty, value) = (column.ty.clone(), Expr::Column(column.column.clone()));
        let correlated = self.is_correlated(&resolved.plan);
        if correlated && !is_one_row(&resolved.plan) {
            return self.of_joined(resolved, value, ty);
        }
        let mut resolved = resolved;
        if correlated {
            resolved.plan = one_row(resolved.plan, value.clone())?;
        }
        let subquery = subquery(resolved.plan);
        // Without rows the value is NULL, even if the engine knows that the column never is.
        let never_null = subquery.subquery.schema().fields().iter().all(|field| !field.is_nullable());
        if never_null && !correlated {
            let name = self.fresh();
            let plan = LogicalPlanBuilder::from(subquery.subquery).project([nullable(value).alias(name)]);
            let plan = plan.and_then(LogicalPlanBuilder::build).planned()?;
            return Ok(Typed::new(Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), ..subquery }), ty));
        }
        Ok(Typed::new(Expr::ScalarSubquery(subquery), ty))
    }

    /// A value that depends on the row. The engine makes a join of it, which would give one row for each match. So the
    /// matches are collected, and more than one is an error.
    fn of_joined(&mut self, resolved: Resolved, value: Expr, ty: Type) -> Result<Typed> {
        let OrderedPlan { plan, order, limit } = ordered_plan(resolved.plan);
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
                let first = first(skip.saturating_add(fetch), order.iter().map(sort_options).collect(), false);
                let arguments = std::iter::once(value).chain(order.into_iter().map(|key| key.expr)).collect();
                AggregateFunction::new_udf(first, arguments, false, None, Vec::new(), None)
            }
            _ => {
                let function = collecting(order.is_empty());
                AggregateFunction::new_udf(function, vec![value], false, None, order, None)
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

    /// `EXISTS (SELECT ...)`.
    pub(super) fn exists(&mut self, query: &Query, negated: bool, cx: &mut Context<'_, '_>) -> Result<Typed> {
        if let Some(subquery) = self.array_subquery(query, cx)? {
            return Ok(negate_if(negated, subquery.exists()?));
        }
        let resolved = self.query_within(query, cx, Order::Dropped)?;
        let correlated = self.is_correlated(&resolved.plan);
        if is_one_row(&resolved.plan) {
            return Ok(boolean(lit(!negated)));
        }
        let mut resolved = resolved;
        if correlated && let OrderedPlan { plan, limit: Some((skip, fetch)), .. } = ordered_plan(resolved.plan.clone())
        {
            match (skip, fetch) {
                (_, Some(0)) => return Ok(boolean(lit(negated))),
                (0, _) => resolved.plan = plan,
                (skip, _) => {
                    let more = self.count(plan)?.gt(lit(i64::try_from(skip).unwrap_or(i64::MAX)));
                    return Ok(negate_if(negated, more));
                }
            }
        }
        if cx.clause.filters() {
            return Ok(boolean(Expr::Exists(Exists { subquery: subquery(resolved.plan), negated })));
        }
        let some = self.count(resolved.plan)?.gt(lit(0_i64));
        Ok(negate_if(negated, some))
    }

    /// How many rows a subquery has, as a value: the engine takes EXISTS and IN in filters only.
    fn count(&mut self, plan: LogicalPlan) -> Result<Expr> {
        let name = self.fresh();
        let none: Vec<Expr> = Vec::new();
        let counted = aggregates::count(lit(1_i64)).alias(name);
        let plan = LogicalPlanBuilder::from(plan).aggregate(none, [counted]).and_then(LogicalPlanBuilder::build);
        Ok(Expr::ScalarSubquery(subquery(plan.planned()?)))
    }

    /// `value IN (SELECT ...)` as a value: true if an item is equal, else NULL if one might be.
    fn contained(
        &mut self,
        value: Typed,
        item: &Typed,
        plan: &LogicalPlan,
        scope: &Scope<'_>,
        at: Option<Position>,
    ) -> Result<Expr> {
        // The plan of the subquery is copied three times, with the subqueries in it.
        if subqueries(plan)? > MOST_COPIED {
            let message = "IN (SELECT ...) stands in others too deep here; write EXISTS or a JOIN";
            return Err(fail(Code::LimitExceeded, message, at));
        }
        let outside = outer_value(value.clone(), scope)?;
        let equal = compare(outside, Operator::Eq, item.clone(), at)?.expr;
        let filtered = |condition: Expr| {
            LogicalPlanBuilder::from(plan.clone()).filter(condition).and_then(LogicalPlanBuilder::build).planned()
        };
        let found = self.count(filtered(equal)?)?.gt(lit(0_i64));
        let unknown = self.count(filtered(item.expr.clone().is_null())?)?.gt(lit(0_i64));
        let any = self.count(plan.clone())?.gt(lit(0_i64));
        let null = Expr::Literal(ScalarValue::Boolean(None), None);
        let unknown = unknown.or(value.expr.is_null().and(any));
        let result = when(found, lit(true)).when(unknown, null).otherwise(lit(false));
        result.planned()
    }

    /// `value IN (SELECT ...)`.
    pub(super) fn in_subquery(
        &mut self,
        value: &Ast,
        query: &Query,
        negated: bool,
        decides: Decides,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let value = self.expr(value, cx)?;
        if let Some(subquery) = self.array_subquery(query, cx)? {
            return Ok(negate_if(negated, subquery.contains(value, at)?));
        }
        let mut resolved = self.query_within(query, cx, Order::Dropped)?;
        resolved = self.packed(resolved)?;
        let [column] = resolved.columns.as_slice() else { return Err(one_column(resolved.columns.len(), at)) };
        let correlated = self.is_correlated(&resolved.plan);
        if correlated && is_one_row(&resolved.plan) {
            let (ty, item) = (column.ty.clone(), Expr::Column(column.column.clone()));
            let item = Typed::new(Expr::ScalarSubquery(subquery(one_row(resolved.plan, item)?)), ty);
            let equal = compare(value, Operator::Eq, item, at)?;
            return Ok(negate_if(negated, equal.expr));
        }
        let item = Typed::new(Expr::Column(column.column.clone()), column.ty.clone());
        // The engine's own IN treats NULL as the dialect does only where its outcome alone decides that a row is kept,
        // and NOT IN only for a value of the row and an uncorrelated subquery.
        // It compares STRUCTs by bits.
        let is_struct = matches!(item.ty, Type::Struct { .. });
        let engines = match decides {
            Decides::Nothing => false,
            _ if is_struct && (negated || holds_float(&item.ty)) => false,
            Decides::RowOrOther => !negated,
            Decides::Row => !negated || !correlated && value.expr.any_column_refs(),
        };
        if !engines && is_struct {
            // Whether one of them is unknown for a row would be a join by other than equality, which the engine does not make.
            let array = self.array_of(query, cx)?;
            let Some(item) = array.ty.element() else { return Err(one_column(0, at)) };
            return Ok(negate_if(negated, self.in_array(value, array, item, at)?));
        }
        if !engines {
            return Ok(negate_if(negated, self.contained(value, &item, &resolved.plan, cx.scope, at)?));
        }
        if is_struct {
            // An item with a NULL in it is equal to none.
            let is_whole = compare(item.clone(), Operator::Eq, item.clone(), at)?.expr;
            let plan = LogicalPlanBuilder::from(resolved.plan).filter(is_whole);
            resolved.plan = plan.and_then(LogicalPlanBuilder::build).planned()?;
        }
        let nan = may_be_nan(&value) && may_be_nan(&item) && !is_stored(&item.expr, &resolved.plan);
        let (value, mut converted) = comparable(value, item.clone(), at)?;
        if nan && converted.ty == Type::Float64 {
            converted.expr = nan_last(converted.expr);
        }
        // Beside OR the engine takes the item with the columns of the correlation, which may be the same.
        if converted.expr != item.expr || correlated && decides == Decides::RowOrOther {
            let name = self.fresh();
            let plan = LogicalPlanBuilder::from(resolved.plan).project([converted.expr.alias(name)]);
            resolved.plan = plan.and_then(LogicalPlanBuilder::build).planned()?;
        }
        Ok(boolean(Expr::InSubquery(InSubquery::new(Box::new(value.expr), subquery(resolved.plan), negated))))
    }

    /// `ARRAY(SELECT ...)`.
    pub(super) fn array_of(&mut self, query: &Query, cx: &mut Context<'_, '_>) -> Result<Typed> {
        let at = place(query);
        if let Some(subquery) = self.array_subquery(query, cx)? {
            return subquery.array();
        }
        let resolved = self.query_within(query, cx, Order::Kept)?;
        let item = match (resolved.row, resolved.columns.as_slice()) {
            (Row::Struct, columns) => as_struct(columns),
            (_, [column]) => Typed::new(Expr::Column(column.column.clone()), column.ty.clone()),
            (_, columns) => return Err(one_column(columns.len(), at)),
        };
        let correlated = self.is_correlated(&resolved.plan);
        let ty = Type::Array(Box::new(item.ty));
        if correlated && is_one_row(&resolved.plan) {
            let name = self.fresh();
            let one = Expr::ScalarSubquery(subquery(one_row(resolved.plan, item.expr.alias(name))?));
            return Ok(Typed::new(nested::make_array(vec![one]), ty));
        }
        let OrderedPlan { plan, order, limit } = ordered_plan(resolved.plan);
        let rows = self.collected(plan, item.expr, order, limit)?;
        // No rows make an empty array, not NULL.
        let empty = Typed::new(nested::make_array(Vec::new()), Type::Array(Box::new(Type::Null)));
        let empty = empty.convert(&ty, Conversion::implicit(at))?;
        Ok(Typed::new(core::coalesce(vec![rows, empty.expr]), ty))
    }

    /// Whether a subquery reads the outer row, or that of a query around it.
    fn is_correlated(&mut self, plan: &LogicalPlan) -> bool {
        let correlated = !outer_columns(plan).is_empty();
        self.correlated |= correlated;
        correlated
    }

    /// `SELECT AS STRUCT` in a subquery: its columns become one struct.
    fn packed(&mut self, resolved: Resolved) -> Result<Resolved> {
        if resolved.row != Row::Struct {
            return Ok(resolved);
        }
        let Typed { expr, ty, .. } = as_struct(&resolved.columns);
        let name = self.fresh();
        let plan = LogicalPlanBuilder::from(resolved.plan).project([expr.alias(&name)]);
        let plan = plan.and_then(LogicalPlanBuilder::build).planned()?;
        let column = Output { name: "struct".to_owned(), written: None, column: Column::new_unqualified(name), ty };
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

fn subquery(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = outer_columns(&plan);
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }
}

/// The columns of enclosing queries that a subquery reads, by itself or in a subquery of its own.
fn outer_columns(plan: &LogicalPlan) -> Vec<Expr> {
    let (mut outer, mut own) = (Vec::new(), HashSet::new());
    // The closures never fail, so neither does the walk.
    let _ = plan.apply_with_subqueries(|node| {
        own.extend(node.schema().fields().iter().map(|field| field.name().clone()));
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if matches!(part, Expr::OuterReferenceColumn(..)) && !outer.contains(part) {
                    outer.push(part.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    outer.retain(|part| !matches!(part, Expr::OuterReferenceColumn(_, column) if own.contains(&column.name)));
    outer
}

/// A value of a plan's only row. The plan's limit is removed: it does not change one row, and the engine makes no join of
/// a plan with a limit.
fn one_row(plan: LogicalPlan, value: Expr) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(ordered_plan(plan).plan).project([value]).and_then(LogicalPlanBuilder::build).planned()
}
