//! Copies of segments in another folder or a bucket: there before the catalog names them, gone after the last reader, and
//! never those of another store.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use chrono::TimeDelta;
use uuid::Uuid;

use super::{
    all,
    damage::{events, files, files_below},
    object_server::{Fault, ObjectServer},
    objects::limits,
    segment_files::{compare, small},
};
use crate::{
    Retention, SegmentCache, SegmentFiles, Store, StoreError, StoreOptions,
    background::copying,
    clock::DAY,
    objects::{copies::ObjectCopies, ownership::Before},
};

const HOUR: i64 = DAY / 24;

struct Folders {
    all: tempfile::TempDir,
}

impl Folders {
    fn new() -> Folders {
        let all = tempfile::tempdir().unwrap();
        std::fs::create_dir(all.path().join("copies")).unwrap();
        Folders { all }
    }

    fn data(&self) -> PathBuf {
        self.all.path().join("data")
    }

    fn copies(&self) -> PathBuf {
        self.all.path().join("copies")
    }

    fn options(&self) -> StoreOptions {
        StoreOptions { copies_url: format!("file://{}", self.copies().display()), ..small() }
    }

    fn open(&self) -> Arc<Store> {
        Store::open(&self.data(), self.options()).unwrap()
    }

    /// The copies, by their places below the folder.
    fn copied(&self) -> Vec<PathBuf> {
        relative(&files(&self.copies()), &self.copies())
    }

    fn written(&self) -> Vec<PathBuf> {
        relative(&files(&self.data()), &self.data())
    }
}

fn relative(files: &[PathBuf], folder: &Path) -> Vec<PathBuf> {
    files.iter().map(|file| file.strip_prefix(folder).unwrap().to_owned()).collect()
}

fn compare_now(store: &Store, age: TimeDelta) {
    copying::compare(&store.data, &store.sources, &store.copies.as_ref().unwrap().0, age).unwrap();
}

async fn flushed(store: &Store, from: i64) {
    store.flushed("s", events(from, 300)).await;
}

#[tokio::test]
async fn a_copy_is_there_as_long_as_its_segment() {
    let folders = Folders::new();
    let store = folders.open();
    store.create_source("s").unwrap();
    for part in 0..8 {
        flushed(&store, part * 300).await;
    }
    assert_eq!((folders.copied().len(), folders.copied()), (8, folders.written()));
    let elsewhere = SegmentFiles::folder(&folders.copies()).unwrap();
    compare(&store, &elsewhere).await;
    store.compact().await.unwrap();
    assert_eq!(store.stats().segments, 1);
    compare(&store, &elsewhere).await;
    let stats = store.stats();
    assert_eq!((stats.object_puts, stats.failed_object_puts, stats.objects_failing), (9, 0, false));
    assert!(stats.object_put_bytes > 0);

    // Tombstones of merged segments stay for an hour, and so do the copies.
    store.apply_retention().await.unwrap();
    assert_eq!(folders.copied().len(), 9);
    let id = store.source("s").unwrap().id;
    store.set_retention(id, Retention { max_age: None, max_bytes: Some(0) }).unwrap();
    for _ in 0..2 {
        store.apply_retention().await.unwrap();
        compare_now(&store, TimeDelta::zero());
    }
    // What was dropped by mistake can be had back for a day, also after a start. What is in others is gone before.
    store.clock.pass(DAY - HOUR);
    store.apply_retention().await.unwrap();
    assert_eq!((store.stats().segments, folders.copied().len()), (0, 1));
    drop(store);
    let store = folders.open();
    for _ in 0..2 {
        store.apply_retention().await.unwrap();
        compare_now(&store, TimeDelta::zero());
    }
    assert_eq!(folders.copied().len(), 1);
    store.clock.pass(DAY);
    store.apply_retention().await.unwrap();
    assert_eq!(folders.copied().len(), 0);

    // A source that is deleted with its folder.
    store.set_retention(id, Retention::default()).unwrap();
    flushed(&store, 0).await;
    assert_eq!(folders.copied().len(), 1);
    store.delete_source(id).unwrap();
    store.clock.pass(DAY);
    store.apply_retention().await.unwrap();
    assert_eq!(folders.copied().len(), 0);
}

