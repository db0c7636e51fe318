//! Segments that are read without a catalog: the same rows as with one, and an error for every file that is not the one
//! that was named.

use std::{path::PathBuf, sync::Arc};

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    physical_plan::{ExecutionPlan, collect},
    prelude::{DataFrame, SessionContext, col, lit},
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    damage::{events, files, fill, flip},
    frame, json_rows, manual, path, with_source,
};
use crate::{ScanDescription, SegmentError, SegmentFiles, SegmentName, Store, StoreOptions};

/// Small runs and row groups, so that a few hundred rows have many.
pub(super) fn small() -> StoreOptions {
    StoreOptions { run_rows: 20, row_group_rows: 16, trigram_rows: 1, ..manual() }
}

/// The plan of a frame, over segments that are held without a catalog, and how many scans it has of them.
pub(super) async fn elsewhere(
    frame: DataFrame,
    files: &SegmentFiles,
) -> (Arc<dyn ExecutionPlan>, SessionContext, usize) {
    let context = super::context();
    let options = context.copied_config().options().as_ref().clone();
    let plan = frame.create_physical_plan().await.unwrap();
    let mut descriptions = Vec::new();
    plan.apply(|node| {
        descriptions.extend(ScanDescription::of(node.as_ref(), &options).map(Result::unwrap));
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    })
    .unwrap();
    let scans = descriptions.len();
    let names: Vec<SegmentName> = descriptions.iter().flat_map(|scan| scan.segments.clone()).collect();
    let held = files.hold(names).await.unwrap();
    let mut descriptions = descriptions.into_iter();
    let changed = plan.transform_down(|node| {
        Ok(match ScanDescription::of(node.as_ref(), &options) {
            Some(_) => Transformed::yes(descriptions.next().unwrap().scan(&held, &context.task_ctx()).unwrap()),
            None => Transformed::no(node),
        })
    });
    (changed.unwrap().data, context, scans)
}

fn questions(store: &Store) -> Vec<DataFrame> {
    let by_id = || vec![col("id").sort(true, false)];
    vec![
        frame(store, "s").sort(by_id()).unwrap(),
        frame(store, "s").filter(col("project").eq(lit("p1"))).unwrap().sort(by_id()).unwrap(),
        frame(store, "s").filter(path("metadata", &["n"]).gt(lit(450_i64))).unwrap().sort(by_id()).unwrap(),
        frame(store, "s").filter(col("event_message").like(lit("%line 77%"))).unwrap().sort(by_id()).unwrap(),
        frame(store, "s").filter(col("id").eq(lit("00700"))).unwrap(),
        frame(store, "s").sort(vec![col("timestamp").sort(false, false)]).unwrap().limit(0, Some(7)).unwrap(),
    ]
}

pub(super) async fn compare(store: &Store, files: &SegmentFiles) {
    for frame in questions(store) {
        let expected = super::rows(frame.clone()).await;
        let (plan, context, scans) = elsewhere(frame, files).await;
        let batches = collect(plan, context.task_ctx()).await.unwrap();
        let found: Vec<Value> = batches.iter().flat_map(json_rows).collect();
        assert_eq!(found, expected);
        assert!(scans > 0 && !found.is_empty());
    }
}

#[tokio::test]
async fn rows_are_those_that_the_store_reads() {
    let (dir, store) = with_source(small());
    fill(&store, 4).await;
    let files = SegmentFiles::folder(dir.path()).unwrap();
    compare(&store, &files).await;
    for more in 4..9 {
        store.flushed("s", events(more * 300, 300)).await;
    }
    store.compact().await.unwrap();
    assert!(store.stats().segments < 9);
    compare(&store, &files).await;
    // Once more, with what is known.
    compare(&store, &files).await;
}

/// The first scan of segments in the plan of a frame.
async fn described(frame: DataFrame) -> ScanDescription {
    let options = super::context().copied_config().options().as_ref().clone();
    let plan = frame.create_physical_plan().await.unwrap();
    let mut scan = None;
    let _ = plan.apply(|node| {
        scan = scan.take().or(ScanDescription::of(node.as_ref(), &options));
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    });
    scan.unwrap().unwrap()
}

