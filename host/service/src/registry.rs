//! The endpoints that can be called, by id and by name.
//!
//! There may be ten thousand of them, and few are called. So a small record of each is kept in memory
//! ([`EndpointEntry`]). What a call needs beyond that ([`Endpoint`]) is read from the catalog with the first call and
//! dropped after some time without one. Components are kept ready by the runtime. A request keeps the version with which
//! it began: a change takes effect with the next request.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tidegate_compiler::{code_of, compile_adhoc};
use tidegate_model::{Code, Failure, Manifest, TextLimits};
use tidegate_runtime::{Endpoint as Prepared, Runtime};
use tidegate_sql::SavedQuery;
use tidegate_store::{EndpointEntry, EndpointRecord, Store};
use uuid::Uuid;

use crate::failures::of_store;
use crate::start_error::StartError;

/// The estimated bytes of endpoints that are kept in memory.
const LOADED: u64 = 64 << 20;
/// An estimate of the bytes of memory that one byte of a saved query takes when it is parsed.
const PARSED: usize = 64;
/// After this time without a call an endpoint is dropped from memory.
const IDLE: Duration = Duration::from_secs(600);

/// A version of an endpoint as the catalog has it.
#[derive(Debug)]
pub struct Endpoint {
    /// The id, which stays when the name changes.
    pub id: Uuid,
    /// The number of this version, from 1.
    pub version: i64,
    /// The definition.
    pub manifest: Manifest,
    /// The digest of its component, in hex.
    pub component: String,
    /// The digest of the component's code, once it is known.
    pub(crate) code: OnceLock<[u8; 32]>,
    /// The sources and endpoints that the saved query names, and which they were when it was saved:
    /// renaming one breaks nothing, and what takes its name later is not read instead.
    pub tables: BTreeMap<String, Uuid>,
    /// Who saved this version.
    pub author: String,
    /// When the first version was saved, in microseconds since 1970, UTC.
    pub created_at: i64,
    /// When this version was saved, in microseconds since 1970, UTC.
    pub updated_at: i64,
    /// Held while the component is prepared, so that it is read once however many requests need it.
    pub(crate) preparing: tokio::sync::Mutex<()>,
    saved: OnceLock<Result<Arc<SavedQuery>, Failure>>,
    text: TextLimits,
}

