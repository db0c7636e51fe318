//! The endpoints that can be called, by id and by name.
//!
//! An endpoint is here only after it came through the gate ([`crate::admit`]). A request holds the
//! version that it found: a change takes effect on the next one and breaks none that is running.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use sha2::{Digest, Sha256};
use tidegate_compiler::compile_adhoc;
use tidegate_model::{Code, Failure, Manifest};
use tidegate_runtime::{Endpoint as Prepared, Runtime};
use tidegate_sql::SavedQuery;
use tidegate_store::EndpointRecord;
use uuid::Uuid;

use crate::app::StartError;

/// An endpoint, ready to be called.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) id: Uuid,
    pub(crate) version: i64,
    pub(crate) manifest: Manifest,
    /// The saved query: its CTEs are the grants.
    pub(crate) saved: Arc<SavedQuery>,
    pub(crate) component: Arc<Prepared>,
    /// The sources and endpoints that the saved query names, and which they were when it was saved:
    /// renaming one breaks nothing, and what takes its name later is not read instead.
    pub(crate) tables: BTreeMap<String, Uuid>,
    /// Who saved this version, and when (microseconds); and when the first version was saved.
    pub(crate) author: String,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    /// What its statements name that no log has had yet.
    pub(crate) warnings: Vec<Failure>,
}

/// All endpoints, and the component that runs every ad-hoc query.
#[derive(Debug)]
pub(crate) struct Registry {
    endpoints: RwLock<Index>,
    pub(crate) adhoc: Arc<Prepared>,
    /// One registration at a time: a name is checked and taken without another in between.
    pub(crate) registering: tokio::sync::Mutex<()>,
}

/// An endpoint of the catalog that no longer passes the gate: it cannot be called, but it can be
/// looked at, changed, restored and deleted.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) record: EndpointRecord,
    /// Nothing if it cannot be read.
    pub(crate) manifest: Option<Manifest>,
    pub(crate) failure: Failure,
}

#[derive(Debug, Default)]
struct Index {
    by_id: BTreeMap<Uuid, Arc<Endpoint>>,
    by_name: BTreeMap<String, Uuid>,
    broken: BTreeMap<Uuid, Arc<Broken>>,
}

impl Registry {
    pub(crate) async fn new(runtime: &Runtime) -> Result<Self, StartError> {
        let component = compile_adhoc().map_err(|error| StartError::Setup {
            what: "the component of ad-hoc queries".to_owned(),
            failure: Box::new(Failure::new(Code::Internal, error.to_string())),
        })?;
        let adhoc = runtime.prepare(&component, Sha256::digest(&component).into()).await?;
        Ok(Self { endpoints: RwLock::default(), adhoc, registering: tokio::sync::Mutex::new(()) })
    }

    /// How many endpoints of the catalog cannot be used.
    pub(crate) fn unusable(&self) -> usize {
        self.read().broken.len()
    }

    fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.endpoints.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Index> {
        self.endpoints.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// An endpoint by its id or name.
    pub(crate) fn find(&self, id_or_name: &str) -> Option<Arc<Endpoint>> {
        let index = self.read();
        let id = match Uuid::try_parse(id_or_name) {
            Ok(id) => id,
            Err(_) => *index.by_name.get(id_or_name)?,
        };
        index.by_id.get(&id).cloned()
    }

    /// An endpoint by its id.
    pub(crate) fn by_id(&self, id: Uuid) -> Option<Arc<Endpoint>> {
        self.read().by_id.get(&id).cloned()
    }

    /// All endpoints by name.
    pub(crate) fn all(&self) -> Vec<Arc<Endpoint>> {
        let index = self.read();
        index.by_name.values().filter_map(|id| index.by_id.get(id).cloned()).collect()
    }

    pub(crate) fn insert(&self, endpoint: Endpoint) -> Arc<Endpoint> {
        let endpoint = Arc::new(endpoint);
        let mut index = self.write();
        index.broken.remove(&endpoint.id);
        index.by_name.retain(|_, id| *id != endpoint.id);
        index.by_name.insert(endpoint.manifest.name.to_string(), endpoint.id);
        index.by_id.insert(endpoint.id, Arc::clone(&endpoint));
        endpoint
    }

    pub(crate) fn remove(&self, id: Uuid) {
        let mut index = self.write();
        index.by_name.retain(|_, known| *known != id);
        index.by_id.remove(&id);
        index.broken.remove(&id);
    }

    /// Keeps those that cannot be used, so that they can be mended.
    pub(crate) fn set_broken(&self, broken: Vec<Broken>) {
        self.write().broken = broken.into_iter().map(|one| (one.record.id, Arc::new(one))).collect();
    }

    /// The endpoints that cannot be used.
    pub(crate) fn broken(&self) -> Vec<Arc<Broken>> {
        self.read().broken.values().cloned().collect()
    }

    /// One of them.
    pub(crate) fn broken_by_id(&self, id: Uuid) -> Option<Arc<Broken>> {
        self.read().broken.get(&id).cloned()
    }

    /// Who reads a source or an endpoint as a table, by name.
    pub(crate) fn readers(&self, table: Uuid) -> Vec<String> {
        let index = self.read();
        let usable = index.by_id.values().map(|endpoint| (endpoint.manifest.name.as_str(), &endpoint.tables));
        let broken = index.broken.values().map(|broken| (broken.record.name.as_str(), &broken.record.sources));
        let reading = usable.chain(broken).filter(|(_, tables)| tables.values().any(|read| *read == table));
        reading.map(|(name, _)| name.to_owned()).collect()
    }

    /// The endpoints that a saved query reads as tables, directly or through others, as they are now.
    pub(crate) fn reads(&self, tables: &BTreeMap<String, Uuid>) -> Vec<Arc<Endpoint>> {
        let index = self.read();
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        let mut open: Vec<Uuid> = tables.values().copied().collect();
        while let Some(id) = open.pop() {
            if let Some(endpoint) = index.by_id.get(&id)
                && seen.insert(id)
            {
                open.extend(endpoint.tables.values());
                found.push(Arc::clone(endpoint));
            }
        }
        found
    }
}

/// A manifest with the parameters of the endpoints that it reads as tables, where it declares none
/// of that name itself.
pub(crate) fn with_parameters_of<'m>(manifest: &'m Manifest, reads: &[Arc<Endpoint>]) -> Cow<'m, Manifest> {
    let mut manifest = Cow::Borrowed(manifest);
    for parameter in reads.iter().flat_map(|endpoint| &endpoint.manifest.parameters) {
        if !manifest.parameters.iter().any(|own| own.name == parameter.name) {
            manifest.to_mut().parameters.push(parameter.clone());
        }
    }
    manifest
}
