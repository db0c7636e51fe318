//! Sources that are renamed and deleted while they are in use.

use std::{path::PathBuf, sync::Arc, time::Duration};

use datafusion::physical_plan::collect;
use serde_json::json;
use tidegate_model::Audience;
use uuid::Uuid;

use super::{again, all, context, frame, manual, open, opened, with_source};
use crate::{Retention, StoreError, StoreOptions};

fn folder(dir: &tempfile::TempDir, id: Uuid) -> PathBuf {
    dir.path().join("segments").join(id.to_string())
}

#[tokio::test]
async fn a_renamed_source_keeps_its_rows() {
    let (dir, store) = opened(manual());
    let id = store.create_source("old").unwrap().id;
    store.create_source("other").unwrap();
    store.flushed("old", vec![json!({"id": "1"})]).await;
    store.ingest("old", vec![json!({"id": "2"})]).await.unwrap();
    let before = frame(&store, "old");

    assert!(matches!(store.rename_source(id, "other"), Err(StoreError::Exists(_))));
    assert!(matches!(store.rename_source(id, "a\nb"), Err(StoreError::InvalidName { .. })));
    assert!(matches!(store.rename_source(Uuid::new_v4(), "x"), Err(StoreError::UnknownSource { .. })));
    assert_eq!(store.rename_source(id, "old").unwrap().name, "old");
    assert_eq!(store.rename_source(id, "new").unwrap().name, "new");

    assert_eq!(before.count().await.unwrap(), 2);
    assert!(matches!(store.table("old"), Err(StoreError::UnknownSource { .. })));
    assert!(matches!(store.ingest("old", vec![json!({})]).await, Err(StoreError::UnknownSource { .. })));
    store.ingest("new", vec![json!({"id": "3"})]).await.unwrap();
    assert_eq!(all(&store, "new").await.len(), 3);
    // The old name is free, and another source.
    assert_ne!(store.create_source("old").unwrap().id, id);
    assert_eq!(all(&store, "old").await.len(), 0);
    let table = context().read_table(store.table_for(id, &Audience::All).unwrap().table).unwrap();
    assert_eq!(table.count().await.unwrap(), 3);
    assert!(matches!(store.table_for(Uuid::new_v4(), &Audience::All), Err(StoreError::UnknownSource { .. })));

    let store = again(store, dir.path(), manual());
    let names: Vec<String> = store.sources().into_iter().map(|source| source.name).collect();
    assert_eq!(names, ["new", "old", "other"]);
    assert_eq!(store.source("new").unwrap().id, id);
    assert_eq!(all(&store, "new").await.len(), 3);
}

#[test]
fn retention_is_kept_with_the_source() {
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    assert_eq!(store.source("s").unwrap().retention, Retention::default());
    for (given, kept) in [
        (Retention { max_age: Some(Duration::from_millis(1500)), max_bytes: Some(7) }, Some(Duration::from_secs(2))),
        (Retention { max_age: Some(Duration::MAX), max_bytes: Some(u64::MAX) }, Some(Duration::MAX)),
        (Retention::default(), None),
        (Retention { max_age: Some(Duration::from_secs(60)), max_bytes: None }, Some(Duration::from_secs(60))),
    ] {
        let info = store.set_retention(id, given).unwrap();
        assert_eq!(info.retention.max_age, kept);
        assert_eq!(info.retention.max_bytes, given.max_bytes.map(|bytes| bytes.min(i64::MAX.cast_unsigned())));
        assert_eq!(store.source("s").unwrap(), info);
    }
    assert!(matches!(store.set_retention(Uuid::new_v4(), Retention::default()), Err(StoreError::UnknownSource { .. })));
    let before = store.sources();
    drop(store);
    assert_eq!(open(&dir).sources(), before);
}

