//! Whether the rows of a statement are bound to what an access token fixes.
//!
//! A pinned parameter narrows nothing by itself: queries do, where they use it. A token that fixes one
//! is its holder's tenant, so it reads only what the parameter has narrowed on the way from the stored
//! logs: in the granted table, in one that this reads, or in a statement that the author fixed. What a
//! caller writes into ad-hoc text narrows nothing, because the caller may leave it out.
//!
//! To search for the parameter in a text narrows nothing either: one tenant's name stands in the addresses
//! and messages of others. A query that does only this, over a source, is held to the source's column of the
//! parameter's name: for the token, the source has the rows where that column is what the token fixes.

use std::collections::BTreeMap;
use std::sync::Arc;

use sqlparser::ast::Query;
use tidegate_model::{Code, Failure, TextLimits};
use tidegate_sql::{SavedQuery, Unbound};
use uuid::Uuid;

use crate::app::App;
use crate::registry::Endpoint;

/// What of an endpoint a token's pinned parameters do not narrow. Nothing is pinned: nothing is in it.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    unbound: Vec<(String, Unbound)>,
    columns: Columns,
}

/// The columns to which the rows of sources are held, with their values: by the endpoint whose query reads them, and the
/// source's name there in lower case.
pub(crate) type Columns = BTreeMap<(Uuid, String), BTreeMap<String, String>>;

impl Pins {
    /// What is left open of an endpoint; `reads` are those that it reads as tables, directly or not.
    ///
    /// # Errors
    /// A saved query among them cannot be read.
    pub(crate) fn of(
        app: &App,
        pinned: &BTreeMap<String, String>,
        endpoint: &Endpoint,
        reads: &[Arc<Endpoint>],
    ) -> Result<Self, Failure> {
        let mut pins = Self::default();
        for (parameter, value) in pinned {
            let mut follower = Follower { app, parameter, reads, known: BTreeMap::new(), searched: Vec::new() };
            let unbound = follower.unbound(endpoint)?;
            for table in follower.searched {
                pins.columns.entry(table).or_default().insert(parameter.clone(), value.clone());
            }
            pins.unbound.push((parameter.clone(), unbound));
        }
        Ok(pins)
    }

    /// The columns to which sources are held.
    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
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
    app: &'a App,
    parameter: &'a str,
    reads: &'a [Arc<Endpoint>],
    /// Whether the rows of an endpoint are open; it is so while it is not known, should they ever read
    /// each other in a circle.
    known: BTreeMap<Uuid, bool>,
    /// Sources that are only searched for the parameter, each with the endpoint whose query does.
    searched: Vec<(Uuid, String)>,
}

impl Follower<'_> {
    fn unbound(&mut self, endpoint: &Endpoint) -> Result<Unbound, Failure> {
        let saved = endpoint.saved()?;
        let (mut outside, mut sources) = (Vec::new(), Vec::new());
        for name in saved.relations() {
            let (open, source) = match endpoint.tables.get(name) {
                Some(id) => (self.is_open(*id)?, self.app.store.table_of(*id).is_ok()),
                // A path into columns, or a table that was not known when the query was saved.
                None => (self.is_table(name), self.app.store.source(name).is_some()),
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
        self.app.store.source(name).is_some() || self.app.registry.find(name).is_some()
    }

    /// Whether the rows of a table do not depend on the parameter. Those of a source never do.
    fn is_open(&mut self, table: Uuid) -> Result<bool, Failure> {
        if let Some(open) = self.known.get(&table) {
            return Ok(*open);
        }
        let Some(endpoint) = self.reads.iter().find(|endpoint| endpoint.id == table) else { return Ok(true) };
        self.known.insert(table, true);
        let open = self.unbound(&Arc::clone(endpoint))?.body;
        self.known.insert(table, open);
        Ok(open)
    }
}
