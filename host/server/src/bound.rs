//! Whether the rows of a statement are bound to what an access token fixes.
//!
//! A pinned parameter narrows nothing by itself: queries do, where they use it. A token that fixes one
//! is its holder's tenant, so it reads only what the parameter has narrowed on the way from the stored
//! logs: in the granted table, in one that this reads, or in a statement that the author fixed. What a
//! caller writes into ad-hoc text narrows nothing, because the caller may leave it out.

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
pub(crate) struct Pins(Vec<(String, Unbound)>);

impl Pins {
    /// What is left open of an endpoint; `reads` are those that it reads as tables, directly or not.
    ///
    /// # Errors
    /// A saved query among them cannot be read.
    pub(crate) fn of<'n>(
        app: &App,
        parameters: impl IntoIterator<Item = &'n String>,
        endpoint: &Endpoint,
        reads: &[Arc<Endpoint>],
    ) -> Result<Self, Failure> {
        let unbound = |parameter: &String| {
            let mut follower = Follower { app, parameter, reads, known: BTreeMap::new() };
            Ok((parameter.clone(), follower.unbound(endpoint)?))
        };
        parameters.into_iter().map(unbound).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the body of the saved query may run.
    ///
    /// # Errors
    /// [`Code::Forbidden`].
    pub(crate) fn allow_body(&self) -> Result<(), Failure> {
        match self.0.iter().find(|(_, unbound)| unbound.body) {
            Some((parameter, _)) => Err(open(parameter, "the saved query reads a table")),
            None => Ok(()),
        }
    }

    /// Whether a statement may run that the author of the endpoint fixed.
    ///
    /// # Errors
    /// [`Code::Forbidden`]; what is wrong with its text.
    pub(crate) fn allow_fixed(&self, sql: &str, limits: &TextLimits) -> Result<(), Failure> {
        if self.0.is_empty() {
            return Ok(());
        }
        let statement = SavedQuery::parse_within(sql, limits)?;
        for (parameter, Unbound { tables, .. }) in &self.0 {
            if statement.unbound(parameter, tables.iter().map(String::as_str)).body {
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
        if self.0.is_empty() { Ok(()) } else { self.allow(&SavedQuery::parse_within(sql, limits)?) }
    }

    /// The same for a query that was made of ad-hoc text.
    ///
    /// # Errors
    /// [`Code::Forbidden`], with the granted table that it may not read.
    pub(crate) fn allow_query(&self, query: &Query) -> Result<(), Failure> {
        if self.0.is_empty() { Ok(()) } else { self.allow(&SavedQuery::of_query(Arc::new(query.clone()))) }
    }

    fn allow(&self, text: &SavedQuery) -> Result<(), Failure> {
        for (parameter, Unbound { tables, .. }) in &self.0 {
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
}

impl Follower<'_> {
    fn unbound(&mut self, endpoint: &Endpoint) -> Result<Unbound, Failure> {
        let saved = endpoint.saved()?;
        let mut outside = Vec::new();
        for name in saved.relations() {
            let open = match endpoint.tables.get(name) {
                Some(id) => self.is_open(*id)?,
                // A path into columns, or a table that was not known when the query was saved.
                None => self.is_table(name),
            };
            if open {
                outside.push(name);
            }
        }
        Ok(saved.unbound(self.parameter, outside))
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
