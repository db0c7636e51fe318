//! Runs by the declared key of the tenants: what a query of one tenant reads, and that its answer is the same however segments
//! were made.

use std::{path::Path, sync::Arc};

use datafusion::{
    arrow::datatypes::DataType,
    common::tree_node::{TreeNode, TreeNodeRecursion},
    prelude::{DataFrame, Expr, col, lit},
};
use serde_json::{Value, json};

use super::{
    all, field, frame, path, rows,
    scan::scanned,
    segment_files::{elsewhere, small},
    with_source,
};
use crate::{
    ScanOutline, ScanPlace, SegmentFiles, Store, StoreOptions, arrays::column_path::type_at, backup, rebuild_catalog,
    restore, segment::handle::Segment, verify,
};

const START: i64 = 1_700_000_000_000_000;

fn options() -> StoreOptions {
    StoreOptions { durable: false, ..small() }
}

fn open(dir: &Path) -> Arc<Store> {
    Store::open(dir, options()).unwrap()
}

/// Says whose the rows are: `metadata.ref` and the like, or what is no path for nobody.
fn declare(store: &Store, json: &Value) {
    let id = store.source("s").unwrap().id;
    store.set_tenant(id, serde_json::from_value(json.clone()).unwrap()).unwrap();
}

/// An event of one of four tenants, and of one of five projects.
fn event(i: i64) -> Value {
    json!({
        "id": format!("{i:05}"), "timestamp": START + i * 7 % 1_000, "project": format!("p{}", i % 5), "n": i,
        "event_message": format!("line {i}"), "metadata": {"ref": format!("t{}", i % 4), "n": i},
    })
}

/// A segment of so many of these events, after a change of each.
async fn segment(store: &Store, numbers: std::ops::Range<i64>, change: impl Fn(i64, &mut Value)) {
    let changed = |i| {
        let mut event = event(i);
        change(i, &mut event);
        event
    };
    store.flushed("s", numbers.map(changed).collect()).await;
}

fn same(_: i64, _: &mut Value) {}

fn segments(store: &Store) -> Arc<Vec<Arc<Segment>>> {
    store.sources.find("s").unwrap().segments()
}

fn paths_of(store: &Store) -> Vec<String> {
    let mut paths: Vec<String> = segments(store).iter().map(|of| of.tenant_path.names().join(".")).collect();
    paths.sort();
    paths
}

fn tenant_is(tenant: &str) -> Expr {
    path("metadata", &["ref"]).eq(lit(tenant))
}

fn ids(store: &Store, filter: Option<Expr>) -> DataFrame {
    let frame = filter.into_iter().fold(frame(store, "s"), |frame, filter| frame.filter(filter).unwrap());
    frame.select_columns(&["id"]).unwrap()
}