#[tokio::test]
async fn a_copy_stays_while_a_query_may_read_it() {
    let folders = Folders::new();
    let store = folders.open();
    let id = store.create_source("s").unwrap().id;
    flushed(&store, 0).await;
    let reader = store.table("s").unwrap();
    store.set_retention(id, Retention { max_age: None, max_bytes: Some(0) }).unwrap();
    for _ in 0..2 {
        store.apply_retention().await.unwrap();
    }
    compare_now(&store, TimeDelta::zero());
    assert_eq!((store.stats().segments, folders.copied().len()), (0, 1));
    drop(reader);
    store.clock.pass(DAY);
    store.apply_retention().await.unwrap();
    assert_eq!(folders.copied().len(), 0);
}

#[tokio::test]
async fn without_a_copy_rows_stay_in_memory_and_in_the_log() {
    let folders = Folders::new();
    let store = folders.open();
    store.create_source("s").unwrap();
    flushed(&store, 0).await;
    // Nothing can be put where a file is in the place of the folder.
    let (kept, hidden) = (folders.copies().join("segments"), folders.copies().join("hidden"));
    std::fs::rename(&kept, &hidden).unwrap();
    std::fs::write(&kept, "").unwrap();
    store.ingest("s", events(300, 300)).await.unwrap();
    for _ in 0..2 {
        assert!(matches!(store.flush().await, Err(StoreError::ObjectStore { .. })));
    }
    let stats = store.stats();
    assert_eq!((stats.segments, stats.failed_flushes, stats.failed_object_puts), (1, 2, 2));
    assert!(stats.objects_failing);
    assert_eq!(all(&store, "s").await.len(), 600);
    assert_eq!(folders.written().len(), 1, "the file of a segment that was not registered goes");
    // A crash now loses nothing.
    let before = all(&store, "s").await;
    drop(store);
    let store = folders.open();
    assert_eq!(all(&store, "s").await, before);
    std::fs::remove_file(&kept).unwrap();
    std::fs::rename(&hidden, &kept).unwrap();
    store.flush().await.unwrap();
    assert!(!store.stats().objects_failing);
    assert_eq!((all(&store, "s").await, folders.copied()), (before, folders.written()));

    // A merge that cannot be put changes nothing.
    for part in 2..8 {
        flushed(&store, part * 300).await;
    }
    std::fs::rename(&kept, &hidden).unwrap();
    std::fs::write(&kept, "").unwrap();
    assert!(matches!(store.compact().await, Err(StoreError::ObjectStore { .. })));
    assert_eq!((store.stats().segments, folders.written().len()), (8, 8));
    std::fs::remove_file(&kept).unwrap();
    std::fs::rename(&hidden, &kept).unwrap();
    store.compact().await.unwrap();
    assert_eq!(store.stats().segments, 1);
}

#[tokio::test]
async fn what_is_missing_is_put_and_what_belongs_to_nothing_is_deleted() {
    let folders = Folders::new();
    let without = StoreOptions { copies_url: String::new(), ..folders.options() };
    let store = Store::open(&folders.data(), without).unwrap();
    store.create_source("s").unwrap();
    for part in 0..3 {
        flushed(&store, part * 300).await;
    }
    let source = store.source("s").unwrap().id;
    drop(store);
    let store = folders.open();
    assert_eq!(folders.copied().len(), 0);
    compare_now(&store, TimeDelta::days(1));
    assert_eq!((folders.copied(), store.stats().missing_objects), (folders.written(), 0));
    // One that is lost, one that was cut, and leftovers: only old ones with names of our form go.
    let copies = files(&folders.copies());
    std::fs::remove_file(&copies[0]).unwrap();
    std::fs::write(&copies[1], "cut").unwrap();
    let folder = folders.copies().join("segments").join(source.to_string());
    let leftover = folder.join(format!("{}.parquet", Uuid::new_v4()));
    for path in [&leftover, &folder.join("notes.parquet"), &folder.join(format!("{}.txt", Uuid::new_v4()))] {
        std::fs::write(path, "left").unwrap();
    }
    compare_now(&store, TimeDelta::days(1));
    assert!(leftover.exists());
    compare_now(&store, TimeDelta::zero());
    assert!(!leftover.exists());
    assert_eq!(files_below(&folder).len(), 5);
    compare(&store, &SegmentFiles::folder(&folders.copies()).unwrap()).await;
}