/// The ids that a question demands travel with its scan: what has none of them is not read elsewhere either.
#[tokio::test]
async fn ids_are_looked_up_elsewhere_too() {
    let (dir, store) = with_source(small());
    fill(&store, 2).await;
    let context = super::context();
    assert_eq!(described(frame(&store, "s")).await.ids, None);
    let scan = described(frame(&store, "s").filter(col("id").eq(lit("00400"))).unwrap()).await;
    assert_eq!(scan.ids.as_deref(), Some(&["00400".to_owned()][..]));

    let held = SegmentFiles::folder(dir.path()).unwrap().hold(scan.segments.clone()).await.unwrap();
    let rows = async |ids: Option<Vec<&str>>| {
        let ids = ids.map(|ids| ids.into_iter().map(str::to_owned).collect());
        let scan = ScanDescription { ids, predicate: None, ..scan.clone() };
        let plan = scan.scan(&held, &context.task_ctx()).map_err(|error| error.to_string())?;
        let batches = collect(plan, context.task_ctx()).await.map_err(|error| error.to_string())?;
        Ok::<_, String>(batches.iter().map(|batch| batch.num_rows()).sum::<usize>())
    };
    // Without the condition, what is left is what the ids leave: a few row groups of 16 rows, or nothing.
    let (all, some) = (rows(None).await.unwrap(), rows(Some(vec!["00400"])).await.unwrap());
    assert!(all == 600 && (1..200).contains(&some), "{all} and {some} rows");
    assert_eq!(rows(Some(vec!["no id"])).await, Ok(0));
    assert_eq!(rows(Some(Vec::new())).await, Ok(0));
    let said = rows(Some(vec!["x"; 65])).await.unwrap_err();
    assert!(said.contains("too many"), "{said}");
}

pub(super) fn names(store: &Store) -> Vec<SegmentName> {
    store.find("s").unwrap().segments().iter().map(|segment| SegmentName::of(segment)).collect()
}

fn file_of(dir: &tempfile::TempDir, name: &SegmentName) -> PathBuf {
    let folder = dir.path().join("segments").join(name.source.to_string());
    folder.join(format!("{}.parquet", name.id))
}

#[tokio::test]
async fn a_file_that_is_not_the_one_that_was_named_is_an_error() {
    let (dir, store) = with_source(small());
    fill(&store, 2).await;
    let (one, other) = (names(&store)[0].clone(), names(&store)[1].clone());
    let files = SegmentFiles::folder(dir.path()).unwrap();
    let refused = async |files: &SegmentFiles, name: &SegmentName| match files.hold([name.clone()]).await {
        Err(error @ SegmentError::Damaged { .. }) => {
            assert_eq!(error.failure().code, tidegate_model::Code::DataDamaged);
            error.to_string()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(files.hold([one.clone(), other.clone(), one.clone()]).await.unwrap().len(), 2);
    for (wrong, why) in [
        (SegmentName { bytes: one.bytes + 1, ..one.clone() }, "bytes, and"),
        (SegmentName { checksum: one.checksum.map(|root| root ^ 1), ..one.clone() }, "its checksums are not those"),
        (SegmentName { id: Uuid::new_v4(), ..one.clone() }, "its file is missing"),
        (SegmentName { source: Uuid::new_v4(), ..one.clone() }, "its file is missing"),
    ] {
        let said = refused(&files, &wrong).await;
        assert!(said.contains(why) && !said.contains('/'), "{said}");
    }

    // Another segment's file, also for who has read the right one before.
    let (good, path) = (std::fs::read(file_of(&dir, &one)).unwrap(), file_of(&dir, &one));
    std::fs::copy(file_of(&dir, &other), &path).unwrap();
    let again = SegmentFiles::folder(dir.path()).unwrap();
    refused(&again, &SegmentName { bytes: other.bytes, ..one.clone() }).await;
    std::fs::write(&path, &good[..good.len() - 1]).unwrap();
    refused(&files, &one).await;
    std::fs::remove_file(&path).unwrap();
    refused(&files, &one).await;
    std::fs::write(&path, &good).unwrap();
    assert_eq!(files.hold([one.clone()]).await.unwrap().len(), 1);
    // The table of checksums.
    let footer = u32::from_le_bytes(good[good.len() - 8..good.len() - 4].try_into().unwrap()) as usize;
    flip(&path, (good.len() - 8 - footer - 20) * 8);
    assert!(SegmentFiles::folder(dir.path()).unwrap().hold([one.clone()]).await.is_err());
    assert!(SegmentFiles::folder(&dir.path().join("none")).is_err());
}

#[tokio::test]
async fn a_damaged_byte_and_other_rows_are_found_when_they_are_read() {
    let (dir, store) = with_source(small());
    fill(&store, 2).await;
    let said = async |frame: DataFrame, rows: u64| {
        let (mut scan, context) = (described(frame).await, super::context());
        scan.segments.iter_mut().for_each(|name| name.rows += rows);
        let held = SegmentFiles::folder(dir.path()).unwrap().hold(scan.segments.clone()).await.unwrap();
        let plan = scan.scan(&held, &context.task_ctx()).unwrap();
        collect(plan, context.task_ctx()).await.map_or_else(|error| error.to_string(), |rows| rows.len().to_string())
    };
    assert!(said(frame(&store, "s"), 1).await.contains("its contents are not those of a segment"));
    flip(&files(dir.path())[0], 8 * 5000);
    let damaged = said(frame(&store, "s"), 0).await;
    assert!(damaged.contains("are not what was written"), "{damaged}");
}
