//! A full disk: writing pauses, reading goes on, and nothing is lost or has to be restarted.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use rusqlite::ffi;
use serde_json::{Value, json};

use super::{all, frame, manual, open, with_source};
use crate::{Store, StoreError, data_folder::disk_failure::refine};

/// SQLite's own limit makes the disk as small as we like.
fn limit_pages(store: &Store, pages: i64) {
    let set = move |conn: &rusqlite::Connection| {
        conn.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
        Ok(())
    };
    store.writer.transact(set).unwrap();
}

fn large(id: &str) -> Value {
    json!({"id": id, "event_message": "x".repeat(100_000)})
}

#[tokio::test]
async fn a_full_catalog_refuses_and_recovers() {
    let (dir, store) = with_source(manual());
    store.ingest("s", vec![large("first")]).await.unwrap();
    // SQLite takes a limit below the size as the size.
    limit_pages(&store, 1);
    for _ in 0..3 {
        let error = store.ingest("s", vec![large("refused")]).await.unwrap_err();
        assert!(matches!(error, StoreError::DiskFull(_)), "{error}");
    }
    assert_eq!(all(&store, "s").await.len(), 1);
    // A flush needs little room and makes much.
    store.flush().await.unwrap();
    assert_eq!((store.stats().segments, store.stats().failed_commits), (1, 3));
    assert!(!store.stats().read_only);
    store.ingest("s", vec![json!({"id": "second"})]).await.unwrap();
    assert!(store.ingest("s", (0..9).map(|_| large("refused")).collect()).await.is_err());

    limit_pages(&store, 1_000_000);
    store.ingest("s", (0..9).map(|i| large(&i.to_string())).collect()).await.unwrap();
    assert_eq!(frame(&store, "s").count().await.unwrap(), 11);
    drop(store);
    assert_eq!(frame(&open(&dir), "s").count().await.unwrap(), 11);
}

fn io_failure(code: i32) -> StoreError {
    StoreError::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
}

#[test]
fn a_broken_disk_is_not_a_full_one() {
    let dir = tempfile::tempdir().unwrap();
    for code in [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_CORRUPT] {
        let error = refine(io_failure(code), dir.path());
        assert!(
            matches!(&error, StoreError::Sqlite(inner) if crate::data_folder::disk_failure::is_fatal(inner)),
            "{error}"
        );
    }
    assert!(matches!(io_failure(ffi::SQLITE_FULL), StoreError::DiskFull(_)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

const FOLDER: &str = "TIDEGATE_STORE_TEST_SMALL_DISK";
const MIB: usize = 1 << 20;

/// A disk of its own in namespaces of its own: needs no root where the system allows that, and is
/// gone with the process.
#[test]
fn a_full_disk_refuses_and_recovers() {
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        command
    };
    let dir = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=12m tmpfs '{}'", dir.path().display());
    match inside(&mount).output() {
        Ok(done) if done.status.success() => {}
        other => {
            eprintln!("SKIPPED: no small disk can be mounted here, so that a really full one is not tested: {other:?}");
            return;
        }
    }
    let done = inside(&format!("{mount} && exec \"$TEST\" tests::disk::on_a_small_disk --exact --nocapture"))
        .env("TEST", std::env::current_exe().unwrap())
        .env(FOLDER, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("the small disk held"), "{said}{done:?}");
}

/// Takes all the room that is left, but for some bytes.
fn fill(path: &Path, keep: usize) {
    let zeros = vec![0; 4096];
    let mut file = std::fs::File::create(path).unwrap();
    while std::io::Write::write_all(&mut file, &zeros).is_ok() {}
    let length = file.metadata().unwrap().len();
    file.set_len(length.saturating_sub(keep as u64)).unwrap();
}

/// Not a test by itself: see above.
#[tokio::test]
async fn on_a_small_disk() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = PathBuf::from(folder);
    let data = folder.join("data");
    let filling = folder.join("filling");
    let store = Store::open(&data, manual()).unwrap();
    store.create_source("s").unwrap();
    std::fs::write(&filling, vec![0; 4 * MIB]).unwrap();
    let mut stored = 0;
    let refused = loop {
        match store.ingest("s", vec![large(&format!("{stored:03}"))]).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 200, "twelve megabytes hold no 20");
    };
    assert!(stored > 10 && matches!(refused, StoreError::DiskFull(_)), "{stored}: {refused}");
    assert!(matches!(store.ingest("s", vec![large("refused")]).await, Err(StoreError::DiskFull(_))));
    assert_eq!(all(&store, "s").await.len(), stored);
    let error = store.create_source("x").map(drop);
    assert!(matches!(error, Ok(()) | Err(StoreError::DiskFull(_))), "{error:?}");

    // Some room: writing works as if nothing had been.
    std::fs::remove_file(&filling).unwrap();
    store.ingest("s", vec![large("again")]).await.unwrap();
    stored += 1;

    // No room for a segment.
    fill(&filling, 0);
    let error = store.flush().await.unwrap_err();
    assert!(matches!(error, StoreError::DiskFull(_)), "{error}");
    assert_eq!(all(&store, "s").await.len(), stored);
    assert!(matches!(refine(io_failure(ffi::SQLITE_IOERR_WRITE), &data), StoreError::DiskFull(_)));
    assert!(matches!(refine(io_failure(ffi::SQLITE_IOERR_FSYNC), &data), StoreError::Sqlite(_)));
    // Room for a segment, perhaps not for the catalog's word on it: either way nothing is lost.
    fill(&filling, 64 << 10);
    let _ = store.flush().await;
    assert_eq!(all(&store, "s").await.len(), stored);
    std::fs::remove_file(&filling).unwrap();
    store.flush().await.unwrap();
    assert!(!store.stats().read_only);
    store.ingest("s", vec![large("last")]).await.unwrap();
    stored += 1;
    assert_eq!(all(&store, "s").await.len(), stored);

    drop(store);
    let store = Store::open(&data, manual()).unwrap();
    let ids: std::collections::HashSet<String> =
        all(&store, "s").await.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((ids.len(), frame(&store, "s").count().await.unwrap()), (stored, stored));
    assert!(!ids.contains("refused"));
    println!("the small disk held {stored}");
}
