//! The gate that every endpoint passes before it can be called.
//!
//! Everything that can be known beforehand is checked here: its component is well formed and fits
//! the contract, each statement resolves over its grants, and a dry instantiation worked. What
//! fails is refused with the reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_compiler::{compile_sql, inspect};
use tidegate_model::{Arguments, Code, Failure, Manifest, Parameter, Value};
use tidegate_runtime::Endpoint as Prepared;
use tidegate_sql::{Plan, SavedQuery, Tables};
use tidegate_store::{EndpointRecord, NewVersion};
use uuid::Uuid;

use crate::app::{App, StartError};
use crate::failure::of_store;
use crate::registry::{Endpoint, with_parameters_of};
use crate::tables::StoredTables;
use crate::tokens::hex;

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
}

impl App {
    /// Makes the endpoints of the catalog ready. One that no longer passes the gate is left out
    /// with a line in the log: the others must start.
    pub(crate) async fn load_endpoints(self: &Arc<Self>) -> Result<(), StartError> {
        let mut waiting = self.store.catalog().endpoints()?;
        // One that reads another as a table needs that one first: as long as a round gets somewhere,
        // there is another.
        loop {
            let before = waiting.len();
            let mut failed = Vec::new();
            for record in waiting {
                match self.load(&record).await {
                    Ok(endpoint) => {
                        self.registry.insert(endpoint);
                    }
                    Err(failure) => failed.push((record, failure)),
                }
            }
            if failed.len() == before || failed.is_empty() {
                self.registry.set_unusable(failed.len());
                for (record, failure) in failed {
                    tracing::error!(endpoint = record.name, %failure, "the endpoint cannot be used");
                }
                return Ok(());
            }
            waiting = failed.into_iter().map(|(record, _)| record).collect();
        }
    }

    async fn load(self: &Arc<Self>, record: &EndpointRecord) -> Result<Endpoint, Failure> {
        let component = self.stored_component(record)?;
        let saving = Saving { id: Some(record.id), known: record.sources.clone(), same_query: true, author: "" };
        let admitted = self.admitted(&component, &saving).await?;
        Ok(admitted.endpoint(record))
    }

    /// The component of a version in the catalog.
    pub(crate) fn stored_component(&self, record: &EndpointRecord) -> Result<Vec<u8>, Failure> {
        let component = self.store.catalog().component(&record.component).map_err(of_store)?;
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
        let _one = self.registry.registering.lock().await;
        let name = admitted.manifest.name.to_string();
        let id = saving.id.unwrap_or_else(Uuid::new_v4);
        if self.registry.find(&name).is_some_and(|other| other.id != id) {
            return Err(taken(&name));
        }
        let text = serde_json::to_string(&admitted.manifest).map_err(|error| refused(error.to_string()))?;
        let new = NewVersion {
            id,
            name: &name,
            manifest: &text,
            component,
            component_digest: &hex(&admitted.digest),
            author: saving.author,
            sources: &admitted.tables,
        };
        let record = self.store.catalog().put_endpoint(new).map_err(of_store)?;
        let endpoint = self.registry.insert(admitted.endpoint(&record));
        self.cache.forget(id);
        Ok(endpoint)
    }

    /// Removes an endpoint; its versions stay on record.
    pub(crate) fn unregister(&self, id: Uuid) -> Result<bool, Failure> {
        let there = self.store.catalog().delete_endpoint(id).map_err(of_store)?;
        self.registry.remove(id);
        self.cache.forget(id);
        Ok(there)
    }

    /// The gate, on the threads that compute: its statements are planned, and plans may be deep.
    async fn admitted(self: &Arc<Self>, component: &[u8], saving: &Saving<'_>) -> Result<Admitted, Failure> {
        let (this, component) = (Arc::clone(self), component.to_vec());
        let saving = Saving { id: saving.id, author: "", known: saving.known.clone(), same_query: saving.same_query };
        self.compute.run(async move { this.admit(&component, &saving).await }).await
    }

