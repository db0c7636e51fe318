//! Finding damage, setting it aside, taking back what is whole, and catalogs made again.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{
    all,
    damage::{events, files, fill, flip},
    frame, manual, open, with_source,
};
use crate::{Store, StoreError, backup, rebuild_catalog, repair, restore, verify};

/// Three segments of `s`, one of `t`, and two rows of `s` in the write-ahead log.
async fn folder() -> tempfile::TempDir {
    let (dir, store) = with_source(manual());
    store.create_source("t").unwrap();
    fill(&store, 3).await;
    store.flushed("t", vec![json!({"id": "t", "other": {"x": [1, 2]}})]).await;
    store.ingest("s", events(5000, 2)).await.unwrap();
    dir
}

fn of_source(dir: &Path, name: &str) -> Vec<PathBuf> {
    let store = Store::open(dir, manual()).unwrap();
    let id = store.source(name).unwrap().id.to_string();
    files(dir).into_iter().filter(|path| path.to_string_lossy().contains(&id)).collect()
}

fn sql(dir: &Path, text: &str) {
    Store::open(dir, manual()).unwrap().catalog().lock().execute_batch(text).unwrap();
}

#[tokio::test]
async fn verify_finds_all_damage_and_changes_nothing() {
    let dir = folder().await;
    let locked = open(&dir);
    assert!(matches!(verify(dir.path()), Err(StoreError::Locked(_))));
    drop(locked);
    let report = verify(dir.path()).unwrap();
    assert_eq!((report.segments, report.rows, report.without_checksum), (4, 901, 0));
    assert_eq!((report.findings, report.set_aside), (vec![], vec![]));

    let segments = of_source(dir.path(), "s");
    flip(&segments[0], 8 * 3000);
    let end = std::fs::metadata(&segments[1]).unwrap().len();
    flip(&segments[1], 8 * (end as usize - 300));
    std::fs::remove_file(&segments[2]).unwrap();
    let before = files(dir.path());
    let report = verify(dir.path()).unwrap();
    let found: Vec<String> = report.findings.iter().map(|found| format!("{}: {}", found.what, found.problem)).collect();
    for (segment, problem) in segments.iter().zip(["of its data", "of its footer", "its file is missing"]) {
        let id = segment.file_stem().unwrap().to_str().unwrap();
        let named = format!("segment {id} of source `s`: ");
        assert!(found.iter().any(|found| found.starts_with(&named) && found.contains(problem)), "{problem}: {found:?}");
    }
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(files(dir.path()), before);

    // What the catalog does not name; and a page of the catalog itself.
    let dir = folder().await;
    sql(
        dir.path(),
        "DELETE FROM segments WHERE first_seq = (SELECT first_seq FROM segments ORDER BY first_seq LIMIT 1 OFFSET 1)",
    );
    let report = verify(dir.path()).unwrap();
    assert_eq!(report.findings.len(), 1, "{report:?}");
    assert!(report.findings[0].problem.contains("does not name it"), "{report:?}");
    let catalog = dir.path().join("catalog.sqlite");
    let mut bytes = std::fs::read(&catalog).unwrap();
    bytes[2 * 16384..3 * 16384].fill(0xA5);
    std::fs::write(&catalog, bytes).unwrap();
    assert!(verify(dir.path()).unwrap().findings.iter().any(|found| found.what == "the catalog"));
    assert!(matches!(repair(dir.path()), Err(StoreError::Corrupt { .. } | StoreError::Sqlite(_))));
    std::fs::remove_file(&catalog).unwrap();
    assert!(verify(dir.path()).unwrap().findings[0].problem.contains("--rebuild-catalog"));
    assert!(matches!(verify(&dir.path().join("nothing")), Err(StoreError::NoCatalog(_))));
}

