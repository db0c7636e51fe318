//! A store with one source, for tests of workers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::catalog::TableProvider;
use serde_json::json;
use tidegate_model::{Arguments, Failure};
use tidegate_sql::{Binding, Engine, Plan, Sources};
use tidegate_store::{Store, StoreOptions};

/// How many rows there are.
pub(crate) const ROWS: usize = 4500;

/// One table under every name.
pub(crate) struct One(pub(crate) Arc<dyn TableProvider>);

impl Sources for One {
    fn table(&self, _: &str) -> Option<Arc<dyn TableProvider>> {
        Some(Arc::clone(&self.0))
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
        let folder = tempfile::tempdir().unwrap();
        let settings =
            StoreOptions { manual_flush: true, durable: false, row_group_rows: 50, ..StoreOptions::default() };
        let store = Store::open(&folder.path().join("data"), settings).unwrap();
        store.create_source("t").unwrap();
        for part in 0..9_i64 {
            let rows = (0..500).map(|n| {
                let number = part * 500 + n;
                json!({"id": format!("{number:05}"), "timestamp": 1_763_600_000_000_000 + number * 1_000_000,
                       "event_message": format!("row {number} of a text that takes some room"), "n": number})
            });
            store.ingest("t", rows.collect()).await.unwrap();
            if part < 8 {
                store.flush().await.unwrap();
            }
        }
        Self { store, _folder: folder }
    }

    pub(crate) fn plan(&self, engine: &Engine, sql: &str) -> Result<Plan, Failure> {
        let (sources, arguments) = (One(self.store.table("t").unwrap()), Arguments::new());
        engine.plan(sql, Binding::new(&sources, &arguments, 1_763_633_702_000_000))
    }
}

/// Waits until something holds.
pub(crate) async fn wait(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
