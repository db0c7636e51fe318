//! The table as a scan: order, pruning, narrow reads, damaged files.

use datafusion::{
    logical_expr::ident,
    physical_plan::displayable,
    prelude::{DataFrame, col, lit},
    scalar::ScalarValue,
};
use serde_json::{Value, json};

use super::{context, frame, manual, open, path, rows, with_source};
use crate::Store;

fn at(micros: i64) -> datafusion::prelude::Expr {
    lit(ScalarValue::TimestampMicrosecond(Some(micros), None))
}

async fn plan(frame: DataFrame) -> String {
    let plan = frame.create_physical_plan().await.unwrap();
    displayable(plan.as_ref()).indent(true).to_string()
}

/// Three segments of 100 rows, one after the other, each of its own project; ten rows in memory.
async fn filled(dir: &tempfile::TempDir) -> std::sync::Arc<Store> {
    let store = open(dir);
    store.create_source("s").unwrap();
    for segment in 0..4_i64 {
        let count = if segment == 3 { 10 } else { 100 };
        let events = (0..count).map(|i| {
            let n = segment * 100 + i;
            json!({
                "id": format!("{n:04}"), "timestamp": 1_700_000_000_000_000_i64 + n * 1_000_000,
                "project": format!("p{segment}"), "event_message": format!("line {n}"),
                "metadata": {"request": {"method": if n % 2 == 0 { "GET" } else { "POST" }, "path": "/x", "n": n}},
            })
        });
        store.ingest("s", events.collect()).await.unwrap();
        if segment < 3 {
            store.flush().await.unwrap();
        }
    }
    store
}

#[tokio::test]
async fn newest_first_needs_no_sort() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir).await;
    for nulls_first in [false, true] {
        let newest = frame(&store, "s")
            .sort(vec![col("timestamp").sort(false, nulls_first)])
            .unwrap()
            .limit(0, Some(15))
            .unwrap()
            .select_columns(&["id", "metadata"])
            .unwrap();
        let text = plan(newest.clone()).await;
        assert!(!text.contains("SortExec"), "{text}");
        let ids: Vec<String> = rows(newest).await.iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect();
        let expected: Vec<String> = (0..15).map(|i| format!("{:04}", 309 - i)).collect();
        assert_eq!(ids, expected);
    }
}

/// The column is in the answer a second time, as a field of a record: equal values, one order.
#[tokio::test]
async fn newest_first_holds_beside_a_record_of_the_column() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir).await;
    let record = datafusion::functions::core::expr_fn::named_struct(vec![lit("at"), col("timestamp")]);
    let never = datafusion::functions::core::expr_fn::coalesce(vec![col("timestamp"), at(0)]);
    for value in [record, never] {
        for ascending in [false, true] {
            let frame = frame(&store, "s")
                .select(vec![value.clone().alias("value"), col("timestamp").alias("time"), col("id")])
                .unwrap()
                .sort(vec![col("time").sort(ascending, false)])
                .unwrap()
                .limit(0, Some(2))
                .unwrap()
                .select_columns(&["id", "value"])
                .unwrap();
            let text = plan(frame.clone()).await;
            assert_eq!(text.contains("SortExec"), ascending, "{text}");
            let ids: Vec<Value> = rows(frame).await.iter().map(|r| r["id"].clone()).collect();
            assert_eq!(ids, if ascending { ["0000", "0001"] } else { ["0309", "0308"] });
        }
    }
}

/// The way in which saved queries are planned: no name in the session, expressions over records.
#[tokio::test]
async fn newest_of_one_project_needs_no_sort() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir).await;
    let source = datafusion::datasource::provider_as_source(store.table("s").unwrap());
    let logical = datafusion::logical_expr::LogicalPlanBuilder::scan("edge_logs", source, None)
        .unwrap()
        .filter(path("metadata", &["request", "method"]).eq(lit("GET")))
        .unwrap()
        .project(vec![col("id"), col("timestamp"), col("metadata")])
        .unwrap()
        .sort(vec![col("timestamp").sort(false, false)])
        .unwrap()
        .limit(0, Some(3))
        .unwrap()
        .build()
        .unwrap();
    let newest = DataFrame::new(context().state(), logical);
    let text = plan(newest.clone()).await;
    assert!(!text.contains("SortExec"), "{text}");
    let ids: Vec<Value> = rows(newest).await.iter().map(|r| r["id"].clone()).collect();
    assert_eq!(ids, ["0308", "0306", "0304"]);
}

