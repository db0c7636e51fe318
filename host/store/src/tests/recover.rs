//! The disk of a server is lost: a folder that is made of the copies has what was in segments, each row once, and the lost
//! server changes nothing any more should it come back.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::json;

use super::{
    all,
    damage::{events, files, files_below, flip},
    segment_files::small,
};
use crate::{
    RecoveryReport, Retention, Store, StoreError, StoreOptions, backup, backup_catalog, recover, repair_from_copies,
    restore, restore_from_copies, verify_copies,
};

pub(super) struct Folders {
    all: tempfile::TempDir,
}

impl Folders {
    pub(super) fn new() -> Folders {
        let all = tempfile::tempdir().unwrap();
        std::fs::create_dir(all.path().join("copies")).unwrap();
        Folders { all }
    }

    pub(super) fn folder(&self, name: &str) -> PathBuf {
        self.all.path().join(name)
    }

    fn url(&self) -> String {
        format!("file://{}", self.folder("copies").display())
    }

    pub(super) fn open(&self, data: &str) -> Result<Arc<Store>, StoreError> {
        Store::open(&self.folder(data), StoreOptions { copies_url: self.url(), ..small() })
    }

    pub(super) fn recover(&self, data: &str) -> RecoveryReport {
        recover(&self.url(), &self.folder(data)).unwrap().unwrap()
    }

    pub(super) fn catalogs(&self) -> Vec<PathBuf> {
        let folder = self.folder("copies/catalog");
        let mut files = if folder.is_dir() { files_below(&folder) } else { Vec::new() };
        files.sort();
        files
    }
}

pub(super) fn put_catalog(store: &Store) -> Result<(), StoreError> {
    store.copies.as_ref().unwrap().0.put_catalog()
}

