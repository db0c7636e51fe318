//! What the names of tables in a saved query mean: sources and other endpoints.
//!
//! A saved query keeps what its names meant when it was saved. So renaming a source or an endpoint breaks no endpoint that
//! reads it, and a table that gets the old name later is not read by mistake.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::datasource::empty::EmptyTable;
use tidegate_model::{Audience, Failure};
use tidegate_sql::{SavedQuery, SavedTable, Sources, StoredTable};
use tidegate_store::{AudienceTable, Store, StoreError};
use uuid::Uuid;

use crate::catalog::EndpointEntry;
use crate::failures::of_store;
use crate::registry::{Endpoint, Registry};
use crate::save_request::SaveRequest;
use crate::supposed::{RowsOf, Supposed};

/// The columns of a source that has no log yet.
const EVERY_SOURCE_HAS: [&str; 3] = ["id", "timestamp", "event_message"];

static NOTHING: BTreeMap<String, Uuid> = BTreeMap::new();

/// The tables of one statement.
pub(crate) struct StoredTables<'a> {
    store: &'a Store,
    registry: &'a Registry,
    /// For whom the rows of sources are read.
    audience: &'a Audience,
    /// What names meant when the query was saved.
    known: &'a BTreeMap<String, Uuid>,
    /// Whether `known` comes first; otherwise the table that has the name now does.
    bound: bool,
    /// The endpoint that is being saved: what it reads must not read it.
    own: Option<Own<'a>>,
    /// Whether sources are shown as if no log had come in yet.
    empty: bool,
    /// Whether stored rows decide which columns there are. They do not in the workbench, whose logs are examples.
    tells_rows: bool,
    /// Whether messages may name what else there is: callers of an endpoint do not learn it.
    tells_names: bool,
    /// What the statement's own text named so far, and which it was.
    named: Mutex<BTreeMap<String, Uuid>>,
    /// Where the store's answers are noted, if statements are planned for a report.
    answers: Option<&'a Answers>,
    /// How sources would be, in plans that never run.
    supposed: Option<&'a Supposed>,
}

/// An endpoint that is being saved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own<'a> {
    pub(crate) id: Option<Uuid>,
    pub(crate) name: &'a str,
    pub(crate) saved: &'a Arc<SavedQuery>,
    /// What names mean in it, where it is read as a table of another endpoint.
    pub(crate) tables: Option<&'a BTreeMap<String, Uuid>>,
}

/// What the store answered for each source that a statement reads.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<BTreeMap<Uuid, RowsOf>>);

impl Answers {
    /// The answers since this was called last.
    pub(crate) fn take(&self) -> BTreeMap<Uuid, RowsOf> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, source: Uuid, rows: RowsOf) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(source, rows);
    }
}

/// The text in which a name stands.
#[derive(Clone, Copy)]
enum Place<'p> {
    /// The statement's own.
    Statement,
    /// The saved query of an endpoint that is read as a table.
    Endpoint(&'p EndpointEntry),
    /// That of the endpoint that is being saved, read as a table.
    Own,
}

/// The tables that names mean in the saved query of an endpoint, which a statement reads as a table.
struct TablesWithin<'t> {
    tables: &'t StoredTables<'t>,
    /// The endpoint; `None` is the one that is being saved.
    endpoint: Option<Arc<EndpointEntry>>,
}

impl<'a> StoredTables<'a> {
    /// The tables of an endpoint's statements; ad-hoc text that may read sources names them as they
    /// are called now.
    pub(crate) fn of(
        store: &'a Store,
        registry: &'a Registry,
        endpoint: &'a Endpoint,
        bound: bool,
        audience: &'a Audience,
    ) -> Self {
        Self { known: &endpoint.tables, bound, tells_names: !bound, ..Self::all(store, registry, audience) }
    }

    /// All sources and endpoints, as they are called now.
    pub(crate) fn all(store: &'a Store, registry: &'a Registry, audience: &'a Audience) -> Self {
        Self {
            store,
            registry,
            audience,
            known: &NOTHING,
            bound: false,
            own: None,
            empty: false,
            tells_rows: false,
            tells_names: true,
            named: Mutex::default(),
            answers: None,
            supposed: None,
        }
    }

    /// The tables of an endpoint's statements, for plans that never run. What the store answers is noted in `answers`, and a
    /// refusal does not end the plan: so it tells of all that the statement reads. `own` is another endpoint, or this one,
    /// as it would be.
    pub(crate) fn for_report(
        store: &'a Store,
        registry: &'a Registry,
        known: &'a BTreeMap<String, Uuid>,
        audience: &'a Audience,
        answers: &'a Answers,
        own: Option<Own<'a>>,
    ) -> Self {
        let answers = Some(answers);
        Self { known, bound: true, own, answers, tells_names: false, ..Self::all(store, registry, audience) }
    }

