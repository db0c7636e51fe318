//! Compaction: rows stay as they were, a query of one project reads its run, and whatever happens in between leaves
//! each row exactly once.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use datafusion::{
    physical_plan::displayable,
    prelude::{col, lit},
};
use serde_json::{Value, json};

use super::{all, frame, opened, rows, with_source};
use crate::{
    Retention, Store, StoreOptions, backup,
    data_folder::paths,
    maintenance::backup::backup_with,
    rebuild_catalog, repair, restore,
    segment::{footer, handle::Segment},
    verify,
};

const START: i64 = 1_700_000_000_000_000;

/// Small runs and row groups, so that a few hundred rows have many.
fn options() -> StoreOptions {
    StoreOptions { manual_flush: true, run_rows: 20, row_group_rows: 16, ..StoreOptions::default() }
}

fn open(dir: &Path) -> Arc<Store> {
    Store::open(dir, options()).unwrap()
}

/// An event of one of twelve projects: a third has the first, the last ones few. Later events have other fields.
fn event(i: i64) -> Value {
    let project = [0, 0, 0, 0, 1, 1, 2, 3][(i % 8) as usize] + (i / 8) % 3 * 4;
    let mut event = json!({
        "id": format!("{i:05}"), "timestamp": START + (i * 37 % 1_000) * 1_000_000, "project": format!("p{project}"),
        "event_message": format!("message {}", i % 11), "n": i,
    });
    if i % 3 > 0 {
        event["metadata"] = json!({"status": i % 5, "tags": ["a", i.to_string()]});
    }
    if i > 150 {
        event["metadata"] = json!([{"status": 1.5, "late": {"x": i}}, {"status": 2}]);
    }
    if i % 50 == 49 {
        event["n"] = json!("text");
        event.as_object_mut().unwrap().remove("project");
    }
    event
}

/// So many segments of 40 rows.
async fn filled(store: &Store, segments: i64) {
    store.create_source("s").unwrap();
    for segment in 0..segments {
        store.flushed("s", (segment * 40..segment * 40 + 40).map(event).collect()).await;
    }
}

fn segments(store: &Store) -> Arc<Vec<Arc<Segment>>> {
    store.sources.find("s").unwrap().segments()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in paths::list_folder(&paths::segments_folder(dir)).unwrap() {
        files.extend(paths::list_folder(&folder).unwrap());
    }
    files.sort();
    files
}

/// The newest rows of a project, with the plan.
async fn newest(store: &Store, project: &str, limit: usize) -> (Vec<Value>, String) {
    let newest = frame(store, "s").filter(col("project").eq(lit(project))).unwrap();
    let newest = newest.sort(vec![col("timestamp").sort(false, false)]).unwrap().limit(0, Some(limit)).unwrap();
    let plan = newest.clone().create_physical_plan().await.unwrap();
    (rows(newest).await, displayable(plan.as_ref()).indent(false).to_string())
}

#[tokio::test]
async fn merged_rows_are_the_same_rows() {
    let (dir, store) = opened(options());
    filled(&store, 12).await;
    store.ingest("s", vec![event(9_000)]).await.unwrap();
    let before = all(&store, "s").await;
    let pages: Vec<_> = {
        let mut pages = Vec::new();
        for project in 0..12 {
            pages.push(newest(&store, &format!("p{project}"), 7).await.0);
        }
        pages
    };
    let table = store.table("s").unwrap();
    assert_eq!(files(dir.path()).len(), 12);
    store.compact().await.unwrap();
    assert_eq!(segments(&store).len(), 1);
    assert!(segments(&store)[0].runs.len() > 5, "{:?}", segments(&store)[0].runs);
    assert_eq!(all(&store, "s").await, before);
    // A table that was made before reads what it was made of.
    assert_eq!(files(dir.path()).len(), 13);
    let old = super::context().read_table(Arc::clone(&table)).unwrap();
    assert_eq!(rows(old.sort(vec![col("id").sort(true, false)]).unwrap()).await, before);
    drop(table);
    assert_eq!(files(dir.path()).len(), 1);
    for (project, page) in pages.iter().enumerate() {
        let (found, plan) = newest(&store, &format!("p{project}"), 7).await;
        assert_eq!(&found, page);
        // One run in order, and the rows in memory: nothing is sorted.
        assert!(!plan.contains("SortExec"), "{plan}");
    }
    let stats = store.stats();
    assert_eq!((stats.merges, stats.merged_segments, stats.merged_rows, stats.failed_merges), (1, 12, 480, 0));
    // Nothing is left to do, and a start finds everything in order.
    store.compact().await.unwrap();
    assert_eq!(store.stats().merges, 1);
    drop(store);
    let report = verify(dir.path()).unwrap();
    assert_eq!((report.findings, report.segments, report.rows), (vec![], 1, 480));
    assert_eq!(all(&open(dir.path()), "s").await, before);
}