#[tokio::test]
async fn counts_respect_limits() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir).await;
    assert_eq!(frame(&store, "s").count().await.unwrap(), 310);
    assert_eq!(frame(&store, "s").limit(0, Some(5)).unwrap().count().await.unwrap(), 5);
    assert_eq!(frame(&store, "s").limit(300, Some(50)).unwrap().count().await.unwrap(), 10);
    // Another order: nothing to rely on, everything to sort.
    let oldest = frame(&store, "s").sort(vec![col("event_message").sort(true, false)]).unwrap();
    let oldest = oldest.limit(0, Some(2)).unwrap().select_columns(&["event_message"]).unwrap();
    assert_eq!(rows(oldest).await, [json!({"event_message": "line 0"}), json!({"event_message": "line 1"})]);
    let oldest = frame(&store, "s").sort(vec![col("timestamp").sort(true, false)]).unwrap();
    let oldest = oldest.limit(0, Some(1)).unwrap().select_columns(&["id"]).unwrap();
    assert_eq!(rows(oldest).await, [json!({"id": "0000"})]);
}

#[tokio::test]
async fn catalog_statistics_skip_segments() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir).await;
    let files = |text: &str| text.matches(".parquet").count();

    let recent = frame(&store, "s").filter(col("timestamp").gt(at(1_700_000_250_000_000))).unwrap();
    let text = plan(recent.clone()).await;
    assert_eq!(files(&text), 1, "{text}");
    assert_eq!(recent.count().await.unwrap(), 59);

    let project = frame(&store, "s").filter(ident("project").eq(lit("p1"))).unwrap();
    let text = plan(project.clone()).await;
    assert_eq!(files(&text), 1, "{text}");
    assert_eq!(project.count().await.unwrap(), 100);

    let none = frame(&store, "s").filter(ident("project").eq(lit("p9"))).unwrap();
    assert_eq!(files(&plan(none.clone()).await), 0);
    assert_eq!(none.count().await.unwrap(), 0);

    let either = frame(&store, "s").filter(ident("project").in_list(vec![lit("p0"), lit("p2")], false)).unwrap();
    assert_eq!(files(&plan(either.clone()).await), 2);
    assert_eq!(either.count().await.unwrap(), 200);
}

#[tokio::test]
async fn filters_reach_the_parquet_scan() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir).await;
    let frame = frame(&store, "s").filter(path("metadata", &["request", "n"]).eq(lit(42_i64))).unwrap();
    let text = plan(frame.clone()).await;
    assert!(text.contains("predicate=get_field(metadata"), "{text}");
    assert_eq!(rows(frame.select_columns(&["id"]).unwrap()).await, [json!({"id": "0042"})]);
}

/// Reading one leaf of a record must not read the others.
#[tokio::test]
async fn one_leaf_is_a_narrow_read() {
    let (_dir, store) = with_source(manual());
    let mut state = 1_u64;
    let events = (0..2000).map(|n| {
        let mut letter = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + ((state >> 33) % 26) as u8)
        };
        let noise: String = (0..300).map(|_| letter()).collect();
        json!({"id": n.to_string(), "timestamp": n, "metadata": {"small": n % 3, "noise": {"a": noise}}})
    });
    store.flushed("s", events.collect()).await;
    // A later field in memory makes the schemas differ: the adapter is at work.
    store.ingest("s", vec![json!({"timestamp": 1, "metadata": {"late": 1}})]).await.unwrap();
    let scanned = async |frame: DataFrame| {
        let plan = frame.create_physical_plan().await.unwrap();
        datafusion::physical_plan::collect(plan.clone(), context().task_ctx()).await.unwrap();
        let mut bytes = 0;
        let mut todo = vec![plan];
        while let Some(plan) = todo.pop() {
            let metrics = plan.metrics().and_then(|m| m.sum_by_name("bytes_scanned"));
            bytes += metrics.map_or(0, |m| m.as_usize());
            todo.extend(plan.children().into_iter().cloned());
        }
        bytes
    };
    let narrow = scanned(frame(&store, "s").select(vec![path("metadata", &["small"])]).unwrap()).await;
    let late = scanned(frame(&store, "s").select(vec![path("metadata", &["late"])]).unwrap()).await;
    let filtered = frame(&store, "s").filter(path("metadata", &["small"]).gt(lit(1_i64))).unwrap();
    let filtered = scanned(filtered.select(vec![path("metadata", &["late"]), col("id")]).unwrap()).await;
    let wide = scanned(frame(&store, "s").select_columns(&["metadata"]).unwrap()).await;
    assert!(narrow * 20 < wide, "{narrow} of {wide} bytes");
    assert!(late * 20 < wide, "{late} of {wide} bytes");
    assert!(filtered * 20 < wide, "{filtered} of {wide} bytes");
}

