//! Crashes, restarts and concurrency: each acknowledged event exactly once.

use std::{collections::HashSet, sync::Arc, time::Duration};

use serde_json::json;
use uuid::Uuid;

use super::{all, frame, manual, open, opened, rows, with_source};
use crate::{Store, StoreError, StoreOptions};

#[tokio::test]
async fn reopening_recovers_memory_and_segments() {
    let dir = tempfile::tempdir().unwrap();
    let before = {
        let store = open(&dir);
        store.create_source("s").unwrap();
        store
            .ingest("s", vec![json!({"id": "1", "a": 1}), json!({"id": "2", "metadata": [{"b": [1]}]})])
            .await
            .unwrap();
        store.flush().await.unwrap();
        store.ingest("s", vec![json!({"id": "3", "a": "x"})]).await.unwrap();
        store.ingest("s", vec![json!({"timestamp": "bad"})]).await.unwrap();
        store.close().await.unwrap();
        assert!(matches!(store.ingest("s", vec![json!({})]).await, Err(StoreError::Closed)));
        all(&store, "s").await
    };
    for _ in 0..2 {
        assert_eq!(all(&open(&dir), "s").await, before);
    }
}

#[tokio::test]
async fn a_second_store_is_kept_out() {
    let (dir, store) = opened(manual());
    assert!(matches!(Store::open(dir.path(), manual()), Err(StoreError::Locked(_))));
    drop(store);
    open(&dir);
}

/// The folder as it was at one moment, as a power cut would leave it.
pub(super) fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test]
async fn crash_between_the_segment_file_and_the_catalog() {
    let crashed = tempfile::tempdir().unwrap();
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    store.ingest("s", (0..50).map(|i| json!({"id": format!("{i:02}")})).collect()).await.unwrap();
    // The catalog from before the flush, the files from after it.
    copy(dir.path(), crashed.path());
    store.flush().await.unwrap();
    copy(&dir.path().join("segments"), &crashed.path().join("segments"));
    let folder = crashed.path().join("segments").join(id.to_string());
    std::fs::write(folder.join(format!("{}.tmp", Uuid::new_v4())), b"half a segment").unwrap();
    std::fs::write(folder.join("notes.txt"), b"not ours").unwrap();

    let recovered = open(&crashed);
    assert_eq!(frame(&recovered, "s").count().await.unwrap(), 50);
    // The flush is completed; what is half is gone.
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    let left: i64 = recovered.catalog().lock().query_row("SELECT count(*) FROM wal", [], |row| row.get(0)).unwrap();
    assert_eq!((left, recovered.stats().set_aside_segments, recovered.stats().segments), (0, 0, 1));
    recovered.flush().await.unwrap();
    assert_eq!(frame(&recovered, "s").count().await.unwrap(), 50);
    assert_eq!(all(&recovered, "s").await, all(&store, "s").await);
}

/// A flush whose registration failed leaves a file; the next one writes its rows again, with newer ones.
#[tokio::test]
async fn a_flush_that_was_written_twice_is_there_once() {
    // The names of files are random, and so is the order in which a start finds them.
    for _ in 0..6 {
        let [dir, again, crashed] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let store = open(&dir);
        store.create_source("s").unwrap();
        store.ingest("s", (0..50).map(|i| json!({"id": format!("{i:02}")})).collect()).await.unwrap();
        copy(dir.path(), again.path());
        store.flush().await.unwrap();
        let again_store = open(&again);
        again_store.ingest("s", (50..75).map(|i| json!({"id": format!("{i:02}")})).collect()).await.unwrap();
        copy(again.path(), crashed.path());
        again_store.flush().await.unwrap();
        for written in [&dir, &again] {
            copy(&written.path().join("segments"), &crashed.path().join("segments"));
        }
        for _ in 0..2 {
            let recovered = open(&crashed);
            assert_eq!(all(&recovered, "s").await, all(&again_store, "s").await);
            let stats = recovered.stats();
            assert_eq!((stats.set_aside_segments, stats.damaged_segments, stats.segments), (0, 0, 1));
        }
    }
}

#[tokio::test]
async fn flushed_rows_leave_the_log() {
    let (_dir, store) = with_source(manual());
    store.create_source("t").unwrap();
    let left =
        || -> i64 { store.catalog().lock().query_row("SELECT count(*) FROM wal", [], |row| row.get(0)).unwrap() };
    for _ in 0..5 {
        store.ingest("s", vec![json!({})]).await.unwrap();
        store.ingest("t", vec![json!({})]).await.unwrap();
    }
    assert_eq!(left(), 10);
    store.flush().await.unwrap();
    assert_eq!(left(), 0);
}

