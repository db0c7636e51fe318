//! The endpoints that can be called, by id and by name; and the gate that each passes first.
//!
//! An endpoint is here only when everything that can be known beforehand holds: its component is
//! well formed and fits the contract, each statement resolves over its grants, and a dry
//! instantiation worked. What fails is refused with the reason.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tidegate_compiler::{compile_adhoc, compile_sql, inspect};
use tidegate_model::{Arguments, Code, Failure, Manifest, Value};
use tidegate_runtime::{Endpoint as Prepared, Runtime};
use tidegate_sql::{SavedQuery, Tables};
use uuid::Uuid;

use crate::app::{App, StartError};
use crate::failure::of_store;
use crate::statements::StoredSources;
use crate::tokens::hex;

/// An endpoint, ready to be called.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) id: Uuid,
    pub(crate) version: i64,
    pub(crate) manifest: Manifest,
    /// The saved query: its CTEs are the grants.
    pub(crate) saved: SavedQuery,
    pub(crate) component: Arc<Prepared>,
    /// What its statements name that no log has had yet.
    pub(crate) warnings: Vec<Failure>,
}

/// All endpoints, and the component that runs every ad-hoc query.
#[derive(Debug)]
pub(crate) struct Registry {
    endpoints: RwLock<Index>,
    pub(crate) adhoc: Arc<Prepared>,
    /// Endpoints of the catalog that did not pass the gate at start.
    unusable: AtomicUsize,
    /// One registration at a time: a name is checked and taken without another in between.
    registering: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Index {
    by_id: BTreeMap<Uuid, Arc<Endpoint>>,
    by_name: BTreeMap<String, Uuid>,
}

impl Registry {
    pub(crate) async fn new(runtime: &Runtime) -> Result<Self, StartError> {
        let component = compile_adhoc().map_err(|error| StartError::Setup {
            what: "the component of ad-hoc queries".to_owned(),
            failure: Failure::new(Code::Internal, error.to_string()),
        })?;
        let adhoc = runtime.prepare(&component, digest_of(&component)).await?;
        Ok(Self {
            endpoints: RwLock::default(),
            adhoc,
            unusable: AtomicUsize::new(0),
            registering: tokio::sync::Mutex::new(()),
        })
    }

    /// An endpoint by its id or name.
    pub(crate) fn find(&self, id_or_name: &str) -> Option<Arc<Endpoint>> {
        let index = self.endpoints.read().unwrap_or_else(PoisonError::into_inner);
        let id = match Uuid::try_parse(id_or_name) {
            Ok(id) => id,
            Err(_) => *index.by_name.get(id_or_name)?,
        };
        index.by_id.get(&id).cloned()
    }

    /// All endpoints by name.
    pub(crate) fn all(&self) -> Vec<Arc<Endpoint>> {
        let index = self.endpoints.read().unwrap_or_else(PoisonError::into_inner);
        index.by_name.values().filter_map(|id| index.by_id.get(id).cloned()).collect()
    }

    /// How many endpoints of the catalog cannot be used.
    pub(crate) fn unusable(&self) -> usize {
        self.unusable.load(Ordering::Relaxed)
    }

    fn insert(&self, endpoint: Endpoint) -> Arc<Endpoint> {
        let endpoint = Arc::new(endpoint);
        let mut index = self.endpoints.write().unwrap_or_else(PoisonError::into_inner);
        index.by_name.retain(|_, id| *id != endpoint.id);
        index.by_name.insert(endpoint.manifest.name.to_string(), endpoint.id);
        index.by_id.insert(endpoint.id, Arc::clone(&endpoint));
        endpoint
    }

    fn remove(&self, id: Uuid) {
        let mut index = self.endpoints.write().unwrap_or_else(PoisonError::into_inner);
        index.by_name.retain(|_, known| *known != id);
        index.by_id.remove(&id);
    }
}

fn digest_of(component: &[u8]) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    Sha256::digest(component).into()
}

impl App {
    /// Makes the endpoints of the catalog ready. One that no longer passes the gate is left out
    /// with a line in the log: the others must start.
    pub(crate) async fn load_endpoints(self: &Arc<Self>) -> Result<(), StartError> {
        for record in self.store.catalog().endpoints()? {
            let name = record.name.clone();
            let loaded = async {
                let component = self.store.catalog().component(&record.component).map_err(of_store)?;
                let component = component.ok_or_else(|| Failure::new(Code::Internal, "its component is missing"))?;
                let admitted = self.admitted(&component).await?;
                Ok::<_, Failure>(admitted.endpoint(record.id, record.version))
            };
            match loaded.await {
                Ok(endpoint) => {
                    self.registry.insert(endpoint);
                }
                Err(failure) => {
                    self.registry.unusable.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(endpoint = name, %failure, "the endpoint cannot be used");
                }
            }
        }
        Ok(())
    }

    /// Registers a saved query: compiles it and passes it through the gate. With an `id`, it
    /// becomes a new version of that endpoint.
    ///
    /// # Errors
    /// What the gate refuses; a name that is taken.
    pub(crate) async fn register_query(
        self: &Arc<Self>,
        id: Option<Uuid>,
        manifest: &Manifest,
    ) -> Result<Arc<Endpoint>, Failure> {
        let component = compile_sql(manifest).map_err(|error| refused(error.to_string()))?;
        self.register_component(id, &component).await
    }