#[tokio::test]
async fn damaged_segments_are_set_aside_and_whole_ones_come_back() {
    let dir = folder().await;
    let right = all(&open(&dir), "s").await;
    let segments = of_source(dir.path(), "s");
    let good = std::fs::read(&segments[0]).unwrap();
    flip(&segments[0], 8 * 3000);
    std::fs::remove_file(&segments[1]).unwrap();
    assert!(frame(&open(&dir), "s").collect().await.is_err());

    let report = repair(dir.path()).unwrap();
    assert_eq!((report.set_aside.len(), report.taken_back.len(), report.left.len()), (2, 0, 0), "{report:?}");
    assert_eq!(report.set_aside.iter().filter_map(|note| note.rows).sum::<u64>(), 600);
    let report = verify(dir.path()).unwrap();
    assert_eq!((report.findings.len(), report.set_aside.len(), report.segments), (0, 2, 2), "{report:?}");
    let store = open(&dir);
    assert_eq!(all(&store, "s").await.len(), 302);
    assert_eq!((store.stats().set_aside_segments, store.stats().set_aside_rows), (2, 600));
    drop(store);

    // It stays where it is as long as it is damaged, and comes back when it is whole.
    let report = repair(dir.path()).unwrap();
    assert_eq!((report.set_aside.len(), report.taken_back.len(), report.left.len()), (0, 0, 2), "{report:?}");
    let aside = dir.path().join("quarantine").join(segments[0].file_name().unwrap());
    std::fs::write(&aside, good).unwrap();
    let report = repair(dir.path()).unwrap();
    assert_eq!((report.taken_back.len(), report.left.len()), (1, 1), "{report:?}");
    assert!(!aside.exists() && segments[0].exists());
    let now = all(&open(&dir), "s").await;
    assert_eq!(now.len(), 602);
    assert!(now.iter().all(|row| right.contains(row)));
    assert_eq!(verify(dir.path()).unwrap().findings, []);
}

#[tokio::test]
async fn what_a_catalog_forgot_comes_back_with_its_schema() {
    let dir = folder().await;
    let store = open(&dir);
    store.flush().await.unwrap();
    let (s, t) = (all(&store, "s").await, all(&store, "t").await);
    drop(store);
    // A catalog of the time before the second flush: `t` is not there, and `s` knows no field.
    let shape = serde_json::to_string(&crate::schema::shape::Shape::default()).unwrap();
    sql(
        dir.path(),
        &format!(
            "DELETE FROM segments; UPDATE sources SET shape = '{shape}'; DELETE FROM sources WHERE name = 't';
             UPDATE sqlite_sequence SET seq = 0"
        ),
    );
    assert_eq!(open(&dir).stats().set_aside_segments, 5);
    let store = open(&dir);
    store.ingest("s", events(8000, 1)).await.unwrap();
    drop(store);
    let report = repair(dir.path()).unwrap();
    assert_eq!((report.taken_back.len(), report.left.len(), report.set_aside.len()), (5, 0, 0), "{report:?}");
    let store = open(&dir);
    let mut now = all(&store, "s").await;
    assert_eq!(now.pop().unwrap()["id"], "08000");
    assert_eq!((now, all(&store, "t").await), (s, t));
    assert_eq!(store.stats().set_aside_segments, 0);

    // Rows that are in another segment already are not doubled.
    let first: String = store
        .catalog()
        .lock()
        .query_row("SELECT lower(hex(id)) FROM segments ORDER BY first_seq LIMIT 1", [], |row| row.get(0))
        .unwrap();
    drop(store);
    sql(dir.path(), &format!("DELETE FROM segments WHERE lower(hex(id)) = '{first}'"));
    drop(open(&dir));
    sql(
        dir.path(),
        "UPDATE segments SET first_seq = first_seq - 1 WHERE first_seq = (SELECT min(first_seq) FROM segments)",
    );
    let report = repair(dir.path()).unwrap();
    assert_eq!(report.left.len(), 1, "{report:?}");
    assert!(report.left[0].reason.contains("twice"), "{report:?}");
}

