//! Segments in an object store, which fails: the rows are right, or an error says why there are none.
#![expect(clippy::single_range_in_vec_init, reason = "a list of ranges may have one")]

use std::{
    collections::HashSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use uuid::Uuid;

use super::{
    damage::fill,
    object_server::{Fault, ObjectServer},
    segment_files::{compare, names, small},
};
use crate::{
    SegmentCache, SegmentError, SegmentFiles, SegmentName, Store, StoreError,
    objects::{
        block_reader::{BlockReader, Object},
        client::RequestLimits,
        object_error::ObjectError,
        url::StoreUrl,
    },
};

pub(super) const BLOCK: u64 = 8 << 10;

pub(super) fn limits() -> RequestLimits {
    let short = Duration::from_millis(400);
    RequestLimits {
        at_once: 4,
        connect_time: short,
        try_time: short,
        retries: 3,
        retry_time: Duration::from_secs(5),
        ..RequestLimits::default()
    }
}

pub(super) fn reader(server: &ObjectServer, folder: &Path, most_bytes: u64) -> BlockReader {
    let url = StoreUrl::parse("s3://bucket/logs").unwrap();
    BlockReader::open(&url, server.settings(), limits(), (folder, most_bytes, BLOCK)).unwrap()
}

pub(super) fn files(server: &ObjectServer, folder: &Path) -> SegmentFiles {
    let cache = SegmentCache { folder: folder.to_owned(), bytes: 1 << 20 };
    SegmentFiles::open_with("s3://bucket/logs", &cache, server.settings(), limits(), BLOCK).unwrap()
}

/// An object of so many bytes, none of them like the one before it.
pub(super) fn object(server: &ObjectServer, bytes: u64) -> (Object, Vec<u8>) {
    let object = Object { segment: Uuid::new_v4(), source: Uuid::new_v4(), bytes };
    let written: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
    server.put(&format!("logs/segments/{}/{}.parquet", object.source, object.segment), written.clone());
    (object, written)
}

#[tokio::test]
async fn ranges_are_those_of_the_object_from_the_store_and_from_disk() {
    let (server, folder) = (ObjectServer::start(), tempfile::tempdir().unwrap());
    let cache = folder.path().join("cache");
    let (object, written) = object(&server, 5 * BLOCK + 100);
    let ranges = [0..1, 7..7, BLOCK - 1..BLOCK + 1, 0..object.bytes, object.bytes - 10..object.bytes, 5..3 * BLOCK];
    let reader = reader(&server, &cache, 1 << 20);
    for round in 0..3 {
        let read = reader.ranges(&object, &ranges, None).await.unwrap();
        for (range, read) in ranges.iter().zip(read) {
            assert_eq!(read, written[range.start as usize..range.end as usize], "{range:?} in round {round}");
        }
    }
    // Six blocks, all of them neighbours.
    let stats = reader.stats();
    assert_eq!((stats.requests, stats.misses, stats.hits, stats.fetched_bytes), (1, 6, 12, object.bytes));
    assert_eq!(server.requests(), 1);
    // Another process finds them.
    drop(reader);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let again = self::reader(&server, &cache, 1 << 20);
    assert_eq!(again.ranges(&object, &ranges, None).await.unwrap()[3], written);
    assert_eq!((again.stats().requests, server.requests()), (0, 1));
    // Deleted while it is used.
    std::fs::remove_dir_all(&cache).unwrap();
    for _ in 0..2 {
        assert_eq!(again.ranges(&object, &ranges, None).await.unwrap()[3], written);
    }
    assert_eq!(again.ranges(&object, &[0..object.bytes + 1], None).await.unwrap_err(), ObjectError::BeyondEnd);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_is_fetched_once_for_all_who_want_it_and_for_nobody_who_left() {
    let (server, folder) = (ObjectServer::start(), tempfile::tempdir().unwrap());
    let (object, written) = object(&server, 3 * BLOCK);
    server.faults(|_| Some(Fault::Slow(Duration::from_millis(150))));
    let reader = Arc::new(reader(&server, folder.path(), 1 << 20));
    // The first one leaves while the others wait for what it asked for.
    let first = tokio::spawn({
        let (reader, object) = (Arc::clone(&reader), object.clone());
        async move { reader.ranges(&object, &[0..10], None).await }
    });
    tokio::time::sleep(Duration::from_millis(40)).await;
    let others = (0..20).map(|n| {
        let (reader, object) = (&reader, &object);
        async move { reader.ranges(object, &[n..n + 10], None).await.unwrap() }
    });
    let (others, ()) = futures::join!(join_all(others), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        first.abort();
    });
    for (n, read) in others.iter().enumerate() {
        assert_eq!(read[0], written[n..n + 10]);
    }
    assert_eq!((server.requests(), reader.stats().joined), (1, 20));

    // Nobody waits: it is not fetched to the end, and can be fetched later.
    let alone = tokio::spawn({
        let (reader, object) = (Arc::clone(&reader), object.clone());
        async move { reader.ranges(&object, &[BLOCK..BLOCK + 10], None).await }
    });
    tokio::time::sleep(Duration::from_millis(40)).await;
    alone.abort();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(reader.stats().fetched_bytes, BLOCK);
    server.faults(|_| None);
    assert_eq!(reader.ranges(&object, &[BLOCK..BLOCK + 10], None).await.unwrap()[0], written[BLOCK as usize..][..10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_the_cache_stay_within_their_bounds() {
    let (server, folder) = (ObjectServer::start(), tempfile::tempdir().unwrap());
    let (object, written) = object(&server, 64 * BLOCK);
    server.faults(|_| Some(Fault::Slow(Duration::from_millis(5))));
    let reader = reader(&server, folder.path(), 10 * BLOCK);
    let every_third = (0..64).step_by(3).map(|block| block * BLOCK..block * BLOCK + 10).collect::<Vec<_>>();
    let reads = (0..6).map(|_| reader.ranges(&object, &every_third, None));
    for read in join_all(reads).await {
        for (range, read) in every_third.iter().zip(read.unwrap()) {
            assert_eq!(read, written[range.start as usize..range.end as usize]);
        }
    }
    assert!(server.most_running() <= 4, "{}", server.most_running());
    let on_disk: u64 =
        super::damage::files_below(folder.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
    let stats = reader.stats();
    assert!(on_disk <= 10 * BLOCK && stats.cached_bytes <= 10 * BLOCK && stats.evicted > 0, "{on_disk} {stats:?}");
}

#[tokio::test]
async fn faults_that_pass_are_survived_and_others_are_told() {
    let (server, folder) = (ObjectServer::start(), tempfile::tempdir().unwrap());
    // Each request fails once or twice before it is answered.
    for (fault, times) in [
        (Fault::Status(500), 2),
        (Fault::Status(503), 2),
        (Fault::Status(429), 1),
        (Fault::Slow(Duration::from_millis(700)), 1),
        (Fault::Cut, 2),
        (Fault::Close, 1),
    ] {
        let (object, written) = object(&server, 3 * BLOCK);
        let cache = folder.path().join(object.segment.to_string());
        let reader = reader(&server, &cache, 1 << 20);
        let failed = AtomicUsize::new(0);
        server.faults(move |_| (failed.fetch_add(1, Ordering::SeqCst) < times).then_some(fault));
        let read = reader.ranges(&object, &[0..object.bytes], None).await;
        assert_eq!(read.unwrap()[0], written, "{fault:?}");
    }
    for (fault, said) in [
        (Fault::Status(500), "the object store fails"),
        (Fault::Status(503), "the object store fails"),
        (Fault::Status(403), "the object store denies access"),
        (Fault::Slow(Duration::from_secs(2)), "the object store does not answer in time"),
        (Fault::Close, "the object store"),
        (Fault::Cut, "the object store"),
    ] {
        let (object, written) = object(&server, 3 * BLOCK);
        let cache = folder.path().join(object.segment.to_string());
        let reader = reader(&server, &cache, 1 << 20);
        server.faults(move |_| Some(fault));
        let began = Instant::now();
        let error = reader.ranges(&object, &[0..10], None).await.unwrap_err();
        assert!(!error.is_damage() && error.to_string().starts_with(said), "{fault:?}: {error}");
        assert!(began.elapsed() < Duration::from_secs(12), "{fault:?}: {:?}", began.elapsed());
        server.faults(|_| None);
        assert_eq!(reader.ranges(&object, &[0..10], None).await.unwrap()[0], written[..10], "after {fault:?}");
    }
    let (object, _) = object(&server, 3 * BLOCK);
    let reader = reader(&server, &folder.path().join("last"), 1 << 20);
    for bytes in [3 * BLOCK - 1, 3 * BLOCK + 1, 9 * BLOCK] {
        let other = Object { bytes, ..object.clone() };
        let error = reader.ranges(&other, &[bytes - 10..bytes], None).await.unwrap_err();
        assert_eq!(error, ObjectError::OtherLength { found: 3 * BLOCK, named: bytes });
    }
    let missing = Object { segment: Uuid::new_v4(), ..object };
    assert_eq!(reader.ranges(&missing, &[0..10], None).await.unwrap_err(), ObjectError::Missing);
}

#[tokio::test]
async fn segments_of_a_bucket_have_the_rows_of_the_folder() {
    let (server, dir, cache) = (ObjectServer::start(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(dir.path(), small()).unwrap();
    store.create_source("s").unwrap();
    fill(&store, 4).await;
    server.put_segments(dir.path(), "logs/");
    let before = server.requests();
    let files = files(&server, cache.path());
    compare(&store, &files).await;
    let cold = server.requests();
    compare(&store, &files).await;
    assert!(cold > before);
    assert_eq!(server.requests(), cold, "all of it is on disk");

    // Every block on disk is damaged: what is read is fetched again.
    for path in super::damage::files_below(&cache.path().join(format!("blocks-{BLOCK}"))) {
        let length = usize::try_from(path.metadata().unwrap().len()).unwrap();
        super::damage::flip(&path, 8 * (length / 2));
    }
    compare(&store, &files).await;
    assert!(server.requests() > cold && files.stats().forgotten > 0);
    // And what comes from the store once.
    files.forget_all();
    let flipped = AtomicUsize::new(0);
    server.faults(move |request| {
        // Once for each segment at most: what is wrong twice is damaged.
        (request.method == "GET" && flipped.fetch_add(1, Ordering::SeqCst) == 2).then_some(Fault::Flip)
    });
    compare(&store, &files).await;
}

#[tokio::test]
async fn an_object_that_is_not_the_one_that_was_named_is_an_error() {
    let (server, dir, cache) = (ObjectServer::start(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(dir.path(), small()).unwrap();
    store.create_source("s").unwrap();
    fill(&store, 2).await;
    server.put_segments(dir.path(), "logs/");
    let files = files(&server, cache.path());
    let (one, other) = (names(&store)[0].clone(), names(&store)[1].clone());
    let object = |name: &SegmentName| format!("logs/segments/{}/{}.parquet", name.source, name.id);
    assert_eq!(files.hold([one.clone(), other.clone()]).await.unwrap().len(), 2);
    for (wrong, why) in [
        (SegmentName { bytes: one.bytes + 1, ..one.clone() }, "were named"),
        (SegmentName { bytes: one.bytes - 1, ..one.clone() }, "were named"),
        (SegmentName { checksum: one.checksum.map(|root| root ^ 1), ..one.clone() }, "its checksums are not those"),
        (SegmentName { checksum: None, ..one.clone() }, "it has no checksums"),
        (SegmentName { id: Uuid::new_v4(), ..one.clone() }, "its object is missing"),
    ] {
        match files.hold([wrong.clone()]).await {
            Err(SegmentError::Damaged { segment, reason }) => {
                assert!(segment == wrong.id && reason.contains(why), "{reason} instead of {why}");
            }
            held => panic!("{held:?} instead of {why}"),
        }
    }
    let objects = server.objects();
    server.put(&object(&one), objects[&object(&other)].to_vec());
    let cold = tempfile::tempdir().unwrap();
    let error = self::files(&server, cold.path()).hold([one.clone()]).await.unwrap_err();
    assert!(matches!(error, SegmentError::Damaged { .. }), "{error}");
    server.remove(&object(&other));
    let cold = tempfile::tempdir().unwrap();
    let error = self::files(&server, cold.path()).hold([other.clone()]).await.unwrap_err();
    assert_eq!(error.failure().code, tidegate_model::Code::DataDamaged);
    // A store that is down is no damage, and the segment can be held when it is back.
    server.put(&object(&one), objects[&object(&one)].to_vec());
    server.faults(|_| Some(Fault::Status(500)));
    let cold = tempfile::tempdir().unwrap();
    let files = self::files(&server, cold.path());
    let error = files.hold([one.clone()]).await.unwrap_err();
    assert_eq!(error.failure().code, tidegate_model::Code::DataUnavailable);
    server.faults(|_| None);
    assert_eq!(files.hold([one]).await.unwrap().len(), 1);
}

#[test]
fn settings_that_contradict_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cache = |name: &str| SegmentCache { folder: folder.path().join(name), bytes: 1 };
    let settings = [("AWS_ACCESS_KEY_ID".to_owned(), "half".to_owned())];
    let opened = SegmentFiles::open_with("s3://bucket", &cache("a"), settings, limits(), BLOCK);
    assert!(matches!(opened, Err(StoreError::ObjectStore { .. })));
    assert!(matches!(
        SegmentFiles::open("gs://bucket", &cache("b"), Duration::from_secs(1)),
        Err(StoreError::BadUrl { .. })
    ));
    let names: HashSet<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.is_empty(), "{names:?}");
}
