//! Folders are durable too: a name that is made is in a folder that must be synced.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use serde_json::json;

use super::{again, all, manual, open, with_source};
use crate::{Catalog, Retention, Store};

/// Folders whose next sync is to fail.
static FAILING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Folders that were synced.
static SYNCED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Called with the outcome of each sync of a folder.
pub(crate) fn synced(folder: &Path, outcome: io::Result<()>) -> io::Result<()> {
    outcome?;
    let folder = folder.canonicalize()?;
    let mut failing = FAILING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = failing.iter().position(|path| *path == folder) {
        failing.swap_remove(place);
        return Err(io::Error::other("a test lets the sync fail"));
    }
    SYNCED.lock().unwrap_or_else(PoisonError::into_inner).push(folder);
    Ok(())
}

pub(crate) fn fail_next(folder: &Path) {
    FAILING.lock().unwrap().push(folder.canonicalize().unwrap());
}

pub(crate) fn syncs(folder: &Path) -> usize {
    let folder = folder.canonicalize().unwrap();
    SYNCED.lock().unwrap().iter().filter(|path| **path == folder).count()
}

#[tokio::test]
async fn a_failed_sync_of_a_folder_is_not_passed_over_at_the_next_attempt() {
    let (dir, store) = with_source(manual());
    store.ingest("s", vec![json!({"id": "1"})]).await.unwrap();
    let segments = dir.path().join("segments");
    fail_next(&segments);
    assert!(store.flush().await.is_err());
    assert_eq!((store.stats().segments, syncs(&segments)), (0, 0));
    store.flush().await.unwrap();
    assert_eq!((store.stats().segments, syncs(&segments)), (1, 1));
    assert_eq!(all(&store, "s").await.len(), 1);
}

#[tokio::test]
async fn a_folder_that_an_earlier_process_made_is_synced_too() {
    let dir = tempfile::tempdir().unwrap();
    let segments = dir.path().join("segments");
    let source = {
        let store = open(&dir);
        store.create_source("s").unwrap().id
    };
    // As a crash between making the folder and syncing the one above it leaves it.
    std::fs::create_dir(segments.join(source.to_string())).unwrap();
    let before = syncs(dir.path());
    let store = open(&dir);
    assert!(syncs(dir.path()) > before);
    store.flushed("s", vec![json!({"id": "1"})]).await;
    assert_eq!(syncs(&segments), 1);
}

#[test]
fn what_is_above_a_new_data_folder_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    let (made, data) = (dir.path().join("a/b"), dir.path().join("a/b/data"));
    drop(Store::open(&data, manual()).unwrap());
    assert_eq!((syncs(dir.path()), syncs(&dir.path().join("a")), syncs(&made)), (1, 1, 1));
    fail_next(&made);
    assert!(Store::open(&data, manual()).is_err());
    drop(Store::open(&data, manual()).unwrap());
    assert_eq!(syncs(&made), 2);
}

/// The name of a deleted file may come back after a power cut until its folder is synced.
#[tokio::test]
async fn a_tombstone_stays_until_the_deletion_is_durable() {
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    for name in ["1", "2"] {
        store.flushed("s", vec![json!({"id": name})]).await;
    }
    let folder = dir.path().join("segments").join(id.to_string());
    let files = || -> Vec<PathBuf> { std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect() };
    let tombstones =
        || -> i64 { store.catalog().lock().query_row("SELECT count(*) FROM dropped", [], |row| row.get(0)).unwrap() };
    let copies: Vec<(PathBuf, Vec<u8>)> =
        files().into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    store.set_retention(id, Retention { max_age: None, max_bytes: Some(1) }).unwrap();
    fail_next(&folder);
    assert!(store.apply_retention().await.is_err());
    assert_eq!((files().len(), tombstones()), (0, 2), "deleted, but not for certain");
    drop(store);
    copies.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    let store = open(&dir);
    assert_eq!((files().len(), store.stats().set_aside_segments), (0, 0), "what came back is deleted again");
    let left: i64 = store.catalog().lock().query_row("SELECT count(*) FROM dropped", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

/// The rows of a segment whose folder could not be synced are in another one afterwards.
#[tokio::test]
async fn a_segment_whose_name_is_not_certain_does_not_stay() {
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    let folder = dir.path().join("segments").join(id.to_string());
    std::fs::create_dir(&folder).unwrap();
    store.ingest("s", vec![json!({"id": "1"})]).await.unwrap();
    fail_next(&folder);
    assert!(store.flush().await.is_err());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    store.flush().await.unwrap();
    let store = again(store, dir.path(), manual());
    assert_eq!((store.stats().set_aside_segments, all(&store, "s").await.len()), (0, 1));
}

/// SQLite passes over a failed sync of the folder in which it makes a file.
#[test]
fn a_name_of_the_catalog_whose_sync_failed_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let (database, log) = (dir.path().join("catalog.sqlite"), dir.path().join("catalog.sqlite-wal"));
    fail_next(dir.path());
    assert!(Catalog::open(dir.path(), true).is_err());
    assert!(!database.exists());
    drop(Catalog::open(dir.path(), true).unwrap());
    assert!(database.exists() && !log.exists(), "SQLite deletes it when it is closed");
    fail_next(dir.path());
    assert!(Catalog::open(dir.path(), false).is_err());
    assert!(!log.exists());
    let before = syncs(dir.path());
    let catalog = Catalog::open(dir.path(), false).unwrap();
    assert!(log.exists() && syncs(dir.path()) > before);
    drop(catalog);
}
