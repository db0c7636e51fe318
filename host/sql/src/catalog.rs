//! What a statement can name: sources for saved queries, granted tables for everything else.
//!
//! Isolation is by construction. A statement is resolved against [`Tables`], which are either
//! the sources (for the CTEs of a saved query, written by the operator) or the grants of one
//! endpoint; there is no catalog behind them that a clever name could reach.

use std::fmt;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use tidegate_model::{Arguments, Failure, RowPolicy};

use crate::saved_query::SavedQuery;

/// A stored table, and which of its rows the reader of a statement may read.
#[derive(Debug, Clone)]
pub struct StoredTable {
    /// All of its rows.
    pub provider: Arc<dyn TableProvider>,
    /// Which of them may be read; `None`: all. The condition comes before everything that the statement computes.
    pub policy: Option<RowPolicy>,
}

impl StoredTable {
    /// A table of which the reader may read all rows.
    pub fn whole(provider: Arc<dyn TableProvider>) -> Self {
        Self { provider, policy: None }
    }
}

/// The sources of a data folder, as tables over one consistent snapshot each.
pub trait Sources: Send + Sync {
    /// The table of a source, by its exact name.
    ///
    /// # Errors
    /// The reader may not read it.
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure>;
    /// The names of all sources, for messages.
    fn names(&self) -> Vec<String>;
    /// Whether a source is known to have rows. A name that is no column of it is then one that no row has had.
    fn has_rows(&self, _name: &str) -> bool {
        false
    }
    /// The saved query of another endpoint, which can be read under its name as a table. A source of
    /// the same name hides it.
    fn saved(&self, _name: &str) -> Option<SavedTable<'_>> {
        None
    }
    /// What lineage calls the table that this name means: the name itself, where there is no better one.
    fn identity(&self, name: &str) -> String {
        name.to_owned()
    }
}

/// A saved query that is read as a table: its text, and what table names mean there.
pub struct SavedTable<'s> {
    /// The query.
    pub query: Arc<SavedQuery>,
    /// What the names of tables in its text mean.
    pub sources: Box<dyn Sources + 's>,
}

impl fmt::Debug for SavedTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedTable").field("query", &self.query).finish_non_exhaustive()
    }
}

impl<S: Sources + ?Sized> Sources for &S {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        (**self).table(name)
    }

    fn names(&self) -> Vec<String> {
        (**self).names()
    }

    fn has_rows(&self, name: &str) -> bool {
        (**self).has_rows(name)
    }

    fn saved(&self, name: &str) -> Option<SavedTable<'_>> {
        (**self).saved(name)
    }

    fn identity(&self, name: &str) -> String {
        (**self).identity(name)
    }
}

/// No sources: for statements that need none, and for tests.
#[derive(Debug)]
pub struct NoSources;

impl Sources for NoSources {
    fn table(&self, _name: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(None)
    }
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What a statement may read.
#[derive(Debug, Clone, Copy)]
pub enum Tables<'a> {
    /// The sources themselves; the statement is the operator's own, or a private token's.
    Sources,
    /// The granted tables of a saved query and nothing else.
    Granted(&'a SavedQuery),
}

/// What a statement is bound to when it is planned.
#[derive(Clone, Copy)]
pub struct Binding<'a> {
    /// What the statement may read.
    pub tables: Tables<'a>,
    /// What table names mean where sources may be read: in the statement, or in the texts of granted tables.
    pub sources: &'a dyn Sources,
    /// The values of parameters, by name. One that is missing is NULL.
    pub arguments: &'a Arguments,
    /// The time of the request, in microseconds since the Unix epoch.
    pub now: i64,
}

impl<'a> Binding<'a> {
    /// A statement that may read the sources.
    pub fn new(sources: &'a dyn Sources, arguments: &'a Arguments, now: i64) -> Self {
        Self { tables: Tables::Sources, sources, arguments, now }
    }

    /// The same over other tables.
    pub fn over(self, tables: Tables<'a>) -> Self {
        Self { tables, ..self }
    }

    /// The same over the granted tables of a saved query.
    pub fn granted(self, saved: &'a SavedQuery) -> Self {
        self.over(Tables::Granted(saved))
    }
}

impl fmt::Debug for Binding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tables, sources: _, arguments, now } = self;
        let mut shown = f.debug_struct("Binding");
        shown.field("tables", tables).field("arguments", arguments).field("now", now).finish_non_exhaustive()
    }
}