/// How many rows the scans have that are left of a query by what the catalog says: in segments and in memory.
async fn left(store: &Store, filter: Expr) -> (u64, usize) {
    let plan = frame(store, "s").filter(filter).unwrap().create_physical_plan().await.unwrap();
    let (mut stored, mut held) = (0, 0);
    plan.apply(|node| {
        match ScanOutline::of(node.as_ref()).map(|scan| scan.place) {
            Some(ScanPlace::Segments(totals)) => stored += totals.rows,
            Some(ScanPlace::Memory { rows }) => held += rows,
            None => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    (stored, held)
}

async fn found(store: &Store, filter: Expr) -> Vec<String> {
    let mut ids: Vec<String> =
        rows(ids(store, Some(filter))).await.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

/// Compares the rows of each tenant and of each project with those that have it among all rows, where the path is a text.
async fn compare(store: &Store) {
    let (all, schema) = (all(store, "s").await, store.table("s").unwrap().schema());
    let paths = [
        ("/metadata/ref", path("metadata", &["ref"]), ["t1", "7", "t9"].as_slice()),
        ("/project", col("project"), &["p1"]),
    ];
    for (pointer, column, values) in paths {
        let names: Vec<&str> = pointer.split('/').skip(1).collect();
        if type_at(&schema, &names) != Some(&DataType::Utf8View) {
            continue;
        }
        for value in values.iter().copied() {
            let has = |row: &&Value, of: &[&str]| field(row, pointer).as_str().is_some_and(|text| of.contains(&text));
            let expected = |of: &[&str]| -> Vec<&str> {
                all.iter().filter(|row| has(row, of)).map(|row| row["id"].as_str().unwrap()).collect()
            };
            let is = column.clone().eq(lit(value));
            assert_eq!(found(store, is).await, expected(&[value]), "{pointer} {value}");
            let among = column.clone().in_list(vec![lit(value), lit("t2")], false);
            assert_eq!(found(store, among).await, expected(&[value, "t2"]), "{pointer} {value}");
            let other = column.clone().in_list(vec![lit(value), lit("t2")], true);
            let others = all.iter().filter(|row| !has(row, &[value, "t2"]) && !field(row, pointer).is_null()).count();
            assert_eq!(found(store, other).await.len(), others, "{pointer} {value}");
        }
    }
}

#[tokio::test]
async fn rows_of_a_tenant_lie_together_by_the_declared_path() {
    let (dir, store) = with_source(options());
    declare(&store, &json!({"team": "n", "project": "metadata.ref"}));
    segment(&store, 0..400, same).await;
    segment(&store, 400..500, same).await;
    assert_eq!(paths_of(&store), ["metadata.ref"; 2]);
    assert!(segments(&store).iter().all(|segment| segment.runs.len() == 4), "{:?}", segments(&store));
    compare(&store).await;
    assert_eq!(left(&store, tenant_is("t1")).await, (125, 0));
    assert_eq!(left(&store, lit("t1").eq(path("metadata", &["ref"])).and(col("n").gt(lit(3_i64)))).await, (125, 0));
    assert_eq!(left(&store, path("metadata", &["ref"]).in_list(vec![lit("t1"), lit("t9")], false)).await, (125, 0));
    assert_eq!(left(&store, tenant_is("t1").or(tenant_is("t2"))).await, (250, 0));
    assert_eq!(left(&store, tenant_is("nobody")).await, (0, 0));
    // Nothing is said of other paths.
    assert_eq!(left(&store, col("project").eq(lit("nobody"))).await, (500, 0));
    assert_eq!(left(&store, path("metadata", &["ref"]).not_eq(lit("t1"))).await, (500, 0));
    assert_eq!(left(&store, tenant_is("t1").is_true().is_false()).await, (500, 0));

    // All rows that are read have the tenant: that is not looked at.
    let (_, all) = scanned(ids(&store, None)).await;
    for filter in [tenant_is("t1"), path("metadata", &["ref"]).in_list(vec![lit("t1"), lit("t9")], false)] {
        let (rows, bytes) = scanned(ids(&store, Some(filter))).await;
        assert!(rows == 125 && bytes <= all / 2, "{rows} rows, {bytes} bytes of {all}");
    }

    store.compact().await.unwrap();
    assert_eq!(paths_of(&store), ["metadata.ref"]);
    assert_eq!(left(&store, tenant_is("t1")).await, (125, 0));
    compare(&store).await;
    // After a start, and for who reads segments without a catalog.
    drop(store);
    assert_eq!(verify(dir.path()).unwrap().findings, []);
    let store = open(dir.path());
    assert_eq!(paths_of(&store), ["metadata.ref"]);
    assert_eq!(left(&store, tenant_is("t1")).await, (125, 0));
    let files = SegmentFiles::folder(dir.path()).unwrap();
    for filter in [tenant_is("t1"), tenant_is("t1").and(col("n").lt(lit(200_i64)))] {
        let frame = ids(&store, Some(filter));
        let (expected, bytes) = scanned(frame.clone()).await;
        let (plan, context, scans) = elsewhere(frame, &files).await;
        let batches = datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
        assert_eq!((batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), scans), (expected, 1));
        let read = plan.metrics().and_then(|metrics| metrics.sum_by_name("bytes_scanned"));
        assert!(read.as_ref().is_none_or(|read| read.as_usize() <= bytes), "{read:?} of {bytes}");
    }
}

/// Many small tenants share a run.
#[tokio::test]
async fn small_tenants_share_a_run() {
    let (_dir, store) = with_source(options());
    declare(&store, &json!({"project": "metadata.ref"}));
    segment(&store, 0..400, |i, event| match i % 8 {
        0 => event["metadata"] = json!({"n": i}),
        1 => drop(event.as_object_mut().unwrap().remove("metadata")),
        _ => event["metadata"]["ref"] = json!(format!("t{}", i % 100)),
    })
    .await;
    assert!(segments(&store)[0].runs.len() > 5);
    let (stored, _) = left(&store, tenant_is("t3")).await;
    assert!((1..60).contains(&stored), "{stored}");
    compare(&store).await;
}

/// Segments keep the path by which they were made. What they say is used for that path only, until compaction writes them again.
#[tokio::test]
async fn a_change_of_the_key_makes_nothing_wrong() {
    let (_dir, store) = with_source(StoreOptions { compaction_rows: 200, ..options() });
    // As before there were keys, and as with other ones.
    segment(&store, 0..200, same).await;
    declare(&store, &json!({"project": "metadata.ref"}));
    segment(&store, 200..400, same).await;
    store.ingest("s", (400..420).map(event).collect()).await.unwrap();
    drop(store.table("s").unwrap());
    declare(&store, &json!({"project": "project"}));
    store.ingest("s", (420..440).map(event).collect()).await.unwrap();
    assert_eq!(paths_of(&store), ["metadata.ref", "project"]);
    compare(&store).await;
    assert_eq!(left(&store, tenant_is("t1")).await, (200 + 50, 40));
    assert_eq!(left(&store, tenant_is("nobody")).await, (200, 20));
    assert_eq!(left(&store, col("project").eq(lit("p1"))).await, (40 + 200, 40));
    assert_eq!(left(&store, col("project").eq(lit("nobody"))).await, (200, 20));

    // Batches of both in one segment; full segments are written again, by the path in force.
    store.flush().await.unwrap();
    assert_eq!(paths_of(&store), ["metadata.ref", "project", "project"]);
    compare(&store).await;
    store.compact().await.unwrap();
    assert_eq!(paths_of(&store), ["project"; 3]);
    // The smallest segment has 8 rows of it, in a run with others.
    assert_eq!(left(&store, col("project").eq(lit("p1"))).await, (40 + 40 + 24, 0));
    assert_eq!(left(&store, tenant_is("t1")).await, (440, 0));
    compare(&store).await;
    let merges = store.stats().merges;
    store.compact().await.unwrap();
    assert_eq!(store.stats().merges, merges, "nothing is left to do");

    declare(&store, &json!({"project": "metadata.ref"}));
    store.compact().await.unwrap();
    assert_eq!(paths_of(&store), ["metadata.ref"; 3]);
    assert_eq!(left(&store, tenant_is("t1")).await, (50 + 50 + 20, 0));
    compare(&store).await;
    // Without a key as for all sources before.
    declare(&store, &json!("shared"));
    segment(&store, 440..500, same).await;
    assert!(paths_of(&store).contains(&"project".to_owned()));
    compare(&store).await;
}

#[tokio::test]
async fn batches_in_memory_are_left_out_by_the_declared_path() {
    let (_dir, store) = with_source(options());
    declare(&store, &json!({"project": "metadata.ref"}));
    for tenant in 0..4_i64 {
        let of_tenant = |i: i64| event(i * 4 + tenant);
        store.ingest("s", (0..50).map(of_tenant).collect()).await.unwrap();
        drop(store.table("s").unwrap());
    }
    assert_eq!(left(&store, tenant_is("t1")).await, (0, 50));
    assert_eq!(left(&store, tenant_is("nobody")).await, (0, 0));
    assert_eq!(left(&store, col("project").eq(lit("nobody"))).await, (0, 200));
    compare(&store).await;
}

/// A value that is no text, or is not in its column, is found.
#[tokio::test]
async fn what_is_no_plain_text_is_not_left_out() {
    let number = |i: i64, event: &mut Value| event["metadata"]["ref"] = json!(if i % 2 == 0 { 7 } else { 8 });
    let record = |_: i64, event: &mut Value| event["metadata"]["ref"] = json!({"x": "t1"});
    let list = |_: i64, event: &mut Value| event["metadata"]["ref"] = json!(["t1"]);
    let text = |_: i64, event: &mut Value| event["metadata"] = json!("t1");
    let some = |i: i64, event: &mut Value| {
        if i % 3 == 0 {
            number(i, event);
        }
    };
    let long = |_: i64, event: &mut Value| event["metadata"]["ref"] = json!("t".repeat(300));
    type Change<'c> = &'c dyn Fn(i64, &mut Value);
    let changes: [Change<'_>; 6] = [&number, &record, &list, &text, &some, &long];
    for change in changes {
        for (declared, is_first) in [(false, false), (true, false), (false, true), (true, true)] {
            let (_dir, store) = with_source(options());
            if declared {
                declare(&store, &json!({"project": "metadata.ref"}));
            }
            // Plain ones are the first or the second segment.
            let plain = i64::from(!is_first);
            for part in 0..3 {
                let numbers = part * 50..part * 50 + 50;
                match part == plain {
                    true => segment(&store, numbers, same).await,
                    false => segment(&store, numbers, change).await,
                }
            }
            compare(&store).await;
            declare(&store, &json!({"project": "metadata.ref"}));
            store.compact().await.unwrap();
            compare(&store).await;
            assert_eq!(all(&store, "s").await.len(), 150);
        }
    }
}

/// A list of records on the way: a row has several values, and none of them decides where it lies.
#[tokio::test]
async fn tenants_in_lists_are_not_left_out() {
    let (_dir, store) = with_source(options());
    declare(&store, &json!({"project": "metadata.ref"}));
    segment(&store, 0..100, same).await;
    let table = store.table("s").unwrap();
    segment(&store, 100..200, |_, event| event["metadata"] = json!([{"ref": "t0"}, {"ref": "t1"}])).await;
    assert_eq!(segments(&store).iter().map(|of| of.runs.len()).min(), Some(1));
    // A table from before has single records only.
    let old = super::context().read_table(table).unwrap().filter(tenant_is("t1")).unwrap();
    assert_eq!(rows(old).await.len(), 25);
    store.compact().await.unwrap();
    assert_eq!(all(&store, "s").await.len(), 200);
}

/// The bound on fields was reached before the field came: its values are in the overflow, also of rows that come after it got a
/// column.
#[tokio::test]
async fn values_in_the_overflow_are_found() {
    for declared in [false, true] {
        let (_dir, store) = with_source(StoreOptions { max_fields: 12, ..options() });
        let crowd = |i: i64, event: &mut Value| {
            let reference = event["metadata"]["ref"].take();
            event["metadata"] = json!({"a": i, "b": i, "c": i, "d": i, "e": i, "f": i, "ref": reference});
        };
        if declared {
            declare(&store, &json!({"project": "metadata.ref"}));
        }
        segment(&store, 0..100, crowd).await;
        compare(&store).await;
        declare(&store, &json!({"project": "metadata.ref"}));
        segment(&store, 100..200, crowd).await;
        store.ingest("s", (200..220).map(event).collect()).await.unwrap();
        compare(&store).await;
        store.flush().await.unwrap();
        store.compact().await.unwrap();
        compare(&store).await;
    }
}

/// What a footer says is enough, for a catalog that is made again too.
#[tokio::test]
async fn copies_and_rebuilt_catalogs_keep_the_path() {
    let (dir, store) = with_source(options());
    segment(&store, 0..100, same).await;
    declare(&store, &json!({"project": "metadata.ref"}));
    segment(&store, 100..300, same).await;
    drop(store);
    let places = tempfile::tempdir().unwrap();
    let (copy, again) = (places.path().join("copy"), places.path().join("again"));
    backup(dir.path(), &copy).unwrap();
    restore(&copy, &again).unwrap();
    std::fs::remove_file(dir.path().join("catalog.sqlite")).unwrap();
    rebuild_catalog(dir.path()).unwrap();
    for (folder, is_declared) in [(again.as_path(), true), (dir.path(), false)] {
        assert_eq!(verify(folder).unwrap().findings, []);
        let store = open(folder);
        assert_eq!(store.source("s").unwrap().tenant.is_some(), is_declared);
        assert_eq!(paths_of(&store), ["metadata.ref", "project"]);
        assert_eq!(left(&store, tenant_is("t1")).await, (100 + 50, 0));
        compare(&store).await;
        store.compact().await.unwrap();
        assert_eq!(paths_of(&store), [if is_declared { "metadata.ref" } else { "project" }]);
        compare(&store).await;
    }
}

/// Tenants whose names are UUIDs stay texts in the file, also where they were packed before they were tenants.
#[tokio::test]
async fn tenants_that_are_uuids_are_pruned() {
    let (_dir, store) = with_source(options());
    let uuid = |i: i64| uuid::Uuid::from_u128(0x1234_5678 + (i % 4) as u128 * 7).to_string();
    let change = move |i: i64, event: &mut Value| event["metadata"]["ref"] = json!(uuid(i));
    let each = move |i: i64, event: &mut Value| {
        event["metadata"]["ref"] = json!(uuid::Uuid::from_u128((i as u128) << 64 | 0x9e37).to_string());
    };
    segment(&store, 0..100, each).await;
    declare(&store, &json!({"project": "metadata.ref"}));
    segment(&store, 100..300, change).await;
    assert_eq!(left(&store, tenant_is(&uuid(1))).await, (150, 0));
    store.compact().await.unwrap();
    assert_eq!(paths_of(&store), ["metadata.ref"]);
    assert_eq!(left(&store, tenant_is(&uuid(1))).await, (50, 0));
    assert_eq!(found(&store, tenant_is(&uuid(1))).await.len(), 50);
    let lone = uuid::Uuid::from_u128(42_u128 << 64 | 0x9e37).to_string();
    assert_eq!(found(&store, tenant_is(&lone)).await, ["00042"]);
    assert!(left(&store, tenant_is(&lone)).await.0 < 60);
}
