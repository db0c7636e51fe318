//! Whether the time of a tenant's query tells of rows of others: the attack that reads a text of somebody else letter by
//! letter. `cargo bench -p tidegate-sql --bench walls`
//!
//! The query asks whether a text is in any row, and lets slow expressions follow. It is run over rows of others of which all
//! have the text, and over ones of which none has. Printed is the ratio of the two times, in turn in one run: 1 tells
//! nothing. For comparison the same with the condition of the tenant as an author would write it, above which nothing stands.
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::sync::Arc;
use std::time::Instant;

use futures::TryStreamExt;
use serde_json::json;
use tidegate_model::{Arguments, Failure, RowPolicy};
use tidegate_sql::{Binding, Engine, EngineOptions, Sources, StoredTable};
use tidegate_store::{Store, StoreOptions};

// The one of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rows of a source, and of each so many one is the tenant's.
const ROWS: usize = 120_000;
const EACH: usize = 400;
const RUNS: usize = 15;

struct One(StoredTable);

impl Sources for One {
    fn table(&self, _: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(Some(self.0.clone()))
    }
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

async fn logs(text: &str, flushed: bool) -> (tempfile::TempDir, Arc<Store>) {
    let folder = tempfile::tempdir().unwrap();
    let store =
        Store::open(folder.path(), StoreOptions { manual_flush: true, durable: false, ..StoreOptions::default() })
            .unwrap();
    store.create_source("t").unwrap();
    let row = |i: usize| {
        let own = i.is_multiple_of(EACH);
        json!({
            "id": format!("{i:08}"), "timestamp": 1_763_600_000_000_000_i64 + i as i64, "event_message": if own { "nothing" } else { text },
            "metadata": {"project": if own { "own" } else { "other" }, "a": format!("some text of the row {i}")},
        })
    };
    for part in 0..12 {
        let rows = ROWS / 12;
        store.ingest("t", (part * rows..(part + 1) * rows).map(row).collect::<Vec<_>>()).await.unwrap();
    }
    if flushed {
        store.flush().await.unwrap();
    }
    (folder, store)
}

/// Milliseconds of a statement.
async fn time(engine: &Engine, table: &One, sql: &str) -> f64 {
    let began = Instant::now();
    let arguments = Arguments::new();
    let plan = engine.plan(sql, Binding::new(table, &arguments, 0)).unwrap();
    let _: Vec<_> = engine.run(plan, None).await.unwrap().try_collect().await.unwrap();
    began.elapsed().as_secs_f64() * 1_000.0
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or_default()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = EngineOptions {
        partitions: 2,
        narrow: tidegate_store::narrowed,
        placed: tidegate_store::placed,
        counted: tidegate_store::counted,
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options).unwrap();
    let slow: Vec<String> = (0..30)
        .map(|i| format!("REGEXP_CONTAINS(REPEAT(m.a, {}), 'no[0-9]*such(x|y){i}$') = FALSE", 3 + i % 3))
        .collect();
    let attack = format!("t.event_message LIKE '%password=h%' AND {}", slow.join(" AND "));
    let from = "SELECT COUNT(*) AS n FROM t CROSS JOIN UNNEST(t.metadata) AS m WHERE";
    let policy = RowPolicy { values: vec![("metadata.project".parse().unwrap(), "own".to_owned())] };
    for (place, flushed) in [("segments", true), ("memory", false)] {
        let (_one, matching) = runtime.block_on(logs("user=1 password=hunter2", flushed));
        let (_two, others) = runtime.block_on(logs("user=1 password=Xunter2", flushed));
        let table =
            |store: &Store, policy: Option<RowPolicy>| One(StoredTable { provider: store.table("t").unwrap(), policy });
        for (what, policy, sql) in [
            ("policy", Some(policy.clone()), format!("{from} {attack}")),
            ("author", None, format!("{from} {attack} AND LOWER(m.project) = 'own'")),
        ] {
            let (mut with, mut without) = (Vec::new(), Vec::new());
            for _ in 0..RUNS {
                with.push(runtime.block_on(time(&engine, &table(&matching, policy.clone()), &sql)));
                without.push(runtime.block_on(time(&engine, &table(&others, policy.clone()), &sql)));
            }
            let (with, without) = (median(with), median(without));
            println!(
                "{place:<9} {what:<7} {with:8.1} ms where others match, {without:8.1} ms where not: ratio {:.2}",
                with / without
            );
        }
    }
}
