//! Whole queries: WITH, set operations, and ORDER BY and LIMIT over them.

use std::sync::{Arc, PoisonError};

use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{
    Cte, Expr as Ast, LimitClause, OrderBy, OrderByExpr, OrderByKind, Query, SetExpr, SetOperator, SetQuantifier,
};
use tidegate_model::{Code, Failure, Position};

use super::coerce::common;
use super::expr::Context;
use super::scope::{Relation, Scope, ScopeColumn};
use super::{Conversion, Environment, Output, Resolved, Resolver, Row, Typed};
use crate::fail::{Planning, Result, fail, invalid, place, place_of, unsupported};
use crate::types::Type;

/// Whether the order of a query's rows matters to what reads it. An ORDER BY without LIMIT whose
/// order does not matter is not planned: sorting for an aggregate would be wasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Kept,
    Dropped,
}

/// LIMIT and OFFSET.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limit {
    pub(crate) rows: Option<usize>,
    pub(crate) skip: usize,
}

impl Resolver<'_> {
    /// Resolves a query, its own CTEs included.
    pub(crate) fn query(
        &mut self,
        query: &Query,
        environment: &Environment,
        parent: Option<&Scope<'_>>,
        order: Order,
    ) -> Result<Resolved> {
        stacker::maybe_grow(256 << 10, 4 << 20, || self.query_inner(query, environment, parent, order))
    }

    fn query_inner(
        &mut self,
        query: &Query,
        environment: &Environment,
        parent: Option<&Scope<'_>>,
        order: Order,
    ) -> Result<Resolved> {
        let at = place(query);
        let extra = query.fetch.is_some()
            || !query.locks.is_empty()
            || query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some();
        if extra {
            return Err(unsupported("FETCH, FOR, SETTINGS or FORMAT after a query; LIMIT bounds the rows", at));
        }
        if !query.pipe_operators.is_empty() {
            return Err(unsupported("the pipe syntax (|>); write SELECT ... FROM ... WHERE ...", at));
        }
        let mut own = environment.clone();
        if let Some(with) = &query.with {
            if with.recursive {
                return Err(unsupported("WITH RECURSIVE; UNNEST(GENERATE_ARRAY(1, 10)) AS n makes rows", place(with)));
            }
            for (i, cte) in with.cte_tables.iter().enumerate() {
                let name = &cte.alias.name;
                if with.cte_tables.iter().take(i).any(|other| other.alias.name.value.eq_ignore_ascii_case(&name.value))
                {
                    return Err(invalid(format!("there are two CTEs {}", name.value), place_of(name.span)));
                }
            }
            let ctes: Vec<Arc<Cte>> = with.cte_tables.iter().cloned().map(Arc::new).collect();
            own = environment.with(&ctes, self.sees_sources);
        }
        let limit = self.limit(query.limit_clause.as_ref(), &own)?;
        let order_by = query.order_by.as_ref();
        let resolved = match query.body.as_ref() {
            SetExpr::Select(select) => self.select(select, order_by, limit, &own, parent, order)?,
            body => {
                let inner = if order_by.is_some() { Order::Dropped } else { order };
                let resolved = self.body(body, &own, parent, inner)?;
                self.ordered(resolved, order_by, limit, &own, order)?
            }
        };
        if let Some(with) = &query.with {
            for cte in &with.cte_tables {
                let name = &cte.alias.name.value;
                if let Some(visible) = own.find(name)
                    && visible.resolved.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
                {
                    self.expand(&visible, Order::Dropped, place_of(cte.alias.name.span))?;
                }
            }
        }
        Ok(resolved)
    }

    fn body(
        &mut self,
        body: &SetExpr,
        environment: &Environment,
        parent: Option<&Scope<'_>>,
        order: Order,
    ) -> Result<Resolved> {
        match body {
            SetExpr::Select(select) => self.select(select, None, Limit::default(), environment, parent, order),
            SetExpr::Query(query) => self.query(query, environment, parent, order),
            SetExpr::SetOperation { op, set_quantifier, .. } => {
                self.set_operation(body, *op, *set_quantifier, environment, parent)
            }
            SetExpr::Values(_) => Err(unsupported("VALUES; write SELECT ... UNION ALL SELECT ...", place(body))),
            SetExpr::Table(_) => Err(unsupported("TABLE; write SELECT * FROM ...", place(body))),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(unsupported("changing data", place(body)))
            }
        }
    }

    /// `a UNION ALL b UNION ALL c`: a chain of the same operation is taken in a loop.
    fn set_operation(
        &mut self,
        body: &SetExpr,
        op: SetOperator,
        quantifier: SetQuantifier,
        environment: &Environment,
        parent: Option<&Scope<'_>>,
    ) -> Result<Resolved> {
        let at = place(body);
        let mut operands = Vec::new();
        let mut next = body;
        while let SetExpr::SetOperation { left, op: o, set_quantifier: q, right } = next {
            if *o != op || *q != quantifier || (op != SetOperator::Union && !operands.is_empty()) {
                break;
            }
            operands.push(right.as_ref());
            next = left;
        }
        operands.push(next);
        operands.reverse();
        let mut resolved = Vec::with_capacity(operands.len());
        for operand in operands {
            resolved.push(stacker::maybe_grow(256 << 10, 4 << 20, || {
                self.body(operand, environment, parent, Order::Dropped)
            })?);
        }
        let row = resolved.first().map_or(Row::Columns, |first| first.row);
        let width = resolved.first().map_or(0, |first| first.columns.len());
        if let Some(other) = resolved.iter().find(|other| other.columns.len() != width) {
            let message = format!("the queries of the {op} have {width} and {} columns", other.columns.len());
            return Err(invalid(message, at));
        }
        let mut types = Vec::with_capacity(width);
        for i in 0..width {
            let column = resolved.iter().filter_map(|query| query.columns.get(i).map(|column| column.ty.clone()));
            let name =
                resolved.first().and_then(|query| query.columns.get(i)).map_or("", |column| column.name.as_str());
            let ty = common(column, at).map_err(|failure| Failure {
                message: format!("the column {name} of the {op}: {}", failure.message),
                ..failure
            })?;
            if ty == Type::Interval && quantifier != SetQuantifier::All {
                let message = format!("the column {name} of the {op}: DISTINCT cannot compare values of type {ty}");
                return Err(invalid(message, at));
            }
            types.push(ty);
        }
        let names: Vec<String> = resolved
            .first()
            .map(|first| first.columns.iter().map(|column| column.name.clone()).collect())
            .unwrap_or_default();
        let unique: Vec<String> = types.iter().map(|_| self.fresh()).collect();
        let mut plans = Vec::with_capacity(resolved.len());
        for query in resolved {
            let mut exprs = Vec::with_capacity(width);
            for ((column, ty), name) in query.columns.iter().zip(&types).zip(&unique) {
                let value = Typed::new(Expr::Column(column.column.clone()), column.ty.clone());
                exprs.push(shown(value.convert(ty, Conversion::implicit(at))?).expr.alias(name));
            }
            let plan = LogicalPlanBuilder::from(query.plan).project(exprs).and_then(LogicalPlanBuilder::build);
            plans.push(plan.planned()?);
        }
        let plan = combine(plans, op, quantifier, at)?;
        let columns = plan.schema().columns();
        let columns =
            columns.into_iter().zip(names).zip(types).map(|((column, name), ty)| Output { name, column, ty }).collect();
        Ok(Resolved { plan, columns, row })
    }

    /// ORDER BY and LIMIT over a set operation or a parenthesised query: only output names count.
    fn ordered(
        &mut self,
        resolved: Resolved,
        order_by: Option<&OrderBy>,
        limit: Limit,
        environment: &Environment,
        order: Order,
    ) -> Result<Resolved> {
        let Resolved { plan, columns, row } = resolved;
        let scope = Scope {
            relations: vec![Relation::Table {
                alias: None,
                columns: columns
                    .iter()
                    .map(|column| ScopeColumn {
                        name: column.name.clone(),
                        value: Typed::new(Expr::Column(column.column.clone()), column.ty.clone()),
                        hidden: false,
                        qualified_only: false,
                    })
                    .collect(),
                open: false,
            }],
            ..Scope::default()
        };
        let mut builder = LogicalPlanBuilder::from(plan);
        let mut sorts = Vec::new();
        for key in sort_keys(order_by)? {
            let value = match ordinal(&key.expr) {
                Some(n) => nth(&columns, n, place(&key.expr))?,
                None => self.expr(&key.expr, &mut Context::new(&scope, environment, "ORDER BY"))?,
            };
            sorts.push(sorted(value, key)?);
        }
        if !sorts.is_empty() && (order == Order::Kept || limit.rows.is_some() || limit.skip > 0) {
            builder = builder.sort(sorts).planned()?;
        }
        Ok(Resolved { plan: limited(builder, limit)?, columns, row })
    }

    /// LIMIT and OFFSET take constants: numbers or parameters.
    pub(crate) fn limit(&mut self, clause: Option<&LimitClause>, environment: &Environment) -> Result<Limit> {
        let (limit, offset) = match clause {
            None => return Ok(Limit::default()),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(LimitClause::OffsetCommaLimit { .. }) => {
                return Err(unsupported("LIMIT offset, count; write LIMIT count OFFSET offset", None));
            }
            Some(LimitClause::LimitOffset { .. }) => return Err(unsupported("LIMIT BY", None)),
        };
        let scope = Scope::default();
        let mut count = |ast: &Ast, what: &'static str| -> Result<Option<usize>> {
            let at = place(ast);
            let value = self.expr(ast, &mut Context::new(&scope, environment, what))?;
            // A parameter that was not sent limits nothing.
            if value.ty == Type::Null {
                return Ok(None);
            }
            match value.convert(&Type::Int64, Conversion::implicit(at))?.literal() {
                Some(ScalarValue::Int64(Some(count))) => usize::try_from(*count)
                    .map(Some)
                    .map_err(|_| fail(Code::InvalidQuery, format!("{what} must not be negative"), at)),
                _ => Err(invalid(format!("{what} must be a number"), at)),
            }
        };
        Ok(Limit {
            rows: limit.map(|limit| count(limit, "LIMIT")).transpose()?.flatten(),
            skip: offset.map(|offset| count(offset, "OFFSET")).transpose()?.flatten().unwrap_or(0),
        })
    }
}