async fn flushed(store: &Store, source: &str, from: i64) {
    store.flushed(source, events(from, 300)).await;
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn what_was_in_segments_is_there_again() {
    let folders = Folders::new();
    let store = folders.open("data").unwrap();
    store.create_source("s").unwrap();
    store.create_source("empty").unwrap();
    store.catalog().set_meta("k", "v").unwrap();
    flushed(&store, "s", 0).await;
    flushed(&store, "s", 300).await;
    let before = all(&store, "s").await;
    store.ingest("s", events(600, 5)).await.unwrap();
    put_catalog(&store).unwrap();
    let calls = |store: &Store| -> i64 {
        let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'wal'";
        store.catalog().lock().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let given = calls(&store);
    let infos = store.sources();
    drop(store);
    std::fs::remove_dir_all(folders.folder("data")).unwrap();

    let report = folders.recover("data");
    assert_eq!((report.epoch, report.sources, report.segments, report.rows), (2, 2, 2, 600));
    assert_eq!((report.last_call, report.first_unflushed), (given, Some(given)));
    assert!(report.lost.is_empty() && report.later.is_empty() && report.left.is_empty(), "{report:?}");
    assert_eq!(names(&folders.folder("data")), ["catalog.sqlite", "lock", "segments"].map(str::to_owned).into());
    let store = folders.open("data").unwrap();
    assert_eq!((all(&store, "s").await, store.sources()), (before.clone(), infos));
    assert_eq!(store.catalog().meta("k").unwrap().unwrap(), "v");
    let stats = store.stats();
    assert_eq!((stats.damaged_segments, stats.set_aside_segments, stats.objects_epoch), (0, 0, 3));
    // No number of a call is given twice, and what comes in is kept.
    flushed(&store, "s", 600).await;
    assert!(calls(&store) > given + (1 << 31));
    store.compact().await.unwrap();
    put_catalog(&store).unwrap();
    assert_eq!(all(&store, "s").await.len(), 900);
    drop(store);

    // Again, as a unit that always has the flag does.
    assert_eq!(recover(&folders.url(), &folders.folder("data")).unwrap(), None);
    assert_eq!(all(&folders.open("data").unwrap(), "s").await.len(), 900);
    let report = folders.recover("second");
    assert_eq!(report.rows, 900);
    assert_eq!(all(&folders.open("second").unwrap(), "s").await.len(), 900);
}

#[tokio::test]
async fn only_an_empty_folder_is_recovered_and_only_from_copies_of_a_catalog() {
    let folders = Folders::new();
    let refused = |data: &str| match recover(&folders.url(), &folders.folder(data)) {
        Err(error @ StoreError::RecoveryRefused { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refused("data").contains("no copies of a data folder"));
    let store = folders.open("first").unwrap();
    assert!(refused("data").contains("no copy of a catalog"));
    put_catalog(&store).unwrap();
    std::fs::create_dir_all(folders.folder("other")).unwrap();
    std::fs::write(folders.folder("other/notes"), "").unwrap();
    assert!(refused("other").contains("has notes in it"));
    // A catalog of other logs is left alone, and does not get these copies.
    drop(Store::open(&folders.folder("another"), small()).unwrap());
    assert_eq!(recover(&folders.url(), &folders.folder("another")).unwrap(), None);
    assert!(matches!(folders.open("another"), Err(StoreError::OtherOwner { .. })));
    let inside = format!("file://{}", folders.folder("data/copies").display());
    std::fs::create_dir_all(folders.folder("data/copies")).unwrap();
    assert!(recover(&inside, &folders.folder("data")).is_err());
    std::fs::remove_dir_all(folders.folder("data")).unwrap();
    // Nobody was replaced by what was refused.
    put_catalog(&store).unwrap();
    folders.recover("data");
}

#[tokio::test]
async fn the_server_that_was_replaced_changes_nothing_any_more() {
    let folders = Folders::new();
    let old = folders.open("old").unwrap();
    let source = old.create_source("s").unwrap().id;
    flushed(&old, "s", 0).await;
    put_catalog(&old).unwrap();
    folders.recover("new");
    let new = folders.open("new").unwrap();
    let before = all(&new, "s").await;
    let there = files(&folders.folder("copies"));
    // It drops the segment that both name, and would delete its copy.
    old.set_retention(source, Retention { max_age: None, max_bytes: Some(0) }).unwrap();
    for _ in 0..3 {
        let _ = old.apply_retention().await;
    }
    assert_eq!(files(&folders.folder("copies")), there);
    assert!(matches!(put_catalog(&old), Err(StoreError::Replaced { .. })));
    assert!(old.stats().objects_replaced && !new.stats().objects_replaced);
    assert!(matches!(old.ingest("s", vec![json!({})]).await, Err(StoreError::Replaced { .. })));
    assert!(matches!(old.compact().await, Err(StoreError::Replaced { .. })));
    assert_eq!(files(&folders.folder("copies")), there);
    let catalogs = folders.catalogs();
    drop(old);
    // Nor after a restart.
    for _ in 0..2 {
        match folders.open("old") {
            Err(error @ StoreError::Replaced { .. }) => assert!(error.to_string().contains("epoch 3"), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(folders.catalogs(), catalogs);
    flushed(&new, "s", 300).await;
    put_catalog(&new).unwrap();
    assert_eq!(all(&new, "s").await.len(), before.len() + 300);
    drop(new);
    assert_eq!(all(&folders.open("new").unwrap(), "s").await.len(), before.len() + 300);
}

#[tokio::test]
async fn a_request_that_is_sent_again_is_stored_again_only_if_it_is_lost() {
    let folders = Folders::new();
    let store = folders.open("data").unwrap();
    store.create_source("s").unwrap();
    let send = async |store: &Store, number: u8| {
        let mut intake = store.intake(5, tidegate_model::Audience::All);
        intake.add(json!({"id": format!("{number}")}));
        let key = crate::RequestKey { sender: [0; 8], name: [number; 24], body: [number; 32] };
        store.ingest_once("s", intake, Some(key)).await.unwrap();
    };
    send(&store, 1).await;
    store.flush().await.unwrap();
    send(&store, 2).await;
    put_catalog(&store).unwrap();
    drop(store);
    folders.recover("new");
    let store = folders.open("new").unwrap();
    assert_eq!(all(&store, "s").await.len(), 1);
    for number in [1, 2] {
        send(&store, number).await;
    }
    let ids: Vec<_> = all(&store, "s").await.iter().map(|row| row["id"].clone()).collect();
    assert_eq!(ids, ["1", "2"]);
}

#[tokio::test]
async fn a_copy_has_the_newest_keys_of_each_sender() {
    let folders = Folders::new();
    let store = folders.open("data").unwrap();
    store.create_source("s").unwrap();
    for (sender, count, time) in [("sender-a", 1_500, 2), ("sender-b", 3, 1)] {
        let sql = format!(
            "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < {count})
             INSERT INTO ingest_keys SELECT 1, CAST('{sender}' || i AS BLOB), x'00', -i, 1, 0, {time} FROM n"
        );
        store.catalog().lock().execute_batch(&sql).unwrap();
    }
    put_catalog(&store).unwrap();
    drop(store);
    folders.recover("new");
    let store = folders.open("new").unwrap();
    let of = |sender: &str| {
        let sql = format!("SELECT count(*) FROM ingest_keys WHERE substr(name, 1, 8) = CAST('{sender}' AS BLOB)");
        store.catalog().lock().query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!((of("sender-a"), of("sender-b")), (1_000, 3));
}

#[tokio::test]
async fn what_is_damaged_or_missing_is_told_and_the_rest_is_served() {
    let folders = Folders::new();
    let store = folders.open("data").unwrap();
    for (source, segments) in [("s", 2), ("t", 1)] {
        store.create_source(source).unwrap();
        for part in 0..segments {
            flushed(&store, source, part * 300).await;
        }
    }
    put_catalog(&store).unwrap();
    let of_s = store.source("s").unwrap().id;
    flushed(&store, "t", 300).await;
    let later = all(&store, "t").await;
    put_catalog(&store).unwrap();
    drop(store);
    // The newest copy of the catalog, a bit of one segment of `s`, and the other one.
    flip(folders.catalogs().last().unwrap(), 8 * 900);
    let copies = files_below(&folders.folder("copies/segments").join(of_s.to_string()));
    flip(&copies[0], 8 * 3000);
    std::fs::remove_file(&copies[1]).unwrap();
    let report = folders.recover("new");
    assert_eq!((report.refused_copies.len(), report.lost.len(), report.lost_rows, report.segments), (1, 2, 600, 1));
    // The segment that only the damaged copy names.
    assert_eq!((report.later.len(), report.later[0].rows), (1, Some(300)));
    let said: Vec<&str> = report.lost.iter().map(|lost| lost.problem.as_str()).collect();
    assert!(said.iter().any(|said| said.contains("its object is missing")), "{said:?}");
    assert!(said.iter().any(|said| said.contains("its object is damaged")), "{said:?}");
    let store = folders.open("new").unwrap();
    assert_eq!(all(&store, "t").await, later);
    let stats = store.stats();
    assert_eq!((stats.damaged_segments, stats.damaged_rows, stats.set_aside_segments), (2, 600, 0));
    assert!(super::frame(&store, "s").collect().await.is_err());
    drop(store);
    let repaired = crate::repair(&folders.folder("new")).unwrap();
    assert_eq!(repaired.set_aside.len(), 2);
    assert!(all(&folders.open("new").unwrap(), "s").await.is_empty());

    // No copy that is whole.
    for catalog in folders.catalogs() {
        std::fs::write(catalog, "cut").unwrap();
    }
    match recover(&folders.url(), &folders.folder("third")) {
        Err(StoreError::RecoveryRefused { reason, .. }) => assert!(reason.contains("restore a backup"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn copies_are_compared_and_what_is_damaged_is_fetched_from_them() {
    let folders = Folders::new();
    let (data, url) = (folders.folder("data"), folders.url());
    let store = folders.open("data").unwrap();
    store.create_source("s").unwrap();
    for part in 0..4 {
        flushed(&store, "s", part * 300).await;
    }
    let before = all(&store, "s").await;
    assert!(matches!(verify_copies(&data, &url), Err(StoreError::Locked(_))));
    drop(store);
    let report = verify_copies(&data, &url).unwrap();
    assert_eq!((report.segments, report.findings.len(), report.orphans.len()), (4, 0, 0));
    let (local, copies) = (files(&data), files(&folders.folder("copies")));
    assert_eq!(report.bytes, local.iter().map(|file| std::fs::metadata(file).unwrap().len()).sum::<u64>());
    // One that is missing, one that is cut, one with another byte, and one that belongs to nothing.
    std::fs::remove_file(&copies[0]).unwrap();
    let whole = std::fs::read(&copies[1]).unwrap();
    std::fs::write(&copies[1], &whole[1..]).unwrap();
    flip(&copies[2], 8 * 3000);
    let orphan = copies[0].with_file_name(format!("{}.parquet", uuid::Uuid::from_u128(5)));
    std::fs::write(&orphan, "left").unwrap();
    let report = verify_copies(&data, &url).unwrap();
    let said: Vec<&str> = report.findings.iter().map(|finding| finding.problem.as_str()).collect();
    for words in ["its object is missing", "bytes, and", "are not what was written"] {
        assert!(said.iter().any(|said| said.contains(words)), "{words}: {said:?}");
    }
    assert_eq!((report.segments, report.orphans.len(), report.orphan_bytes), (1, 1, 4));

    // Of four damaged files, one has a whole copy.
    std::fs::write(&copies[1], &whole).unwrap();
    flip(&local[1], 8 * 3000);
    std::fs::remove_file(&local[2]).unwrap();
    let report = repair_from_copies(&data, &url).unwrap();
    assert_eq!((report.fetched.len(), report.set_aside.len()), (1, 1));
    assert_eq!(report.fetched[0].rows, Some(300));
    assert!(report.set_aside[0].reason.contains("its object is damaged"), "{:?}", report.set_aside);
    let store = folders.open("data").unwrap();
    assert_eq!(all(&store, "s").await.len(), 900);
    assert!(all(&store, "s").await.iter().all(|row| before.contains(row)));
    drop(store);
    // Other copies are not for this folder.
    let other = Folders::new();
    drop(other.open("data").unwrap());
    assert!(matches!(repair_from_copies(&data, &other.url()), Err(StoreError::OtherOwner { .. })));
    assert!(matches!(verify_copies(&data, &other.url()), Err(StoreError::OtherOwner { .. })));
}

#[tokio::test]
async fn a_backup_without_segments_is_restored_with_those_in_the_store() {
    let folders = Folders::new();
    let store = folders.open("data").unwrap();
    store.create_source("s").unwrap();
    for part in 0..2 {
        flushed(&store, "s", part * 300).await;
    }
    store.ingest("s", events(600, 7)).await.unwrap();
    let before = all(&store, "s").await;
    // While it runs.
    let report = backup_catalog(&folders.folder("data"), &folders.folder("backup")).unwrap();
    assert_eq!((report.segments, report.rows), (2, 600));
    assert!(files(&folders.folder("backup")).is_empty());
    let (from, to) = (folders.folder("backup"), folders.folder("restored"));
    assert!(matches!(restore(&from, &to), Err(StoreError::Corrupt { .. })));
    let report = restore_from_copies(&from, &to, &folders.url()).unwrap();
    assert_eq!((report.segments, report.rows), (2, 600));
    let restored = Store::open(&to, small()).unwrap();
    assert_eq!(all(&restored, "s").await, before, "with what was in no segment");
    drop(restored);
    // Not all of them are there any more.
    std::fs::remove_file(&files(&folders.folder("copies"))[0]).unwrap();
    let again = folders.folder("again");
    match restore_from_copies(&from, &again, &folders.url()) {
        Err(StoreError::Corrupt { reason, .. }) => assert!(reason.contains("its object is missing"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert!(!again.exists());
}

#[tokio::test]
async fn a_server_that_was_stopped_for_many_epochs_is_replaced() {
    let folders = Folders::new();
    let old = folders.open("old").unwrap();
    old.create_source("s").unwrap();
    flushed(&old, "s", 0).await;
    put_catalog(&old).unwrap();
    folders.recover("new");
    for _ in 0..34 {
        drop(folders.open("new").unwrap());
    }
    let next = folders.folder("copies/epochs/0000000002.json");
    assert!(!next.exists(), "old epochs are deleted");
    let checked = old.copies.as_ref().unwrap().0.check_epoch();
    assert!(matches!(checked, Err(StoreError::Replaced { epoch: 36, .. })), "{checked:?}");
    assert!(matches!(old.ingest("s", vec![json!({})]).await, Err(StoreError::Replaced { .. })));
}

#[tokio::test]
async fn objects_that_a_power_cut_emptied_are_made_again_of_what_is_there() {
    let folders = Folders::new();
    let owner = folders.folder("copies/owner.json");
    let epoch = |number: u32| folders.folder(&format!("copies/epochs/{number:010}.json"));
    // At the first start, before anything else was put.
    std::fs::write(&owner, "").unwrap();
    let store = folders.open("data").unwrap();
    store.create_source("s").unwrap();
    flushed(&store, "s", 0).await;
    drop(store);
    // There is no copy of a catalog yet.
    let whole = std::fs::read(&owner).unwrap();
    std::fs::write(&owner, "").unwrap();
    let store = folders.open("data").unwrap();
    assert_eq!(std::fs::read(&owner).unwrap(), whole);
    drop(store);
    // Nobody did anything in an epoch that cannot be read; or this data folder put copies in it.
    for number in [2, 3] {
        std::fs::write(epoch(number), "").unwrap();
        std::fs::write(&owner, "").unwrap();
        put_catalog(&folders.open("data").unwrap()).unwrap();
    }
    assert_eq!(std::fs::read(&owner).unwrap(), whole);
    std::fs::write(&owner, "").unwrap();
    let report = folders.recover("new");
    assert_eq!((report.epoch, report.rows), (5, 300));
    // An epoch of another one is that of another one, also if it cannot be read.
    put_catalog(&folders.open("new").unwrap()).unwrap();
    std::fs::write(epoch(6), "").unwrap();
    assert!(matches!(folders.open("data"), Err(StoreError::Replaced { epoch: 6, .. })));
    drop(folders.open("new").unwrap());
    // And objects of another catalog are not taken for ours.
    std::fs::write(&owner, "").unwrap();
    assert!(matches!(folders.open("other"), Err(StoreError::OtherOwner { .. })));
}

#[tokio::test]
async fn a_restored_backup_takes_the_copies_only_when_it_is_asked_to() {
    let folders = Folders::new();
    let live = folders.open("data").unwrap();
    live.create_source("s").unwrap();
    flushed(&live, "s", 0).await;
    put_catalog(&live).unwrap();
    backup(&folders.folder("data"), &folders.folder("backup")).unwrap();
    restore(&folders.folder("backup"), &folders.folder("restored")).unwrap();
    // The backup itself is a data folder, too.
    for data in ["restored", "backup", "restored"] {
        let opened = folders.open(data);
        assert!(matches!(opened, Err(StoreError::NotAskedToTakeOver { epoch: 1, .. })), "{data}: {opened:?}");
    }
    live.copies.as_ref().unwrap().0.check_epoch().unwrap();
    flushed(&live, "s", 300).await;
    // Without copies it can be looked at.
    drop(Store::open(&folders.folder("restored"), small()).unwrap());
    let asked = || StoreOptions { copies_url: folders.url(), take_over: true, ..small() };
    let taken = Store::open(&folders.folder("restored"), asked()).unwrap();
    assert_eq!(all(&taken, "s").await.len(), 300);
    put_catalog(&taken).unwrap();
    let checked = live.copies.as_ref().unwrap().0.check_epoch();
    assert!(matches!(checked, Err(StoreError::Replaced { .. })), "{checked:?}");
    drop((live, taken));
    // The word counts once: it does not take them back from the next one.
    drop(folders.open("restored").unwrap());
    folders.recover("new");
    drop(folders.open("new").unwrap());
    assert!(matches!(Store::open(&folders.folder("restored"), asked()), Err(StoreError::Replaced { .. })));
    assert!(matches!(Store::open(&folders.folder("data"), asked()), Err(StoreError::Replaced { .. })));
}

#[tokio::test]
async fn a_store_that_is_closed_has_its_events_in_the_copies() {
    let folders = Folders::new();
    let options = StoreOptions { copies_url: folders.url(), manual_flush: false, ..small() };
    let patient = || StoreOptions { flush_interval: std::time::Duration::from_hours(1), ..options.clone() };
    let store = Store::open(&folders.folder("data"), patient()).unwrap();
    store.create_source("s").unwrap();
    store.ingest("s", events(0, 300)).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let report = folders.recover("new");
    assert_eq!((report.rows, report.later.len(), report.first_unflushed), (300, 0, None));

    // Where they cannot be put, they stay on the disk.
    let store = Store::open(&folders.folder("new"), patient()).unwrap();
    store.ingest("s", events(300, 300)).await.unwrap();
    std::fs::rename(folders.folder("copies/segments"), folders.folder("hidden")).unwrap();
    std::fs::write(folders.folder("copies/segments"), "").unwrap();
    store.close_within(std::time::Duration::from_secs(60)).await.unwrap();
    drop(store);
    assert_eq!(all(&Store::open(&folders.folder("new"), small()).unwrap(), "s").await.len(), 600);
}
