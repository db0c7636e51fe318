//! Backups of a store that is in use, and the way back.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;

use super::{all, crash, frame, manual, open, rows, with_source};
use crate::{BackupReport, Retention, Store, StoreError, backup, maintenance::backup::backup_with, restore};

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Two segments, two rows in memory, and things that no backup wants.
async fn filled(dir: &tempfile::TempDir) -> Arc<Store> {
    let store = open(dir);
    store.create_source("s").unwrap();
    store.create_source("empty").unwrap();
    for i in 0..2 {
        store
            .ingest("s", (0..10).map(|j| json!({"id": format!("{i}{j}"), "timestamp": i + 1})).collect())
            .await
            .unwrap();
        store.flush().await.unwrap();
    }
    store.ingest("s", vec![json!({"id": "98"}), json!({"id": "99", "late": {"x": 1}})]).await.unwrap();
    store.catalog().set_meta("k", "v").unwrap();
    std::fs::create_dir(dir.path().join("compiled")).unwrap();
    std::fs::write(dir.path().join("compiled/code"), b"native").unwrap();
    store
}

#[tokio::test]
async fn there_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir).await;
    let before = all(&store, "s").await;
    let places = tempfile::tempdir().unwrap();
    // A target that is not there, one in a folder that is not there, and an empty folder.
    for (place, new) in [("a", true), ("deep/b", true), ("c", false)] {
        let target = places.path().join(place);
        let data = places.path().join(format!("{place}-restored"));
        if !new {
            std::fs::create_dir(&target).unwrap();
            std::fs::create_dir(&data).unwrap();
        }
        let report = backup(dir.path(), &target).unwrap();
        assert_eq!((report.sources, report.segments, report.rows, report.dropped), (2, 2, 20, 0));
        assert_eq!(names(&target), ["catalog.sqlite", "segments"]);
        assert!(matches!(backup(dir.path(), &target), Err(StoreError::NotEmpty(_))));

        assert_eq!(restore(&target, &data).unwrap(), report);
        assert_eq!(names(&target), ["catalog.sqlite", "segments"]);
        assert!(matches!(restore(&target, &data), Err(StoreError::NotEmpty(_))));
        let restored = Store::open(&data, manual()).unwrap();
        assert_eq!(all(&restored, "s").await, before);
        assert_eq!(restored.sources(), store.sources());
        assert_eq!(restored.catalog().meta("k").unwrap().unwrap(), "v");
        restored.flush().await.unwrap();
        assert_eq!(all(&restored, "s").await, before);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(places.path().join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
    assert_eq!(names(places.path()), ["a", "a-restored", "c", "c-restored", "deep"]);
    assert_eq!(all(&store, "s").await, before);
}

/// Another process takes events in and writes segments, while backups are made here.
#[tokio::test]
async fn backups_of_a_busy_store_have_each_event_once() {
    let dir = tempfile::tempdir().unwrap();
    let places = tempfile::tempdir().unwrap();
    let mut busy = crash::start(dir.path());
    let lines = BufReader::new(busy.stdout.take().unwrap()).lines();
    let acknowledged = Arc::new(Mutex::new(HashSet::new()));
    let listening = Arc::clone(&acknowledged);
    let listener = std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            listening.lock().unwrap().extend(crash::acknowledged(&line));
        }
    });
    let mut stored = Vec::new();
    for round in 1..=4 {
        let enough = || acknowledged.lock().unwrap().len() >= round * 200;
        for _ in 0..6000 {
            if enough() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(enough(), "the other process takes no events in");
        let before = acknowledged.lock().unwrap().clone();
        let (target, restored) = (places.path().join(format!("{round}")), places.path().join(format!("data-{round}")));
        let report = backup(dir.path(), &target).unwrap();
        // What was dropped while the copy was made is not in it.
        assert_eq!(restore(&target, &restored).unwrap(), BackupReport { dropped: 0, ..report });
        stored.push(report.rows);
        let copy = Store::open(&restored, manual()).unwrap();
        for _ in 0..2 {
            let found = rows(frame(&copy, "s").select_columns(&["id"]).unwrap()).await;
            let distinct: HashSet<String> = found.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
            assert_eq!(distinct.len(), found.len(), "an event is there twice: {report:?}");
            assert_eq!(before.difference(&distinct).count(), 0, "of {} events: {report:?}", before.len());
            assert_eq!(distinct.len() % 7, 0, "a call is there in part");
            copy.flush().await.unwrap();
        }
    }
    assert!(busy.try_wait().unwrap().is_none(), "it goes on as if nothing had been");
    busy.kill().unwrap();
    busy.wait().unwrap();
    listener.join().unwrap();
    assert!(stored.is_sorted() && stored[3] > stored[0], "too quiet to show anything: {stored:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_meanwhile_is_not_in_the_backup() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir).await;
    let places = tempfile::tempdir().unwrap();
    let gone = store.create_source("gone").unwrap().id;
    store.flushed("gone", vec![json!({})]).await;
    store.ingest("gone", vec![json!({})]).await.unwrap();

    let target = places.path().join("b");
    let newest = store.sources.find("s").unwrap().segments().iter().map(|segment| segment.bytes).max().unwrap();
    let report = backup_with(dir.path(), &target, || {
        let limits = Retention { max_age: None, max_bytes: Some(2 * newest) };
        store.set_retention(store.source("s").unwrap().id, limits).unwrap();
        let dropped = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async { store.apply_retention().await.unwrap() })
        });
        assert_eq!(dropped.segments, 1);
        store.delete_source(gone).unwrap();
    })
    .unwrap();
    assert_eq!((report.segments, report.dropped), (2, 2));
    let data = places.path().join("data");
    restore(&target, &data).unwrap();
    let restored = Store::open(&data, manual()).unwrap();
    assert_eq!(all(&restored, "s").await, all(&store, "s").await);

    // Missing, and the live catalog says that it should be there: no backup.
    let folder = dir.path().join("segments").join(store.source("s").unwrap().id.to_string());
    let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let bytes = std::fs::read(&file).unwrap();
    for damage in ["missing", "cut"] {
        match damage {
            "missing" => std::fs::remove_file(&file).unwrap(),
            _ => std::fs::write(&file, &bytes[1..]).unwrap(),
        }
        let error = backup(dir.path(), &places.path().join("c")).unwrap_err();
        assert!(matches!(&error, StoreError::Corrupt { what, .. } if what.contains("of source `s`")), "{error}");
    }
    assert_eq!(names(places.path()), ["b", "data"]);
}

