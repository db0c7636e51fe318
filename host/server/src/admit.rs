//! The gate that every endpoint passes before it can be called.
//!
//! Everything that can be known beforehand is checked here: its component is well formed and fits
//! the contract, each statement resolves over its grants, and a dry instantiation worked. What
//! fails is refused with the reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tidegate_compiler::{code_of, compile_sql, inspect};
use tidegate_model::{Code, Failure, Manifest, number};
use tidegate_sql::SavedQuery;
use tidegate_store::{NewVersion, StoreError};
use tokio::task::JoinError;
use uuid::Uuid;

use crate::app::App;
use crate::failure::of_store;
use crate::registry::{Endpoint, Entry};
use crate::tables::StoredTables;
use crate::tokens::hex;
use crate::vet::declare_used;

/// What an endpoint is saved as.
#[derive(Debug, Default)]
pub(crate) struct Saving<'a> {
    /// The endpoint that gets a new version; a new endpoint without.
    pub(crate) id: Option<Uuid>,
    /// Who saves it.
    pub(crate) author: &'a str,
    /// What the names of its tables meant so far; for names that nothing has now, or for all of them
    /// where the query stays as it was.
    pub(crate) known: BTreeMap<String, Uuid>,
    /// Whether the query stays as it was.
    pub(crate) same_query: bool,
    /// The version that the change was made from: a newer one is not overwritten.
    pub(crate) from: Option<i64>,
}

impl App {
    /// The component of a version in the catalog.
    ///
    /// # Errors
    /// The catalog's; that it has no such component.
    pub(crate) fn stored_component(&self, digest: &str) -> Result<Vec<u8>, Failure> {
        let component = self.store.catalog().component(digest).map_err(of_store)?;
        component.ok_or_else(|| Failure::new(Code::Internal, "the component of the endpoint is missing"))
    }

    /// Registers a saved query: compiles it and passes it through the gate.
    ///
    /// # Errors
    /// What the gate refuses; a name that is taken.
    pub(crate) async fn register_query(
        self: &Arc<Self>,
        manifest: &Manifest,
        saving: Saving<'_>,
    ) -> Result<Arc<Endpoint>, Failure> {
        let component = compile_sql(manifest).map_err(|error| refused(error.to_string()))?;
        self.register_component(&component, saving).await
    }

    /// Registers a packed component.
    ///
    /// # Errors
    /// As [`App::register_query`].
    pub(crate) async fn register_component(
        self: &Arc<Self>,
        component: &[u8],
        saving: Saving<'_>,
    ) -> Result<Arc<Endpoint>, Failure> {
        let admitted = self.admitted(component, &saving).await?;
        let Saving { id, author, from, .. } = saving;
        let (this, component, author) = (Arc::clone(self), component.to_vec(), author.to_owned());
        to_its_end(async move { this.enter(admitted, component, id, author, from).await }).await
    }

    /// Takes a packed component through the gate and leaves everything as it is: what it would be warned of.
    ///
    /// # Errors
    /// As [`App::register_component`].
    pub(crate) async fn try_component(
        self: &Arc<Self>,
        component: &[u8],
        saving: Saving<'_>,
    ) -> Result<Vec<Failure>, Failure> {
        let admitted = self.admitted(component, &saving).await?;
        self.may_enter(admitted.manifest.name.as_str(), saving.id, saving.from)?;
        Ok(admitted.warnings)
    }

    /// Whether a version may be saved under a name now.
    fn may_enter(&self, name: &str, id: Option<Uuid>, from: Option<i64>) -> Result<(), Failure> {
        if let (Some(id), Some(from)) = (id, from) {
            self.unchanged_since(id, from)?;
        }
        let of_source = self.store.source(name).is_some_and(|source| source.name == name);
        if of_source && from.is_none() {
            let message = format!("there is a source {name}; as tables the two could not be told apart");
            return Err(refused(message).about("name"));
        }
        if self.registry.find(name).is_some_and(|other| Some(other.id) != id) {
            return Err(taken(name));
        }
        Ok(())
    }

