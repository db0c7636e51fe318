//! Subqueries in expressions.
//!
//! Most become the engine's own subqueries, which it turns into joins. A subquery over nothing
//! but `UNNEST`s of the row's own records (`EXISTS (SELECT 1 FROM UNNEST(t.metadata) AS m WHERE
//! m.level = 'error')`) becomes a plain expression: a record has one element or none, so there
//! is nothing to loop over.

use std::sync::Arc;

use datafusion::common::{Column, Spans};
use datafusion::functions::core::expr_fn as core;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::expr::{AggregateFunction, Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr, Subquery, lit, when};
use sqlparser::ast::{
    Expr as Ast, GroupByExpr, JoinConstraint, JoinOperator, Query, Select, SelectItem, SetExpr, TableFactor,
};
use tidegate_model::Position;

use super::aggregate::calls_aggregate;
use super::coerce::compare;
use super::expr::{Context, boolean, negate_if};
use super::query::Order;
use super::scope::{Relation, Scope};
use super::{Output, Resolved, Resolver, Row, Typed};
use crate::fail::{Planning, Result, invalid, place};
use crate::types::{Field, Type, is_there};

/// A subquery that is an expression: whether it has its one row, and the row's values.
struct Inline {
    there: Expr,
    values: Vec<Typed>,
}

impl Resolver<'_> {
    pub(crate) fn scalar_subquery(&mut self, query: &Query, cx: &mut Context<'_, '_>) -> Result<Typed> {
        let at = place(query);
        if let Some(Inline { there, values }) = self.inline(query, cx)? {
            let [value] = values.as_slice() else { return Err(one_column(values.len(), at)) };
            return Ok(Typed::new(when(there, value.expr.clone()).end().planned()?, value.ty.clone()));
        }
        let (subquery, ty) = self.one_column(query, cx, Order::Dropped)?;
        Ok(Typed::new(Expr::ScalarSubquery(subquery), ty))
    }

    pub(crate) fn exists(&mut self, query: &Query, negated: bool, cx: &mut Context<'_, '_>) -> Result<Typed> {
        if let Some(Inline { there, .. }) = self.inline(query, cx)? {
            return Ok(negate_if(negated, there));
        }
        let resolved = self.query(query, cx.environment, Some(cx.scope), Order::Dropped)?;
        Ok(boolean(Expr::Exists(Exists { subquery: subquery(resolved), negated })))
    }

    pub(crate) fn in_subquery(
        &mut self,
        value: &Ast,
        query: &Query,
        negated: bool,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let value = self.expr(value, cx)?;
        if let Some(Inline { there, values }) = self.inline(query, cx)? {
            let [item] = values.as_slice() else { return Err(one_column(values.len(), at)) };
            let equal = compare(value, datafusion::logical_expr::Operator::Eq, item.clone(), at)?;
            return Ok(negate_if(negated, core::coalesce(vec![there.and(equal.expr), lit(false)])));
        }
        let mut resolved = self.query(query, cx.environment, Some(cx.scope), Order::Dropped)?;
        resolved = self.packed(resolved)?;
        let [column] = resolved.columns.as_slice() else { return Err(one_column(resolved.columns.len(), at)) };
        let item = Typed::new(Expr::Column(column.column.clone()), column.ty.clone());
        let (value, converted) = super::coerce::comparable(value, item.clone(), at)?;
        if converted.expr != item.expr {
            let name = self.fresh();
            let plan = LogicalPlanBuilder::from(resolved.plan).project([converted.expr.alias(name)]);
            resolved.plan = plan.and_then(LogicalPlanBuilder::build).planned()?;
        }
        Ok(boolean(Expr::InSubquery(InSubquery::new(Box::new(value.expr), subquery(resolved), negated))))
    }

    /// `ARRAY(SELECT ...)`.
    pub(crate) fn array_subquery(&mut self, query: &Query, cx: &mut Context<'_, '_>) -> Result<Typed> {
        let at = place(query);
        if let Some(Inline { there, values }) = self.inline(query, cx)? {
            let [value] = values.as_slice() else { return Err(one_column(values.len(), at)) };
            let one = nested::make_array(vec![value.expr.clone()]);
            return Ok(Typed::new(when(there, one).end().planned()?, Type::Array(Box::new(value.ty.clone()))));
        }
        let resolved = self.query(query, cx.environment, Some(cx.scope), Order::Kept)?;
        let resolved = self.packed(resolved)?;
        let [column] = resolved.columns.as_slice() else { return Err(one_column(resolved.columns.len(), at)) };
        let ty = Type::Array(Box::new(column.ty.clone()));
        let name = self.fresh();
        let (plan, order) = ordered(resolved.plan.clone());
        let item = vec![Expr::Column(column.column.clone())];
        let collected = AggregateFunction::new_udf(array_agg_udaf(), item, false, None, order, None);
        let collected = Expr::AggregateFunction(collected).alias(name);
        let none: Vec<Expr> = Vec::new();
        let plan = LogicalPlanBuilder::from(plan).aggregate(none, [collected]).and_then(LogicalPlanBuilder::build);
        let resolved = Resolved { plan: plan.planned()?, ..resolved };
        Ok(Typed::new(Expr::ScalarSubquery(subquery(resolved)), ty))
    }

    fn one_column(&mut self, query: &Query, cx: &mut Context<'_, '_>, order: Order) -> Result<(Subquery, Type)> {
        let resolved = self.query(query, cx.environment, Some(cx.scope), order)?;
        let resolved = self.packed(resolved)?;
        let [column] = resolved.columns.as_slice() else {
            return Err(one_column(resolved.columns.len(), place(query)));
        };
        let ty = column.ty.clone();
        Ok((subquery(resolved), ty))
    }

    /// `SELECT AS STRUCT` in a subquery: its columns become one struct.
    fn packed(&mut self, resolved: Resolved) -> Result<Resolved> {
        if resolved.row != Row::Struct {
            return Ok(resolved);
        }
        let columns = |output: &Output| [lit(output.name.as_str()), Expr::Column(output.column.clone())];
        let packed = core::named_struct(resolved.columns.iter().flat_map(columns).collect());
        let fields = resolved.columns.iter().map(|output| Field { name: output.name.clone(), ty: output.ty.clone() });
        let ty = Type::Struct { fields: fields.collect(), open: false };
        let name = self.fresh();
        let plan = LogicalPlanBuilder::from(resolved.plan).project([packed.alias(&name)]);
        let plan = plan.and_then(LogicalPlanBuilder::build).planned()?;
        let column = Output { name: "struct".to_owned(), column: Column::new_unqualified(name), ty };
        Ok(Resolved { plan, columns: vec![column], row: Row::Value })
    }

    /// Tries to read a subquery as an expression over the enclosing row.
    fn inline(&mut self, query: &Query, cx: &mut Context<'_, '_>) -> Result<Option<Inline>> {
        let plain = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
        let SetExpr::Select(select) = query.body.as_ref() else { return Ok(None) };
        if !plain || !is_plain(select) {
            return Ok(None);
        }
        let arrays: Vec<(&Ast, Option<String>)> = match unnested(select) {
            Some(arrays) if !arrays.is_empty() => arrays,
            _ => return Ok(None),
        };
        let mut scope = Scope { relations: cx.scope.relations.clone(), parent: cx.scope.parent };
        let mut there: Option<Expr> = None;
        for (array, alias) in arrays {
            let mut inner = Context::new(&scope, cx.environment, "UNNEST");
            let array = self.expr(array, &mut inner)?;
            let present = match &array.ty {
                Type::Record(_) => is_there(&array.expr, &array.ty),
                Type::Null => lit(false),
                _ => return Ok(None),
            };
            there = Some(match there {
                Some(there) => there.and(present),
                None => present,
            });
            let Some(item) = array.ty.element() else { return Ok(None) };
            // The newest alias hides older ones, so it is looked up first.
            scope.relations.insert(0, Relation::Element { alias, value: Typed::new(array.expr, item) });
        }
        let Some(mut there) = there else { return Ok(None) };
        if let Some(condition) = &select.selection {
            let condition = self.condition(condition, &mut Context::new(&scope, cx.environment, "WHERE"))?;
            // NULL selects nothing.
            there = there.and(core::coalesce(vec![condition, lit(false)]));
        }
        let mut values = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(ast) | SelectItem::ExprWithAlias { expr: ast, .. } => {
                    values.push(
                        self.expr(
                            ast,
                            &mut Context { guarded: true, ..Context::new(&scope, cx.environment, "SELECT") },
                        )?,
                    );
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(Inline { there: boolean(there).expr, values }))
    }
}

