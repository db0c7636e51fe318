//! Syntax tree -> logical plan, in one pass with real scopes.
//!
//! Every piece of the tree is resolved at its place: a name is looked up in the scopes that the dialect
//! says are visible there, typed, and becomes an engine expression over plan columns that have unique
//! names. The result is a plan that can be run, or a [`Failure`] with its place in the text.
//!
//! # Layers
//! A file uses files of lower layers and, within its layer, files before it. From the lowest:
//!
//! 1. `stored` (what is known of stored numbers), `row_policy` (which rows of a table may be read), `resolved` (what a query becomes), `calls` (the aggregate and window
//!    calls of one SELECT), `scope` (columns that are visible), `environment` (tables that are visible), `sorting`,
//!    `remarks`, `unfolded` (what expressions unfold to), `context` (where an expression stands), `resolver` (the state of one resolution);
//! 2. `expr`: expressions, select lists, limits;
//! 3. `query`: queries, CTEs, FROM, one SELECT, grouping;
//! 4. `inlined` (conditions that would unfold to much) and this file: statements over a [`Binding`].
//!
//! Expressions and queries hold each other. Within a layer the parent module owns the recursion
//! ([`expr`] for expressions, [`query`] for queries), and its children call back the parent. Between the
//! layers one call goes upwards, from an expression to a subquery in it: the layer of queries is handed
//! to the resolver as a function ([`resolver::ResolveQuery`]). The methods of a layer are private to it
//! apart from those that the layers above need, so that the compiler holds the order.

mod calls;
mod context;
mod environment;
mod expr;
mod inlined;
mod query;
mod remarks;
mod resolved;
mod resolver;
mod row_policy;
mod scope;
mod sorting;
mod stored;
mod unfolded;

use sqlparser::ast::Query;
use tidegate_model::{Failure, TextLimits};

use self::environment::Environment;
use self::query::resolve_query;
use self::remarks::Remarks;
use self::resolved::Order;
use self::resolver::Resolver;
use crate::catalog::{Binding, Tables};
use crate::fail::Result;
use crate::saved_query::SavedQuery;
use crate::text::spelled_failure;

pub use expr::functions;
pub(crate) use resolved::{Output, Resolved};

/// A resolved statement.
#[derive(Debug)]
pub(crate) struct ResolvedStatement {
    pub(crate) resolved: Resolved,
    /// Names that stand alone in the statement's own text and are NULL because no record ever had them; the first eight.
    pub(crate) never_seen: Vec<Failure>,
    /// Whether a subquery of it reads a row of a query around it.
    pub(crate) correlated: bool,
    /// Whether a subquery stands in an arm that may not be taken.
    pub(crate) subqueries_in_arms: bool,
}

/// Resolves a statement over the tables of `binding`.
///
/// # Errors
/// Everything that can be wrong with it, with the place.
pub(crate) fn statement(query: &Query, binding: Binding<'_>, limits: &TextLimits) -> Result<ResolvedStatement> {
    resolved(query, &environment(binding), binding, limits)
}

/// Resolves the body of a saved query over its CTEs; both see the sources of `binding`, whatever its tables are.
///
/// # Errors
/// As [`statement`].
pub(crate) fn saved_body(saved: &SavedQuery, binding: Binding<'_>, limits: &TextLimits) -> Result<ResolvedStatement> {
    resolved(&saved.body, &Environment::over(binding.sources).with(&saved.ctes, saved.recursive), binding, limits)
}

/// Resolves a statement and gives the names in it that are NULL because no record ever had them, with the nearest name
/// that one had: they may be misspelt. Of sources that may have no rows yet, only names that are near to another.
///
/// # Errors
/// As [`statement`].
pub(crate) fn remarks(query: &Query, binding: Binding<'_>, limits: &TextLimits) -> Result<Vec<Failure>> {
    let Binding { tables: _, sources: _, arguments, now } = binding;
    let mut resolver = Resolver::new(resolve_query, arguments, now, limits, Remarks::of_all());
    resolve_query(&mut resolver, query, &environment(binding), None, Order::Kept).map_err(spelled_failure)?;
    Ok(resolver.remarks.into_all())
}

/// What the text of a statement sees.
fn environment(binding: Binding<'_>) -> Environment<'_> {
    let sources = Environment::over(binding.sources);
    match binding.tables {
        Tables::Sources => sources,
        // The text of a grant sees sources, the statement that reads the grant does not.
        Tables::Granted(saved) => sources.with(&saved.ctes, saved.recursive).without_sources(),
    }
}

fn resolved(
    query: &Query,
    environment: &Environment<'_>,
    binding: Binding<'_>,
    limits: &TextLimits,
) -> Result<ResolvedStatement> {
    let Binding { tables: _, sources: _, arguments, now } = binding;
    let mut resolver = Resolver::new(resolve_query, arguments, now, limits, Remarks::default());
    let resolved = resolve_query(&mut resolver, query, environment, None, Order::Kept).map_err(spelled_failure)?;
    inlined::check(&resolved.plan)?;
    let Resolver { correlated, subqueries_in_arms, remarks, .. } = resolver;
    Ok(ResolvedStatement { resolved, never_seen: remarks.into_alone(), correlated, subqueries_in_arms })
}