/// The answer must be the same where the session lets the scan filter rows by itself.
#[tokio::test]
async fn filters_inside_the_scan_agree() {
    let (_dir, store) = with_source(manual());
    for call in [
        json!([{"id": "1", "timestamp": 1, "n": 1, "metadata": {"a": 1, "t": 5}}]),
        json!([{"id": "2", "timestamp": 2, "n": 2.5, "metadata": {"a": "x"}}]),
        json!([{"id": "3", "timestamp": 3, "metadata": [{"a": 3, "t": 1}]}]),
    ] {
        let Value::Array(events) = call else { unreachable!() };
        store.flushed("s", events).await;
    }
    for pushdown in [false, true] {
        let config = datafusion::prelude::SessionConfig::new()
            .set_bool("datafusion.execution.parquet.pushdown_filters", pushdown);
        let context = datafusion::prelude::SessionContext::new_with_config(config);
        for (filter, expected) in [
            (path("metadata", &["a"]).eq(lit("x")), vec!["2"]),
            (path("metadata", &["a"]).eq(lit("3")), vec!["3"]),
            (path("metadata", &["t"]).gt(lit(0_i64)), vec!["1", "3"]),
            (path("metadata", &["t"]).is_null(), vec!["2"]),
            (ident("n").gt(lit(0.5)), vec!["1", "2"]),
            (ident("metadata").is_not_null(), vec!["1", "2", "3"]),
        ] {
            let frame = context.read_table(store.table("s").unwrap()).unwrap().filter(filter.clone()).unwrap();
            let frame = frame.select_columns(&["id"]).unwrap().sort(vec![col("id").sort(true, false)]).unwrap();
            let ids: Vec<Value> = rows(frame).await.iter().map(|r| r["id"].clone()).collect();
            assert_eq!(ids, expected, "{filter} with pushdown {pushdown}");
        }
    }
}

#[tokio::test]
async fn a_lost_or_damaged_segment_is_named() {
    for damage in ["lost", "cut", "zeroed"] {
        let dir = tempfile::tempdir().unwrap();
        let store = filled(&dir).await;
        let folder = dir.path().join("segments").join(store.source("s").unwrap().id.to_string());
        drop(store);
        let oldest = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .min_by_key(|path| path.metadata().unwrap().modified().unwrap())
            .unwrap();
        match damage {
            "lost" => std::fs::remove_file(&oldest).unwrap(),
            "cut" => std::fs::File::options().write(true).open(&oldest).unwrap().set_len(100).unwrap(),
            _ => std::fs::write(&oldest, vec![0; oldest.metadata().unwrap().len() as usize]).unwrap(),
        }
        let store = open(&dir);
        let error = frame(&store, "s").collect().await.unwrap_err().to_string();
        let name = oldest.file_stem().unwrap().to_str().unwrap();
        assert!(error.contains(&format!("segment {name} of source `s` cannot be read")), "{damage}: {error}");
        // What does not need it still answers.
        let recent = frame(&store, "s").filter(col("timestamp").gt(at(1_700_000_150_000_000))).unwrap();
        assert_eq!(recent.count().await.unwrap(), 159, "{damage}");
    }
}

#[tokio::test]
async fn overlapping_segments_stay_in_order() {
    let (_dir, store) = with_source(manual());
    for segment in 0..40_i64 {
        let events = (0..5).map(|i| json!({"timestamp": 1_700_000_000 + (segment * 7 + i * 13) % 97}));
        store.flushed("s", events.collect()).await;
    }
    let sorted = frame(&store, "s")
        .sort(vec![col("timestamp").sort(false, false)])
        .unwrap()
        .select_columns(&["timestamp"])
        .unwrap();
    let times: Vec<i64> = rows(sorted).await.iter().map(|r| r["timestamp"].as_i64().unwrap()).collect();
    assert_eq!(times.len(), 200);
    assert!(times.is_sorted_by(|a, b| a >= b));
}

