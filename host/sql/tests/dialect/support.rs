//! A small world to query: sources from JSON lines, one call from text to rows.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::json::ReaderBuilder;
use datafusion::catalog::{MemTable, TableProvider};
use futures::TryStreamExt;
use serde_json::Value as Json;
use tidegate_model::{Arguments, Failure, TextCondition, Value};
use tidegate_sql::{
    Binding, ColumnEncoder, Engine, EngineOptions, Plan, Reads, SavedQuery, SavedTable, Sources, Stop, StoredTable,
    Style, Tables, Type,
};

use super::engine::{Shadow, engine};

pub(crate) struct World {
    tables: BTreeMap<String, Arc<dyn TableProvider>>,
    endpoints: BTreeMap<String, Arc<SavedQuery>>,
    engine: Engine,
    /// The same with every rule of the optimizer.
    thorough: Engine,
    /// Runs the same statements elsewhere.
    shadow: Shadow,
    arguments: Arguments,
    pub(crate) now: i64,
}

impl Sources for World {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(self.tables.get(name).cloned().map(StoredTable::whole))
    }
    fn has_rows(&self, name: &str) -> bool {
        // Rows tell columns beside those that every table has.
        self.tables.get(name).is_some_and(|table| table.schema().fields().len() > 3)
    }
    fn names(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }
    fn saved(&self, name: &str) -> Option<SavedTable<'_>> {
        let query = self.endpoints.get(name).cloned()?;
        Some(SavedTable { query, sources: Box::new(self) })
    }
}

/// The type that stored data of such a value has: objects are structs, lists of objects lists.
fn stored(value: &Json) -> DataType {
    match value {
        Json::Null => DataType::Null,
        Json::Bool(_) => DataType::Boolean,
        Json::Number(n) if n.is_i64() => DataType::Int64,
        Json::Number(_) => DataType::Float64,
        Json::String(_) => DataType::Utf8View,
        Json::Array(items) => {
            let item = items.iter().map(stored).reduce(merge).unwrap_or(DataType::Null);
            DataType::List(Arc::new(Field::new_list_field(item, true)))
        }
        Json::Object(fields) => DataType::Struct(fields.iter().map(|(k, v)| Field::new(k, stored(v), true)).collect()),
    }
}

fn merge(one: DataType, other: DataType) -> DataType {
    match (one, other) {
        (DataType::Null, other) | (other, DataType::Null) => other,
        (DataType::Struct(a), DataType::Struct(b)) => {
            let mut fields: Vec<Field> = a.iter().map(|f| f.as_ref().clone()).collect();
            for field in &b {
                match fields.iter_mut().find(|f| f.name() == field.name()) {
                    Some(known) => {
                        *known =
                            Field::new(known.name(), merge(known.data_type().clone(), field.data_type().clone()), true)
                    }
                    None => fields.push(field.as_ref().clone()),
                }
            }
            DataType::Struct(fields.into())
        }
        (DataType::List(a), DataType::List(b)) => {
            let item = merge(a.data_type().clone(), b.data_type().clone());
            DataType::List(Arc::new(Field::new_list_field(item, true)))
        }
        (one, _) => one,
    }
}

thread_local! {
    static NARROWED: RefCell<Vec<SchemaRef>> = const { RefCell::new(Vec::new()) };
}

/// The fields of the tables that were taken with fewer since this was asked last, each table's as `column.field`.
pub(crate) fn narrowed() -> Vec<Vec<String>> {
    fn leaves(fields: &Fields, above: &str, found: &mut Vec<String>) {
        for field in fields {
            let path = format!("{above}{}", field.name());
            match field.data_type() {
                DataType::Struct(fields) => leaves(fields, &format!("{path}."), found),
                _ => found.push(path),
            }
        }
    }
    let fields = |schema: SchemaRef| {
        let mut found = Vec::new();
        leaves(schema.fields(), "", &mut found);
        found.retain(|path| path.contains('.'));
        found
    };
    let mut narrowed = NARROWED.take();
    narrowed.dedup();
    narrowed.into_iter().map(fields).collect()
}

/// A table of rows in memory with fewer fields in its records, as a store's.
fn narrow(table: &dyn TableProvider, schema: SchemaRef, _: Option<TextCondition>) -> Option<Arc<dyn TableProvider>> {
    let table = table.downcast_ref::<MemTable>().filter(|table| table.schema() != schema)?;
    NARROWED.with_borrow_mut(|narrowed| narrowed.push(Arc::clone(&schema)));
    let rows = table.batches.first()?.try_read().ok()?.first()?.clone();
    let columns = schema.fields().iter().zip(rows.columns()).map(|(field, column)| picked(column, field.data_type()));
    let rows = RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap();
    Some(Arc::new(MemTable::try_new(schema, vec![vec![rows]]).unwrap()))
}