fn combine(
    plans: Vec<LogicalPlan>,
    op: SetOperator,
    quantifier: SetQuantifier,
    at: Option<Position>,
) -> Result<LogicalPlan> {
    use SetQuantifier as Q;
    let mut plans = plans.into_iter();
    let Some(first) = plans.next() else {
        return Err(invalid("a set operation needs queries", at));
    };
    match (op, quantifier) {
        (SetOperator::Union, Q::All | Q::Distinct | Q::None) => {
            let mut builder = LogicalPlanBuilder::from(first);
            for plan in plans {
                builder = builder.union(plan).planned()?;
            }
            if quantifier != Q::All {
                builder = builder.distinct().planned()?;
            }
            builder.build().planned()
        }
        (SetOperator::Intersect, Q::Distinct | Q::None) => {
            let Some(second) = plans.next() else { return Ok(first) };
            LogicalPlanBuilder::intersect(first, second, false).planned()
        }
        (SetOperator::Except, Q::Distinct | Q::None) => {
            let Some(second) = plans.next() else { return Ok(first) };
            LogicalPlanBuilder::except(first, second, false).planned()
        }
        _ => Err(unsupported(format!("{op} {quantifier}"), at)),
    }
}

/// A value as a plan column: unknown paths get a type that every operator can carry.
pub(crate) fn shown(value: Typed) -> Typed {
    if let Some(error) = crate::functions::raised_as(&value, &Type::String) {
        return error;
    }
    if value.ty == Type::Null {
        return Typed::new(Expr::Literal(ScalarValue::Utf8View(None), None), Type::Null);
    }
    value
}