/// Events that come faster than they become columns are refused before a query has to wait for them all.
#[tokio::test]
async fn a_backlog_is_bounded() {
    let options = crate::StoreOptions { max_raw_rows: 10, ..manual() };
    let (_dir, store) = with_source(options);
    store.create_source("t").unwrap();
    let events = || (0..11).map(|n| serde_json::json!({"id": n.to_string()})).collect::<Vec<_>>();
    store.ingest("s", events()).await.unwrap();
    let refused = store.ingest("s", events()).await;
    assert!(matches!(refused, Err(crate::StoreError::Backlog { rows: 11, limit: 10 })), "{refused:?}");
    // Other sources go on, and this one when its rows are columns.
    store.ingest("t", events()).await.unwrap();
    assert_eq!(frame(&store, "s").count().await.unwrap(), 11);
    store.ingest("s", events()).await.unwrap();
    assert_eq!(frame(&store, "s").count().await.unwrap(), 22);
}

/// The rows of a frame whose filters the scan evaluates, and the bytes of segments that were read for them.
pub(super) async fn scanned(frame: DataFrame) -> (usize, usize) {
    fn bytes(plan: &dyn datafusion::physical_plan::ExecutionPlan) -> usize {
        let own = plan.metrics().and_then(|metrics| metrics.sum_by_name("bytes_scanned"));
        own.map_or(0, |own| own.as_usize())
            + plan.children().into_iter().map(|child| bytes(child.as_ref())).sum::<usize>()
    }
    let task = std::sync::Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.unwrap();
    let batches = datafusion::physical_plan::collect(std::sync::Arc::clone(&plan), task).await.unwrap();
    (batches.iter().map(datafusion::arrow::array::RecordBatch::num_rows).sum(), bytes(plan.as_ref()))
}

/// That a record is there is not read where every row of a segment has it, and neither is any other test for NULL.
#[tokio::test]
async fn a_record_that_every_row_has_is_not_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir).await;
    store.flush().await.unwrap();
    let filtered = |filter: Option<datafusion::prelude::Expr>| {
        let config = datafusion::prelude::SessionConfig::new()
            .with_target_partitions(2)
            .set_bool("datafusion.execution.parquet.pushdown_filters", true);
        let context = datafusion::prelude::SessionContext::new_with_config(config);
        let frame = context.read_table(store.table("s").unwrap()).unwrap();
        let frame = if let Some(filter) = filter { frame.filter(filter).unwrap() } else { frame };
        scanned(frame.select(vec![path("metadata", &["request", "method"]).alias("method")]).unwrap())
    };
    let (rows, bytes) = filtered(None).await;
    assert_eq!(rows, 310);
    let there = path("metadata", &["request", tidegate_model::PRESENCE_FIELD]).is_not_null();
    let numbered = path("metadata", &["request", "n"]).is_not_null();
    let either = path("metadata", &["request", "path"]).is_null().or(there.clone());
    for filter in [there.clone(), numbered.clone(), there.clone().and(numbered.clone()), either] {
        assert_eq!(filtered(Some(filter)).await, (310, bytes));
    }
    // A record that some row lacks is looked for, in the segments of such rows only.
    let event = |id: &str, metadata| json!({"id": id, "timestamp": 1_700_000_000_000_000_i64, "metadata": metadata});
    store
        .ingest("s", vec![event("a", json!({"request": {"method": "GET"}})), event("b", json!({"n": 1}))])
        .await
        .unwrap();
    store.flush().await.unwrap();
    assert_eq!(filtered(None).await.0, 312);
    assert_eq!(filtered(Some(there)).await.0, 311);
    assert_eq!(filtered(Some(numbered)).await.0, 310);
}

/// A sender that is faster than the disk waits for segments, whatever makes none of them due by itself, and is not
/// refused.
#[tokio::test]
async fn ingest_waits_for_room() {
    let dir = tempfile::tempdir().unwrap();
    let never = std::time::Duration::from_hours(1);
    let options = crate::StoreOptions {
        max_unflushed_bytes: 4 << 20,
        flush_rows: usize::MAX,
        flush_bytes: usize::MAX,
        flush_interval: never,
        ..crate::StoreOptions::default()
    };
    let store = crate::Store::open(dir.path(), options).unwrap();
    let sources = ["s", "t", "u"];
    for source in sources {
        store.create_source(source).unwrap();
    }
    for call in 0..60 {
        let event = |n: usize| serde_json::json!({"id": n.to_string(), "event_message": "x".repeat(1_000)});
        store.ingest(sources[call % 3], (0..200).map(event).collect()).await.unwrap();
    }
    assert!(store.stats().flushes > 3, "{:?}", store.stats());
    for source in sources {
        assert_eq!(frame(&store, source).count().await.unwrap(), 4_000);
    }
}
