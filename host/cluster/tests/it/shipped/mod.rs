//! The saved queries of the endpoints in this tree and the questions of the benchmark, over sources of which some rows lie
//! in segments and some in memory.
//!
//! `TIDEGATE_CLIENT_QUERIES` names a file of further queries over `logs.all`: a JSON object a line, with `sql` and
//! `params`.

mod records;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use futures::TryStreamExt;
use records::{NOW, SOURCES, record};
use serde_json::Value as Json;
use tidegate_model::{Arguments, Failure, Value};
use tidegate_sql::{Binding, ColumnEncoder, Engine, SavedQuery, Sources, StoredTable, Style, Tables};
use tidegate_store::{Store, StoreOptions};

/// The sources of a store.
pub(crate) struct Logs(pub(crate) Arc<Store>);

impl Sources for Logs {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(self.0.table(name).ok().map(StoredTable::whole))
    }
    fn names(&self) -> Vec<String> {
        self.0.sources().into_iter().map(|source| source.name).collect()
    }
}

pub(crate) async fn logs(folder: &Path) -> Arc<Store> {
    let store = Store::open(folder, StoreOptions { durable: false, ..StoreOptions::default() }).unwrap();
    for name in SOURCES {
        store.create_source(name).unwrap();
    }
    for part in 0..6 {
        for name in SOURCES {
            let rows = (0..15).map(|n| record(n * 6 + part, name, NOW)).collect();
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