#[tokio::test]
async fn only_a_whole_backup_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir).await;
    let places = tempfile::tempdir().unwrap();
    let good = places.path().join("good");
    backup(dir.path(), &good).unwrap();
    let data = places.path().join("data");

    let live = restore(dir.path(), &data).unwrap_err();
    assert!(matches!(&live, StoreError::Incompatible { reason, .. } if reason.contains("in use")), "{live}");
    assert!(matches!(restore(places.path(), &data), Err(StoreError::NoCatalog(_))));
    assert!(matches!(backup(places.path(), &data), Err(StoreError::NoCatalog(_))));

    let folder = good.join("segments").join(store.source("s").unwrap().id.to_string());
    let segment = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let catalog = good.join("catalog.sqlite");
    for (file, damages) in [(&segment, ["missing", "cut", "zeroed"]), (&catalog, ["missing", "cut", "zeroed"])] {
        let bytes = std::fs::read(file).unwrap();
        for damage in damages {
            match damage {
                "missing" => std::fs::remove_file(file).unwrap(),
                "cut" => std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap(),
                _ => std::fs::write(file, vec![0; bytes.len()]).unwrap(),
            }
            let error = restore(&good, &data).unwrap_err();
            let known = matches!(error, StoreError::Corrupt { .. } | StoreError::NoCatalog(_));
            assert!(known, "{damage} {}: {error}", file.display());
            assert_eq!(names(places.path()), ["good"]);
            std::fs::write(file, &bytes).unwrap();
        }
    }
    // A page in the middle of the catalog, which opens all the same.
    let bytes = std::fs::read(&catalog).unwrap();
    let mut damaged = bytes.clone();
    damaged[2 * 16384..3 * 16384].fill(0xA5);
    std::fs::write(&catalog, damaged).unwrap();
    assert!(matches!(restore(&good, &data), Err(StoreError::Corrupt { .. })));
    std::fs::write(&catalog, bytes).unwrap();

    std::fs::write(&data, b"a file").unwrap();
    assert!(matches!(restore(&good, &data), Err(StoreError::NotEmpty(_))));
    std::fs::remove_file(&data).unwrap();
    restore(&good, &data).unwrap();
    assert_eq!(all(&Store::open(&data, manual()).unwrap(), "s").await, all(&store, "s").await);
}

#[tokio::test]
async fn what_a_killed_backup_left_goes_with_the_next_one() {
    let (dir, _store) = with_source(manual());
    let places = tempfile::tempdir().unwrap();
    let (target, mount) = (places.path().join("copy"), places.path().join("mount"));
    std::fs::create_dir(&mount).unwrap();
    let left = [places.path().join("copy.incomplete-1"), mount.join("incomplete-1")];
    let others = [places.path().join("copy.incomplete-2"), places.path().join("other.incomplete-1")];
    for folder in left.iter().chain(&others) {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("catalog.sqlite"), "half").unwrap();
    }
    left.iter().for_each(|folder| std::fs::write(folder.join("lock"), "").unwrap());
    // One that is being written.
    let locked = crate::data_folder::lock::lock(&others[0]).unwrap();
    backup(dir.path(), &target).unwrap();
    backup(dir.path(), &mount).unwrap();
    assert!(left.iter().all(|folder| !folder.exists()) && others.iter().all(|folder| folder.exists()));
    drop(locked);
    for folder in [&target, &mount] {
        assert_eq!(names(folder), ["catalog.sqlite", "segments"]);
    }
}
