//! The sources that an endpoint names, made as they are named.
//!
//! The resolver is asked which they are, not the text: it alone knows which names are tables and
//! which are CTEs, elements or aliases where they stand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::catalog::TableProvider;
use tidegate_model::{Failure, Manifest};
use tidegate_sql::{Binding, SavedQuery, SavedTable, Sources};
use uuid::Uuid;

use crate::app::App;
use crate::seed::SOURCES;
use crate::tables::StoredTables;
use crate::vet::{example_arguments, granted_whole};

/// What names of tables mean to an endpoint that is saved together with its sources: what they meant to it before (`own`),
/// else what they mean to other endpoints. So a source that was renamed is read on under its old name, and is not made
/// anew under it, where it would be empty.
pub(crate) fn meant(app: &App, own: &BTreeMap<String, Uuid>) -> BTreeMap<String, Uuid> {
    let (mut meant, mut disputed) = (BTreeMap::new(), BTreeSet::new());
    for entry in app.registry.all() {
        for (name, id) in &entry.tables {
            if *meant.entry(name.clone()).or_insert(*id) != *id {
                disputed.insert(name.clone());
            }
        }
    }
    let is_there = |id: Uuid| app.store.table_of(id).is_ok() || app.registry.by_id(id).is_some();
    meant.retain(|name, id| !disputed.contains(name) && is_there(*id));
    meant.extend(own.clone());
    meant
}

/// Makes the sources that an endpoint's statements name and that are not there already, and says which. No source is made
/// for a name that another endpoint has, nor for one that means something already: these are `known`. Whatever else is wrong with the statements is the gate's to tell.
///
/// # Errors
/// If the statements cannot be looked at, which is a bug.
pub(crate) async fn make(
    app: &Arc<App>,
    manifest: &Manifest,
    known: &BTreeMap<String, Uuid>,
) -> Result<Vec<String>, Failure> {
    let (this, manifest) = (Arc::clone(app), manifest.clone());
    let known = known.clone();
    // Where statements are planned: plans may be deep.
    let work = async move {
        let stored = StoredTables::all(&this.store, &this.registry);
        let sources = Demanded { app: &this, stored, known, made: Mutex::default() };
        let (engine, now) = (&this.engine, this.clock.now());
        if let Ok(saved) = SavedQuery::parse_within(&manifest.query, &this.options.limits.text) {
            let arguments = example_arguments(&manifest);
            // Resolving ends at the first mistake, such as a column that no log has had yet; so each
            // table is also resolved alone.
            let binding = Binding::new(&sources, &arguments, now);
            let _ = engine.check(&saved, binding);
            for sql in granted_whole(&saved) {
                let _ = engine.plan(&sql, binding.granted(&saved));
            }
            if !manifest.settings.sandboxable {
                // Ad-hoc text of a private token may read these.
                SOURCES.into_iter().for_each(|name| drop(sources.table(name)));
            }
        }
        let made = sources.made.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(made.into_iter().collect())
    };
    app.compute.run(work).await
}

/// Sources that are there once they are asked for.
struct Demanded<'a> {
    app: &'a App,
    /// What is there already, endpoints as tables included.
    stored: StoredTables<'a>,
    /// What names mean already, should nothing have them now.
    known: BTreeMap<String, Uuid>,
    made: Mutex<BTreeSet<String>>,
}

impl Sources for Demanded<'_> {
    fn table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        if let Some(there) = self.stored.table(name) {
            return Some(there);
        }
        let App { store, registry, .. } = self.app;
        if registry.find(name).is_some() {
            return None;
        }
        if let Some(renamed) = self.known.get(name) {
            return store.table_of(*renamed).ok();
        }
        // A name that no source can have is no table.
        store.ensure_source(name).ok()?;
        self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        store.table(name).ok()
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    // What names mean in the queries of other endpoints was settled when those were saved: nothing is made for them.
    fn saved(&self, name: &str) -> Option<SavedTable<'_>> {
        self.stored.saved(name)
    }
}