/// The order that a plan's rows are in, for an aggregate that must be told it; a projection on
/// top is taken off, because the sort keys may not be among its columns.
fn ordered(plan: LogicalPlan) -> (LogicalPlan, Vec<SortExpr>) {
    let below = match &plan {
        LogicalPlan::Projection(projection) => projection.input.as_ref().clone(),
        _ => plan.clone(),
    };
    let sort = match &below {
        LogicalPlan::Limit(limit) => limit.input.as_ref(),
        other => other,
    };
    match sort {
        LogicalPlan::Sort(sort) => {
            let keys = sort.expr.clone();
            (below, keys)
        }
        _ => (plan, Vec::new()),
    }
}

fn is_plain(select: &Select) -> bool {
    let ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let aggregates = calls_aggregate(&select.projection);
    ungrouped && !aggregates && select.distinct.is_none() && select.having.is_none() && select.qualify.is_none()
}

/// The arrays of a FROM that is nothing but cross-joined UNNESTs.
fn unnested(select: &Select) -> Option<Vec<(&Ast, Option<String>)>> {
    let mut arrays = Vec::new();
    for table in &select.from {
        let joined = table.joins.iter().map(|join| match &join.join_operator {
            JoinOperator::CrossJoin(JoinConstraint::None)
            | JoinOperator::Inner(JoinConstraint::None)
            | JoinOperator::Join(JoinConstraint::None) => Some(&join.relation),
            _ => None,
        });
        for factor in std::iter::once(Some(&table.relation)).chain(joined) {
            let TableFactor::UNNEST { alias, array_exprs, with_offset: false, .. } = factor? else { return None };
            let [array] = array_exprs.as_slice() else { return None };
            arrays.push((array, alias.as_ref().map(|alias| alias.name.value.clone())));
        }
    }
    Some(arrays)
}

fn subquery(resolved: Resolved) -> Subquery {
    let outer_ref_columns = resolved.plan.all_out_ref_exprs();
    Subquery { subquery: Arc::new(resolved.plan), outer_ref_columns, spans: Spans::new() }
}

fn one_column(columns: usize, at: Option<Position>) -> tidegate_model::Failure {
    invalid(format!("a subquery used as a value has one column; this one has {columns}"), at)
}
