//! What one tenant sends does not change the types of what another one reads.

use std::collections::BTreeMap;

use datafusion::{
    arrow::datatypes::DataType,
    functions::core::expr_fn::get_field,
    prelude::{col, lit},
};
use serde_json::{Value, json};
use tidegate_model::{Audience, SourceTenancy};

use super::{context, json_rows, manual, with_source};
use crate::{Store, StoreOptions};

fn audience(project: &str) -> Audience {
    Audience::of_pins(BTreeMap::from([("project".to_owned(), project.to_owned())]))
}

fn declare(store: &Store, tenancy: &Value) {
    let id = store.source("s").unwrap().id;
    let tenancy: SourceTenancy = serde_json::from_value(tenancy.clone()).unwrap();
    store.set_tenant(id, Some(tenancy)).unwrap();
}

/// The rows of a project, by id, and the types of `n`, `f`, `l` and `m.n`.
async fn read(store: &Store, project: &str) -> (Vec<Value>, Vec<DataType>) {
    let id = store.source("s").unwrap().id;
    let table = store.table_for(id, &audience(project)).unwrap().table;
    let frame = context().read_table(table).unwrap().filter(col("project").eq(lit(project))).unwrap();
    let frame = frame
        .select(vec![col("id"), col("n"), col("f"), col("l"), get_field(col("m"), "n").alias("m_n")])
        .unwrap()
        .sort(vec![col("id").sort(true, false)])
        .unwrap();
    let types = frame.schema().fields().iter().skip(1).map(|field| field.data_type().clone()).collect();
    let batches = frame.collect().await.unwrap();
    (batches.iter().flat_map(json_rows).collect(), types)
}

fn event(id: &str, project: &str, rest: &Value) -> Value {
    let mut event = json!({"id": id, "timestamp": 1_763_600_000_000_000_i64, "event_message": "m", "project": project});
    event.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    event
}

/// Of `a`: integers, floats, lists of integers.
fn own(from: usize) -> Vec<Value> {
    (from..from + 4)
        .map(|i| event(&format!("a{i}"), "a", &json!({"n": 40 + i, "f": 0.5 + i as f64, "l": [i], "m": {"n": i}})))
        .collect()
}

/// Of others: other kinds, and fractions in the place of integers.
fn others(from: usize) -> Vec<Value> {
    [
        json!({"n": "x", "f": "x", "l": ["x"], "m": {"n": "x"}}),
        json!({"n": {"a": 1}, "f": [1], "l": 5, "m": {"n": [1, "x"]}}),
        json!({"n": true, "f": true, "l": {"a": 1}, "m": {"n": null}}),
        json!({"n": 1.5, "f": 1, "l": [1.5], "m": {"n": 1e300}}),
    ]
    .iter()
    .enumerate()
    .map(|(i, rest)| event(&format!("b{from}{i}"), if i % 2 == 0 { "b" } else { "c" }, rest))
    .collect()
}

#[tokio::test]
async fn a_tenant_reads_the_types_of_its_own_values() {
    let (dir, alone) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = || StoreOptions { compaction_rows: 1_000, row_group_rows: 4, ..manual() };
    let (mut store, alone) =
        (Store::open(dir.path(), options()).unwrap(), Store::open(alone.path(), options()).unwrap());
    for store in [&store, &alone] {
        store.create_source("s").unwrap();
        declare(store, &json!({"project": "project"}));
    }
    for part in 0..4 {
        store.ingest("s", own(part * 4)).await.unwrap();
        alone.ingest("s", own(part * 4)).await.unwrap();
        if part < 3 {
            store.ingest("s", others(part)).await.unwrap();
        }
        assert_eq!(read(&store, "a").await, read(&alone, "a").await, "part {part}");
        if part == 1 {
            store.flush().await.unwrap();
        }
    }
    let expected = read(&alone, "a").await;
    assert_eq!(expected.1[0], DataType::Int64);
    // Those who sent the others read texts.
    assert_eq!(read(&store, "b").await.1[0], DataType::Utf8View);
    store.flush().await.unwrap();
    assert_eq!(read(&store, "a").await, expected);
    store.compact().await.unwrap();
    assert_eq!(read(&store, "a").await, expected);
    store.close().await.unwrap();
    drop(store);
    store = Store::open(dir.path(), options()).unwrap();
    assert_eq!(read(&store, "a").await, expected);
    // By another key nothing is known.
    declare(&store, &json!({"project": "team"}));
    declare(&store, &json!({"project": "project"}));
    assert_eq!(read(&store, "a").await.1[0], DataType::Utf8View);
}

/// Fractions of others make no floats of a tenant's integers.
#[tokio::test]
async fn integers_stay_integers_beside_fractions_of_others() {
    let (_dir, store) = with_source(manual());
    declare(&store, &json!({"project": "project"}));
    let numbers =
        |id: &str, project: &str, n: Value| event(id, project, &json!({"n": n, "f": 0.5, "l": [1], "m": {"n": 1}}));
    store.flushed("s", vec![numbers("1", "a", json!(49))]).await;
    store.ingest("s", vec![numbers("2", "b", json!(1.5)), numbers("3", "b", json!(1e300))]).await.unwrap();
    store.ingest("s", vec![numbers("4", "a", json!(50))]).await.unwrap();
    for _ in 0..2 {
        let (rows, types) = read(&store, "a").await;
        assert_eq!((types[0].clone(), &rows[0]["n"], &rows[1]["n"]), (DataType::Int64, &json!(49), &json!(50)));
        assert_eq!(read(&store, "b").await.1[0], DataType::Float64);
        store.flush().await.unwrap();
        store.compact().await.unwrap();
    }
    store.ingest("s", vec![numbers("5", "a", json!(0.25))]).await.unwrap();
    assert_eq!(read(&store, "a").await.1[0], DataType::Float64);
}
