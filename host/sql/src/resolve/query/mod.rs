//! Queries: WITH, set operations, one SELECT, FROM, and ORDER BY and LIMIT over them.
//!
//! A query holds queries: in FROM, in WITH, and on both sides of a set operation. This file owns that recursion; the
//! files below it call back [`Resolver::query`] here and each other downwards only:
//!
//! - `select` is one SELECT, made of `group_keys`, `group`, `distinct_key`, `windows` and `fallible_filters`;
//! - `from` are tables and joins, made of `cte`, `unnest` and `join`;
//! - `set_operation` is UNION, INTERSECT and EXCEPT.

mod cte;
mod distinct_key;
mod fallible_filters;
mod from;
mod group;
mod group_keys;
mod join;
mod select;
mod set_operation;
mod unnest;
mod windows;

use std::sync::{Arc, PoisonError};

use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use sqlparser::ast::{Cte, OrderBy, Query, SetExpr};
use tidegate_model::Position;

use super::context::{Clause, Context};
use super::environment::Environment;
use super::expr::Limit;
use super::resolved::{Order, Output, Resolved};
use super::resolver::Resolver;
use super::scope::{Relation, Scope, ScopeColumn};
use super::sorting::{ordinal, sort_keys, sorted, with_stored_last};
use crate::fail::{Planning, Result, invalid, place, place_of, unsupported};
use crate::typed::Typed;

/// Resolves a query, its own CTEs included.
///
/// # Errors
/// Everything that can be wrong with it, with the place.
pub(super) fn resolve_query(
    resolver: &mut Resolver<'_>,
    query: &Query,
    environment: &Environment<'_>,
    parent: Option<&Scope<'_>>,
    order: Order,
) -> Result<Resolved> {
    resolver.query(query, environment, parent, order)
}

impl Resolver<'_> {
    fn query(
        &mut self,
        query: &Query,
        environment: &Environment<'_>,
        parent: Option<&Scope<'_>>,
        order: Order,
    ) -> Result<Resolved> {
        stacker::maybe_grow(256 << 10, 4 << 20, || {
            let at = place(query);
            let extra = query.fetch.is_some()
                || !query.locks.is_empty()
                || query.for_clause.is_some()
                || query.settings.is_some()
                || query.format_clause.is_some();
            if extra {
                return Err(unsupported(
                    "FETCH, FOR, SETTINGS or FORMAT after a query",
                    Some("LIMIT bounds the rows"),
                    at,
                ));
            }
            if !query.pipe_operators.is_empty() {
                return Err(unsupported("the pipe syntax (|>)", Some("write SELECT ... FROM ... WHERE ..."), at));
            }
            let mut own = environment.clone();
            if let Some(with) = &query.with {
                if with.recursive {
                    return Err(unsupported(
                        "WITH RECURSIVE",
                        Some("UNNEST(GENERATE_ARRAY(1, 10)) AS n makes rows"),
                        place(with),
                    ));
                }
                for (i, cte) in with.cte_tables.iter().enumerate() {
                    let name = &cte.alias.name;
                    if with
                        .cte_tables
                        .iter()
                        .take(i)
                        .any(|other| other.alias.name.value.eq_ignore_ascii_case(&name.value))
                    {
                        return Err(invalid(format!("there are two CTEs {}", name.value), place_of(name.span)));
                    }
                }
                let ctes: Vec<Arc<Cte>> = with.cte_tables.iter().cloned().map(Arc::new).collect();
                own = environment.with(&ctes);
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
                        && visible.unfolded.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
                    {
                        self.expand(&visible, &own, Order::Dropped, place_of(cte.alias.name.span))?;
                    }
                }
            }
            Ok(resolved)
        })
    }

    fn body(
        &mut self,
        body: &SetExpr,
        environment: &Environment<'_>,
        parent: Option<&Scope<'_>>,
        order: Order,
    ) -> Result<Resolved> {
        match body {
            SetExpr::Select(select) => self.select(select, None, Limit::default(), environment, parent, order),
            SetExpr::Query(query) => self.query(query, environment, parent, order),
            SetExpr::SetOperation { op, set_quantifier, .. } => {
                self.set_operation(body, *op, *set_quantifier, environment, parent)
            }
            SetExpr::Values(_) => {
                Err(unsupported("VALUES", Some("write SELECT ... UNION ALL SELECT ..."), place(body)))
            }
            SetExpr::Table(_) => Err(unsupported("TABLE", Some("write SELECT * FROM ..."), place(body))),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(unsupported("changing data", None, place(body)))
            }
        }
    }

    /// ORDER BY and LIMIT over a set operation or a parenthesised query: only output names count.
    fn ordered(
        &mut self,
        resolved: Resolved,
        order_by: Option<&OrderBy>,
        limit: Limit,
        environment: &Environment<'_>,
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
                None => self.expr(&key.expr, &mut Context::new(&scope, environment, Clause::OrderBy))?,
            };
            sorts.push(sorted(value, key)?);
        }
        if !sorts.is_empty() && (order == Order::Kept || limit.rows.is_some() || limit.skip > 0) {
            let sorts = with_stored_last(sorts, builder.plan());
            builder = builder.sort(sorts).planned()?;
        }
        Ok(Resolved { plan: limit.applied_to(builder)?, columns, row })
    }
}

fn nth(columns: &[Output], n: usize, at: Option<Position>) -> Result<Typed> {
    n.checked_sub(1)
        .and_then(|i| columns.get(i))
        .map(|column| Typed::new(Expr::Column(column.column.clone()), column.ty.clone()))
        .ok_or_else(|| invalid(format!("there is no column number {n}; the query has {}", columns.len()), at))
}
