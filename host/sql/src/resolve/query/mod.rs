//! Queries: WITH, set operations, one SELECT, FROM, and ORDER BY and LIMIT over them.
//!
//! A query holds queries: in FROM, in WITH, and on both sides of a set operation. This file owns that recursion; the
//! files below it call back [`Resolver::query`] here and each other downwards only:
//!
//! - `select` is one SELECT, made of `group_keys`, `group`, `distinct_key`, `own_aggregates`, `windows` and `fallible_filters`;
//! - `from` are tables and joins, made of `cte` with `recursive`, `unnest`, `join`, `pivot` and `unpivot`;
//! - `set_operation` is UNION, INTERSECT and EXCEPT, with `set_columns`;
//! - `pipe` is the pipe syntax over all of these, with `pipe_rows`, `pipe_columns`, `pipe_aggregate` and `pipe_scope`.

mod cte;
mod distinct_key;
mod fallible_filters;
mod from;
mod group;
mod group_keys;
mod join;
mod own_aggregates;
mod pipe;
mod pipe_aggregate;
mod pipe_columns;
mod pipe_rows;
mod pipe_scope;
mod pivot;
mod recursive;
mod select;
mod set_columns;
mod set_operation;
mod unnest;
mod unpivot;
mod windows;

use std::sync::{Arc, PoisonError};

use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use sqlparser::ast::{Cte, OrderBy, Query, SetExpr, With};
use tidegate_model::Position;

use self::pipe::is_from_query;
use super::context::{Clause, Context};
use super::environment::Environment;
use super::expr::Limit;
use super::resolved::{Order, Output, Resolved};
use super::resolver::Resolver;
use super::scope::{Relation, Scope, ScopeColumn};
use super::sorting::{ordinal, sort_keys, sorted, with_stored_last};
use crate::fail::{Planning, Result, invalid, place, place_of, unsupported};
use crate::piece_names::by_dependency;
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
        let around = self.unfolded.apart();
        let resolved = self.query_apart(query, environment, parent, order);
        self.unfolded.back(around);
        resolved
    }

    fn query_apart(
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
            let own = match &query.with {
                Some(with) => self.with_ctes(with, environment)?,
                None => environment.clone(),
            };
            let resolved = if query.pipe_operators.is_empty() {
                self.unpiped(query, &own, parent, order)?
            } else {
                let body = |this: &mut Self, order| this.unpiped(query, &own, parent, order);
                self.piped(query, body, &own, parent, order)?
            };
            if let Some(with) = &query.with {
                self.check_unread(with, &own)?;
            }
            Ok(resolved)
        })
    }

    /// A query without its WITH and its pipes.
    fn unpiped(
        &mut self,
        query: &Query,
        environment: &Environment<'_>,
        parent: Option<&Scope<'_>>,
        order: Order,
    ) -> Result<Resolved> {
        let limit = self.limit(query.limit_clause.as_ref(), environment)?;
        let order_by = query.order_by.as_ref();
        match query.body.as_ref() {
            body if is_from_query(body) && (order_by.is_some() || query.limit_clause.is_some()) => {
                Err(invalid("after a FROM without SELECT write |> before ORDER BY and LIMIT", place(query)))
            }
            SetExpr::Select(select) if !is_from_query(&query.body) => {
                self.select(select, order_by, limit, environment, parent, order)
            }
            body => {
                let inner = if order_by.is_some() { Order::Dropped } else { order };
                let resolved = self.body(body, environment, parent, inner)?;
                self.ordered(resolved, order_by, limit, environment, order)
            }
        }
    }

    /// The environment with the CTEs of a WITH.
    fn with_ctes<'e>(&self, with: &With, environment: &Environment<'e>) -> Result<Environment<'e>> {
        for (i, cte) in with.cte_tables.iter().enumerate() {
            let name = &cte.alias.name;
            if with.cte_tables.iter().take(i).any(|other| other.alias.name.value.eq_ignore_ascii_case(&name.value)) {
                return Err(invalid(format!("there are two CTEs {}", name.value), place_of(name.span)));
            }
        }
        let mut ctes: Vec<Arc<Cte>> = with.cte_tables.iter().cloned().map(Arc::new).collect();
        if with.recursive {
            ctes = by_dependency(ctes);
        }
        Ok(environment.with(&ctes, with.recursive))
    }

    /// Resolves the CTEs of a WITH that nothing has read, so that mistakes in them are reported.
    fn check_unread(&mut self, with: &With, environment: &Environment<'_>) -> Result<()> {
        for cte in &with.cte_tables {
            let name = &cte.alias.name.value;
            if let Some(visible) = environment.find(name)
                && visible.unfolded.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
            {
                self.expand(&visible, environment, Order::Dropped, place_of(cte.alias.name.span))?;
            }
        }
        Ok(())
    }

    fn body(
        &mut self,
        body: &SetExpr,
        environment: &Environment<'_>,
        parent: Option<&Scope<'_>>,
        order: Order,
    ) -> Result<Resolved> {
        match body {
            SetExpr::Select(select) if is_from_query(body) => self.whole_from(select, environment, parent, order),
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