pub(crate) fn sort_keys(order_by: Option<&OrderBy>) -> Result<&[OrderByExpr]> {
    match order_by {
        None => Ok(&[]),
        Some(OrderBy { kind: OrderByKind::Expressions(keys), interpolate: None }) => Ok(keys),
        Some(_) => Err(unsupported("ORDER BY ALL; name the columns, or their numbers", None)),
    }
}

/// NULL is the smallest value.
pub(crate) fn sorted(value: Typed, key: &OrderByExpr) -> Result<SortExpr> {
    if key.with_fill.is_some() {
        return Err(unsupported("WITH FILL", place(&key.expr)));
    }
    let value = if value.ty == Type::Interval { crate::functions::interval_length(value) } else { value };
    if !value.ty.is_groupable() {
        return Err(invalid(format!("ORDER BY cannot sort values of type {}", value.ty), place(&key.expr)));
    }
    let ascending = key.options.asc.unwrap_or(true);
    Ok(shown(value).expr.sort(ascending, key.options.nulls_first.unwrap_or(ascending)))
}

/// `GROUP BY 1`, `ORDER BY 2`.
pub(crate) fn ordinal(ast: &Ast) -> Option<usize> {
    match ast {
        Ast::Value(value) => match &value.value {
            sqlparser::ast::Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn nth(columns: &[Output], n: usize, at: Option<Position>) -> Result<Typed> {
    n.checked_sub(1)
        .and_then(|i| columns.get(i))
        .map(|column| Typed::new(Expr::Column(column.column.clone()), column.ty.clone()))
        .ok_or_else(|| invalid(format!("there is no column number {n}; the query has {}", columns.len()), at))
}

pub(crate) fn limited(builder: LogicalPlanBuilder, limit: Limit) -> Result<LogicalPlan> {
    let builder =
        if limit.rows.is_some() || limit.skip > 0 { builder.limit(limit.skip, limit.rows).planned()? } else { builder };
    builder.build().planned()
}
