//! The saved queries of the endpoints in this tree and the questions of the benchmark, over sources of which some rows lie
//! in segments and some in memory.
//!
//! `TIDEGATE_CLIENT_QUERIES` names a file of further queries over `logs.all`: a JSON object a line, with `sql` and
//! `params`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::TableProvider;
use futures::TryStreamExt;
use serde_json::{Value as Json, json};
use tidegate_model::{Arguments, Failure, Value};
use tidegate_sql::{Binding, ColumnEncoder, Engine, SavedQuery, Sources, Style, Tables};
use tidegate_store::{Store, StoreOptions};

const NOW: i64 = 1_766_232_000_000_000; // 2025-12-20T12:00:00Z

/// The sources of a store.
pub(crate) struct Logs(pub(crate) Arc<Store>);

impl Sources for Logs {
    fn table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.0.table(name).ok()
    }
    fn names(&self) -> Vec<String> {
        self.0.sources().into_iter().map(|source| source.name).collect()
    }
}

/// A record as gateways and services write them.
fn record(number: i64, source: &str) -> Json {
    json!({
        "id": format!("{source}-{number:04}"), "timestamp": NOW - number * 45_000_000, "project": "default",
        "event_message": format!("GET | {} | /rest/v1/x?n={number} of {source}", 200 + number % 4 * 100),
        "level": if number % 3 == 0 { "error" } else { "info" },
        "metadata": {
            "request": {"method": "GET", "path": "/rest/v1/x", "url": format!("https://p{number}.test/x"), "host": "p.test",
                        "search": format!("?n={number}"), "headers": {"user_agent": "x", "x_client_info": "y"},
                        "cf": {"country": "NZ"}, "sb": [{"auth_user": "u", "jwt": [{"apikey": "k"}]}]},
            "response": {"status_code": 200 + number % 4 * 100, "origin_time": number * 3,
                         "headers": {"cf_cache_status": "HIT", "content_length": number}},
            "parsed": {"error_severity": "LOG", "query": "select 1", "detail": null, "user_name": "postgres"},
            "identifier": "default", "host": "h", "level": "info", "function_id": format!("f{}", number % 2),
            "execution_time_ms": number, "event_type": "Boot", "project_ref": "default", "project": "default",
            "status_code": 200 + number % 4 * 100, "tags": ["a", "b"],
        },
    })
}

const SOURCES: [&str; 14] = [
    "cloudflare.logs.prod",
    "postgres.logs",
    "deno-relay-logs",
    "deno-subhosting-events",
    "gotrue.logs.prod",
    "realtime.logs.prod",
    "storage.logs.prod.2",
    "postgREST.logs.prod",
    "pgbouncer.logs.prod",
    "supavisor.logs.prod",
    "gotrue.audit.logs.prod",
    "pg_upgrade.logs.prod",
    "etl.replication.logs.prod",
    "multigres.logs.prod",
];

pub(crate) async fn logs(folder: &Path) -> Arc<Store> {
    let store = Store::open(folder, StoreOptions { durable: false, ..StoreOptions::default() }).unwrap();
    for name in SOURCES {
        store.create_source(name).unwrap();
    }
    for part in 0..6 {
        for name in SOURCES {
            let rows = (0..15).map(|n| record(n * 6 + part, name)).collect();
            store.ingest(name, rows).await.unwrap();
        }
        if part < 5 {
            store.flush().await.unwrap();
        }
    }
    store
}

pub(crate) async fn rows(
    engine: &Engine,
    sources: &Logs,
    saved: &SavedQuery,
    sql: Option<&str>,
    arguments: &Arguments,
) -> Result<Vec<String>, Failure> {
    let binding = Binding::new(sources, arguments, NOW);
    let plan = match sql {
        Some(sql) => engine.plan(sql, binding.over(Tables::Granted(saved)))?,
        None => engine.plan_saved(saved, binding)?,
    };
    let stream = engine.run(plan, Some(1000)).await?;
    let columns = stream.columns();
    let batches: Vec<RecordBatch> = stream.try_collect().await?;
    let mut rows = Vec::new();
    for batch in batches {
        let encoders: Vec<_> = columns
            .iter()
            .zip(batch.columns())
            .map(|((_, ty), array)| ColumnEncoder::new(array, ty, Style::Result).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let mut text = Vec::new();
            for encoder in &encoders {
                encoder.write(row, &mut text);
                text.push(b'|');
            }
            rows.push(String::from_utf8(text).unwrap());
        }
    }
    Ok(rows)
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Saved queries with nothing asked of them, and statements over the grants of `logs.all`.
pub(crate) fn queries() -> Vec<(String, Option<String>, Arguments)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let range = |arguments: &mut Arguments| {
        for (name, value) in [
            ("project", "default"),
            ("iso_timestamp_start", "2025-12-20T10:00:00.000Z"),
            ("iso_timestamp_end", "2025-12-20T13:00:00.000Z"),
        ] {
            arguments.entry(name.to_owned()).or_insert_with(|| Value::Text(value.to_owned()));
        }
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join("guest-endpoints")).unwrap().flatten() {
        let query = entry.path().join("query.sql");
        if query.is_file() {
            let mut arguments = Arguments::new();
            range(&mut arguments);
            found.push((read(query), None, arguments));
        }
    }
    let all = read(root.join("guest-endpoints/logs.all/query.sql"));
    for entry in std::fs::read_dir(root.join("xtask/bench/questions")).unwrap().flatten() {
        let mut arguments = Arguments::new();
        range(&mut arguments);
        found.push((all.clone(), Some(read(entry.path().join("tidegate.sql"))), arguments));
    }
    if let Some(path) = std::env::var_os("TIDEGATE_CLIENT_QUERIES") {
        for line in read(path.into()).lines() {
            let query: Json = serde_json::from_str(line).unwrap();
            let Some(sql) = query.get("sql").and_then(Json::as_str) else { continue };
            let mut arguments = Arguments::new();
            for (name, value) in query.get("params").and_then(Json::as_object).into_iter().flatten() {
                if let Some(text) = value.as_str() {
                    arguments.insert(name.clone(), Value::Text(text.to_owned()));
                }
            }
            range(&mut arguments);
            found.push((all.clone(), Some(sql.to_owned()), arguments));
        }
    }
    found
}
