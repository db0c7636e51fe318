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

use crate::failures::of_store;
use crate::gate::Gate;
use crate::gate::examples::{example_arguments, granted_whole};
use crate::registry::Registry;
use crate::standard_sources;
use crate::supposed::Supposed;
use crate::tables::{StoredTables, new_source};

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

/// Creates the sources that an endpoint's statements name and that do not exist. Returns their names.
///
/// No source is created for a name that another endpoint has, or that has a meaning already: those are `known`. Other
/// mistakes in the statements are ignored here; the gate reports them. For the compute threads, because plans may be deep.
pub(crate) fn create_missing_sources(gate: &Gate, manifest: &Manifest, known: &BTreeMap<String, Uuid>) -> Vec<String> {
    let made = each_missing(gate, manifest, known, Missing::Created(BTreeSet::new()));
    match made {
        Missing::Created(names) => names.into_iter().collect(),
        Missing::Supposed(_) => Vec::new(),
    }
}

/// The same sources, as they would be if they were created.
pub(crate) fn suppose_missing_sources(gate: &Gate, manifest: &Manifest, known: &BTreeMap<String, Uuid>) -> Supposed {
    match each_missing(gate, manifest, known, Missing::Supposed(Supposed::default())) {
        Missing::Supposed(supposed) => supposed,
        Missing::Created(_) => Supposed::default(),
    }
}

/// What is done about sources that do not exist, with those that were found.
enum Missing {
    Created(BTreeSet<String>),
    Supposed(Supposed),
}

fn each_missing(gate: &Gate, manifest: &Manifest, known: &BTreeMap<String, Uuid>, missing: Missing) -> Missing {
    let (store, registry) = (&*gate.store, &*gate.registry);
    let stored = StoredTables::all(store, registry, &Audience::All);
    let sources = CreatingSources { store, registry, stored, known, missing: Mutex::new(missing) };
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
    sources.missing.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Tables as they are stored. A source that is asked for and does not exist is created, or supposed to be.
struct CreatingSources<'a> {
    store: &'a Store,
    registry: &'a Registry,
    /// The tables that exist, endpoints included.
    stored: StoredTables<'a>,
    /// What names mean for which no table exists now.
    known: &'a BTreeMap<String, Uuid>,
    missing: Mutex<Missing>,
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
                let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
                match &mut *missing {
                    Missing::Created(names) => {
                        let Ok(source) = standard_sources::ensure(self.store, name) else { return Ok(None) };
                        names.insert(name.to_owned());
                        source.id
                    }
                    Missing::Supposed(supposed) => {
                        if !Store::may_name_source(name) {
                            return Ok(None);
                        }
                        supposed.make(name, standard_sources::tenancy(name));
                        return Ok(Some(StoredTable::whole(new_source(self.store).map_err(of_store)?)));
                    }
                }
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
