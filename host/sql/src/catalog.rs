//! What a statement can name: sources for saved queries, granted tables for everything else.
//!
//! Isolation is by construction. A statement is resolved against [`Tables`], which are either
//! the sources (for the CTEs of a saved query, written by the operator) or the grants of one
//! endpoint; there is no catalog behind them that a clever name could reach.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use sqlparser::ast::{Cte, Expr, ObjectName, Query, Visit, Visitor};
use std::ops::ControlFlow;
use tidegate_model::TextLimits;

use crate::fail::Result;
use crate::text;

/// The sources of a data folder, as tables over one consistent snapshot each.
pub trait Sources: Send + Sync {
    /// The table of a source, by its exact name.
    fn table(&self, name: &str) -> Option<Arc<dyn TableProvider>>;
    /// The names of all sources, for messages.
    fn names(&self) -> Vec<String>;
    /// The saved query of another endpoint, which can be read under its name as a table. A source of
    /// the same name hides it.
    fn saved(&self, _name: &str) -> Option<Arc<SavedQuery>> {
        None
    }
    /// From here on names stand in the saved query that [`Sources::saved`] gave for this name, and
    /// mean what they mean there, until [`Sources::leave`].
    fn enter(&self, _name: &str) {}
    /// The end of what [`Sources::enter`] began.
    fn leave(&self) {}
}

/// No sources: for statements that need none, and for tests.
#[derive(Debug)]
pub struct NoSources;

impl Sources for NoSources {
    fn table(&self, _name: &str) -> Option<Arc<dyn TableProvider>> {
        None
    }
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A saved query, read once: its top-level CTEs are the granted tables.
#[derive(Debug, Clone)]
pub struct SavedQuery {
    /// The whole query.
    pub(crate) query: Arc<Query>,
    /// Its top-level CTEs, shared by all statements that are resolved over them.
    pub(crate) ctes: Arc<[Arc<Cte>]>,
    /// The query without them.
    pub(crate) body: Arc<Query>,
}

/// What a statement may read.
#[derive(Debug, Clone, Copy)]
pub enum Tables<'a> {
    /// The sources themselves; the statement is the operator's own, or a private token's.
    Sources,
    /// The granted tables of a saved query and nothing else.
    Granted(&'a SavedQuery),
}

impl SavedQuery {
    /// Reads a saved query.
    ///
    /// # Errors
    /// Whatever is wrong with the text; see [`crate::Engine::plan`] for what its names may be.
    pub fn parse(sql: &str) -> Result<Self> {
        Self::parse_within(sql, &TextLimits::default())
    }

    /// Reads a saved query under other limits than the default ones.
    ///
    /// # Errors
    /// As [`SavedQuery::parse`].
    pub fn parse_within(sql: &str, limits: &TextLimits) -> Result<Self> {
        let query: Arc<Query> = Arc::from(text::parse(sql, limits)?);
        let mut body = query.as_ref().clone();
        let with = body.with.take();
        let ctes = with.into_iter().flat_map(|with| with.cte_tables).map(Arc::new).collect();
        Ok(Self { query, ctes, body: Arc::new(body) })
    }

    /// The names of the granted tables, in the order of the query.
    pub fn tables(&self) -> Vec<String> {
        self.ctes.iter().map(|cte| cte.alias.name.value.clone()).collect()
    }

    /// The parameters (`@name`) that the query uses, anywhere.
    pub fn parameters(&self) -> Vec<String> {
        Named::within(self.query.as_ref()).parameters.into_iter().collect()
    }

    /// The parameters that a granted table uses, itself or through the CTEs that it reads.
    pub fn parameters_of(&self, table: &str) -> Vec<String> {
        let (mut parameters, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut open = vec![table.to_lowercase()];
        while let Some(name) = open.pop() {
            let cte = self.ctes.iter().find(|cte| cte.alias.name.value.to_lowercase() == name);
            if let Some(cte) = cte
                && seen.insert(name)
            {
                let named = Named::within(cte.query.as_ref());
                parameters.extend(named.parameters);
                open.extend(named.tables);
            }
        }
        parameters.into_iter().collect()
    }
}

/// The names in a piece of a query.
#[derive(Default)]
struct Named {
    parameters: BTreeSet<String>,
    /// In lower case.
    tables: BTreeSet<String>,
}

impl Named {
    fn within(piece: &impl Visit) -> Self {
        let mut named = Self::default();
        let _ = piece.visit(&mut named);
        named
    }
}

impl Visitor for Named {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Identifier(ident) = expr
            && ident.quote_style.is_none()
            && let Some(name) = ident.value.strip_prefix('@')
        {
            self.parameters.insert(name.to_owned());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let parts = relation.0.iter().filter_map(|part| part.as_ident()).map(|ident| ident.value.to_lowercase());
        self.tables.insert(parts.collect::<Vec<_>>().join("."));
        ControlFlow::Continue(())
    }
}
