//! A store with one source, for tests of workers: of those in this process, and of those over a network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::catalog::TableProvider;
use serde_json::json;
use tidegate_model::{Arguments, Failure};
use tidegate_sql::{Binding, Engine, Plan, Sources, StoredTable};
use tidegate_store::{Store, StoreOptions};

/// Rows of a segment, and of the batch in memory.
const PART: i64 = 500;
/// How many rows there are with eight segments.
pub(crate) const ROWS: usize = 4500;

/// One table under every name.
pub(crate) struct One(pub(crate) Arc<dyn TableProvider>);

impl Sources for One {
    fn table(&self, _: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(Some(StoredTable::whole(Arc::clone(&self.0))))
    }
    fn names(&self) -> Vec<String> {
        vec!["t".to_owned()]
    }
}

pub(crate) struct Rows {
    store: Arc<Store>,
    _folder: tempfile::TempDir,
}

impl Rows {
    /// Eight segments and a batch in memory, of 500 rows each.
    pub(crate) async fn new() -> Self {
        let (store, folder) = store(8, 20).await;
        Self { store, _folder: folder }
    }

    pub(crate) fn plan(&self, engine: &Engine, sql: &str) -> Result<Plan, Failure> {
        plan(&self.store, engine, sql)
    }
}

/// So many segments and a batch in memory, of 500 rows each, with texts of about `length` bytes. The store is in the folder
/// `data` of the other one.
pub(crate) async fn store(segments: i64, length: usize) -> (Arc<Store>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let settings = StoreOptions { manual_flush: true, durable: false, row_group_rows: 50, ..StoreOptions::default() };
    let store = Store::open(&folder.path().join("data"), settings).unwrap();
    store.create_source("t").unwrap();
    for part in 0..=segments {
        let rows = (0..PART).map(|n| {
            let number = part * PART + n;
            json!({"id": format!("{number:05}"), "timestamp": 1_763_600_000_000_000 + number * 1_000_000,
                   "event_message": format!("row {number} of a text {:length$}|", "that takes room"), "n": number})
        });
        store.ingest("t", rows.collect()).await.unwrap();
        if part < segments {
            store.flush().await.unwrap();
        }
    }
    (store, folder)
}

/// A statement over the rows of a store.
pub(crate) fn plan(store: &Arc<Store>, engine: &Engine, sql: &str) -> Result<Plan, Failure> {
    let (sources, arguments) = (One(store.table("t").unwrap()), Arguments::new());
    engine.plan(sql, Binding::new(&sources, &arguments, 1_763_633_702_000_000))
}

/// Waits until something holds.
pub(crate) async fn wait(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