#[tokio::test]
async fn the_copies_of_another_store_are_left_alone() {
    let (one, other) = (Folders::new(), tempfile::tempdir().unwrap());
    let store = one.open();
    store.create_source("s").unwrap();
    flushed(&store, 0).await;
    let copied = one.copied();
    drop(store);
    let opened = Store::open(&other.path().join("data"), one.options());
    assert!(matches!(opened, Err(StoreError::OtherOwner { .. })), "{opened:?}");
    assert_eq!(one.copied(), copied);
    drop(one.open());
    // The data folder itself, what is in it, and what it is in.
    for folder in [one.data(), one.data().join("segments"), one.all.path().to_owned()] {
        let options = StoreOptions { copies_url: format!("file://{}", folder.display()), ..small() };
        assert!(matches!(Store::open(&one.data(), options), Err(StoreError::BadUrl { .. })), "{folder:?}");
    }
    let options = StoreOptions { copies_url: "file:///nowhere/at/all".to_owned(), ..small() };
    assert!(matches!(Store::open(&one.data(), options), Err(StoreError::ObjectStore { .. })));
}

#[tokio::test]
async fn a_bucket_gets_whole_objects_or_an_error() {
    let (server, dir, cache) = (ObjectServer::start(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let open = |catalog: Uuid| {
        let of = (catalog, catalog, Before::Own);
        ObjectCopies::open("s3://bucket/logs", Path::new("/none"), of, true, server.settings(), limits())
    };
    let catalog = Uuid::new_v4();
    let copies = open(catalog).unwrap();
    let (source, path) = (Uuid::new_v4(), dir.path().join("file"));
    let large: Vec<u8> = (0..20_u32 << 20).map(|n| (n % 251) as u8).collect();
    for (bytes, fault, times) in [
        (1000, None, 0),
        (0, None, 0),
        (8 << 20, None, 0),
        (20 << 20, None, 0),
        (20 << 20, Some(Fault::Status(503)), 2),
        (20 << 20, Some(Fault::Status(500)), 2),
        (1000, Some(Fault::Status(500)), 2),
        (1000, Some(Fault::Close), 1),
    ] {
        std::fs::write(&path, &large[..bytes]).unwrap();
        let (segment, failed) = (Uuid::new_v4(), AtomicUsize::new(0));
        server.faults(move |_| fault.filter(|_| failed.fetch_add(1, Ordering::SeqCst) < times));
        copies.put(source, segment, &path, bytes as u64).unwrap();
        let object = format!("logs/segments/{source}/{segment}.parquet");
        assert!(server.objects()[&object] == large[..bytes], "{bytes} {fault:?}");
    }
    let listed = copies.list().unwrap();
    assert_eq!(listed.len(), 8);
    for bytes in [1000, 20 << 20] {
        std::fs::write(&path, &large[..bytes]).unwrap();
        server.faults(|request| (!request.object.is_empty()).then_some(Fault::Status(500)));
        let segment = Uuid::new_v4();
        let error = copies.put(source, segment, &path, bytes as u64).unwrap_err();
        assert!(matches!(error, StoreError::ObjectStore { .. }), "{error}");
        server.faults(|_| None);
        // Another length than was said.
        let error = copies.put(source, segment, &path, bytes as u64 + 1).unwrap_err();
        assert!(error.to_string().contains("and should have"), "{error}");
        assert!(!server.objects().contains_key(&format!("logs/segments/{source}/{segment}.parquet")));
    }
    // Part by part, and a source as a whole.
    copies.delete_segments(&[(listed[0].segment, source), (Uuid::new_v4(), source)]).unwrap();
    assert_eq!(copies.list().unwrap().len(), 7);
    copies.delete_segments(&[(source, source)]).unwrap();
    assert_eq!(copies.list().unwrap(), []);
    assert!(matches!(open(Uuid::new_v4()), Err(StoreError::OtherOwner { .. })));

    // A store that is down does not prevent the start, which asks it for a bounded time, and closing does not wait for it.
    let requests = Arc::new(AtomicUsize::new(0));
    server.faults({
        let requests = Arc::clone(&requests);
        move |_| {
            requests.fetch_add(1, Ordering::SeqCst);
            Some(Fault::Slow(Duration::from_secs(10)))
        }
    });
    let copies = open(catalog).unwrap();
    assert_eq!(requests.load(Ordering::SeqCst), 1, "its requests come one after another");
    let (copies, began) = (Arc::new(copies), Instant::now());
    let putting = std::thread::spawn({
        let (copies, path) = (Arc::clone(&copies), path.clone());
        move || copies.put(source, Uuid::new_v4(), &path, 20 << 20)
    });
    std::thread::sleep(Duration::from_millis(200));
    copies.stop();
    assert!(matches!(putting.join().unwrap(), Err(StoreError::Closed)));
    assert!(began.elapsed() < Duration::from_secs(2));
    let cache = SegmentCache { folder: cache.path().to_owned(), bytes: 1 };
    assert!(SegmentFiles::open("s3://bucket/logs", &cache, Duration::from_secs(1)).is_ok());
}
