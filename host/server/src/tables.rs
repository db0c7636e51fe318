//! What the names of tables in a saved query mean: sources, and other endpoints.
//!
//! A saved query is bound to what its names meant when it was saved. Renaming a source or an
//! endpoint breaks nobody who reads it, and what takes the old name later is not read by mistake.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::catalog::TableProvider;
use tidegate_sql::{SavedQuery, Sources};
use uuid::Uuid;

use crate::admit::Saving;
use crate::app::App;
use crate::registry::{Endpoint, Registry};
use tidegate_store::Store;

/// The tables of one statement.
pub(crate) struct StoredTables<'a> {
    store: &'a Store,
    registry: &'a Registry,
    /// What names meant when the query was saved.
    known: &'a BTreeMap<String, Uuid>,
    /// Whether that comes first, or what has the name now does.
    bound: bool,
    /// The endpoint that is being saved, under its name: what it reads must not read it.
    own: Option<(&'a str, &'a Arc<SavedQuery>)>,
    /// What was named.
    named: Mutex<BTreeMap<String, Uuid>>,
}

impl<'a> StoredTables<'a> {
    /// The tables of an endpoint's statements; ad-hoc text that may read sources names them as they
    /// are called now.
    pub(crate) fn of(store: &'a Store, registry: &'a Registry, endpoint: &'a Endpoint, bound: bool) -> Self {
        Self { store, registry, known: &endpoint.tables, bound, own: None, named: Mutex::default() }
    }

    /// The tables of an endpoint that is being saved.
    pub(crate) fn while_saving(app: &'a App, saving: &'a Saving<'_>, own: (&'a str, &'a Arc<SavedQuery>)) -> Self {
        let (store, registry) = (&*app.store, &app.registry);
        Self { store, registry, known: &saving.known, bound: saving.same_query, own: Some(own), named: Mutex::default() }
    }

    /// What was named so far, and which it was.
    pub(crate) fn named(&self) -> BTreeMap<String, Uuid> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, name: &str, id: Uuid) {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), id);
    }

    /// What a name means, of a kind: by its binding or by who has it now, in the order that holds here.
    fn find<T>(&self, name: &str, by_id: impl Fn(Uuid) -> Option<T>, by_name: impl Fn(&str) -> Option<T>) -> Option<T> {
        let known = || self.known.get(name).and_then(|id| by_id(*id));
        if self.bound { known().or_else(|| by_name(name)) } else { by_name(name).or_else(known) }
    }
}

impl Sources for StoredTables<'_> {
    fn table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let by_id = |id: Uuid| self.store.sources().into_iter().find(|source| source.id == id);
        let source = self.find(name, by_id, |name| self.store.sources().into_iter().find(|source| source.name == name))?;
        let table = self.store.table(&source.name).ok()?;
        self.note(name, source.id);
        Some(table)
    }

    fn names(&self) -> Vec<String> {
        let sources = self.store.sources().into_iter().map(|source| source.name);
        sources.chain(self.registry.all().iter().map(|endpoint| endpoint.manifest.name.to_string())).collect()
    }

    fn saved(&self, name: &str) -> Option<Arc<SavedQuery>> {
        if let Some((own, saved)) = self.own
            && own == name
        {
            return Some(Arc::clone(saved));
        }
        let by_name = |name: &str| self.registry.find(name).filter(|found| found.manifest.name.as_str() == name);
        let endpoint = self.find(name, |id| self.registry.by_id(id), by_name)?;
        self.note(name, endpoint.id);
        Some(Arc::clone(&endpoint.saved))
    }
}