/// What a column has of a type with fewer fields.
fn picked(column: &ArrayRef, to: &DataType) -> ArrayRef {
    let DataType::Struct(fields) = to else { return Arc::clone(column) };
    let record = column.as_struct();
    let children = fields.iter().map(|field| picked(record.column_by_name(field.name()).unwrap(), field.data_type()));
    let children = children.collect();
    Arc::new(StructArray::try_new(fields.clone(), children, record.nulls().cloned()).unwrap())
}

impl World {
    pub(crate) fn new() -> Self {
        // What the engine says of an internal failure goes to the log only: show it with the test.
        let _ = tracing_subscriber::fmt().with_test_writer().with_max_level(tracing::Level::ERROR).try_init();
        let options = EngineOptions { partitions: 2, narrow, ..EngineOptions::default() };
        let (engine, thorough) = (engine(&options), Engine::new(&options).unwrap().with_all_rules());
        let (tables, endpoints, arguments) = (BTreeMap::new(), BTreeMap::new(), Arguments::new());
        let shadow = Shadow::default();
        Self { tables, endpoints, engine, thorough, shadow, arguments, now: 1_763_633_702_000_000 }
    }

    /// The same with another bound on what a statement may hold, in bytes.
    pub(crate) fn holding(mut self, bytes: usize) -> Self {
        let options = EngineOptions { partitions: 2, statement_memory: bytes, narrow, ..EngineOptions::default() };
        self.engine = engine(&options);
        self.shadow.without();
        self
    }

    /// A source of rows; `timestamp` is in microseconds.
    pub(crate) fn source(mut self, name: &str, rows: &[Json]) -> Self {
        let whole = rows.iter().map(stored).reduce(merge).unwrap_or(DataType::Struct(Fields::empty()));
        let DataType::Struct(fields) = whole else { panic!("rows are objects") };
        let mut fields: Vec<Field> = fields.iter().map(|f| f.as_ref().clone()).collect();
        for (name, data_type) in [
            ("id", DataType::Utf8View),
            ("timestamp", DataType::Timestamp(TimeUnit::Microsecond, None)),
            ("event_message", DataType::Utf8View),
        ] {
            fields.retain(|f| f.name() != name);
            fields.push(Field::new(name, data_type, true));
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = if rows.is_empty() {
            RecordBatch::new_empty(Arc::clone(&schema))
        } else {
            let mut decoder = ReaderBuilder::new(Arc::clone(&schema)).build_decoder().unwrap();
            decoder.serialize(rows).unwrap();
            decoder.flush().unwrap().unwrap()
        };
        let table = MemTable::try_new(schema, vec![vec![batch]]).unwrap();
        self.tables.insert(name.to_owned(), Arc::new(table));
        self.shadow.source(name, rows);
        self
    }

    /// Another endpoint, that can be read as a table.
    pub(crate) fn endpoint(mut self, name: &str, saved: &str) -> Self {
        self.endpoints.insert(name.to_owned(), Arc::new(SavedQuery::parse(saved).unwrap()));
        self.shadow.endpoint(name, saved);
        self
    }

    pub(crate) fn with(mut self, name: &str, text: &str) -> Self {
        self.arguments.insert(name.to_owned(), Value::Text(text.to_owned()));
        self
    }

    pub(crate) fn plan(&self, sql: &str, tables: Tables<'_>) -> Result<Plan, Failure> {
        self.engine.plan(sql, self.binding().over(tables))
    }

    fn binding(&self) -> Binding<'_> {
        Binding::new(self, &self.arguments, self.now)
    }

    /// The rows of a statement over the sources.
    pub(crate) fn rows(&self, sql: &str) -> Json {
        self.run(sql, Tables::Sources).unwrap_or_else(|failure| panic!("{failure}\n{sql}"))
    }

    /// The rows of an ad-hoc statement over the tables of a saved query.
    pub(crate) fn granted(&self, saved: &str, sql: &str) -> Result<Json, Failure> {
        self.run(sql, Tables::Granted(&SavedQuery::parse(saved).unwrap()))
    }

    /// What a statement over the grants of a saved query reads of them.
    pub(crate) fn reads(&self, saved: &SavedQuery, sql: Option<&str>) -> Reads {
        self.engine.reads_of_statement(saved, sql, self.binding()).unwrap()
    }

    /// The names that stand alone in a statement over the grants of a saved query and were never seen.
    pub(crate) fn never_seen(&self, saved: &str, sql: &str) -> Vec<Failure> {
        self.plan(sql, Tables::Granted(&SavedQuery::parse(saved).unwrap())).unwrap().never_seen().to_vec()
    }

