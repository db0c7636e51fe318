//! What a statement can name: sources for saved queries, granted tables for everything else.
//!
//! Isolation is by construction. A statement is resolved against [`Tables`], which are either
//! the sources (for the CTEs of a saved query, written by the operator) or the grants of one
//! endpoint; there is no catalog behind them that a clever name could reach.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use sqlparser::ast::{Cte, Query};
use tidegate_model::{Arguments, TextLimits};

use crate::fail::Result;
use crate::named::{Named, Weak};
use crate::text;

/// The sources of a data folder, as tables over one consistent snapshot each.
pub trait Sources: Send + Sync {
    /// The table of a source, by its exact name.
    fn table(&self, name: &str) -> Option<Arc<dyn TableProvider>>;
    /// The names of all sources, for messages.
    fn names(&self) -> Vec<String>;
    /// Whether a source is known to have rows: then a column that it has not is one that no row has had.
    fn has_rows(&self, _name: &str) -> bool {
        false
    }
    /// The saved query of another endpoint, which can be read under its name as a table. A source of
    /// the same name hides it.
    fn saved(&self, _name: &str) -> Option<SavedTable<'_>> {
        None
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
    fn table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
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
}

impl<S: Sources + ?Sized> Sources for Box<S> {
    fn table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
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
    /// What each of `ctes` names, and last what `body` does.
    named: Arc<[Named]>,
}

/// The pieces of a saved query whose rows a parameter does not narrow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unbound {
    /// Granted tables, in the order of the query.
    pub tables: Vec<String>,
    /// Whether the body is among them.
    pub body: bool,
    /// Stored tables, in lower case, in whose text the parameter is only searched for. Whoever fixes the
    /// parameter for a tenant must hold their rows to it in another way.
    pub searched: BTreeSet<String>,
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
        Ok(Self::of_query(Arc::from(text::parse(sql, limits)?)))
    }

    /// A query that was read already.
    pub fn of_query(query: Arc<Query>) -> Self {
        let mut body = query.as_ref().clone();
        let with = body.with.take();
        let ctes: Arc<[Arc<Cte>]> = with.into_iter().flat_map(|with| with.cte_tables).map(Arc::new).collect();
        let of_ctes = ctes.iter().map(|cte| Named::within(cte.query.as_ref()));
        let named = of_ctes.chain([Named::within(&body)]).collect();
        Self { query, ctes, body: Arc::new(body), named }
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
            if let Some(named) = self.named_by(&name)
                && seen.insert(name)
            {
                parameters.extend(named.parameters.iter().cloned());
                open.extend(named.tables.iter().cloned());
            }
        }
        parameters.into_iter().collect()
    }

    /// What stands where a table can stand and is none of the query's CTEs: tables that it reads, and
    /// paths into their columns. As it is written, once.
    pub fn relations(&self) -> BTreeSet<&str> {
        let pieces = self.named.iter().enumerate();
        let all = pieces.flat_map(|(i, named)| named.written.iter().map(move |written| (i, written.as_str())));
        all.filter(|(i, written)| !self.is_cte_before(*i, &written.to_lowercase()))
            .map(|(_, written)| written)
            .collect()
    }

    /// Which of these tables the query names anywhere, and not a CTE of its own.
    pub fn names<'t>(&self, tables: impl IntoIterator<Item = &'t str>) -> Vec<&'t str> {
        let relations: BTreeSet<String> = self.relations().into_iter().map(str::to_lowercase).collect();
        tables.into_iter().filter(|table| relations.contains(&table.to_lowercase())).collect()
    }

    /// Which of these tables the body names itself: what it reads of them, no CTE narrows.
    pub fn names_in_body<'t>(&self, tables: impl IntoIterator<Item = &'t str>) -> Vec<&'t str> {
        let Some(body) = self.named.last() else { return Vec::new() };
        let named = |table: &&str| {
            let table = table.to_lowercase();
            body.tables.contains(&table) && self.named_by(&table).is_none()
        };
        tables.into_iter().filter(named).collect()
    }

    /// Which pieces hand on rows of the tables `outside` without the parameter having been used on the
    /// way. A piece that uses it, anywhere, is taken at its word; but to search for it in a text, or to take it
    /// where another parameter is not sent, is no such use. Of `outside`, `stored` are those whose rows can be held
    /// to the parameter by a column: where they are all that a piece reads and searches, they are told as
    /// [`Unbound::searched`] instead.
    pub fn unbound<'t>(
        &self,
        parameter: &str,
        outside: impl IntoIterator<Item = &'t str>,
        stored: impl IntoIterator<Item = &'t str>,
    ) -> Unbound {
        let outside: BTreeSet<String> = outside.into_iter().map(str::to_lowercase).collect();
        let stored: BTreeSet<String> = stored.into_iter().map(str::to_lowercase).collect();
        let mut found = Unbound::default();
        let mut open = BTreeSet::new();
        for (i, named) in self.named.iter().enumerate() {
            if named.binds(parameter) {
                continue;
            }
            let cte = self.ctes.get(i).map(|cte| &cte.alias.name.value);
            let is_cte = |table: &String| self.is_cte_before(i, table);
            let is_open =
                |table: &&String| if is_cte(table) { open.contains(*table) } else { outside.contains(*table) };
            let read: Vec<&String> = named.tables.iter().filter(is_open).collect();
            if read.is_empty() {
                continue;
            }
            let by_column = |table: &&String| !is_cte(table) && stored.contains(*table);
            if named.weakly(parameter) == Some(Weak::Searched) && read.iter().all(by_column) {
                found.searched.extend(read.into_iter().cloned());
                continue;
            }
            match cte {
                Some(name) => {
                    open.insert(name.to_lowercase());
                    found.tables.push(name.clone());
                }
                None => found.body = true,
            }
        }
        found
    }

    /// The parameters that pieces which read one of the tables `outside` use in a way that binds nothing, each with
    /// the piece: the name of a granted table, or nothing for the body.
    pub fn weakly_bound<'t>(&self, outside: impl IntoIterator<Item = &'t str>) -> Vec<(String, Weak, Option<&str>)> {
        let outside: BTreeSet<String> = outside.into_iter().map(str::to_lowercase).collect();
        let mut found = Vec::new();
        for (i, named) in self.named.iter().enumerate() {
            let reads = |table: &String| !self.is_cte_before(i, table) && outside.contains(table);
            if !named.tables.iter().any(reads) {
                continue;
            }
            let piece = self.ctes.get(i).map(|cte| cte.alias.name.value.as_str());
            for parameter in &named.parameters {
                if let Some(weak) = named.weakly(parameter) {
                    found.push((parameter.clone(), weak, piece));
                }
            }
        }
        found
    }

    /// Whether a name, in lower case, is that of a CTE that the piece sees: those before it, which hide what
    /// is outside.
    fn is_cte_before(&self, piece: usize, name: &str) -> bool {
        let before = self.ctes.get(..piece).unwrap_or(&self.ctes);
        before.iter().any(|cte| cte.alias.name.value.to_lowercase() == name)
    }

    /// What a CTE names, by its own name in lower case.
    fn named_by(&self, cte: &str) -> Option<&Named> {
        let mut all = self.ctes.iter().zip(self.named.iter());
        all.find(|(known, _)| known.alias.name.value.to_lowercase() == cte).map(|(_, named)| named)
    }
}