    /// Puts what was admitted into the catalog, and then where calls find it.
    async fn enter(
        self: &Arc<Self>,
        admitted: Admitted,
        component: Vec<u8>,
        id: Option<Uuid>,
        author: String,
        from: Option<i64>,
    ) -> Result<Arc<Endpoint>, Failure> {
        let Admitted { manifest, saved, code, digest, tables, warnings } = admitted;
        let _one = self.registry.registering.lock().await;
        let name = manifest.name.to_string();
        self.may_enter(&name, id, from)?;
        let id = id.unwrap_or_else(Uuid::new_v4);
        let text = serde_json::to_string(&manifest).map_err(|error| refused(error.to_string()))?;
        let digest = hex(&digest);
        let record = self
            .blocking(move |app| {
                app.store.catalog().put_endpoint(NewVersion {
                    id,
                    name: &name,
                    manifest: &text,
                    component: &component,
                    component_digest: &digest,
                    author: &author,
                    sources: &tables,
                })
            })
            .await?;
        let entry = Entry::from(&record);
        self.reserve_fields(&saved, &entry.tables);
        let endpoint = Endpoint::of(record, self.options.limits.text)?.with_saved(saved);
        let _ = endpoint.code.set(code);
        let endpoint = Arc::new(endpoint);
        self.registry.insert(entry, Arc::clone(&endpoint), warnings);
        self.cache.forget(id);
        Ok(endpoint)
    }

    /// Keeps a place among the columns of the sources for the fields that a saved query names.
    pub(crate) fn reserve_fields(&self, saved: &SavedQuery, tables: &BTreeMap<String, Uuid>) {
        let fields = saved.wanted_fields();
        for table in tables.values() {
            // The others are endpoints.
            if let Err(error) = self.store.reserve_fields(*table, fields.iter().cloned()) {
                tracing::debug!(%table, %error, "no source");
            }
        }
    }

    /// Removes an endpoint; its versions stay on record.
    ///
    /// # Errors
    /// [`Code::Refused`] while another endpoint reads it.
    pub(crate) async fn unregister(self: &Arc<Self>, id: Uuid) -> Result<bool, Failure> {
        let this = Arc::clone(self);
        to_its_end(async move {
            let _one = this.registry.registering.lock().await;
            let readers = this.registry.readers(id);
            if !readers.is_empty() {
                let message = format!("the endpoint is read by {}; change or delete those first", readers.join(", "));
                return Err(refused(message).about("id"));
            }
            let there = this.blocking(move |app| app.store.catalog().delete_endpoint(id)).await?;
            this.registry.remove(id);
            this.cache.forget(id);
            Ok(there)
        })
        .await
    }

    /// Refuses a change of what was deleted or changed by somebody else meanwhile.
    fn unchanged_since(&self, id: Uuid, from: i64) -> Result<(), Failure> {
        match self.registry.by_id(id).map(|entry| entry.version) {
            Some(version) if version == from => Ok(()),
            Some(version) => {
                let message =
                    format!("the endpoint was changed meanwhile, to version {version}; read it and try again");
                Err(Failure::new(Code::Conflict, message).about("version"))
            }
            None => Err(Failure::new(Code::NotFound, "the endpoint was deleted meanwhile").about("id")),
        }
    }

    /// Calls the store where it may wait for a commit, away from those that serve connections.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failure> {
        let app = Arc::clone(self);
        match tokio::task::spawn_blocking(move || work(&app)).await {
            Ok(done) => done.map_err(of_store),
            Err(error) => Err(broke_off(&error)),
        }
    }

    /// The gate, on the threads that compute: its statements are planned, and plans may be deep.
    async fn admitted(self: &Arc<Self>, component: &[u8], saving: &Saving<'_>) -> Result<Admitted, Failure> {
        let (this, component) = (Arc::clone(self), component.to_vec());
        let Saving { id, ref known, same_query, .. } = *saving;
        let saving = Saving { id, known: known.clone(), same_query, ..Saving::default() };
        self.compute.run(async move { this.admit(&component, &saving).await }).await
    }

    async fn admit(&self, component: &[u8], saving: &Saving<'_>) -> Result<Admitted, Failure> {
        let inspection = inspect(component).map_err(|error| refused(error.to_string()))?;
        let mut manifest = inspection.manifest;
        allowed(&manifest)?;
        let limits = self.options.limits.lowered_by(&manifest.limits);
        if inspection.initial_memory > number(limits.guest_memory) {
            let message = format!(
                "the component starts with {} bytes of memory, and its limit component_memory is {}",
                inspection.initial_memory, limits.guest_memory
            );
            return Err(refused(message).about("limits"));
        }
        let saved = Arc::new(SavedQuery::parse_within(&manifest.query, &self.options.limits.text)?);
        declare_used(&mut manifest, &saved);
        allowed(&manifest)?;
        let sources = StoredTables::while_saving(self, saving, manifest.name.as_str(), &saved);
        let warnings = self.check_statements(&manifest, &saved, &sources)?;
        let tables = sources.named();
        let (code, bytes) = code(component)?;
        self.prepare(&bytes, code).await?;
        Ok(Admitted { manifest, saved, code, digest: inspection.digest, tables, warnings })
    }
}