/// Readers see every acknowledged row once, whatever the flusher does meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_once_while_flushing_and_querying() {
    let options = StoreOptions { flush_rows: 40, flush_interval: Duration::from_millis(20), ..StoreOptions::default() };
    let (dir, store) = with_source(options);
    let acknowledged = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (store, acknowledged) = (Arc::clone(&store), Arc::clone(&acknowledged));
            tokio::spawn(async move {
                for i in 0..60 {
                    let events = (0..5).map(|j| json!({"id": format!("{writer}-{i}-{j}"), "k": {"w": writer}}));
                    store.ingest("s", events.collect()).await.unwrap();
                    acknowledged.fetch_add(5, std::sync::atomic::Ordering::SeqCst);
                }
            })
        })
        .collect();
    let mut queries = 0;
    while writers.iter().any(|writer| !writer.is_finished()) || queries < 5 {
        let at_least = acknowledged.load(std::sync::atomic::Ordering::SeqCst);
        let ids = rows(frame(&store, "s").select_columns(&["id"]).unwrap()).await;
        let distinct: HashSet<String> = ids.iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(distinct.len(), ids.len(), "a row was seen twice");
        assert!(ids.len() >= at_least, "{} of {at_least} acknowledged rows", ids.len());
        if queries % 3 == 0 {
            store.flush().await.unwrap();
        }
        queries += 1;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    drop(store);
    assert_eq!(frame(&open(&dir), "s").count().await.unwrap(), 1200);
}

#[tokio::test]
async fn a_full_flush_queue_of_shapes_survives_a_failed_flush() {
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    store.ingest("s", vec![json!({"id": "1", "a": 1})]).await.unwrap();
    // A file where the source's folder should be: the segment cannot be written.
    let folder = dir.path().join("segments").join(id.to_string());
    std::fs::write(&folder, b"in the way").unwrap();
    assert!(store.flush().await.is_err());
    assert_eq!(all(&store, "s").await.len(), 1);
    store.ingest("s", vec![json!({"id": "2", "a": 0.5})]).await.unwrap();
    assert_eq!(all(&store, "s").await.len(), 2);
    std::fs::remove_file(&folder).unwrap();
    store.flush().await.unwrap();
    assert_eq!(all(&store, "s").await.iter().map(|r| r["a"].as_f64().unwrap()).sum::<f64>(), 1.5);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}

#[tokio::test]
async fn a_refused_transaction_acknowledges_and_leaves_nothing() {
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    let sql = |text: &str| store.catalog().lock().execute_batch(text).unwrap();
    store.ingest("s", vec![json!({"id": "1"})]).await.unwrap();

    sql("CREATE TRIGGER no BEFORE INSERT ON wal BEGIN SELECT raise(ABORT, 'no room'); END");
    let error = store.ingest("s", vec![json!({"id": "2"})]).await.unwrap_err();
    assert!(matches!(&error, StoreError::CommitFailed(reason) if reason.contains("no room")), "{error}");
    assert_eq!(all(&store, "s").await.len(), 1);
    sql("DROP TRIGGER no");

    sql("CREATE TRIGGER no BEFORE INSERT ON segments BEGIN SELECT raise(ABORT, 'no room'); END");
    assert!(store.flush().await.is_err());
    let folder = dir.path().join("segments").join(id.to_string());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    sql("DROP TRIGGER no");

    store.flushed("s", vec![json!({"id": "3"})]).await;
    let ids: Vec<_> = all(&store, "s").await.iter().map(|r| r["id"].clone()).collect();
    assert_eq!(ids, ["1", "3"]);
}

#[tokio::test]
async fn too_much_in_memory_is_refused() {
    let (_dir, store) = with_source(StoreOptions { max_unflushed_bytes: 1000, ..manual() });
    store.ingest("s", vec![json!({"event_message": "x".repeat(2000)})]).await.unwrap();
    assert!(matches!(store.ingest("s", vec![json!({})]).await, Err(StoreError::Overloaded { .. })));
    store.flush().await.unwrap();
    store.ingest("s", vec![json!({})]).await.unwrap();
}

/// What the watchdog goes by: it answers when the thread is free, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_whose_thread_hangs_does_not_answer() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(dir.path(), manual()).unwrap());
    store.answers().await.unwrap();
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let (begun, began) = tokio::sync::oneshot::channel();
    let writer = Arc::clone(&store.writer);
    let hangs = tokio::task::spawn_blocking(move || {
        writer.transact(move |_| {
            begun.send(()).unwrap();
            waits.recv().unwrap();
            Ok(())
        })
    });
    began.await.unwrap();
    let mut answers = std::pin::pin!(store.answers());
    assert!(futures::poll!(answers.as_mut()).is_pending());
    go_on.send(()).unwrap();
    answers.await.unwrap();
    hangs.await.unwrap().unwrap();
    store.close().await.unwrap();
    assert!(matches!(store.answers().await, Err(StoreError::Closed)));
}

#[test]
fn the_folder_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("new/data");
    Store::open(&data, manual()).unwrap();
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
}
