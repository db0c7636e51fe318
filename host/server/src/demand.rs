//! The sources that an endpoint names, made as they are named.
//!
//! The resolver is asked which they are, not the text: it alone knows which names are tables and
//! which are CTEs, elements or aliases where they stand.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::catalog::TableProvider;
use tidegate_model::{Failure, Manifest};
use tidegate_sql::{SavedQuery, Sources, Tables};
use tidegate_store::Store;

use crate::app::App;
use crate::seed::SOURCES;
use crate::vet::{example_arguments, granted_whole};

/// Makes the sources that an endpoint's statements name and that are not there already, and says which.
/// Whatever else is wrong with the statements is the gate's to tell.
///
/// # Errors
/// If the statements cannot be looked at, which is a bug.
pub(super) async fn make(app: &Arc<App>, manifest: &Manifest) -> Result<Vec<String>, Failure> {
    let (this, manifest) = (Arc::clone(app), manifest.clone());
    // Where statements are planned: plans may be deep.
    let work = async move {
        let sources = Demanded { store: &this.store, made: Mutex::default() };
        let (engine, now) = (&this.engine, this.clock.now());
        if let Ok(saved) = SavedQuery::parse_within(&manifest.query, &this.options.limits.text) {
            let arguments = example_arguments(&manifest);
            // Resolving ends at the first mistake, such as a column that no log has had yet; so each
            // table is also resolved alone.
            let _ = engine.check_saved(&saved, &sources, &arguments, now);
            for sql in granted_whole(&saved) {
                let _ = engine.plan(&sql, Tables::Granted(&saved), &sources, &arguments, now);
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
    store: &'a Store,
    made: Mutex<BTreeSet<String>>,
}

impl Sources for Demanded<'_> {
    fn table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        if self.store.source(name).is_none_or(|source| source.name != name) {
            // A name that no source can have is no table.
            self.store.ensure_source(name).ok()?;
            self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
        self.store.table(name).ok()
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}