/// A segment grows in tiers, and is left alone when it is full.
#[tokio::test]
async fn full_segments_stay() {
    let options = StoreOptions { compaction_rows: 200, compaction_fan_in: 4, ..options() };
    let (_dir, store) = opened(options);
    filled(&store, 12).await;
    let before = all(&store, "s").await;
    store.compact().await.unwrap();
    let mut sizes: Vec<usize> = segments(&store).iter().map(|segment| segment.rows).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [80, 200, 200]);
    assert_eq!(all(&store, "s").await, before);
    // Of large events fewer fit.
    drop(store);
    let options = StoreOptions { compaction_bytes: 1, ..self::options() };
    let (_dir, store) = opened(options);
    filled(&store, 3).await;
    store.compact().await.unwrap();
    assert_eq!(segments(&store).len(), 3);
}

/// The background merges by itself, beside ingest and queries.
#[tokio::test(flavor = "multi_thread")]
async fn the_background_merges() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        manual_flush: false,
        flush_rows: 40,
        compaction_fan_in: 3,
        compaction_percent: 100,
        ..options()
    };
    let store = Store::open(dir.path(), options).unwrap();
    store.create_source("s").unwrap();
    let began = Instant::now();
    let mut sent = 0;
    while store.stats().merges < 2 || sent < 800 {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", store.stats());
        if sent < 4_000 {
            store.ingest("s", (sent..sent + 40).map(event).collect()).await.unwrap();
            sent += 40;
        }
        let count = frame(&store, "s").count().await.unwrap();
        assert_eq!(count as i64, sent, "a row is there twice or not at all");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    store.close().await.unwrap();
    drop(store);
    assert_eq!(verify(dir.path()).unwrap().findings, []);
    let store = open(dir.path());
    assert_eq!(frame(&store, "s").count().await.unwrap() as i64, sent);
}

/// A crash between the file and the transaction leaves a file whose rows are elsewhere; one after it leaves the old ones.
#[tokio::test]
async fn what_a_crash_leaves_is_settled() {
    let (dir, store) = opened(options());
    filled(&store, 3).await;
    let before = all(&store, "s").await;
    let copies = tempfile::tempdir().unwrap();
    let old: Vec<PathBuf> = files(dir.path());
    for file in &old {
        std::fs::copy(file, copies.path().join(file.file_name().unwrap())).unwrap();
    }
    let catalog = copies.path().join("catalog.sqlite");
    store.catalog().lock().execute("VACUUM INTO ?1", [catalog.to_str().unwrap()]).unwrap();
    store.compact().await.unwrap();
    drop(store);
    let merged = files(dir.path());
    assert_eq!(merged.len(), 1);
    // After the transaction: the old files are still there. Their tombstones say what they are.
    for file in &old {
        std::fs::copy(copies.path().join(file.file_name().unwrap()), file).unwrap();
    }
    let tombstones = rusqlite::Connection::open(dir.path().join("catalog.sqlite")).unwrap();
    for file in &old {
        let id = uuid::Uuid::parse_str(file.file_stem().unwrap().to_str().unwrap()).unwrap();
        let sql = "INSERT OR IGNORE INTO dropped (id, source) SELECT ?1, id FROM sources";
        tombstones.execute(sql, [id]).unwrap();
    }
    drop(tombstones);
    assert_eq!(all(&open(dir.path()), "s").await, before);
    assert_eq!(files(dir.path()), merged);
    // Before the transaction: the catalog is the old one.
    for file in &old {
        std::fs::copy(copies.path().join(file.file_name().unwrap()), file).unwrap();
    }
    std::fs::copy(&catalog, dir.path().join("catalog.sqlite")).unwrap();
    assert_eq!(verify(dir.path()).unwrap().findings, []);
    let store = open(dir.path());
    assert_eq!(all(&store, "s").await, before);
    assert_eq!(store.stats().set_aside_segments, 0);
    drop(store);
    assert_eq!(files(dir.path()), old);
}