    /// The tables of an endpoint that is being saved. `tells_rows` says whether the rows that are stored now may decide
    /// which columns there are.
    pub(crate) fn while_saving(
        store: &'a Store,
        registry: &'a Registry,
        request: &'a SaveRequest<'_>,
        name: &'a str,
        saved: &'a Arc<SavedQuery>,
        tells_rows: bool,
    ) -> Self {
        let own = Some(Own { id: request.id, name, saved, tables: None });
        let (known, bound) = (&request.known, request.same_query);
        // Who may save endpoints may read all rows.
        Self { known, bound, own, tells_rows, ..Self::all(store, registry, &Audience::All) }
    }

    /// The same, as sources would be. For plans that never run.
    pub(crate) fn supposing(self, supposed: &'a Supposed) -> Self {
        Self { supposed: Some(supposed).filter(|supposed| !supposed.is_nothing()), ..self }
    }

    /// The same without any log: what is wrong with a query over these is wrong whatever logs come in.
    pub(crate) fn without_logs(self) -> Self {
        Self { empty: true, named: Mutex::default(), ..self }
    }

    /// What the query itself named so far, and which it was.
    pub(crate) fn named(&self) -> BTreeMap<String, Uuid> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, name: &str, id: Uuid, place: Place<'_>) {
        if let Place::Statement = place {
            self.named.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), id);
        }
    }

    /// What a name means, of a kind: by its binding or by who has it now, in the order that holds
    /// where it stands.
    fn find<T>(
        &self,
        name: &str,
        place: Place<'_>,
        by_id: impl Fn(Uuid) -> Option<T>,
        by_name: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let (known, bound) = match place {
            Place::Endpoint(endpoint) => (endpoint.tables.get(name).copied(), true),
            Place::Own if let Some(tables) = self.own.and_then(|own| own.tables) => (tables.get(name).copied(), true),
            Place::Statement | Place::Own => (self.known.get(name).copied(), self.bound),
        };
        match known {
            // What a name meant is gone: nothing that has the name now takes its place.
            Some(id) if bound => by_id(id),
            known => by_name(name).or_else(|| known.and_then(by_id)),
        }
    }

    /// The endpoint of a name; or that it is the one being saved.
    fn endpoint(&self, name: &str, place: Place<'_>) -> Option<Option<Arc<EndpointEntry>>> {
        let own = |id: Option<Uuid>, name: Option<&str>| {
            self.own.is_some_and(|own| own.id.is_some() && own.id == id || name == Some(own.name))
        };
        let by_id = |id: Uuid| if own(Some(id), None) { Some(None) } else { self.registry.by_id(id).map(Some) };
        let by_name = |name: &str| {
            if own(None, Some(name)) {
                return Some(None);
            }
            let found = self.registry.find(name).filter(|found| found.name == name)?;
            // The one being saved may be getting another name: its old one means nothing then.
            (!own(Some(found.id), None)).then_some(Some(found))
        };
        self.find(name, place, by_id, by_name)
    }

    /// The source that a name means.
    fn source(&self, name: &str, place: Place<'_>) -> Option<Uuid> {
        let made = |id: Uuid| self.supposed.is_some_and(|supposed| supposed.name_of(id).is_some());
        let by_id = |id: Uuid| (self.store.has_source(id) || made(id)).then_some(id);
        let by_name = |name: &str| {
            let there = self.store.source(name).filter(|source| source.name == name);
            there.map(|source| source.id).or_else(|| self.supposed?.named(name))
        };
        self.find(name, place, by_id, by_name)
    }

    /// The table of a source, with the rows of it that the audience may read.
    fn table_of(&self, id: Uuid) -> Result<AudienceTable, StoreError> {
        if let Some(supposed) = self.supposed {
            return self.supposed_table(id, supposed);
        }
        let answer = self.store.table_for(id, self.audience);
        let Some(answers) = self.answers else { return answer };
        let table = match answer {
            Ok(AudienceTable { table, policy }) => {
                answers.note(id, Ok(policy));
                table
            }
            Err(StoreError::NotOfTenant { why, .. }) => {
                answers.note(id, Err(why));
                self.store.table_for(id, &Audience::All)?.table
            }
            Err(error) => return Err(error),
        };
        // Of the table, only its columns are needed. What the condition reads is not what the author of the statement reads.
        Ok(AudienceTable { table: Arc::new(EmptyTable::new(table.schema())), policy: None })
    }

    /// The columns of a source as it would be, and the answer that the store would give.
    fn supposed_table(&self, id: Uuid, supposed: &Supposed) -> Result<AudienceTable, StoreError> {
        if let Some(answers) = self.answers {
            answers.note(id, supposed.rows_of(self.store, id, self.audience));
        }
        let table = match supposed.name_of(id) {
            Some(_) => new_source(self.store)?,
            None => Arc::new(EmptyTable::new(self.store.table_for(id, &Audience::All)?.table.schema())),
        };
        Ok(AudienceTable { table, policy: None })
    }

    fn table_at(&self, name: &str, place: Place<'_>) -> Result<Option<StoredTable>, Failure> {
        let Some(id) = self.source(name, place) else { return Ok(None) };
        self.note(name, id, place);
        let AudienceTable { table, policy } = match self.table_of(id) {
            Ok(table) => table,
            // It was deleted meanwhile.
            Err(StoreError::UnknownSource { .. }) => return Ok(None),
            Err(error) => return Err(of_store(error)),
        };
        let provider = if self.empty { without_logs(&table) } else { table };
        Ok(Some(StoredTable { provider, policy }))
    }

    /// The id of a source, so that one that has another name by now is known again.
    fn identity_at(&self, name: &str, place: Place<'_>) -> String {
        let id = self.answers.and_then(|_| self.source(name, place));
        id.map_or_else(|| name.to_owned(), |id| id.to_string())
    }

    fn has_rows_at(&self, name: &str, place: Place<'_>) -> bool {
        let by_name = |name: &str| Some(self.store.source(name)?.id);
        let has_rows = |id: Uuid| self.store.describe(id).is_ok_and(|described| described.rows > 0);
        self.tells_rows && self.find(name, place, Some, by_name).is_some_and(has_rows)
    }

    fn saved_at(&self, name: &str, place: Place<'_>) -> Option<SavedTable<'_>> {
        let endpoint = self.endpoint(name, place)?;
        let query = match &endpoint {
            Some(entry) => {
                self.note(name, entry.id, place);
                // Plans are made where it does no harm to wait for the catalog.
                let saved = |endpoint: Arc<Endpoint>| endpoint.saved().map(Arc::clone);
                let saved = self.registry.load(self.store, entry).and_then(saved);
                saved.inspect_err(|failure| tracing::error!(endpoint = name, %failure, "it cannot be read")).ok()?
            }
            None => self.own.map(|own| Arc::clone(own.saved))?,
        };
        Some(SavedTable { query, sources: Box::new(TablesWithin { tables: self, endpoint }) })
    }
}