    /// What may be misspelt in a saved query, or in a statement over its grants.
    pub(crate) fn remarks(&self, saved: &str, sql: Option<&str>) -> Vec<Failure> {
        let saved = SavedQuery::parse(saved).unwrap();
        match sql.map(|sql| SavedQuery::parse(sql).unwrap()) {
            Some(sql) => self.engine.check(&sql, self.binding().granted(&saved)).unwrap(),
            None => self.engine.check(&saved, self.binding()).unwrap(),
        }
    }

    /// What a grant reads of the sources.
    pub(crate) fn reads_of_grant(&self, saved: &SavedQuery, grant: &str) -> Reads {
        self.engine.reads_of_grant(saved, grant, self.binding()).unwrap()
    }

    /// The physical plan of a statement over the grants of a saved query.
    pub(crate) fn physical(&self, saved: &str, sql: &str) -> String {
        let saved = SavedQuery::parse(saved).unwrap();
        let plan = self.plan(sql, Tables::Granted(&saved)).unwrap();
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(self.engine.explain(&plan)).unwrap()
    }

    /// The rows of a statement over the sources, or why there are none.
    pub(crate) fn attempt(&self, sql: &str) -> Result<Json, Failure> {
        self.run(sql, Tables::Sources)
    }

    pub(crate) fn failure(&self, sql: &str) -> Failure {
        match self.run(sql, Tables::Sources) {
            Err(failure) => failure,
            Ok(rows) => panic!("expected a failure, got {rows}\n{sql}"),
        }
    }

    fn run(&self, sql: &str, tables: Tables<'_>) -> Result<Json, Failure> {
        self.shadow.compare(sql, tables, &self.arguments, self.now);
        block_on(self.run_all(sql, tables))
    }

    /// Runs a statement over the sources that stops when it is asked to.
    pub(crate) fn run_until(&self, sql: &str, stop: &Stop) -> Result<Json, Failure> {
        // The plan is not compared with the thorough one: between the two, planning may be asked to stop.
        block_on(stop.cover(async { self.run_plan(self.plan(sql, Tables::Sources)?).await }))
    }

    /// The rules of the optimizer that are left out would change no plan.
    async fn compare_plans(&self, plan: &Plan, sql: &str) {
        let narrowed = NARROWED.take();
        let (ours, thorough) = (self.engine.explain(plan).await, self.thorough.explain(plan).await);
        NARROWED.set(narrowed);
        // Names that the engine makes are numbered.
        let named = |text: String| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        match (ours, thorough) {
            (Ok(ours), Ok(thorough)) => assert_eq!(named(ours), named(thorough), "{sql}"),
            (Err(_), Err(_)) => {}
            (ours, thorough) => panic!("{ours:?} and {thorough:?} for {sql}"),
        }
    }

    async fn run_all(&self, sql: &str, tables: Tables<'_>) -> Result<Json, Failure> {
        let plan = self.plan(sql, tables)?;
        self.compare_plans(&plan, sql).await;
        self.run_plan(plan).await
    }

    async fn run_plan(&self, plan: Plan) -> Result<Json, Failure> {
        let stream = self.engine.run(plan, Some(10_000)).await?;
        let columns = stream.columns();
        let batches: Vec<RecordBatch> = stream.try_collect().await?;
        let mut rows = Vec::new();
        for batch in batches {
            for ((name, ty), array) in columns.iter().zip(batch.columns()) {
                let held = match ty {
                    Type::Bool => DataType::Boolean,
                    Type::Int64 => DataType::Int64,
                    Type::Float64 => DataType::Float64,
                    _ => continue,
                };
                // What computes with a value relies on how it is held.
                assert_eq!(array.data_type(), &held, "{name}");
            }
            let encoders: Vec<_> = columns
                .iter()
                .zip(batch.columns())
                .map(|((name, ty), array)| (name.clone(), ColumnEncoder::new(array, ty, Style::Result).unwrap()))
                .collect();
            for row in 0..batch.num_rows() {
                let fields = encoders.iter().map(|(name, encoder)| {
                    let mut text = Vec::new();
                    encoder.write(row, &mut text);
                    (name.clone(), serde_json::from_slice(&text).expect("valid JSON"))
                });
                rows.push(Json::Object(fields.collect()));
            }
        }
        Ok(Json::Array(rows))
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

/// The value of one expression.
pub(crate) fn value(expression: &str) -> serde_json::Value {
    World::new().rows(&format!("select {expression} as v"))[0]["v"].clone()
}