/// A catalog that is made again names either the merged segment or those that it was merged of.
#[tokio::test]
async fn a_rebuilt_catalog_has_each_row_once() {
    let (dir, store) = opened(options());
    filled(&store, 3).await;
    let before = all(&store, "s").await;
    let copies = tempfile::tempdir().unwrap();
    let old = files(dir.path());
    for file in &old {
        std::fs::copy(file, copies.path().join(file.file_name().unwrap())).unwrap();
    }
    store.compact().await.unwrap();
    drop(store);
    let merged = files(dir.path()).remove(0);
    for damaged in [false, true] {
        for file in &old {
            std::fs::copy(copies.path().join(file.file_name().unwrap()), file).unwrap();
        }
        if damaged {
            let mut bytes = std::fs::read(&merged).unwrap();
            bytes[200] ^= 1;
            std::fs::write(&merged, bytes).unwrap();
        }
        std::fs::remove_file(dir.path().join("catalog.sqlite")).unwrap();
        let report = rebuild_catalog(dir.path()).unwrap();
        let expected = if damaged { (3, 1) } else { (1, 0) };
        assert_eq!((report.taken_back.len(), report.set_aside.len()), expected, "{report:?}");
        let store = open(dir.path());
        assert_eq!(all(&store, "s").await, before);
        drop(store);
        assert_eq!(files(dir.path()).len(), expected.0);
        assert_eq!(verify(dir.path()).unwrap().findings, []);
    }
}

/// A transaction that is refused changes nothing, and the file of the merged segment goes.
#[tokio::test]
async fn a_refused_transaction_keeps_the_old_segments() {
    let (dir, store) = opened(options());
    filled(&store, 3).await;
    let before = all(&store, "s").await;
    let trigger = "CREATE TRIGGER refuse BEFORE DELETE ON segments BEGIN SELECT RAISE(ABORT, 'no'); END";
    store.catalog().lock().execute_batch(trigger).unwrap();
    store.compact().await.unwrap_err();
    assert_eq!((segments(&store).len(), files(dir.path()).len(), store.stats().failed_merges), (3, 3, 1));
    store.catalog().lock().execute_batch("DROP TRIGGER refuse").unwrap();
    store.compact().await.unwrap();
    assert_eq!((segments(&store).len(), files(dir.path()).len()), (1, 1));
    assert_eq!(all(&store, "s").await, before);
}

/// What retention drops while its segments are merged does not come back.
#[tokio::test]
async fn what_retention_drops_meanwhile_stays_dropped() {
    let (dir, store) = opened(options());
    filled(&store, 3).await;
    // As if another thread had dropped one between the choice and the transaction.
    let victim = segments(&store).iter().min_by_key(|segment| segment.seqs).unwrap().id;
    store.catalog().lock().execute("DELETE FROM segments WHERE id = ?1", [victim]).unwrap();
    let source = store.sources.find("s").unwrap();
    let compact = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.compact().await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    source.drop_segments(&[victim].into());
    compact.await.unwrap().unwrap();
    store.compact().await.unwrap();
    assert_eq!(frame(&store, "s").count().await.unwrap(), 80);
    assert_eq!(segments(&store).len(), 1);
    drop(source);
    drop(store);
    assert_eq!(frame(&open(dir.path()), "s").count().await.unwrap(), 80);
}

/// A damaged segment is told and left where it is, and nothing is merged across it.
#[tokio::test]
async fn damage_is_not_merged() {
    let (dir, store) = opened(options());
    filled(&store, 5).await;
    let before = all(&store, "s").await;
    let mut sorted: Vec<Arc<Segment>> = segments(&store).to_vec();
    sorted.sort_by_key(|segment| segment.seqs);
    let (path, id) = (sorted[2].path().unwrap().to_owned(), sorted[2].id);
    drop(sorted);
    let good = std::fs::read(&path).unwrap();
    let mut bad = good.clone();
    bad[100] ^= 4;
    std::fs::write(&path, bad).unwrap();
    store.compact().await.unwrap_err();
    assert!(store.stats().damaged_segments == 1, "{:?}", store.stats());
    drop(store);
    assert_eq!(repair(dir.path()).unwrap().set_aside.len(), 1);
    // The segments on both sides are merged among themselves, so that the middle can come back.
    let store = open(dir.path());
    store.compact().await.unwrap();
    assert_eq!(segments(&store).len(), 2);
    drop(store);
    std::fs::write(dir.path().join("quarantine").join(format!("{id}.parquet")), good).unwrap();
    assert_eq!(repair(dir.path()).unwrap().taken_back.len(), 1);
    let store = open(dir.path());
    assert_eq!(all(&store, "s").await, before);
    store.compact().await.unwrap();
    assert_eq!((segments(&store).len(), all(&store, "s").await), (1, before));
}

