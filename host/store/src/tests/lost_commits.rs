//! Catalogs that lost their latest commits, and files of other catalogs: a start deletes no file that may be the only one
//! with its rows, and `repair` brings them all back, each once.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::json;

use super::{
    again, all,
    damage::{events, files, files_below, fill, flip},
    frame, manual, open,
    recover::{Folders, put_catalog},
    with_source,
};
use crate::{Store, data_folder::paths, repair, verify};

/// The files of the catalog of a folder that no store has open.
fn catalog(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let names = ["catalog.sqlite", "catalog.sqlite-wal"].map(|name| dir.join(name));
    names.into_iter().filter(|path| path.exists()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn put_back(dir: &Path, catalog: &[(PathBuf, Vec<u8>)]) {
    for name in ["catalog.sqlite-wal", "catalog.sqlite-shm"] {
        let _ = fs::remove_file(dir.join(name));
    }
    catalog.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
}

/// Segments of 300 rows that were merged, with a catalog from before the merge. `kept` of the files that were merged are
/// still there.
async fn with_lost_merge(segments: i64, kept: usize) -> (tempfile::TempDir, Vec<serde_json::Value>) {
    let (dir, store) = with_source(manual());
    fill(&store, segments).await;
    let before = all(&store, "s").await;
    drop(store);
    let old = catalog(dir.path());
    let inputs: Vec<(PathBuf, Vec<u8>)> =
        files(dir.path()).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    let store = open(&dir);
    store.compact().await.unwrap();
    drop(store);
    assert_eq!(files(dir.path()).len(), 1);
    put_back(dir.path(), &old);
    inputs.iter().take(kept).for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    (dir, before)
}

#[tokio::test]
async fn a_merged_segment_is_not_deleted_where_those_that_it_was_merged_of_are_gone() {
    for kept in [0, 2] {
        let (dir, before) = with_lost_merge(3, kept).await;
        let problems = verify(dir.path()).unwrap().findings;
        assert!(
            problems.iter().any(|finding| finding.problem.contains("it was merged of are missing")),
            "{problems:?}"
        );
        let store = open(&dir);
        assert_eq!((store.stats().damaged_segments, store.stats().set_aside_segments), (3 - kept as u64, 1));
        // Not from what the catalog says of files that are not there.
        frame(&store, "s").count().await.unwrap_err();
        drop(store);
        let report = repair(dir.path()).unwrap();
        let told = (report.taken_back.len(), report.set_aside.len(), report.left.len());
        assert_eq!(told, (1, 0, 0), "{kept}: {report:?}");
        for _ in 0..2 {
            let store = open(&dir);
            assert_eq!(all(&store, "s").await, before, "{kept}");
            drop(store);
            assert_eq!(files(dir.path()).len(), 1, "{kept}");
        }
        let report = verify(dir.path()).unwrap();
        assert_eq!((report.findings, report.set_aside), (vec![], vec![]));
    }
}

#[tokio::test]
async fn a_merged_segment_is_deleted_where_those_that_it_was_merged_of_are_there() {
    let (dir, before) = with_lost_merge(3, 3).await;
    let store = open(&dir);
    assert_eq!((files(dir.path()).len(), store.stats().set_aside_segments), (3, 0));
    assert_eq!(all(&store, "s").await, before);
}

/// What retention dropped does not come back with a merged segment that has its rows.
#[tokio::test]
async fn a_merge_with_dropped_rows_stays_aside() {
    let (dir, _) = with_lost_merge(3, 2).await;
    let store = open(&dir);
    let gone = store.get(store.source("s").unwrap().id).unwrap().segments();
    let gone = gone.iter().find(|segment| segment.damage().is_some()).unwrap().id;
    store.catalog().lock().execute("DELETE FROM segments WHERE id = ?1", [gone]).unwrap();
    drop(store);
    let report = repair(dir.path()).unwrap();
    assert_eq!((report.taken_back.len(), report.left.len()), (0, 1), "{report:?}");
    assert!(report.left[0].reason.contains("twice"), "{report:?}");
    assert_eq!(all(&open(&dir), "s").await.len(), 600);
}

/// Nothing is merged across a segment that is lost: a copy of it may be found.
#[tokio::test]
async fn the_place_of_a_lost_segment_stays_free() {
    let (dir, store) = with_source(manual());
    fill(&store, 5).await;
    let before = all(&store, "s").await;
    let id = store.source("s").unwrap().id;
    let mut segments = store.get(id).unwrap().segments().to_vec();
    segments.sort_by_key(|segment| segment.seqs);
    let (path, segment) = (segments[2].path().unwrap().to_owned(), segments[2].id);
    drop(segments);
    drop(store);
    let good = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(repair(dir.path()).unwrap().set_aside.len(), 1);
    let store = open(&dir);
    store.compact().await.unwrap();
    assert_eq!(files(dir.path()).len(), 2);
    drop(store);
    fs::write(dir.path().join("quarantine").join(paths::segment_file(segment)), good).unwrap();
    let report = repair(dir.path()).unwrap();
    assert_eq!((report.taken_back.len(), report.left.len()), (1, 0), "{report:?}");
    let store = open(&dir);
    assert_eq!(all(&store, "s").await, before);
    store.compact().await.unwrap();
    assert_eq!((files(dir.path()).len(), all(&store, "s").await), (1, before));
}

/// The numbers of calls of two catalogs are times: those of one lie between those of the other.
#[tokio::test]
async fn a_segment_of_another_catalog_deletes_no_calls_of_this_one() {
    let (here, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let there = open(&other);
    there.create_source("s").unwrap();
    fill(&there, 1).await;
    drop(there);
    let store = open(&here);
    store.create_source("s").unwrap();
    store.ingest("s", events(9_000, 7)).await.unwrap();
    let own = all(&store, "s").await;
    drop(store);
    let there = open(&other);
    there.flushed("s", events(300, 300)).await;
    there.compact().await.unwrap();
    let theirs = all(&there, "s").await;
    drop(there);
    let [merged] = files(other.path()).try_into().unwrap();
    let aside = here.path().join("quarantine");
    fs::create_dir_all(&aside).unwrap();
    fs::copy(&merged, aside.join(merged.file_name().unwrap())).unwrap();
    let report = repair(here.path()).unwrap();
    assert_eq!((report.taken_back.len(), report.left.len()), (1, 0), "{report:?}");
    let mut both = theirs.clone();
    both.extend(own);
    // Each row once, before and after own rows are in segments that are merged.
    for round in 0..3 {
        let store = open(&here);
        assert_eq!(all(&store, "s").await, both, "round {round}");
        store.flush().await.unwrap();
        store.compact().await.unwrap();
        assert_eq!(all(&store, "s").await, both, "round {round}");
    }
}

#[tokio::test]
async fn a_deleted_source_does_not_come_back_from_the_quarantine() {
    for by_hand in [false, true] {
        let (dir, store) = with_source(manual());
        let id = store.source("s").unwrap().id;
        store.create_source("t").unwrap();
        fill(&store, 2).await;
        store.catalog().lock().execute("DELETE FROM segments WHERE min_time = 0", []).unwrap();
        let store = again(store, dir.path(), manual());
        assert_eq!(store.stats().set_aside_segments, 1);
        let aside = dir.path().join("quarantine");
        if by_hand {
            let is_note = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
            let notes: Vec<PathBuf> = paths::list_folder(&aside).unwrap().into_iter().filter(is_note).collect();
            notes.iter().for_each(|note| fs::remove_file(note).unwrap());
        }
        store.delete_source(id).unwrap();
        drop(store);
        let report = repair(dir.path()).unwrap();
        assert_eq!((report.taken_back.len(), report.left.len()), (0, 0), "{report:?}");
        assert_eq!(paths::list_folder(&aside).unwrap(), Vec::<PathBuf>::new());
        let store = open(&dir);
        assert_eq!(store.sources().into_iter().map(|source| source.name).collect::<Vec<_>>(), ["t"]);
    }
}

/// A flush whose registration failed, and the flush that repeated it with more rows, are both in the object store.
#[tokio::test]
async fn a_flush_that_was_repeated_is_recovered_whole() {
    for _ in 0..4 {
        let folders = Folders::new();
        let store = folders.open("data").unwrap();
        store.create_source("s").unwrap();
        put_catalog(&store).unwrap();
        store.ingest("s", events(0, 5)).await.unwrap();
        let trigger = "CREATE TRIGGER refuse BEFORE INSERT ON segments BEGIN SELECT RAISE(ABORT, 'no'); END";
        store.catalog().lock().execute_batch(trigger).unwrap();
        store.flush().await.unwrap_err();
        store.catalog().lock().execute_batch("DROP TRIGGER refuse").unwrap();
        store.flushed("s", events(5, 2)).await;
        let before = all(&store, "s").await;
        let last = crate::FollowedTable::of(store.table("s").unwrap().as_ref()).unwrap().position;
        drop(store);
        fs::remove_dir_all(folders.folder("data")).unwrap();
        let report = folders.recover("data");
        assert!(report.left.is_empty() && !report.later.is_empty(), "{report:?}");
        let store = folders.open("data").unwrap();
        assert_eq!(all(&store, "s").await, before);
        // A follower of calls that are lost is told of it.
        assert!(!store.is_foreign_call(last).unwrap());
        assert!(store.is_foreign_call(last + 1).unwrap() && store.is_foreign_call(last + 1_000).unwrap());
    }
}

/// Merges that came after the copy of the catalog, one of them of another. What they were merged of is there too, in a source
/// that the copy knows or not, whole or in part damaged.
#[tokio::test]
async fn merges_after_the_copy_are_recovered_without_a_rest() {
    for (is_known, damaged) in [(true, false), (false, false), (false, true)] {
        let folders = Folders::new();
        let store = folders.open("data").unwrap();
        let part = async |store: &Arc<Store>, from: i64| {
            store.flushed("s", events(from, 300)).await;
        };
        if is_known {
            store.create_source("s").unwrap();
            part(&store, 0).await;
        }
        put_catalog(&store).unwrap();
        if !is_known {
            store.create_source("s").unwrap();
            part(&store, 0).await;
        }
        part(&store, 300).await;
        store.compact().await.unwrap();
        part(&store, 600).await;
        let last =
            files(&folders.folder("data")).into_iter().max_by_key(|path| path.metadata().unwrap().modified().unwrap());
        store.compact().await.unwrap();
        let before = all(&store, "s").await;
        drop(store);
        fs::remove_dir_all(folders.folder("data")).unwrap();
        if damaged {
            let name = last.unwrap().file_name().unwrap().to_owned();
            let object =
                files_below(&folders.folder("copies")).into_iter().find(|path| path.file_name() == Some(&name));
            flip(&object.unwrap(), 8 * 2_000);
        }
        let report = folders.recover("data");
        assert_eq!(report.left.len(), usize::from(damaged), "{is_known} {damaged}: {report:?}");
        let store = folders.open("data").unwrap();
        assert_eq!(all(&store, "s").await, before, "{is_known} {damaged}");
        assert_eq!(store.stats().damaged_segments, 0);
    }
}

/// The ages of columns are recorded while half of the bound is used. Segments that were made meanwhile keep their columns.
#[tokio::test]
async fn columns_of_segments_that_were_not_recorded_stay() {
    let options = crate::StoreOptions { max_fields: 20, ..manual() };
    let (_dir, store) = with_source(options.clone());
    let id = store.source("s").unwrap().id;
    let flushed = async |store: &Arc<Store>, time: i64, event: serde_json::Value| {
        let mut event = event;
        event["timestamp"] = json!(time);
        store.flushed("s", vec![event]).await;
    };
    let junk: serde_json::Map<_, _> = (0..30).map(|key| (format!("j{key}"), json!(key))).collect();
    let keep_newest = async |store: &Arc<Store>| {
        let segments = store.get(id).unwrap().segments();
        let newest = segments.iter().max_by_key(|segment| segment.max_time).unwrap().bytes;
        drop(segments);
        store.set_retention(id, crate::Retention { max_age: None, max_bytes: Some(newest) }).unwrap();
        assert_eq!(store.apply_retention().await.unwrap().segments, 1);
    };
    flushed(&store, 1, json!({"metadata": junk})).await;
    flushed(&store, 2, json!({"old": "x", "svc": "a"})).await;
    keep_newest(&store).await;
    assert!(store.describe(id).unwrap().fields < 10);
    flushed(&store, 3, json!({"svc": "b", "code": 5, "project": "p"})).await;
    keep_newest(&store).await;
    for again in [false, true] {
        let rows = all(&store, "s").await;
        let shown = ["svc", "code", "project"].map(|name| rows[0][name].clone());
        assert_eq!((rows.len(), shown), (1, [json!("b"), json!("5"), json!("p")]), "again: {again}");
        // More junk, so that ages are recorded again, and it is dropped again.
        if !again {
            let junk: serde_json::Map<_, _> = (0..30).map(|key| (format!("k{key}"), json!(key))).collect();
            flushed(&store, 0, json!({"metadata": junk})).await;
            assert_eq!(store.apply_retention().await.unwrap().segments, 1);
        }
    }
}

/// A data folder as it is on disk now, after `change`.
fn crashed(dir: &Path, change: impl FnOnce(&Path)) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["catalog.sqlite", "catalog.sqlite-wal", paths::ACKNOWLEDGED] {
        fs::copy(dir.join(name), copy.path().join(name)).unwrap();
    }
    change(copy.path());
    copy
}

#[tokio::test]
async fn a_write_ahead_file_that_is_cut_or_gone_is_told_truly() {
    let (dir, store) = with_source(manual());
    let log = |dir: &Path| dir.join("catalog.sqlite-wal");
    // What a checkpoint has moved is in the catalog.
    let add = async |id: i64| drop(store.ingest("s", events(id, 1)).await.unwrap());
    add(0).await;
    store.catalog().lock().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    for id in 1..4 {
        add(id).await;
    }
    let (before, noted) = (fs::read(log(dir.path())).unwrap(), fs::read(dir.path().join(paths::ACKNOWLEDGED)).unwrap());
    add(4).await;
    let after = fs::read(log(dir.path())).unwrap();
    let begins = before.iter().zip(&after).take_while(|(before, after)| before == after).count();
    let found = async |dir: &Path| {
        let store = open_in(dir);
        (store.stats().log_is_cut, store.stats().lost_transactions, all(&store, "s").await.len())
    };
    assert_eq!(found(crashed(dir.path(), |_| ()).path()).await, (false, 0, 5));
    let cut = crashed(dir.path(), |copy| {
        fs::File::options().write(true).open(log(copy)).unwrap().set_len(begins as u64 + 30).unwrap();
    });
    assert_eq!(found(cut.path()).await, (true, 0, 4));
    assert_eq!(found(cut.path()).await, (false, 0, 4), "the next start");
    let gone = crashed(dir.path(), |copy| fs::remove_file(log(copy)).unwrap());
    assert_eq!(found(gone.path()).await, (true, 0, 1));
    // A transaction that is damaged: one that was acknowledged, and one that a power cut interrupted.
    let damaged = |copy: &Path| flip(&log(copy), begins * 8 + 8 * 100);
    assert_eq!(found(crashed(dir.path(), damaged).path()).await, (false, 1, 4));
    let interrupted = crashed(dir.path(), |copy| {
        damaged(copy);
        fs::write(copy.join(paths::ACKNOWLEDGED), &noted).unwrap();
    });
    assert_eq!(found(interrupted.path()).await, (false, 0, 4));
}

fn open_in(dir: &Path) -> Arc<Store> {
    Store::open(dir, manual()).unwrap()
}
