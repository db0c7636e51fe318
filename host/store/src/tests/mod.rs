//! Tests of the whole store, through its public face and DataFusion's DataFrame API.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that fails should fail where it fails"
)]

mod alerts;
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

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, RecordBatch},
        datatypes::{DataType, Float64Type, Int64Type, TimestampMicrosecondType},
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
    (0..batch.num_rows())
        .map(|row| {
            let mut out = Map::new();
            for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
                match json(column, row) {
                    // Wherever a record is, its presence is true.
                    Some(value) if field.name() == tidegate_model::PRESENCE_FIELD => assert_eq!(value, true),
                    Some(value) => {
                        out.insert(field.name().clone(), value);
                    }
                    None => {}
                }
            }
            Value::Object(out)
        })
        .collect()
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
        DataType::Struct(fields) => {
            let record = array.as_struct();
            let mut out = Map::new();
            for (field, column) in fields.iter().zip(record.columns()) {
                match json(column, row) {
                    // Wherever a record is, its presence is true.
                    Some(value) if field.name() == tidegate_model::PRESENCE_FIELD => assert_eq!(value, true),
                    Some(value) => {
                        out.insert(field.name().clone(), value);
                    }
                    None => {}
                }
            }
            Value::Object(out)
        }
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