#[tokio::test]
async fn a_catalog_is_made_of_what_segments_say() {
    let dir = folder().await;
    let store = open(&dir);
    store.flush().await.unwrap();
    let id = store.source("s").unwrap().id;
    store.rename_source(id, "renamed").unwrap();
    store.flushed("renamed", events(6000, 1)).await;
    let (s, t) = (all(&store, "renamed").await, all(&store, "t").await);
    drop(store);
    assert!(matches!(rebuild_catalog(dir.path()), Err(StoreError::Incompatible { .. })));
    let damaged = of_source(dir.path(), "t").remove(0);
    let good = std::fs::read(&damaged).unwrap();
    flip(&damaged, 100);
    std::fs::remove_file(dir.path().join("catalog.sqlite")).unwrap();
    assert!(matches!(repair(dir.path()), Err(StoreError::CatalogMissing(_))));
    let report = rebuild_catalog(dir.path()).unwrap();
    assert_eq!((report.taken_back.len(), report.set_aside.len()), (5, 1), "{report:?}");
    let store = open(&dir);
    assert_eq!(all(&store, "renamed").await, s);
    assert_eq!(store.source("renamed").unwrap().id, id);
    store.flushed("renamed", events(9000, 1)).await;
    drop(store);
    assert_eq!(verify(dir.path()).unwrap().findings, []);

    let aside = dir.path().join("quarantine").join(damaged.file_name().unwrap());
    std::fs::write(&aside, good).unwrap();
    assert_eq!(repair(dir.path()).unwrap().taken_back.len(), 1);
    // A file that the catalog names, and that is where it should not be, is put back.
    std::fs::rename(&damaged, &aside).unwrap();
    let report = repair(dir.path()).unwrap();
    assert_eq!((report.taken_back.len(), report.set_aside.len(), report.left.len()), (1, 0, 0), "{report:?}");
    assert_eq!(repair(dir.path()).unwrap(), crate::RepairReport::default());
    let store = open(&dir);
    assert_eq!(all(&store, "t").await, t);
    assert_eq!(all(&store, "renamed").await.len(), s.len() + 1);
}

#[tokio::test]
async fn a_damaged_segment_is_neither_backed_up_nor_restored() {
    let dir = folder().await;
    let places = tempfile::tempdir().unwrap();
    let good = places.path().join("good");
    backup(dir.path(), &good).unwrap();
    let segment = of_source(dir.path(), "s").remove(1);
    for bit in [8 * 10, 8 * 2500 + 3] {
        let of_backup = good.join(segment.strip_prefix(dir.path()).unwrap());
        for (file, work) in [
            (&segment, Box::new(|| backup(dir.path(), &places.path().join("copy"))) as Box<dyn Fn() -> _>),
            (&of_backup, Box::new(|| restore(&good, &places.path().join("copy")))),
        ] {
            flip(file, bit);
            let error = work().unwrap_err();
            let name = format!("segment {} of source `s`", segment.file_stem().unwrap().to_str().unwrap());
            assert!(matches!(&error, StoreError::Corrupt { what, .. } if *what == name), "{error}");
            assert!(error.to_string().contains("checksum"), "{error}");
            assert!(!places.path().join("copy").exists());
            flip(file, bit);
        }
    }
    restore(&good, &places.path().join("copy")).unwrap();
    backup(dir.path(), &places.path().join("again")).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn folders_that_others_can_read_are_closed_or_refused() {
    use std::os::unix::fs::PermissionsExt;
    let places = tempfile::tempdir().unwrap();
    let place = |name: &str| places.path().join(name);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let open_to_all = |path: &Path| {
        std::fs::create_dir_all(path).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let (data, copy, again, home) = (place("data"), place("copy"), place("again"), place("home"));
    for path in [&data, &copy, &again, &home] {
        open_to_all(path);
    }
    let store = Store::open(&data, manual()).unwrap();
    assert_eq!(mode(&data), 0o700);
    backup(&data, &copy).unwrap();
    restore(&copy, &again).unwrap();
    assert_eq!((mode(&copy), mode(&again)), (0o700, 0o700));
    drop(store);
    open_to_all(&data);
    drop(Store::open(&data, manual()).unwrap());
    assert_eq!(mode(&data), 0o700);

    std::fs::write(home.join("letter"), b"of somebody").unwrap();
    let error = Store::open(&home, manual()).unwrap_err();
    assert!(matches!(&error, StoreError::Exposed { mode: 0o755, .. }), "{error}");
    assert!(error.to_string().contains("chmod 700"), "{error}");
    assert_eq!((mode(&home), std::fs::read_dir(&home).unwrap().count()), (0o755, 1));
}