#[tokio::test]
async fn a_deleted_source_is_gone_when_its_last_reader_is() {
    let (dir, store) = opened(manual());
    store.create_source("kept").unwrap();
    let id = store.create_source("s").unwrap().id;
    for i in 0..3 {
        store.flushed("s", (0..10).map(|j| json!({"id": format!("{i}-{j}")})).collect()).await;
    }
    store.ingest("s", vec![json!({"id": "memory"})]).await.unwrap();
    store.ingest("kept", vec![json!({"id": "kept"})]).await.unwrap();
    let files = || std::fs::read_dir(folder(&dir, id)).map_or(0, Iterator::count);
    assert_eq!(files(), 3);

    // A query that is planned and not yet read, and a table that is not yet planned.
    let plan = frame(&store, "s").create_physical_plan().await.unwrap();
    let table = frame(&store, "s");
    store.delete_source(id).unwrap();
    assert!(matches!(store.delete_source(id), Err(StoreError::UnknownSource { .. })));
    assert!(matches!(store.table("s"), Err(StoreError::UnknownSource { .. })));
    assert!(matches!(store.table_for(id, &Audience::All), Err(StoreError::UnknownSource { .. })));
    assert!(matches!(store.ingest("s", vec![json!({})]).await, Err(StoreError::UnknownSource { .. })));
    assert_eq!(store.source(&id.to_string()), None);
    let left = |what: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {what}");
        store.catalog().lock().query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!((left("sources"), left("wal"), left("segments")), (1, 1, 0));

    assert_eq!(files(), 3, "a reader is still there");
    assert_eq!(table.count().await.unwrap(), 31);
    let batches = collect(plan, context().task_ctx()).await.unwrap();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 31);
    assert!(!folder(&dir, id).exists());

    // The same name and, in the catalog, the same short key: nothing comes back.
    assert_ne!(store.create_source("s").unwrap().id, id);
    store.flushed("s", vec![json!({"id": "new"})]).await;
    let store = again(store, dir.path(), manual());
    assert_eq!((all(&store, "s").await.len(), all(&store, "kept").await.len()), (1, 1));
}

#[tokio::test]
async fn what_a_crash_leaves_of_a_deleted_source_is_swept() {
    let (dir, store) = opened(manual());
    let (id, mixed) = (store.create_source("s").unwrap().id, Uuid::new_v4());
    store.flushed("s", vec![json!({"id": "1"})]).await;
    let file = std::fs::read_dir(folder(&dir, id)).unwrap().next().unwrap().unwrap().path();
    let bytes = std::fs::read(&file).unwrap();
    store.delete_source(id).unwrap();
    assert!(!folder(&dir, id).exists());
    drop(store);
    // As if the process had died right after the commit.
    std::fs::create_dir(folder(&dir, id)).unwrap();
    std::fs::write(&file, &bytes).unwrap();
    std::fs::create_dir(folder(&dir, mixed)).unwrap();
    std::fs::write(folder(&dir, mixed).join(format!("{}.tmp", Uuid::new_v4())), b"half").unwrap();
    std::fs::write(folder(&dir, mixed).join("notes.txt"), b"not ours").unwrap();
    std::fs::create_dir(dir.path().join("segments/lost+found")).unwrap();

    assert_eq!(open(&dir).sources(), []);
    assert!(!folder(&dir, id).exists());
    assert_eq!(std::fs::read_dir(folder(&dir, mixed)).unwrap().count(), 1);
    assert!(dir.path().join("segments/lost+found").is_dir());
}

#[tokio::test]
async fn a_deleted_source_gives_its_memory_back() {
    let (_dir, store) = opened(StoreOptions { max_unflushed_bytes: 1000, ..manual() });
    store.create_source("other").unwrap();
    for shredded in [false, true] {
        let id = store.create_source("s").unwrap().id;
        store.ingest("s", vec![json!({"event_message": "x".repeat(2000)})]).await.unwrap();
        if shredded {
            assert_eq!(all(&store, "s").await.len(), 1);
        }
        assert!(matches!(store.ingest("other", vec![json!({})]).await, Err(StoreError::Overloaded { .. })));
        store.delete_source(id).unwrap();
        store.ingest("other", vec![json!({})]).await.unwrap();
    }
}

/// Whoever writes to a source that is being deleted is told so; the writer goes on for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn deleting_while_events_and_flushes_are_on_their_way() {
    let options = StoreOptions { flush_rows: 20, flush_interval: Duration::from_millis(1), ..StoreOptions::default() };
    let (dir, store) = opened(options);
    store.create_source("kept").unwrap();
    let (mut kept, mut refused) = (0, 0);
    for _ in 0..25 {
        let id = store.create_source("s").unwrap().id;
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for call in 0.. {
                        store.ingest("kept", vec![json!({"call": call})]).await.unwrap();
                        match store.ingest("s", (0..7).map(|i| json!({"i": i})).collect()).await {
                            Ok(rows) => assert_eq!(rows.stored, 7),
                            Err(StoreError::UnknownSource { .. }) => return call + 1,
                            Err(other) => panic!("{other}"),
                        }
                    }
                    unreachable!()
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(3)).await;
        let deleting = Arc::clone(&store);
        tokio::task::spawn_blocking(move || deleting.delete_source(id)).await.unwrap().unwrap();
        for writer in writers {
            kept += writer.await.unwrap();
            refused += 1;
        }
    }
    assert_eq!(refused, 100);
    store.flush().await.unwrap();
    assert_eq!(frame(&store, "kept").count().await.unwrap(), kept);
    let store = again(store, dir.path(), manual());
    assert_eq!(frame(&store, "kept").count().await.unwrap(), kept);
    assert_eq!(std::fs::read_dir(dir.path().join("segments")).unwrap().count(), 1);
}