/// Does a change in a task of its own, so that it does not end half way when the client who asked for it leaves:
/// the catalog would have the change, and the registry not.
async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    tokio::spawn(change).await.unwrap_or_else(|error| Err(broke_off(&error)))
}

fn broke_off(error: &JoinError) -> Failure {
    tracing::error!(%error, "a management task broke off");
    Failure::new(Code::Internal, "the request failed; the server's log has the details")
}

/// What came through the gate.
struct Admitted {
    manifest: Manifest,
    saved: Arc<SavedQuery>,
    /// The digest of its code.
    code: [u8; 32],
    /// The digest of its component, manifest included.
    digest: [u8; 32],
    tables: BTreeMap<String, Uuid>,
    warnings: Vec<Failure>,
}

/// Whether a manifest breaks none of its rules.
fn allowed(manifest: &Manifest) -> Result<(), Failure> {
    Failure::of_all(manifest.problems().iter().map(crate::manage::of_manifest)).map_or(Ok(()), Err)
}

/// The code of a component and its digest, under which it is compiled and kept: endpoints that
/// differ in their manifests only share it.
pub(crate) fn code(component: &[u8]) -> Result<([u8; 32], Vec<u8>), Failure> {
    let code = code_of(component).map_err(|error| refused(error.to_string()))?;
    Ok((Sha256::digest(&code).into(), code))
}

/// The refusal of a name that another endpoint has.
pub(crate) fn taken(name: &str) -> Failure {
    refused(format!("there is an endpoint {name} already; names are unique")).about("name")
}

pub(crate) fn refused(message: String) -> Failure {
    Failure::new(Code::Refused, message)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use tidegate_compiler::manifest_of_texts;

    use super::*;
    use crate::options::Options;

    /// The endpoint's version in the catalog; nothing if it is not there.
    fn in_catalog(app: &App, name: &str) -> Option<i64> {
        let entries = app.store.catalog().endpoint_entries().unwrap();
        entries.into_iter().find(|entry| entry.name == name).map(|entry| entry.version)
    }

    // On one thread a task does not go on while its test looks at the catalog.
    #[tokio::test]
    async fn a_client_who_leaves_during_the_commit_leaves_no_half_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let (app, _) = App::open(Options::new(folder.path())).await.unwrap();
        let manifest =
            Arc::new(manifest_of_texts("name = \"left\"", "SELECT event_message FROM `postgres.logs`").unwrap());
        let saving = {
            let (app, manifest) = (Arc::clone(&app), Arc::clone(&manifest));
            tokio::spawn(async move { app.register_query(&manifest, Saving::default()).await })
        };
        while in_catalog(&app, "left").is_none() {
            assert!(!saving.is_finished());
            tokio::task::yield_now().await;
            std::thread::sleep(Duration::from_millis(5));
        }
        saving.abort();
        let _ = saving.await;
        // Whoever goes on has the lock, and whoever has it next sees all or nothing.
        drop(app.registry.registering.lock().await);
        let id = app.registry.find("left").unwrap().id;
        assert_eq!(app.registry.by_id(id).map(|entry| entry.version), in_catalog(&app, "left"));

        // Leaves after the first step, which hands the deletion to the catalog.
        assert!(app.unregister(id).now_or_never().is_none());
        while in_catalog(&app, "left").is_some() {
            tokio::task::yield_now().await;
        }
        drop(app.registry.registering.lock().await);
        assert!(app.registry.find("left").is_none());
        // The name is free again.
        app.register_query(&manifest, Saving::default()).await.unwrap();
        app.close().await.unwrap();
    }
}
