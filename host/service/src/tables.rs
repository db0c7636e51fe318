//! What the names of tables in a saved query mean: sources and other endpoints.
//!
//! A saved query keeps what its names meant when it was saved. So renaming a source or an endpoint breaks no endpoint that
//! reads it, and a table that gets the old name later is not read by mistake.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast, lit};
use tidegate_sql::{SavedQuery, SavedTable, Sources};
use tidegate_store::{EndpointEntry, Store};
use uuid::Uuid;

use crate::registry::{Endpoint, Registry};
use crate::save_request::SaveRequest;
use crate::tenancy::RowFilters;

/// The columns of a source that has no log yet.
const EVERY_SOURCE_HAS: [&str; 3] = ["id", "timestamp", "event_message"];

static NOTHING: BTreeMap<String, Uuid> = BTreeMap::new();
static NO_FILTERS: RowFilters = BTreeMap::new();

/// The tables of one statement.
pub(crate) struct StoredTables<'a> {
    store: &'a Store,
    registry: &'a Registry,
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
    /// The endpoint whose statements these are, if it is saved already.
    endpoint: Option<Uuid>,
    /// The filters of sources by what a token pins.
    columns: &'a RowFilters,
    /// Whether messages may name what else there is: callers of an endpoint do not learn it.
    tells_names: bool,
    /// What the statement's own text named so far, and which it was.
    named: Mutex<BTreeMap<String, Uuid>>,
}

/// An endpoint that is being saved.
#[derive(Clone, Copy)]
struct Own<'a> {
    id: Option<Uuid>,
    name: &'a str,
    saved: &'a Arc<SavedQuery>,
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
    pub(crate) fn of(store: &'a Store, registry: &'a Registry, endpoint: &'a Endpoint, bound: bool) -> Self {
        let all = Self::all(store, registry);
        Self { known: &endpoint.tables, bound, endpoint: Some(endpoint.id), tells_names: !bound, ..all }
    }

    /// The same, where the rows of some sources are filtered by what a token pins.
    pub(crate) fn filtered_by(self, columns: &'a RowFilters) -> Self {
        Self { columns, ..self }
    }

    /// All sources and endpoints, as they are called now.
    pub(crate) fn all(store: &'a Store, registry: &'a Registry) -> Self {
        let (known, columns, named) = (&NOTHING, &NO_FILTERS, Mutex::default());
        Self {
            store,
            registry,
            known,
            bound: false,
            own: None,
            empty: false,
            tells_rows: false,
            endpoint: None,
            columns,
            tells_names: true,
            named,
        }
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
        let own = Some(Own { id: request.id, name, saved });
        let (known, bound) = (&request.known, request.same_query);
        Self { known, bound, own, tells_rows, ..Self::all(store, registry) }
    }

    /// The same without any log: what is wrong with a query over these is wrong whatever logs come in.
    pub(crate) fn without_logs(self) -> Self {
        Self { empty: true, named: Mutex::default(), ..self }
    }

    /// What the query itself named so far, and which it was.
    pub(crate) fn named(&self) -> BTreeMap<String, Uuid> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The columns to which the rows of a source are held where a text reads it.
    fn columns_of(&self, name: &str, place: Place<'_>) -> Option<&'a BTreeMap<String, String>> {
        if self.columns.is_empty() {
            return None;
        }
        let endpoint = match place {
            Place::Statement => self.endpoint?,
            Place::Endpoint(entry) => entry.id,
            Place::Own => return None,
        };
        self.columns.get(&(endpoint, name.to_lowercase()))
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

    fn table_at(&self, name: &str, place: Place<'_>) -> Option<Arc<dyn TableProvider>> {
        let by_id = |id: Uuid| Some((id, self.store.table_of(id).ok()?));
        let by_name = |name: &str| by_id(self.store.source(name).filter(|source| source.name == name)?.id);
        let (id, table) = self.find(name, place, by_id, by_name)?;
        self.note(name, id, place);
        let table = if self.empty { without_logs(&table) } else { table };
        match self.columns_of(name, place) {
            Some(columns) => held_to(table, columns),
            None => Some(table),
        }
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

/// The rows of a table whose columns have these texts; none where there is no such column, or one of another
/// kind. Nothing if there is no plan of it, which is no table then.
fn held_to(table: Arc<dyn TableProvider>, columns: &BTreeMap<String, String>) -> Option<Arc<dyn TableProvider>> {
    let schema = table.schema();
    let is = |(name, value): (&String, &String)| {
        let fields = || schema.fields().iter();
        let exact = fields().find(|field| field.name() == name);
        let Some(field) = exact.or_else(|| fields().find(|field| field.name().eq_ignore_ascii_case(name))) else {
            return lit(false);
        };
        let column = Expr::Column(Column::new_unqualified(field.name()));
        match field.data_type() {
            DataType::Utf8 => column.eq(lit(value.as_str())),
            DataType::LargeUtf8 => column.eq(lit(ScalarValue::LargeUtf8(Some(value.clone())))),
            DataType::Utf8View => column.eq(lit(ScalarValue::Utf8View(Some(value.clone())))),
            kind if kind.is_nested() => lit(false),
            _ => cast(column, DataType::Utf8).eq(lit(value.as_str())),
        }
    };
    let all = columns.iter().map(is).reduce(Expr::and)?;
    let plan = LogicalPlanBuilder::scan("held", provider_as_source(table), None).and_then(|plan| plan.filter(all));
    let plan = plan.and_then(LogicalPlanBuilder::build);
    let plan =
        plan.inspect_err(|error| tracing::error!(%error, "a source cannot be held to what a token fixes")).ok()?;
    Some(Arc::new(ViewTable::new(plan, None)))
}

impl Sources for StoredTables<'_> {
    fn table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
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
}

impl TablesWithin<'_> {
    fn place(&self) -> Place<'_> {
        self.endpoint.as_deref().map_or(Place::Own, Place::Endpoint)
    }
}

impl Sources for TablesWithin<'_> {
    fn table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
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
}
