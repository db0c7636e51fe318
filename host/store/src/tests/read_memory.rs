//! What is read of objects for a statement counts in its memory: before it is asked for, and until it is decoded.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use datafusion::{
    error::DataFusionError,
    execution::{
        TaskContext,
        memory_pool::{GreedyMemoryPool, MemoryPool},
        runtime_env::RuntimeEnvBuilder,
    },
    physical_plan::collect,
    prelude::SessionContext,
};
use futures::future::join_all;

use super::{
    damage::fill,
    frame, json_rows,
    object_server::{Fault, ObjectServer},
    objects::{BLOCK, files, object, reader},
    segment_files::{elsewhere, names, small},
};
use crate::{SegmentError, Store, objects::object_error::ObjectError, read_memory::ReadMemory};

fn pool(bytes: u64) -> Arc<dyn MemoryPool> {
    Arc::new(GreedyMemoryPool::new(usize::try_from(bytes).unwrap()))
}

/// From now on, each request must be counted in one of the pools beside those that run. Returns what was asked for of
/// those that were not.
fn watch(server: &ObjectServer, pools: Vec<Arc<dyn MemoryPool>>, time: Duration) -> Arc<AtomicUsize> {
    let uncounted = Arc::<AtomicUsize>::default();
    let told = Arc::clone(&uncounted);
    server.faults(move |request| {
        let held: usize = pools.iter().map(|pool| pool.reserved()).sum();
        if held < request.bytes() {
            told.fetch_add(request.bytes(), Ordering::SeqCst);
        }
        Some(Fault::Slow(time))
    });
    uncounted
}

