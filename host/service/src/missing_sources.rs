//! Sources that an endpoint names and that do not exist, created when the endpoint is saved.
//!
//! The resolver of SQL reports the names, because only it knows which names are tables, and which are CTEs, elements or
//! aliases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use tidegate_model::{Audience, Failure, Manifest};
use tidegate_sql::{Binding, SavedQuery, SavedTable, Sources, StoredTable};
use tidegate_store::Store;
use uuid::Uuid;

use crate::gate::Gate;
use crate::gate::examples::{example_arguments, granted_whole};
use crate::registration::Registrar;
use crate::registry::Registry;
use crate::standard_sources;
use crate::tables::StoredTables;

/// What names of tables mean to an endpoint that is saved together with its sources: what they meant to its version
/// before (`own`), else what they mean to other endpoints. So a source that was renamed is still read under its old
/// name; it is not created again under it, where it would be empty.
pub fn meanings(store: &Store, registry: &Registry, own: &BTreeMap<String, Uuid>) -> BTreeMap<String, Uuid> {
    let (mut meanings, mut disputed) = (BTreeMap::new(), BTreeSet::new());
    for entry in registry.all() {
        for (name, id) in &entry.tables {
            if *meanings.entry(name.clone()).or_insert(*id) != *id {
                disputed.insert(name.clone());
            }
        }
    }
    let is_there = |id: Uuid| store.has_source(id) || registry.by_id(id).is_some();
    meanings.retain(|name, id| !disputed.contains(name) && is_there(*id));
    meanings.extend(own.clone());
    meanings
}

impl Registrar {
    /// Creates the sources that an endpoint's statements name and that do not exist. Returns their names.
    ///
    /// No source is created for a name that another endpoint has, or that has a meaning already: those are `known`.
    /// Other mistakes in the statements are ignored here; the gate reports them.
    ///
    /// # Errors
    /// While the server shuts down.
    pub async fn create_missing_sources(
        &self,
        manifest: &Manifest,
        known: &BTreeMap<String, Uuid>,
    ) -> Result<Vec<String>, Failure> {
        let (gate, manifest, known) = (self.gate.clone(), manifest.clone(), known.clone());
        // On the compute threads, because plans may be deep.
        self.compute.run(async move { Ok(create(&gate, &manifest, known)) }).await
    }
}

fn create(gate: &Gate, manifest: &Manifest, known: BTreeMap<String, Uuid>) -> Vec<String> {
    let (store, registry) = (&*gate.store, &*gate.registry);
    let stored = StoredTables::all(store, registry, &Audience::All);
    let sources = CreatingSources { store, registry, stored, known, made: Mutex::default() };
    let (engine, now) = (&gate.engine, gate.clock.now());
    if let Ok(saved) = SavedQuery::parse_within(&manifest.query, &gate.limits.text) {
        let arguments = example_arguments(manifest);
        // Resolving ends at the first mistake, such as a column that no log has had yet. So each table is also resolved
        // alone.
        let binding = Binding::new(&sources, &arguments, now);
        let _ = engine.check(&saved, binding);
        for sql in granted_whole(&saved) {
            let _ = engine.plan(&sql, binding.granted(&saved));
        }
        if !manifest.settings.sandboxable {
            // Ad-hoc text of a private token may read these.
            standard_sources::names().for_each(|name| drop(sources.table(name)));
        }
    }
    let made = sources.made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.into_iter().collect()
}

/// Tables as they are stored. A source that is asked for and does not exist is created.
struct CreatingSources<'a> {
    store: &'a Store,
    registry: &'a Registry,
    /// The tables that exist, endpoints included.
    stored: StoredTables<'a>,
    /// What names mean for which no table exists now.
    known: BTreeMap<String, Uuid>,
    made: Mutex<BTreeSet<String>>,
}

impl Sources for CreatingSources<'_> {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        if let Some(there) = self.stored.table(name)? {
            return Ok(Some(there));
        }
        if self.registry.find(name).is_some() {
            return Ok(None);
        }
        let id = match self.known.get(name) {
            Some(renamed) => *renamed,
            None => {
                // A name that no source can have is no table.
                let Ok(source) = standard_sources::ensure(self.store, name) else { return Ok(None) };
                self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
                source.id
            }
        };
        let table = self.store.table_for(id, &Audience::All).ok();
        Ok(table.map(|table| StoredTable::whole(table.table)))
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    // What names mean in the queries of other endpoints was decided when those were saved: no source is created for them.
    fn saved(&self, name: &str) -> Option<SavedTable<'_>> {
        self.stored.saved(name)
    }
}
