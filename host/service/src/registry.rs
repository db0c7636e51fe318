//! The registry of endpoints, by id and by name.
//!
//! There may be ten thousand endpoints, of which few are called. So the registry keeps a small record of each in memory
//! ([`EndpointEntry`]). The rest of what a call needs ([`Endpoint`]) is read from the catalog at the first call and
//! dropped after some time without calls. The runtime caches compiled components. A request uses the version that was
//! current when it began: a change takes effect with the next request.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tidegate_compiler::{code_of, compile_adhoc};
use tidegate_model::{Code, Failure, Manifest, TextLimits};
use tidegate_runtime::{Endpoint as Prepared, Runtime};
use tidegate_sql::SavedQuery;
use tidegate_store::Store;
use uuid::Uuid;

use crate::catalog::{EndpointEntry, EndpointRecord, EndpointTable};
use crate::failures::of_store;
use crate::start_error::StartError;

/// The capacity of the cache of loaded endpoints, in estimated bytes.
const LOADED: u64 = 64 << 20;
/// The estimated bytes of memory for each byte of a saved query after parsing.
const PARSED: usize = 64;
/// The time without calls after which a loaded endpoint is dropped from memory.
const IDLE: Duration = Duration::from_secs(600);

/// One version of an endpoint, as stored in the catalog.
#[derive(Debug)]
pub struct Endpoint {
    /// The id. It stays the same when the name changes.
    pub id: Uuid,
    /// The number of this version, from 1.
    pub version: i64,
    /// The manifest, which defines the endpoint.
    pub manifest: Manifest,
    /// The digest of its component, in hex.
    pub component: String,
    /// The digest of the component's code, once it has been computed.
    pub(crate) code: OnceLock<[u8; 32]>,
    /// The ids of the sources and endpoints that the saved query names, by name, as they were when the query was saved.
    /// So renaming a table does not break the query, and the query does not read a new table that takes the old name.
    pub tables: BTreeMap<String, Uuid>,
    /// Who saved this version.
    pub author: String,
    /// When the first version was saved, in microseconds since 1970, UTC.
    pub created_at: i64,
    /// When this version was saved, in microseconds since 1970, UTC.
    pub updated_at: i64,
    /// Locked while the component is prepared, so that many concurrent requests prepare it only once.
    pub(crate) preparing: tokio::sync::Mutex<()>,
    saved: OnceLock<Result<Arc<SavedQuery>, Failure>>,
    text: TextLimits,
}

impl Endpoint {
    /// The endpoint of a record in the catalog.
    ///
    /// # Errors
    /// The manifest cannot be parsed.
    pub(crate) fn of(record: EndpointRecord, text: TextLimits) -> Result<Self, Failure> {
        let manifest = serde_json::from_str(&record.manifest)
            .map_err(|error| Failure::new(Code::Internal, format!("its definition cannot be read: {error}")))?;
        let EndpointRecord {
            id,
            version,
            component,
            sources: tables,
            author,
            created_at,
            updated_at,
            name: _,
            manifest: _,
        } = record;
        let (code, saved, preparing) = (OnceLock::new(), OnceLock::new(), tokio::sync::Mutex::new(()));
        Ok(Self {
            id,
            version,
            manifest,
            component,
            code,
            tables,
            author,
            created_at,
            updated_at,
            preparing,
            saved,
            text,
        })
    }

    /// The saved query, parsed at the first call. Its CTEs are the granted tables.
    ///
    /// # Errors
    /// The query cannot be parsed. This can happen later too, if limits were lowered after the query was saved.
    pub fn saved(&self) -> Result<&Arc<SavedQuery>, Failure> {
        let parse = || SavedQuery::parse_within(&self.manifest.query, &self.text).map(Arc::new);
        self.saved.get_or_init(parse).as_ref().map_err(Clone::clone)
    }

    /// The endpoint with its saved query, which the gate has already parsed.
    pub(crate) fn with_saved(self, saved: Arc<SavedQuery>) -> Self {
        Self { saved: Ok(saved).into(), ..self }
    }

