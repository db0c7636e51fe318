//! The order of a scan is held however the plan above it was optimized.

use std::sync::Arc;

use datafusion::{
    datasource::source::{DataSource, DataSourceExec},
    functions_aggregate::expr_fn::count,
    physical_plan::displayable,
    prelude::{DataFrame, SessionConfig, SessionContext, col, lit},
    scalar::ScalarValue,
};
use serde_json::json;

use super::{manual, rows, with_source};
use crate::{Store, StoreOptions, scan::segment_scan::SegmentScan};

const START: i64 = 1_700_000_000_000_000;

/// So many segments of 40 rows, one second apart, ten to a row group; ids go the other way.
async fn filled(dir: &tempfile::TempDir, segments: i64) -> Arc<Store> {
    let store = Store::open(dir.path(), StoreOptions { row_group_rows: 10, ..manual() }).unwrap();
    store.create_source("s").unwrap();
    for segment in 0..segments {
        let events = (segment * 40..(segment + 1) * 40)
            .map(|i| json!({"id": format!("{:04}", 9_999 - i), "timestamp": START + i * 1_000_000, "n": i}));
        store.flushed("s", events.collect()).await;
    }
    store
}

/// A frame in a session as the service's: filters go into the scan.
fn frame(store: &Store, partitions: usize) -> DataFrame {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .set_bool("datafusion.execution.parquet.pushdown_filters", true);
    SessionContext::new_with_config(config).read_table(store.table("s").unwrap()).unwrap()
}

fn newest(frame: DataFrame, limit: usize) -> DataFrame {
    frame.sort(vec![col("timestamp").sort(false, false)]).unwrap().limit(0, Some(limit)).unwrap()
}

async fn numbers(frame: DataFrame) -> Vec<i64> {
    rows(frame.select_columns(&["n"]).unwrap()).await.iter().map(|row| row["n"].as_i64().unwrap()).collect()
}

/// The streams of a merge read their own files, also under a limit that leaves nothing out.
#[tokio::test]
async fn streams_of_a_merge_read_their_own_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir, 12).await;
    for partitions in 1..=4 {
        let few = frame(&store, partitions).filter((col("n") % lit(7_i64)).eq(lit(0_i64))).unwrap();
        let expected: Vec<i64> = (0..480).rev().filter(|n| n % 7 == 0).collect();
        assert_eq!(numbers(newest(few.clone(), 1_000)).await, expected, "{partitions} partitions");
        assert_eq!(numbers(newest(few, 20)).await, expected[..20], "{partitions} partitions");
    }
}

/// A row group of which all rows match is not taken before a newer one of which some do.
#[tokio::test]
async fn a_limit_takes_the_newest_row_group_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir, 3).await;
    let before = lit(ScalarValue::TimestampMicrosecond(Some(START + 115 * 1_000_000), None));
    for partitions in 1..=4 {
        let older = frame(&store, partitions).filter(col("timestamp").lt(before.clone())).unwrap();
        assert_eq!(numbers(newest(older, 5)).await, [114, 113, 112, 111, 110], "{partitions} partitions");
    }
}

/// Another order above the limit chooses among the newest rows only.
#[tokio::test]
async fn what_is_above_a_limit_does_not_choose_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir, 1).await;
    for partitions in 1..=2 {
        for (key, expected) in [("timestamp", [30, 31, 32]), ("id", [39, 38, 37]), ("n", [30, 31, 32])] {
            let above = newest(frame(&store, partitions), 10).sort(vec![col(key).sort(true, false)]).unwrap();
            assert_eq!(numbers(above.limit(0, Some(3)).unwrap()).await, expected, "by {key}");
        }
    }
}

