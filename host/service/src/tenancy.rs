//! Whether the rows of a statement are bound to what an access token fixes.
//!
//! A pinned parameter filters nothing by itself: queries filter by it where they use it. A token that pins one stands for
//! a tenant, so it may read only rows that the parameter has filtered on the way from the stored logs: in the granted
//! table, in an endpoint that this reads, or in a statement that the author fixed. What a caller writes into ad-hoc text
//! does not count, because the caller may leave it out.
//!
//! Searching a text for the parameter does not count either: the name of one tenant occurs in the addresses and messages
//! of others. Where a query over a source does only this, the rows of the source are filtered by the column of the
//! parameter's name ([`RowFilters`]): for the token, the source has only rows in which that column is the pinned value.

use std::collections::BTreeMap;
use std::sync::Arc;

use sqlparser::ast::Query;
use tidegate_model::{Code, Failure, TextLimits};
use tidegate_sql::{SavedQuery, Unbound};
use tidegate_store::Store;
use uuid::Uuid;

use crate::registry::{Endpoint, Registry};

/// What a token's pinned parameters leave unfiltered in an endpoint. Empty where the token pins nothing.
#[derive(Debug, Default)]
pub(crate) struct Tenancy {
    unbound: Vec<(String, Unbound)>,
    filters: RowFilters,
}

/// Columns and the values that rows of a source must have there, by the endpoint whose query reads the source and the
/// source's name in that query, in lower case.
pub(crate) type RowFilters = BTreeMap<(Uuid, String), BTreeMap<String, String>>;

impl Tenancy {
    /// Follows the pinned parameters through an endpoint; `reads` are the endpoints that it reads as tables, directly or
    /// through others.
    ///
    /// # Errors
    /// A saved query among them cannot be read.
    pub(crate) fn of(
        store: &Store,
        registry: &Registry,
        pinned: &BTreeMap<String, String>,
        endpoint: &Endpoint,
        reads: &[Arc<Endpoint>],
    ) -> Result<Self, Failure> {
        let mut tenancy = Self::default();
        for (parameter, value) in pinned {
            let mut follower =
                Follower { store, registry, parameter, reads, open: BTreeMap::new(), searched: Vec::new() };
            let unbound = follower.unbound(endpoint)?;
            for table in follower.searched {
                tenancy.filters.entry(table).or_default().insert(parameter.clone(), value.clone());
            }
            tenancy.unbound.push((parameter.clone(), unbound));
        }
        Ok(tenancy)
    }

    /// The filters of the sources that are only searched for a pinned parameter.
    pub(crate) fn row_filters(&self) -> &RowFilters {
        &self.filters
    }

    /// Whether the body of the saved query may run.
    ///
    /// # Errors
    /// [`Code::Forbidden`].
    pub(crate) fn allow_body(&self) -> Result<(), Failure> {
        match self.unbound.iter().find(|(_, unbound)| unbound.body) {
            Some((parameter, _)) => Err(open(parameter, "the saved query reads a table")),
            None => Ok(()),
        }
    }

    /// Whether a statement may run that the author of the endpoint fixed.
    ///
    /// # Errors
    /// [`Code::Forbidden`]; what is wrong with its text.
    pub(crate) fn allow_fixed(&self, sql: &str, limits: &TextLimits) -> Result<(), Failure> {
        if self.unbound.is_empty() {
            return Ok(());
        }
        let statement = SavedQuery::parse_within(sql, limits)?;
        for (parameter, Unbound { tables, .. }) in &self.unbound {
            if statement.unbound(parameter, tables.iter().map(String::as_str), []).body {
                return Err(open(parameter, "a statement of the endpoint reads a table"));
            }
        }
        Ok(())
    }

    /// Whether ad-hoc text may run.
    ///
    /// # Errors
    /// [`Code::Forbidden`], with the granted table that it may not read; what is wrong with the text.
    pub(crate) fn allow_text(&self, sql: &str, limits: &TextLimits) -> Result<(), Failure> {
        if self.unbound.is_empty() { Ok(()) } else { self.allow(&SavedQuery::parse_within(sql, limits)?) }
    }

    /// The same for a query that was made of ad-hoc text.
    ///
    /// # Errors
    /// [`Code::Forbidden`], with the granted table that it may not read.
    pub(crate) fn allow_query(&self, query: &Query) -> Result<(), Failure> {
        if self.unbound.is_empty() { Ok(()) } else { self.allow(&SavedQuery::of_query(Arc::new(query.clone()))) }
    }

    fn allow(&self, text: &SavedQuery) -> Result<(), Failure> {
        for (parameter, Unbound { tables, .. }) in &self.unbound {
            if let Some(table) = text.names(tables.iter().map(String::as_str)).first() {
                return Err(open(parameter, &format!("the query reads {table}, a table")).about(*table));
            }
        }
        Ok(())
    }
}

fn open(parameter: &str, what: &str) -> Failure {
    let message = format!(
        "the access token fixes the parameter '{parameter}', and {what} that does not depend on it: its rows may be \
         those of others; whoever saves the endpoint can use @{parameter} where the table is made"
    );
    Failure::new(Code::Forbidden, message)
}

/// Follows one parameter through endpoints that read each other.
struct Follower<'a> {
    store: &'a Store,
    registry: &'a Registry,
    parameter: &'a str,
    reads: &'a [Arc<Endpoint>],
    /// Whether the rows of an endpoint are open; it is so while it is not known, should they ever read
    /// each other in a circle.
    open: BTreeMap<Uuid, bool>,
    /// Sources that are only searched for the parameter, each with the endpoint whose query does.
    searched: Vec<(Uuid, String)>,
}

impl Follower<'_> {
    fn unbound(&mut self, endpoint: &Endpoint) -> Result<Unbound, Failure> {
        let saved = endpoint.saved()?;
        let (mut outside, mut sources) = (Vec::new(), Vec::new());
        for name in saved.relations() {
            let (open, source) = match endpoint.tables.get(name) {
                Some(id) => (self.is_open(*id)?, self.store.table_of(*id).is_ok()),
                // A path into columns, or a table that was not known when the query was saved.
                None => (self.is_table(name), self.store.source(name).is_some()),
            };
            if open {
                outside.push(name);
            }
            if source {
                sources.push(name);
            }
        }
        let unbound = saved.unbound(self.parameter, outside, sources);
        self.searched.extend(unbound.searched.iter().map(|table| (endpoint.id, table.clone())));
        Ok(unbound)
    }

    fn is_table(&self, name: &str) -> bool {
        self.store.source(name).is_some() || self.registry.find(name).is_some()
    }

    /// Whether the rows of a table do not depend on the parameter. Those of a source never do.
    fn is_open(&mut self, table: Uuid) -> Result<bool, Failure> {
        if let Some(open) = self.open.get(&table) {
            return Ok(*open);
        }
        let Some(endpoint) = self.reads.iter().find(|endpoint| endpoint.id == table) else { return Ok(true) };
        self.open.insert(table, true);
        let open = self.unbound(&Arc::clone(endpoint))?.body;
        self.open.insert(table, open);
        Ok(open)
    }
}