    /// The estimated bytes of the endpoint in memory.
    fn weight(&self) -> u32 {
        let statements: usize = self.manifest.statements.values().map(String::len).sum();
        let bytes = self.manifest.query.len().saturating_mul(PARSED) + statements + 4096;
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

/// The result of the gate for one version of an endpoint, from its registration or from the check after a start.
#[derive(Debug)]
pub struct CheckResult {
    /// The version that was checked.
    pub version: i64,
    /// The reason why the endpoint can no longer be called. It can still be read, changed, restored and deleted.
    pub broken: Option<Failure>,
    /// Texts that may not mean what the author intended, such as columns that no log has had yet.
    pub warnings: Vec<Failure>,
}

/// All endpoints, and the component that runs all ad-hoc queries.
#[derive(Debug)]
pub struct Registry {
    endpoints: RwLock<Index>,
    loaded: moka::sync::Cache<(Uuid, i64), Arc<Endpoint>>,
    text: TextLimits,
    /// The component that runs ad-hoc queries.
    pub(crate) adhoc: Arc<Prepared>,
    /// The SHA-256 digest of that component's code.
    pub(crate) adhoc_code: [u8; 32],
    /// Locked during a registration, so that checking a name and taking it is atomic.
    pub(crate) registering: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Index {
    by_id: HashMap<Uuid, Arc<EndpointEntry>>,
    by_name: BTreeMap<String, Uuid>,
    /// Contains only endpoints whose check found something to report.
    results: BTreeMap<Uuid, Arc<CheckResult>>,
    /// The number of endpoints that the check after the start has not reached yet.
    unchecked: usize,
}

impl Registry {
    /// An empty registry, with the component for ad-hoc queries.
    ///
    /// # Errors
    /// That component cannot be compiled.
    pub(crate) async fn new(runtime: &Runtime, text: TextLimits) -> Result<Self, StartError> {
        let setup_failed = |error: &dyn std::fmt::Display| StartError::Setup {
            what: "the components of saved and ad-hoc queries".to_owned(),
            failure: Box::new(Failure::new(Code::Internal, error.to_string())),
        };
        let component = compile_adhoc().map_err(|error| setup_failed(&error))?;
        let component = code_of(&component).map_err(|error| setup_failed(&error))?;
        let adhoc_code = Sha256::digest(&component).into();
        let adhoc = runtime.prepare_own(&component, adhoc_code).await?;
        let loaded = moka::sync::Cache::builder()
            .max_capacity(LOADED)
            .weigher(|_: &(Uuid, i64), endpoint: &Arc<Endpoint>| endpoint.weight())
            .time_to_idle(IDLE)
            .build();
        let registering = tokio::sync::Mutex::new(());
        Ok(Self { endpoints: RwLock::default(), loaded, text, adhoc, adhoc_code, registering })
    }

    fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.endpoints.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Index> {
        self.endpoints.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds an endpoint by its id or name.
    pub fn find(&self, id_or_name: &str) -> Option<Arc<EndpointEntry>> {
        let index = self.read();
        let id = match Uuid::try_parse(id_or_name) {
            Ok(id) => id,
            Err(_) => *index.by_name.get(id_or_name)?,
        };
        index.by_id.get(&id).cloned()
    }

    /// Finds an endpoint by its id.
    pub fn by_id(&self, id: Uuid) -> Option<Arc<EndpointEntry>> {
        self.read().by_id.get(&id).cloned()
    }

    /// All endpoints, sorted by name.
    pub fn all(&self) -> Vec<Arc<EndpointEntry>> {
        let index = self.read();
        index.by_name.values().filter_map(|id| index.by_id.get(id).cloned()).collect()
    }

    /// The endpoint of an entry, if it is in memory.
    pub(crate) fn loaded(&self, entry: &EndpointEntry) -> Option<Arc<Endpoint>> {
        self.loaded.get(&(entry.id, entry.version))
    }

    /// The endpoint of an entry. Concurrent callers share one read from the catalog. Blocks.
    ///
    /// # Errors
    /// A failure of the catalog; a record that cannot be parsed.
    pub(crate) fn load(&self, store: &Store, entry: &EndpointEntry) -> Result<Arc<Endpoint>, Failure> {
        let read = || self.read_from(store, entry).map(Arc::new);
        self.loaded
            .try_get_with((entry.id, entry.version), read)
            .map_err(|failure: Arc<Failure>| failure.as_ref().clone())
    }

    /// The endpoint of an entry, for callers that read all endpoints once: it is not kept in memory. Blocks.
    ///
    /// # Errors
    /// As [`Registry::load`].
    pub fn peek(&self, store: &Store, entry: &EndpointEntry) -> Result<Arc<Endpoint>, Failure> {
        match self.loaded(entry) {
            Some(endpoint) => Ok(endpoint),
            None => self.read_from(store, entry).map(Arc::new),
        }
    }

    fn read_from(&self, store: &Store, entry: &EndpointEntry) -> Result<Endpoint, Failure> {
        let record = EndpointTable(store.catalog()).version(entry.id, entry.version).map_err(of_store)?;
        let record = record.ok_or_else(|| Failure::new(Code::Internal, "the endpoint is missing in the catalog"))?;
        Endpoint::of(record, self.text)
    }

    /// Adds the endpoints of the catalog when the service starts. None of them is checked yet.
    pub(crate) fn fill(&self, entries: Vec<EndpointEntry>) {
        let mut index = self.write();
        index.unchecked = entries.len();
        for entry in entries {
            index.put(Arc::new(entry));
        }
    }

    /// Adds a version that passed the gate.
    pub(crate) fn insert(&self, entry: EndpointEntry, endpoint: Arc<Endpoint>, warnings: Vec<Failure>) {
        let (id, version) = (entry.id, entry.version);
        self.loaded.insert((id, version), endpoint);
        let mut index = self.write();
        index.put(Arc::new(entry));
        index.note(id, CheckResult { version, broken: None, warnings });
    }

    /// Removes an endpoint.
    pub(crate) fn remove(&self, id: Uuid) {
        let mut index = self.write();
        if let Some(entry) = index.by_id.remove(&id) {
            index.by_name.remove(&entry.name);
            self.loaded.invalidate(&(id, entry.version));
        }
        index.results.remove(&id);
    }

    /// Stores the result of the check after the start, unless the endpoint has a new version in the meantime.
    pub(crate) fn checked(&self, id: Uuid, found: Option<CheckResult>) {
        let mut index = self.write();
        index.unchecked = index.unchecked.saturating_sub(1);
        if let Some(found) = found
            && index.by_id.get(&id).is_some_and(|entry| entry.version == found.version)
        {
            index.note(id, found);
        }
    }

    /// The latest check result of an endpoint; `None` if there is nothing to report.
    pub fn check_result(&self, id: Uuid) -> Option<Arc<CheckResult>> {
        self.read().results.get(&id).cloned()
    }

    /// The number of endpoints that cannot be called, and the number that are not checked yet.
    pub fn unusable(&self) -> (usize, usize) {
        let index = self.read();
        (index.results.values().filter(|found| found.broken.is_some()).count(), index.unchecked)
    }

    /// The names of the endpoints that read a table, which is a source or an endpoint.
    pub fn readers(&self, table: Uuid) -> Vec<String> {
        let index = self.read();
        let reading = index.by_id.values().filter(|entry| entry.tables.values().any(|read| *read == table));
        let mut names: Vec<String> = reading.map(|entry| entry.name.clone()).collect();
        names.sort();
        names
    }

    /// The current entries of the endpoints that a saved query reads as tables, directly or through other endpoints.
    pub(crate) fn reads(&self, tables: &BTreeMap<String, Uuid>) -> Vec<Arc<EndpointEntry>> {
        let index = self.read();
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        let mut open: Vec<Uuid> = tables.values().copied().collect();
        while let Some(id) = open.pop() {
            if let Some(entry) = index.by_id.get(&id)
                && seen.insert(id)
            {
                open.extend(entry.tables.values());
                found.push(Arc::clone(entry));
            }
        }
        found
    }

    /// As `Registry::reads`, with the loaded endpoints. Blocks for endpoints that are not in memory.
    ///
    /// # Errors
    /// As [`Registry::load`].
    pub fn load_reads(&self, store: &Store, tables: &BTreeMap<String, Uuid>) -> Result<Vec<Arc<Endpoint>>, Failure> {
        self.reads(tables).iter().map(|entry| self.load(store, entry)).collect()
    }
}

impl Index {
    fn put(&mut self, entry: Arc<EndpointEntry>) {
        if let Some(before) = self.by_id.get(&entry.id) {
            self.by_name.remove(&before.name);
        }
        self.by_name.insert(entry.name.clone(), entry.id);
        self.by_id.insert(entry.id, entry);
    }

    fn note(&mut self, id: Uuid, found: CheckResult) {
        if found.broken.is_none() && found.warnings.is_empty() {
            self.results.remove(&id);
        } else {
            self.results.insert(id, Arc::new(found));
        }
    }
}

/// A manifest, extended by the parameters of the endpoints that it reads as tables. If the manifest declares a
/// parameter of the same name, its own declaration holds.
pub fn with_parameters_of<'m>(manifest: &'m Manifest, reads: &[Arc<Endpoint>]) -> Cow<'m, Manifest> {
    let mut manifest = Cow::Borrowed(manifest);
    for parameter in reads.iter().flat_map(|endpoint| &endpoint.manifest.parameters) {
        // SQL matches parameter names without regard to case, so there is only one parameter for each name.
        if !manifest.parameters.iter().any(|own| own.name.eq_ignore_ascii_case(&parameter.name)) {
            manifest.to_mut().parameters.push(parameter.clone());
        }
    }
    manifest
}