/// What the optimizer may ask of the scan, and what the scan says then.
#[tokio::test]
async fn a_declared_order_cannot_be_taken_away() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir, 6).await;
    let plan = frame(&store, 2).create_physical_plan().await.unwrap();
    let scan = plan.downcast_ref::<DataSourceExec>().unwrap();
    let scan = scan.data_source().downcast_ref::<SegmentScan>().unwrap();
    let config = SessionConfig::new();
    let limited = scan.with_fetch(Some(7)).unwrap().with_preserve_order(false).unwrap();
    assert!(limited.eq_properties().output_ordering().is_some());
    assert!(limited.create_sibling_state(config.options()).is_none());
    assert_eq!(limited.with_fetch(Some(100)).unwrap().fetch(), Some(7));
    assert_eq!(limited.partition_statistics(None).unwrap().num_rows.get_value(), Some(&14));
    let order = limited.eq_properties().output_ordering().unwrap();
    let other: Vec<_> = order.iter().map(|key| key.reverse()).collect();
    assert!(limited.try_pushdown_sort(&other).unwrap().into_inner().is_none());
    // Without a limit the scan may read for another order, and then declares none.
    let reversed = scan.try_pushdown_sort(&other).unwrap().into_inner().unwrap();
    assert!(reversed.eq_properties().output_ordering().is_none());
}

/// The newest rows are read from the newest segments, of each stream one at most.
#[tokio::test]
async fn newest_first_stops_early() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir, 12).await;
    let opened = async |frame: DataFrame| {
        let plan = frame.create_physical_plan().await.unwrap();
        datafusion::physical_plan::collect(Arc::clone(&plan), SessionContext::new().task_ctx()).await.unwrap();
        let mut files = 0;
        let mut todo = vec![plan];
        while let Some(plan) = todo.pop() {
            let metrics = plan.metrics().and_then(|metrics| metrics.sum_by_name("files_opened"));
            files += metrics.map_or(0, |metric| metric.as_usize());
            todo.extend(plan.children().into_iter().cloned());
        }
        files
    };
    for partitions in 1..=4 {
        let some = frame(&store, partitions).filter((col("n") % lit(2_i64)).eq(lit(0_i64))).unwrap();
        let files = opened(newest(some, 5)).await;
        assert!((1..=partitions).contains(&files), "{files} files for {partitions} partitions");
        assert_eq!(opened(frame(&store, partitions)).await, 12);
    }
}

/// The row groups of one project lie next to each other in one file. Every partition reads some of them, and each is read
/// once.
#[tokio::test]
async fn row_groups_are_dealt_out_to_all_partitions() {
    let options = StoreOptions { row_group_rows: 10, run_rows: 20, ..manual() };
    let (_dir, store) = with_source(options);
    // One project with every second row, and 40 others: too many runs to read each of them in order.
    let events = (0..2_000).map(|i| {
        let project = if i % 2 == 0 { "b".to_owned() } else { format!("p{}", i / 2 % 40) };
        json!({"id": format!("{i:04}"), "timestamp": START + i * 1_000_000, "project": project, "n": i})
    });
    store.flushed("s", events.collect()).await;
    for partitions in 1..=4 {
        // Fewer rows than a batch has are not worth several partitions.
        let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(64);
        let context = SessionContext::new_with_config(config);
        for project in [None, Some("b")] {
            let all = context.read_table(store.table("s").unwrap()).unwrap();
            let some = match project {
                Some(project) => all.filter(col("project").eq(lit(project))).unwrap(),
                None => all,
            };
            let counted = some.aggregate(vec![col("n")], vec![count(lit(1_i64)).alias("rows")]).unwrap();
            let text =
                displayable(counted.clone().create_physical_plan().await.unwrap().as_ref()).indent(true).to_string();
            assert!(text.contains(&format!("file_groups={{{partitions} group")), "{text}");
            let mut found: Vec<i64> = Vec::new();
            for row in rows(counted).await {
                assert_eq!(row["rows"], 1);
                found.push(row["n"].as_i64().unwrap());
            }
            found.sort_unstable();
            let expected: Vec<i64> = (0..2_000).filter(|n| project.is_none() || n % 2 == 0).collect();
            assert_eq!(found, expected, "{partitions} partitions, {project:?}");
        }
        // In order, the streams take turns.
        let newest = newest(frame(&store, partitions).filter(col("project").eq(lit("b"))).unwrap(), 2_000);
        let expected: Vec<i64> = (0..2_000).rev().filter(|n| n % 2 == 0).collect();
        let text = displayable(newest.clone().create_physical_plan().await.unwrap().as_ref()).indent(true).to_string();
        assert!(!text.contains("SortExec") && text.contains(&format!("file_groups={{{partitions} group")), "{text}");
        assert_eq!(numbers(newest).await, expected, "{partitions} partitions");
    }
}
