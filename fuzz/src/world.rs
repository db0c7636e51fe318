//! A small world to query: granted tables over stored records, and secrets beside them.
#![expect(clippy::expect_used, reason = "a world that cannot be made ends the run")]

use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema as ArrowSchema, TimeUnit};
use datafusion::arrow::json::ReaderBuilder;
use datafusion::catalog::{MemTable, TableProvider};
use serde_json::{Value as Json, json};
use tidegate_lql::Schema;
use tidegate_model::{Arguments, Failure};
use tidegate_sql::{Engine, EngineOptions, SavedQuery, Sources, StoredTable};
use tokio::runtime::{Builder, Runtime};

/// What nobody may read: it stands in a source that is not granted, in rows that the grant filters
/// out, and in a column that it does not have.
pub(crate) const MARKER: &str = "zq7vault";
/// The time of all requests, in microseconds.
pub(crate) const NOW: i64 = 1_924_991_999_000_000;
/// The rows of the table `hits`.
pub(crate) const EVENTS: usize = 4;

const SAVED: &str = "
    with hits as (select id, timestamp, event_message, metadata from `hits.raw` where project = @project),
         plain as (select 1 as n, 'one' as word, true as flag, [1, 2] as list, timestamp_micros(0) as timestamp
                   union all select 2, 'two', null, [3], null),
         empty as (select * from hits where false)
    select id from hits";

/// Everything that a check needs, made once.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) saved: SavedQuery,
    pub(crate) arguments: Arguments,
    pub(crate) runtime: Runtime,
    hits: Arc<dyn TableProvider>,
    vault: Arc<dyn TableProvider>,
}

impl Sources for World {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        let provider = match name {
            "hits.raw" => &self.hits,
            "vault.raw" => &self.vault,
            _ => return Ok(None),
        };
        Ok(Some(StoredTable::whole(Arc::clone(provider))))
    }

    fn names(&self) -> Vec<String> {
        vec!["hits.raw".to_owned(), "vault.raw".to_owned()]
    }
}

impl World {
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<World> = OnceLock::new();
        SHARED.get_or_init(Self::new)
    }

    fn new() -> Self {
        crate::log::listen();
        let options = EngineOptions { partitions: 1, statement_memory: 16 << 20, ..EngineOptions::default() };
        Self {
            engine: Engine::new(&options).expect("an engine"),
            saved: SavedQuery::parse(SAVED).expect("a saved query"),
            arguments: crate::arguments(),
            runtime: Builder::new_current_thread().enable_time().build().expect("a runtime"),
            hits: table(fields(), &hits()),
            vault: table(
                vec![utf8("id"), utf8("secret"), time()],
                &[json!({"id": MARKER, "secret": MARKER, "timestamp": 1})],
            ),
        }
    }
}

fn hits() -> Vec<Json> {
    vec![
        json!({"id": "a", "project": "p1", "timestamp": 1_924_991_990_000_000_i64, "event_message": "GET /a \"ok\"", "note": MARKER,
            "metadata": {"level": "info", "status": 200, "ratio": 0.5, "cached": true, "zip": "01234", "x": "one",
                "tags": ["red", null, "blue"], "codes": [1, 2], "request": {"path": "/a", "headers": {"host": "h"}},
                "items": [{"sku": "s", "count": 1}, {"sku": "t", "count": null}]}}),
        json!({"id": "b", "project": "p1", "timestamp": 1_924_991_995_000_000_i64, "event_message": "50% of \\ it's done", "note": MARKER,
            "metadata": {"level": "error", "status": 500, "tags": [], "request": {"path": "/b"}, "items": []}}),
        json!({"id": "c", "project": "p1", "timestamp": 1_924_905_600_000_000_i64, "event_message": "", "note": MARKER, "metadata": {"x": ""}}),
        json!({"id": "d", "project": "p1", "timestamp": 0, "event_message": null, "note": MARKER}),
        json!({"id": MARKER, "project": "p2", "timestamp": 1_924_991_999_000_000_i64, "event_message": MARKER, "note": MARKER,
            "metadata": {"level": MARKER, "tags": [MARKER], "request": {"path": MARKER}, "items": [{"sku": MARKER}]}}),
    ]
}

/// The columns of `hits`, as LQL is told of them.
pub(crate) fn columns() -> Schema {
    let mut columns = Schema::new();
    for (path, kind) in [
        ("id", "string"),
        ("timestamp", "datetime"),
        ("event_message", "string"),
        ("metadata", "map"),
        ("metadata.level", "string"),
        ("metadata.status", "integer"),
        ("metadata.ratio", "float"),
        ("metadata.cached", "boolean"),
        ("metadata.zip", "string"),
        ("metadata.x", "string"),
        ("metadata.tags", "list:string"),
        ("metadata.codes", "list:integer"),
        ("metadata.request", "map"),
        ("metadata.request.path", "string"),
        ("metadata.request.headers", "map"),
        ("metadata.request.headers.host", "string"),
        ("metadata.items", "list:map"),
        ("metadata.items.sku", "string"),
        ("metadata.items.count", "integer"),
    ] {
        assert!(columns.insert_named(path, kind), "{kind} is no type");
    }
    columns.set_whole();
    columns
}

fn fields() -> Vec<Field> {
    let record = |name: &str, fields: Vec<Field>| Field::new(name, DataType::Struct(Fields::from(fields)), true);
    let list = |name: &str, item: DataType| {
        Field::new(name, DataType::List(Arc::new(Field::new_list_field(item, true))), true)
    };
    let of = |name: &str, ty: DataType| Field::new(name, ty, true);
    let item = DataType::Struct(Fields::from(vec![utf8("sku"), of("count", DataType::Int64)]));
    let metadata = vec![
        utf8("level"),
        of("status", DataType::Int64),
        of("ratio", DataType::Float64),
        of("cached", DataType::Boolean),
        utf8("zip"),
        utf8("x"),
        list("tags", DataType::Utf8View),
        list("codes", DataType::Int64),
        record("request", vec![utf8("path"), record("headers", vec![utf8("host")])]),
        list("items", item),
    ];
    vec![utf8("id"), utf8("project"), time(), utf8("event_message"), utf8("note"), record("metadata", metadata)]
}

fn utf8(name: &str) -> Field {
    Field::new(name, DataType::Utf8View, true)
}

fn time() -> Field {
    Field::new("timestamp", DataType::Timestamp(TimeUnit::Microsecond, None), true)
}

fn table(fields: Vec<Field>, rows: &[Json]) -> Arc<dyn TableProvider> {
    let schema = Arc::new(ArrowSchema::new(fields));
    let mut decoder = ReaderBuilder::new(Arc::clone(&schema)).build_decoder().expect("a decoder");
    decoder.serialize(rows).expect("rows that fit");
    let batch: RecordBatch = decoder.flush().expect("a batch").expect("rows");
    Arc::new(MemTable::try_new(schema, vec![vec![batch]]).expect("a table"))
}