    /// Registers a packed component.
    ///
    /// # Errors
    /// As [`App::register_query`].
    pub(crate) async fn register_component(
        self: &Arc<Self>,
        id: Option<Uuid>,
        component: &[u8],
    ) -> Result<Arc<Endpoint>, Failure> {
        let admitted = self.admitted(component).await?;
        let _one = self.registry.registering.lock().await;
        let name = admitted.manifest.name.to_string();
        let id = id.unwrap_or_else(Uuid::new_v4);
        if self.registry.find(&name).is_some_and(|other| other.id != id) {
            return Err(Failure::new(Code::Conflict, format!("there is an endpoint {name} already")).about("name"));
        }
        let text = serde_json::to_string(&admitted.manifest).map_err(|error| refused(error.to_string()))?;
        let digest = hex(&admitted.digest);
        let record = self.store.catalog().put_endpoint(id, &name, &text, &digest, component).map_err(of_store)?;
        Ok(self.registry.insert(admitted.endpoint(id, record.version)))
    }

    /// Removes an endpoint.
    pub(crate) fn unregister(&self, id: Uuid) -> Result<bool, Failure> {
        let there = self.store.catalog().delete_endpoint(id).map_err(of_store)?;
        self.registry.remove(id);
        Ok(there)
    }

    /// The gate, on the threads that compute: its statements are planned, and plans may be deep.
    async fn admitted(self: &Arc<Self>, component: &[u8]) -> Result<Admitted, Failure> {
        let (this, component) = (Arc::clone(self), component.to_vec());
        self.compute.run(async move { this.admit(&component).await }).await
    }

    async fn admit(&self, component: &[u8]) -> Result<Admitted, Failure> {
        let inspection = inspect(component).map_err(|error| refused(error.to_string()))?;
        let mut manifest = inspection.manifest;
        manifest.validate().map_err(|error| refused(error.to_string()))?;
        let saved = SavedQuery::parse_within(&manifest.query, &self.options.limits.text)?;
        declare_used(&mut manifest, &saved);
        let warnings = self.check_statements(&manifest, &saved)?;
        let prepared = self.runtime.prepare(component, inspection.digest).await?;
        Ok(Admitted { manifest, saved, prepared, digest: inspection.digest, warnings })
    }

    /// Resolves every statement over its grants, so that a mistake is told on save.
    ///
    /// An unknown column does not refuse: columns come with the logs, so it may exist tomorrow. It
    /// is returned, to be shown as a warning.
    fn check_statements(&self, manifest: &Manifest, saved: &SavedQuery) -> Result<Vec<Failure>, Failure> {
        let mut warnings = Vec::new();
        let mut note = |checked: Result<tidegate_sql::Plan, Failure>| match checked {
            Ok(_) => Ok(()),
            Err(failure) if failure.code == Code::UnknownColumn => {
                warnings.push(failure);
                Ok(())
            }
            Err(failure) => Err(failure),
        };
        let sources = StoredSources(&self.store);
        let arguments = example_arguments(manifest);
        let now = chrono::Utc::now().timestamp_micros();
        note(self.engine.check_saved(saved, &sources, &arguments, now))?;
        let grants = saved.tables().into_iter().map(|table| format!("SELECT * FROM `{}`", table.replace('`', "\\`")));
        for sql in grants.chain(manifest.statements.values().cloned()) {
            note(self.engine.plan(&sql, Tables::Granted(saved), &sources, &arguments, now))?;
        }
        Ok(warnings)
    }
}

/// What came through the gate.
struct Admitted {
    manifest: Manifest,
    saved: SavedQuery,
    prepared: Arc<Prepared>,
    digest: [u8; 32],
    warnings: Vec<Failure>,
}

impl Admitted {
    fn endpoint(self, id: Uuid, version: i64) -> Endpoint {
        let Self { manifest, saved, prepared, warnings, .. } = self;
        Endpoint { id, version, manifest, saved, component: prepared, warnings }
    }
}

fn refused(message: String) -> Failure {
    Failure::new(Code::Refused, message)
}

/// Parameters that the query uses and the manifest does not declare are optional texts.
fn declare_used(manifest: &mut Manifest, saved: &SavedQuery) {
    for name in saved.parameters() {
        if !manifest.parameters.iter().any(|parameter| parameter.name == name) {
            manifest.parameters.push(tidegate_model::Parameter { name, ..Default::default() });
        }
    }
}

/// Values with which a statement can be resolved before anyone calls it: defaults, the first
/// allowed value, else nothing.
fn example_arguments(manifest: &Manifest) -> Arguments {
    let example = |parameter: &tidegate_model::Parameter| {
        let text = parameter.default.clone().or_else(|| parameter.allowed.first().cloned());
        text.and_then(|text| parameter.check(Some(&text)).ok()).unwrap_or(Value::Null)
    };
    manifest.parameters.iter().map(|parameter| (parameter.name.clone(), example(parameter))).collect()
}