/// Waits until a pool holds nothing. A block that was on its way for a statement that was refused counts until it has come.
async fn nothing_stays(pool: &Arc<dyn MemoryPool>) {
    let began = Instant::now();
    while pool.reserved() > 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "{} bytes stay", pool.reserved());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_count_from_before_they_are_asked_for_until_they_are_dropped() {
    let (server, folder) = (ObjectServer::start(), tempfile::tempdir().unwrap());
    let (object, written) = object(&server, 64 * BLOCK);
    let reader = reader(&server, folder.path(), 1 << 20);
    // A few bytes of many blocks: the blocks are what counts, and six of them have room.
    let few: Vec<_> = (0..60).step_by(2).map(|block| block * BLOCK..block * BLOCK + 10).collect();
    let pool = pool(6 * BLOCK);
    let memory = ReadMemory::of(&pool);
    let uncounted = watch(&server, vec![Arc::clone(&pool)], Duration::from_millis(5));
    let read = reader.ranges(&object, &few, Some(&memory)).await.unwrap();
    for (range, read) in few.iter().zip(&read) {
        assert_eq!(*read, written[range.start as usize..range.end as usize]);
    }
    assert_eq!((uncounted.load(Ordering::SeqCst), pool.reserved()), (0, 0), "who asked counts what was read");
    // One request for each of them, some of them at the same time.
    assert!((2..=6).contains(&server.most_running()) && server.requests() == few.len());

    // Not one block has room: nothing is asked for.
    let none = self::pool(BLOCK - 1);
    let odd = BLOCK..BLOCK + 10;
    let refused = reader.ranges(&object, std::slice::from_ref(&odd), Some(&ReadMemory::of(&none))).await;
    assert!(matches!(refused, Err(ObjectError::NoMemory(_))), "{refused:?}");
    assert_eq!((server.requests(), none.reserved()), (few.len(), 0));
    // A range over several blocks, joined: it waits for what has come.
    let long = 40 * BLOCK + 5..50 * BLOCK + 5;
    let read = reader.ranges(&object, std::slice::from_ref(&long), Some(&memory)).await.unwrap();
    assert_eq!(read[0], written[long.start as usize..long.end as usize]);
    assert_eq!(pool.reserved(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_the_fetch_of_another_one_counts_it_too() {
    let (server, folder) = (ObjectServer::start(), tempfile::tempdir().unwrap());
    let (object, written) = object(&server, 4 * BLOCK);
    let reader = Arc::new(reader(&server, folder.path(), 1 << 20));
    let (first, second) = (pool(1 << 30), pool(1 << 30));
    watch(&server, Vec::new(), Duration::from_millis(200));
    let asks = tokio::spawn({
        let (reader, object, memory) = (Arc::clone(&reader), object.clone(), ReadMemory::of(&first));
        async move { reader.ranges(&object, &[0..10, BLOCK..BLOCK + 10], Some(&memory)).await }
    });
    let whole = usize::try_from(2 * BLOCK).unwrap();
    while first.reserved() != whole {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The first one leaves, and the second one has the fetch alone.
    let memory = ReadMemory::of(&second);
    let wanted = BLOCK..BLOCK + 5;
    let mut joins = Box::pin(reader.ranges(&object, std::slice::from_ref(&wanted), Some(&memory)));
    assert!(futures::poll!(joins.as_mut()).is_pending());
    asks.abort();
    assert_eq!(second.reserved(), whole);
    assert_eq!(joins.await.unwrap()[0], written[BLOCK as usize..][..5]);
    assert_eq!((first.reserved(), second.reserved(), server.requests()), (0, 0, 1));
}

/// A context whose memory is the pool.
fn context_of(context: &SessionContext, pool: &Arc<dyn MemoryPool>) -> Arc<TaskContext> {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(pool)).build_arc().unwrap();
    Arc::new(TaskContext::default().with_session_config(context.copied_config()).with_runtime(runtime))
}

/// Whether there was no memory: for what was wanted, or for the blocks that have it.
fn is_refusal(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
        || error.to_string().contains("there is no memory for the blocks of its object")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_over_cold_segments_stays_within_its_memory() {
    let (server, dir) = (ObjectServer::start(), tempfile::tempdir().unwrap());
    let store = Store::open(dir.path(), small()).unwrap();
    store.create_source("s").unwrap();
    fill(&store, 4).await;
    server.put_segments(dir.path(), "logs/");
    let expected = super::rows(frame(&store, "s")).await;
    let (all, mut answered, mut refused) = (pool(24 * BLOCK), 0, 0);
    for limit in [1, 2, 4, 8, 16, 64, 512].map(|blocks| blocks * BLOCK / 2) {
        let cache = tempfile::tempdir().unwrap();
        let files = files(&server, cache.path());
        let own = pool(limit);
        // Checking the segments at the start counts too.
        let uncounted = watch(&server, vec![Arc::clone(&own)], Duration::ZERO);
        let held = match files.hold_within(names(&store), &own).await {
            Ok(held) => held,
            Err(error) => {
                let is_refused = matches!(error, SegmentError::NoMemory { .. } | SegmentError::Unavailable { .. });
                assert!(is_refused && error.to_string().contains("memory"), "{error}");
                refused += 1;
                continue;
            }
        };
        assert_eq!((held.len(), own.reserved()), (4, 0));
        let (plan, context, _) = elsewhere(frame(&store, "s"), &files).await;
        match collect(plan, context_of(&context, &own)).await {
            Ok(batches) => {
                let mut rows: Vec<_> = batches.iter().flat_map(json_rows).collect();
                let key = |row: &serde_json::Value| row["id"].as_str().unwrap().to_owned();
                rows.sort_by_key(key);
                let mut expected = expected.clone();
                expected.sort_by_key(key);
                assert_eq!(rows, expected);
                answered += 1;
            }
            Err(error) => {
                assert!(is_refusal(&error), "{error}");
                refused += 1;
            }
        }
        nothing_stays(&own).await;
        assert_eq!(uncounted.load(Ordering::SeqCst), 0, "{limit}");
    }
    assert!(answered > 0 && refused > 0, "{answered} {refused}");

    // Many statements with cold caches, which together may hold little: each is answered or refused.
    let caches: Vec<_> = (0..8).map(|_| tempfile::tempdir().unwrap()).collect();
    let asked = join_all(caches.iter().map(|cache| {
        let (server, store, all) = (&server, &store, Arc::clone(&all));
        async move {
            let files = files(server, cache.path());
            let (plan, context, _) = elsewhere(frame(store, "s"), &files).await;
            (plan, context_of(&context, &all))
        }
    }));
    let asked = asked.await;
    let uncounted = watch(&server, vec![Arc::clone(&all)], Duration::from_millis(2));
    let collected = asked.into_iter().map(|(plan, context)| tokio::spawn(collect(plan, context)));
    for collected in join_all(collected).await {
        match collected.unwrap() {
            Ok(batches) => assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), expected.len()),
            Err(error) => assert!(is_refusal(&error), "{error}"),
        }
    }
    nothing_stays(&all).await;
    assert_eq!(uncounted.load(Ordering::SeqCst), 0);
}
