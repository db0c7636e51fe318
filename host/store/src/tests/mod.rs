//! Tests of the whole store, through its public face and DataFusion's DataFrame API.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that fails should fail where it fails"
)]

mod backup;
mod call_columns;
mod catalog;
mod compaction;
mod copies;
mod counted_rows;
mod crash;
mod damage;
mod describe;
mod disk;
mod durability;
mod encodings;
mod failing;
pub(crate) mod folders;
mod follow;
mod id_search;
mod lost_commits;
mod memory;
mod mixed_fields;
mod numbering;
#[expect(dead_code, reason = "shared with the black-box tests, which slow it down")]
mod object_server;
mod objects;
mod once;
mod order;
mod outage;
mod packed_uuids;
mod place_bytes;
mod places;
mod read_memory;
mod recover;
mod recover_faults;
mod recover_histories;
mod repair;
mod retention;
mod scan;
mod schedules;
mod schema;
mod segment_files;
mod senders;
mod sole_tenant;
mod sources;
mod tenant_runs;
mod tenant_types;
mod text_search;

use std::{path::Path, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, RecordBatch},
        datatypes::{DataType, Fields, Float64Type, Int64Type, TimestampMicrosecondType},
    },
    functions::core::expr_fn::get_field,
    prelude::{DataFrame, SessionConfig, SessionContext, col},
};
use serde_json::{Map, Value};

use crate::{Store, StoreOptions};

/// No background flush: a test says when.
fn manual() -> StoreOptions {
    StoreOptions { manual_flush: true, ..StoreOptions::default() }
}

fn open(dir: &tempfile::TempDir) -> Arc<Store> {
    Store::open(dir.path(), manual()).unwrap()
}

/// A store in a folder of its own, which goes with the first of the two.
fn opened(options: StoreOptions) -> (tempfile::TempDir, Arc<Store>) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options).unwrap();
    (dir, store)
}

/// The same with a source `s`.
fn with_source(options: StoreOptions) -> (tempfile::TempDir, Arc<Store>) {
    let (dir, store) = opened(options);
    store.create_source("s").unwrap();
    (dir, store)
}

/// The store after a restart.
fn again(store: Arc<Store>, dir: &Path, options: StoreOptions) -> Arc<Store> {
    drop(store);
    Store::open(dir, options).unwrap()
}

impl Store {
    /// Takes events and puts all that is in memory into segments.
    async fn flushed(&self, source: &str, events: Vec<Value>) {
        self.ingest(source, events).await.unwrap();
        self.flush().await.unwrap();
    }
}

/// Scans are given conditions, as by the engine of the service.
fn context() -> SessionContext {
    let config =
        SessionConfig::new().with_target_partitions(2).set_bool("datafusion.execution.parquet.pushdown_filters", true);
    SessionContext::new_with_config(config)
}

fn frame(store: &Store, source: &str) -> DataFrame {
    context().read_table(store.table(source).unwrap()).unwrap()
}

/// The rows of a frame as JSON, NULLs left out.
async fn rows(frame: DataFrame) -> Vec<Value> {
    let batches = frame.collect().await.unwrap();
    batches.iter().flat_map(json_rows).collect()
}

/// All rows by id.
async fn all(store: &Store, source: &str) -> Vec<Value> {
    rows(frame(store, source).sort(vec![col("id").sort(true, false)]).unwrap()).await
}

fn json_rows(batch: &RecordBatch) -> Vec<Value> {
    let fields = batch.schema_ref().fields();
    (0..batch.num_rows()).map(|row| record(fields, batch.columns(), row)).collect()
}

fn record(fields: &Fields, columns: &[ArrayRef], row: usize) -> Value {
    let mut out = Map::new();
    for (field, column) in fields.iter().zip(columns) {
        match json(column, row) {
            // Wherever a record is, its presence is true.
            Some(value) if field.name() == tidegate_model::PRESENCE_FIELD => assert_eq!(value, true),
            Some(value) => drop(out.insert(field.name().clone(), value)),
            None => {}
        }
    }
    Value::Object(out)
}

fn json(array: &ArrayRef, row: usize) -> Option<Value> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Utf8View => array.as_string_view().value(row).into(),
        DataType::Timestamp(..) => array.as_primitive::<TimestampMicrosecondType>().value(row).into(),
        DataType::Struct(fields) => record(fields, array.as_struct().columns(), row),
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            Value::Array((0..items.len()).map(|i| json(&items, i).unwrap_or(Value::Null)).collect())
        }
        other => panic!("unexpected type {other}"),
    })
}

/// `metadata.a.b` as an expression.
fn path(column: &str, keys: &[&str]) -> datafusion::prelude::Expr {
    keys.iter().fold(datafusion::logical_expr::ident(column), |expr, key| get_field(expr, *key))
}

fn field<'v>(row: &'v Value, pointer: &str) -> &'v Value {
    row.pointer(pointer).unwrap_or(&Value::Null)
}