    async fn admit(&self, component: &[u8], saving: &Saving<'_>) -> Result<Admitted, Failure> {
        let inspection = inspect(component).map_err(|error| refused(error.to_string()))?;
        let mut manifest = inspection.manifest;
        if let Some(failure) = Failure::of_all(manifest.problems().iter().map(crate::manage::of_manifest)) {
            return Err(failure);
        }
        let saved = Arc::new(SavedQuery::parse_within(&manifest.query, &self.options.limits.text)?);
        declare_used(&mut manifest, &saved);
        for sql in manifest.statements.clone().values() {
            declare_used(&mut manifest, &SavedQuery::parse_within(sql, &self.options.limits.text)?);
        }
        let sources = StoredTables::while_saving(self, saving, manifest.name.as_str(), &saved);
        let warnings = self.check_statements(&manifest, &saved, &sources)?;
        let tables = sources.named();
        let prepared = self.runtime.prepare(component, inspection.digest).await?;
        Ok(Admitted { manifest, saved, prepared, digest: inspection.digest, tables, warnings })
    }

    /// Resolves every statement over its grants, so that a mistake is told on save.
    ///
    /// An unknown column does not refuse: columns come with the logs, so it may exist tomorrow. It
    /// is returned, to be shown as a warning.
    fn check_statements(
        &self,
        manifest: &Manifest,
        saved: &SavedQuery,
        sources: &StoredTables<'_>,
    ) -> Result<Vec<Failure>, Failure> {
        let mut warnings = Vec::new();
        let mut note = |checked: Result<Plan, Failure>| match checked {
            Ok(_) => Ok(()),
            Err(failure) if failure.code == Code::UnknownColumn => {
                warnings.push(failure);
                Ok(())
            }
            Err(failure) => Err(failure),
        };
        let now = chrono::Utc::now().timestamp_micros();
        let own = example_arguments(manifest);
        note(self.engine.check_saved(saved, sources, &own, now))?;
        // Now it is known which endpoints are read, and which parameters those bring.
        let reads = self.registry.reads(&sources.named());
        let arguments = example_arguments(&with_parameters_of(manifest, &reads));
        let grants = saved.tables().into_iter().map(|table| format!("SELECT * FROM `{}`", table.replace('`', "\\`")));
        for sql in grants.chain(manifest.statements.values().cloned()) {
            note(self.engine.plan(&sql, Tables::Granted(saved), sources, &arguments, now))?;
        }
        Ok(warnings)
    }
}

/// What came through the gate.
struct Admitted {
    manifest: Manifest,
    saved: Arc<SavedQuery>,
    prepared: Arc<Prepared>,
    digest: [u8; 32],
    tables: BTreeMap<String, Uuid>,
    warnings: Vec<Failure>,
}

impl Admitted {
    fn endpoint(self, record: &EndpointRecord) -> Endpoint {
        let Self { manifest, saved, prepared, tables, warnings, .. } = self;
        let EndpointRecord { id, version, ref author, created_at, updated_at, .. } = *record;
        let author = author.clone();
        Endpoint { id, version, manifest, saved, component: prepared, tables, author, created_at, updated_at, warnings }
    }
}

/// The refusal of a name that another endpoint has.
pub(crate) fn taken(name: &str) -> Failure {
    refused(format!("there is an endpoint {name} already; names are unique")).about("name")
}

fn refused(message: String) -> Failure {
    Failure::new(Code::Refused, message)
}

/// Parameters that the query uses and the manifest does not declare are optional texts.
fn declare_used(manifest: &mut Manifest, saved: &SavedQuery) {
    for name in saved.parameters() {
        if !manifest.parameters.iter().any(|parameter| parameter.name == name) {
            manifest.parameters.push(Parameter { name, ..Parameter::default() });
        }
    }
}

/// Values with which a statement can be resolved before anyone calls it: defaults, the first
/// allowed value, else nothing.
pub(crate) fn example_arguments(manifest: &Manifest) -> Arguments {
    let example = |parameter: &Parameter| {
        let text = parameter.default.clone().or_else(|| parameter.allowed.first().cloned());
        text.and_then(|text| parameter.check(Some(&text)).ok()).unwrap_or(Value::Null)
    };
    manifest.parameters.iter().map(|parameter| (parameter.name.clone(), example(parameter))).collect()
}