/// A source as it was before its first log: the columns that all sources have, and no rows.
fn without_logs(table: &Arc<dyn TableProvider>) -> Arc<dyn TableProvider> {
    let schema = table.schema();
    let first = EVERY_SOURCE_HAS.iter().filter_map(|name| schema.field_with_name(name).ok().cloned());
    Arc::new(EmptyTable::new(Arc::new(Schema::new(first.collect::<Vec<_>>()))))
}

/// A source that would be made: it has the columns that all sources have, so those of any other.
pub(crate) fn new_source(store: &Store) -> Result<Arc<dyn TableProvider>, StoreError> {
    let other = store.sources().into_iter().next();
    let other = other.map(|other| store.table_for(other.id, &Audience::All)).transpose()?;
    Ok(other
        .map_or_else(|| Arc::new(EmptyTable::new(Arc::new(Schema::empty()))) as _, |other| without_logs(&other.table)))
}

impl Sources for StoredTables<'_> {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        self.table_at(name, Place::Statement)
    }

    fn has_rows(&self, name: &str) -> bool {
        self.has_rows_at(name, Place::Statement)
    }

    fn names(&self) -> Vec<String> {
        if !self.tells_names {
            return Vec::new();
        }
        let sources = self.store.sources().into_iter().map(|source| source.name);
        sources.chain(self.registry.all().iter().map(|endpoint| endpoint.name.clone())).collect()
    }

    fn saved(&self, name: &str) -> Option<SavedTable<'_>> {
        self.saved_at(name, Place::Statement)
    }

    fn identity(&self, name: &str) -> String {
        self.identity_at(name, Place::Statement)
    }
}

impl TablesWithin<'_> {
    fn place(&self) -> Place<'_> {
        self.endpoint.as_deref().map_or(Place::Own, Place::Endpoint)
    }
}

impl Sources for TablesWithin<'_> {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        self.tables.table_at(name, self.place())
    }

    fn has_rows(&self, name: &str) -> bool {
        self.tables.has_rows_at(name, self.place())
    }

    fn names(&self) -> Vec<String> {
        self.tables.names()
    }

    fn saved(&self, name: &str) -> Option<SavedTable<'_>> {
        self.tables.saved_at(name, self.place())
    }

    fn identity(&self, name: &str) -> String {
        self.tables.identity_at(name, self.place())
    }
}