impl Endpoint {
    /// An endpoint as it stands in the catalog.
    ///
    /// # Errors
    /// Its manifest cannot be read.
    pub(crate) fn of(record: EndpointRecord, text: TextLimits) -> Result<Self, Failure> {
        let manifest = serde_json::from_str(&record.manifest)
            .map_err(|error| Failure::new(Code::Internal, format!("its definition cannot be read: {error}")))?;
        let EndpointRecord { id, version, component, sources: tables, author, created_at, updated_at, .. } = record;
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

    /// The saved query: its CTEs are the grants. Parsed when it is first asked for.
    ///
    /// # Errors
    /// It cannot be read (any more): limits may have been lowered since it was saved.
    pub fn saved(&self) -> Result<&Arc<SavedQuery>, Failure> {
        let parse = || SavedQuery::parse_within(&self.manifest.query, &self.text).map(Arc::new);
        self.saved.get_or_init(parse).as_ref().map_err(Clone::clone)
    }

    /// The endpoint with a saved query that the gate has parsed already.
    pub(crate) fn with_saved(self, saved: Arc<SavedQuery>) -> Self {
        Self { saved: Ok(saved).into(), ..self }
    }

    /// The estimated bytes in memory.
    fn weight(&self) -> u32 {
        let statements: usize = self.manifest.statements.values().map(String::len).sum();
        let bytes = self.manifest.query.len().saturating_mul(PARSED) + statements + 4096;
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

/// What the gate found about a version of an endpoint: when it was saved, or in the check after a start.
#[derive(Debug)]
pub struct CheckResult {
    /// The version that was checked.
    pub version: i64,
    /// Why it cannot be called any more. It can still be read, changed, restored and deleted.
    pub broken: Option<Failure>,
    /// What may not be meant as it is written, such as columns that no log has had yet.
    pub warnings: Vec<Failure>,
}

/// All endpoints, and the component that runs every ad-hoc query.
#[derive(Debug)]
pub struct Registry {
    endpoints: RwLock<Index>,
    loaded: moka::sync::Cache<(Uuid, i64), Arc<Endpoint>>,
    text: TextLimits,
    /// The component that runs ad-hoc queries.
    pub(crate) adhoc: Arc<Prepared>,
    /// The digest of its code, SHA-256.
    pub(crate) adhoc_code: [u8; 32],
    /// One registration at a time: a name is checked and taken without another in between.
    pub(crate) registering: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Index {
    by_id: HashMap<Uuid, Arc<EndpointEntry>>,
    by_name: BTreeMap<String, Uuid>,
    /// Only of endpoints with something to report.
    results: BTreeMap<Uuid, Arc<CheckResult>>,
    /// Endpoints that the check after the start has not reached yet.
    unchecked: usize,
}

impl Registry {
    /// An empty registry, with the component for ad-hoc queries.
    ///
    /// # Errors
    /// That component does not compile.
    pub(crate) async fn new(runtime: &Runtime, text: TextLimits) -> Result<Self, StartError> {
        let unmade = |error: &dyn std::fmt::Display| StartError::Setup {
            what: "the components of saved and ad-hoc queries".to_owned(),
            failure: Box::new(Failure::new(Code::Internal, error.to_string())),
        };
        let component = compile_adhoc().map_err(|error| unmade(&error))?;
        let component = code_of(&component).map_err(|error| unmade(&error))?;
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

    /// An endpoint by its id or name.
    pub fn find(&self, id_or_name: &str) -> Option<Arc<EndpointEntry>> {
        let index = self.read();
        let id = match Uuid::try_parse(id_or_name) {
            Ok(id) => id,
            Err(_) => *index.by_name.get(id_or_name)?,
        };
        index.by_id.get(&id).cloned()
    }

    /// An endpoint by its id.
    pub fn by_id(&self, id: Uuid) -> Option<Arc<EndpointEntry>> {
        self.read().by_id.get(&id).cloned()
    }

    /// All endpoints by name.
    pub fn all(&self) -> Vec<Arc<EndpointEntry>> {
        let index = self.read();
        index.by_name.values().filter_map(|id| index.by_id.get(id).cloned()).collect()
    }

    /// The endpoint of an entry, if it is in memory.
    pub(crate) fn loaded(&self, entry: &EndpointEntry) -> Option<Arc<Endpoint>> {
        self.loaded.get(&(entry.id, entry.version))
    }

    /// The endpoint of an entry, read from the catalog once for all who ask. Blocks.
    ///
    /// # Errors
    /// The catalog's; what cannot be read of it.
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
        let record = store.catalog().endpoint_version(entry.id, entry.version).map_err(of_store)?;
        let record = record.ok_or_else(|| Failure::new(Code::Internal, "the endpoint is missing in the catalog"))?;
        Endpoint::of(record, self.text)
    }

    /// Adds the endpoints that the catalog has at the start; none of them is checked yet.
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

    /// Stores the result of the check after the start, unless the endpoint has another version by now.
    pub(crate) fn checked(&self, id: Uuid, found: Option<CheckResult>) {
        let mut index = self.write();
        index.unchecked = index.unchecked.saturating_sub(1);
        if let Some(found) = found
            && index.by_id.get(&id).is_some_and(|entry| entry.version == found.version)
        {
            index.note(id, found);
        }
    }

    /// The newest check result of an endpoint. None if there is nothing to report.
    pub fn check_result(&self, id: Uuid) -> Option<Arc<CheckResult>> {
        self.read().results.get(&id).cloned()
    }

    /// How many endpoints of the catalog cannot be used, and how many are not checked yet.
    pub fn unusable(&self) -> (usize, usize) {
        let index = self.read();
        (index.results.values().filter(|found| found.broken.is_some()).count(), index.unchecked)
    }

    /// The names of the endpoints that read a source or an endpoint as a table.
    pub fn readers(&self, table: Uuid) -> Vec<String> {
        let index = self.read();
        let reading = index.by_id.values().filter(|entry| entry.tables.values().any(|read| *read == table));
        let mut names: Vec<String> = reading.map(|entry| entry.name.clone()).collect();
        names.sort();
        names
    }

    /// The endpoints that a saved query reads as tables, directly or through others, as they are now.
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

    /// The same with their definitions. Blocks where they are not in memory.
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

/// A manifest with the parameters of the endpoints that it reads as tables, where it declares none
/// of that name itself.
pub fn with_parameters_of<'m>(manifest: &'m Manifest, reads: &[Arc<Endpoint>]) -> Cow<'m, Manifest> {
    let mut manifest = Cow::Borrowed(manifest);
    for parameter in reads.iter().flat_map(|endpoint| &endpoint.manifest.parameters) {
        // SQL finds a parameter in any case of its letters: there is one of each name.
        if !manifest.parameters.iter().any(|own| own.name.eq_ignore_ascii_case(&parameter.name)) {
            manifest.to_mut().parameters.push(parameter.clone());
        }
    }
    manifest
}