/// A backup that lists a segment which is merged before it is copied begins again.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_beside_compaction_has_all_rows() {
    let (dir, store) = opened(options());
    filled(&store, 6).await;
    let before = all(&store, "s").await;
    let places = tempfile::tempdir().unwrap();
    let target = places.path().join("b");
    let report = backup_with(dir.path(), &target, || {
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async { store.compact().await.unwrap() });
        });
    })
    .unwrap();
    assert_eq!((report.segments, report.rows, report.dropped), (1, 240, 0));
    let data = places.path().join("data");
    assert_eq!(restore(&target, &data).unwrap().segments, 1);
    assert_eq!(files(&data).len(), 1);
    assert_eq!(all(&open(&data), "s").await, before);
    assert_eq!(backup(dir.path(), &places.path().join("c")).unwrap().segments, 1);
}

/// A folder of a version without runs is merged too.
#[tokio::test]
async fn segments_of_older_versions_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    // All rows of a segment in one run are what older versions wrote.
    let store = Store::open(dir.path(), StoreOptions { run_rows: 1_000, ..options() }).unwrap();
    filled(&store, 4).await;
    let before = all(&store, "s").await;
    drop(store);
    let conn = rusqlite::Connection::open(dir.path().join("catalog.sqlite")).unwrap();
    conn.execute_batch(
        "ALTER TABLE segments DROP COLUMN runs; ALTER TABLE dropped DROP COLUMN replaced_by; ALTER TABLE dropped DROP COLUMN dropped_at;
         ALTER TABLE segments DROP COLUMN tenant_path; ALTER TABLE sources DROP COLUMN tenant;
         DROP TABLE alerts; DROP TABLE alert_runs; DROP TABLE alert_messages; DROP TABLE token_uses;
         DROP TABLE denied;",
    )
    .unwrap();
    conn.pragma_update(None, "user_version", 5).unwrap();
    drop(conn);
    let store = open(dir.path());
    assert!(segments(&store).iter().all(|segment| !segment.has_runs && segment.runs.len() == 1));
    assert_eq!(all(&store, "s").await, before);
    store.compact().await.unwrap();
    let merged = segments(&store);
    assert!(merged.len() == 1 && merged[0].runs.len() > 3, "{merged:?}");
    assert_eq!(all(&store, "s").await, before);
    let entry = footer::read(merged[0].path().unwrap(), merged[0].id, merged[0].checksum).unwrap().entry.unwrap();
    assert_eq!(entry.runs.as_ref(), Some(&merged[0].runs));
    // Each was written again with runs, and these were merged.
    assert_eq!((entry.replaces.len(), store.stats().merges), (4, 5));
}

/// Retention by bytes and by age stays about so exact as it was.
#[tokio::test]
async fn retention_bounds_what_is_merged() {
    let (_dir, store) = with_source(options());
    let id = store.source("s").unwrap().id;
    for segment in 0..4 {
        store.flushed("s", (segment * 40..segment * 40 + 40).map(event).collect()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let bytes: u64 = segments(&store).iter().map(|segment| segment.bytes).sum();
    store.set_retention(id, Retention { max_age: None, max_bytes: Some(bytes * 2) }).unwrap();
    store.compact().await.unwrap();
    assert_eq!(segments(&store).len(), 4, "an eighth of the bytes is less than two of them");
    store.set_retention(id, Retention { max_age: Some(Duration::from_secs(1)), max_bytes: None }).unwrap();
    store.compact().await.unwrap();
    assert_eq!(segments(&store).len(), 4, "more than a thirty-second part of it lies between two of them");
    store.set_retention(id, Retention { max_age: Some(Duration::from_hours(1_000)), max_bytes: None }).unwrap();
    let youngest = segments(&store).iter().map(|segment| segment.created_at).max().unwrap();
    store.compact().await.unwrap();
    assert_eq!(segments(&store).len(), 1);
    assert_eq!(segments(&store)[0].created_at, youngest);
}

/// What is remembered of segments that were replaced does not grow with the age of the folder.
#[tokio::test]
async fn tombstones_of_replaced_segments_are_forgotten() {
    let (dir, store) = opened(options());
    filled(&store, 12).await;
    store.compact().await.unwrap();
    let left = |store: &Store| {
        let conn = store.catalog().lock();
        conn.query_row("SELECT count(*) FROM dropped", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    store.apply_retention().await.unwrap();
    assert_eq!(left(&store), 12, "a backup that runs may ask for them");
    let hours = 2 * 3_600_000_000_i64;
    store.catalog().lock().execute("UPDATE segments SET created_at = created_at - ?1", [hours]).unwrap();
    store.apply_retention().await.unwrap();
    assert_eq!(left(&store), 0);
    drop(store);
    assert_eq!(verify(dir.path()).unwrap().findings, []);
}
