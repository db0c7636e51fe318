//! Reading ranges of objects in blocks, from disk or from the store.
//!
//! A block that several readers want at the same time is fetched once. It is fetched as long as one of them waits.
//! Neighbouring blocks are fetched with one request. Of a fetched block the readers get copies of what they asked for, so
//! that a page of some KiB does not keep the block in memory.
//!
//! What is on its way counts in the memory of the statement for which it is read, before it is asked for. A reader that
//! may not hold more waits until what it has asked for before has come; if that is nothing, it fails.

use std::{
    collections::HashMap,
    fmt,
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream::FuturesOrdered};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::{
    error::{Result, StoreError},
    objects::{
        block_cache::BlockCache,
        block_index::BlockKey,
        block_parts::{Gathered, Part, parts},
        client::{ObjectClient, RequestLimits},
        counters::{ObjectStats, add},
        fetch::{FetchShare, Origin, Registered, Running, RunningFetches},
        io_runtime::IoRuntime,
        object_error::ObjectError,
        url::StoreUrl,
    },
    read_memory::ReadMemory,
};

/// The size of a block.
pub(crate) const BLOCK_BYTES: u64 = 1 << 20;

/// The most neighbouring blocks of one request, in bytes.
const LONGEST_FETCH: u64 = 4 << 20;

/// Blocks that one reader waits for at a time.
const BLOCKS_AT_ONCE: usize = 8;

/// An object: the file of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) segment: Uuid,
    pub(crate) source: Uuid,
    pub(crate) bytes: u64,
}

struct Inner {
    client: ObjectClient,
    cache: BlockCache,
    running: Arc<RunningFetches>,
    fetches: AtomicU64,
}

/// Reads objects of one store.
pub(crate) struct BlockReader {
    inner: Arc<Inner>,
    runtime: IoRuntime,
}

impl fmt::Debug for BlockReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockReader").field("client", &self.inner.client).finish_non_exhaustive()
    }
}

impl BlockReader {
    /// The objects at an address, with a cache of at most `most_bytes` in a folder. Settings are as for
    /// [`ObjectClient::open`].
    ///
    /// # Errors
    /// Those of [`ObjectClient::open`] and [`BlockCache::open`].
    pub(crate) fn open(
        url: &StoreUrl,
        settings: impl IntoIterator<Item = (String, String)>,
        limits: RequestLimits,
        (folder, most_bytes, block_bytes): (&Path, u64, u64),
    ) -> Result<BlockReader> {
        let runtime = IoRuntime::start().map_err(StoreError::io("starting the thread of the object store"))?;
        let client = ObjectClient::open(url, settings, limits, &runtime)?;
        let cache = BlockCache::open(folder, most_bytes, block_bytes, Arc::clone(&client.counters))?;
        let inner = Inner { client, cache, running: Arc::default(), fetches: AtomicU64::new(0) };
        Ok(BlockReader { inner: Arc::new(inner), runtime })
    }

    pub(crate) fn stats(&self) -> ObjectStats {
        self.inner.client.stats()
    }

    /// Throws away what is on disk of a segment, because it is wrong.
    pub(crate) fn forget(&self, segment: Uuid) {
        add(&self.inner.client.counters.forgotten, 1);
        self.inner.cache.forget(segment);
    }

    /// Counts an object that is missing or damaged.
    pub(crate) fn found_damaged(&self) {
        add(&self.inner.client.counters.damaged, 1);
    }

    /// Ranges of an object. What is on its way counts in `memory`.
    ///
    /// # Errors
    /// If the object is missing or has another length, if the store does not give it now, or if there is no memory.
    pub(crate) async fn ranges(
        &self,
        object: &Object,
        ranges: &[Range<u64>],
        memory: Option<&ReadMemory>,
    ) -> Result<Vec<Bytes>, ObjectError> {
        let wanted = parts(ranges, object.bytes, self.inner.cache.block_bytes)?;
        let numbers: Vec<u32> = wanted.keys().copied().collect();
        let origins = self.origins(object, &numbers, memory);
        let mut wanted = wanted.into_iter().zip(origins).peekable();
        let mut reading = FuturesOrdered::new();
        let mut gathered = Gathered::of(ranges);
        loop {
            while reading.len() < BLOCKS_AT_ONCE
                && let Some(((_, parts), origin)) = wanted.peek()
            {
                let held = match origin.hold(parts, memory) {
                    Ok(held) => held,
                    Err(_) if !reading.is_empty() => break,
                    Err(none) => return Err(none.into()),
                };
                if let Some(((number, parts), origin)) = wanted.next() {
                    let read = self.parts(object, number, parts, origin, memory);
                    reading.push_back(async move { (read.await, held) });
                }
            }
            let Some((read, _held)) = reading.next().await else { break };
            for (part, bytes) in read? {
                let length = ranges.get(part.range).map_or(0, |range| range.end - range.start);
                gathered.add(&part, length, bytes);
            }
        }
        Ok(gathered.all())
    }

    /// Parts of one block.
    async fn parts(
        &self,
        object: &Object,
        number: u32,
        parts: Vec<Part>,
        origin: Origin,
        memory: Option<&ReadMemory>,
    ) -> Result<Vec<(Part, Bytes)>, ObjectError> {
        let within: Vec<Range<u64>> = parts.iter().map(|part| part.within.clone()).collect();
        let mut origin = origin;
        let bytes = loop {
            match origin {
                Origin::Fetch(share) => {
                    share.hold(memory)?;
                    let block_bytes = self.inner.cache.block_bytes;
                    let fetched = share.fetch.clone().await?;
                    let start = u64::from(number.saturating_sub(share.first)) * block_bytes;
                    let copy = |part: &Range<u64>| {
                        let at = |position: u64| usize::try_from(start + position).ok();
                        Some(Bytes::copy_from_slice(fetched.get(at(part.start)?..at(part.end)?)?))
                    };
                    break within.iter().map(copy).collect::<Option<Vec<_>>>().ok_or(ObjectError::BeyondEnd)?;
                }
                Origin::Disk => match self.read_disk(object, number, &within).await {
                    Some(read) => {
                        add(&self.inner.client.counters.hits, 1);
                        break read;
                    }
                    // It had to make room in between, or is damaged: then it is not there any more.
                    None => origin = self.origins(object, &[number], memory).pop().ok_or(ObjectError::BeyondEnd)?,
                },
            }
        };
        Ok(parts.into_iter().zip(bytes).collect())
    }

    async fn read_disk(&self, object: &Object, number: u32, within: &[Range<u64>]) -> Option<Vec<Bytes>> {
        let key = BlockKey { segment: object.segment, number };
        let length = self.inner.length(object, number);
        if let Some(read) = self.inner.cache.read_now(&key, length, within) {
            return Some(read);
        }
        let (inner, within) = (Arc::clone(&self.inner), within.to_vec());
        let read = self.runtime.handle().spawn_blocking(move || inner.cache.read(&key, length, &within));
        read.await.ok().flatten()
    }

    /// Where the blocks come from. What is neither on disk nor on its way is fetched once it is waited for, neighbours
    /// together.
    fn origins(&self, object: &Object, numbers: &[u32], memory: Option<&ReadMemory>) -> Vec<Origin> {
        let counters = &self.inner.client.counters;
        let mut running = self.inner.running.lock();
        // What this reader has of each fetch.
        let mut shares: HashMap<u64, FetchShare> = HashMap::new();
        let mut origins: Vec<Option<Origin>> = Vec::with_capacity(numbers.len());
        let mut missing: Vec<u32> = Vec::new();
        for number in numbers {
            let key = BlockKey { segment: object.segment, number: *number };
            let fetch = running.get(&key).and_then(|running| Some((running.fetch.upgrade()?, running)));
            origins.push(match fetch {
                Some((fetch, Running { number, first, bytes, .. })) => {
                    add(&counters.joined, 1);
                    let share = shares.entry(*number).or_insert_with(|| FetchShare::new(fetch, *first, *bytes));
                    Some(Origin::Fetch(share.clone()))
                }
                None if self.inner.cache.has(&key) => Some(Origin::Disk),
                None => {
                    missing.push(*number);
                    None
                }
            });
        }
        add(&counters.misses, missing.len() as u64);
        let longest = memory.map_or(LONGEST_FETCH, |memory| memory.longest_request(LONGEST_FETCH));
        let most = usize::try_from((longest / self.inner.cache.block_bytes).max(1)).unwrap_or(1);
        let mut fetches: HashMap<u32, FetchShare> = HashMap::new();
        let mut missing = missing.as_slice();
        while let Some(first) = missing.first().copied() {
            let neighbours =
                missing.iter().zip(first..).take(most).take_while(|(number, next)| *number == next).count();
            let (now, later) = missing.split_at(neighbours.max(1));
            missing = later;
            let share = self.fetch(object, now, &mut running);
            fetches.extend(now.iter().map(|number| (*number, share.clone())));
        }
        let fetched = |number: &u32| fetches.get(number).cloned().map(Origin::Fetch);
        origins.into_iter().zip(numbers).filter_map(|(origin, number)| origin.or_else(|| fetched(number))).collect()
    }

    /// Fetches neighbouring blocks once somebody waits for them, and puts them on disk.
    fn fetch(&self, object: &Object, numbers: &[u32], running: &mut HashMap<BlockKey, Running>) -> FetchShare {
        let number = self.inner.fetches.fetch_add(1, Ordering::Relaxed);
        let first = numbers.first().copied().unwrap_or(0);
        let keys: Vec<BlockKey> =
            numbers.iter().map(|number| BlockKey { segment: object.segment, number: *number }).collect();
        let block_bytes = self.inner.cache.block_bytes;
        let start = u64::from(first) * block_bytes;
        let range = start..object.bytes.min(start + keys.len() as u64 * block_bytes);
        let bytes = range.end.saturating_sub(range.start);
        let registered = Registered { running: Arc::clone(&self.inner.running), keys: keys.clone(), number };
        let (inner, object, runtime) = (Arc::clone(&self.inner), object.clone(), self.runtime.handle().clone());
        let fetched = async move {
            let _registered = &registered;
            let place = inner.client.place(object.source, object.segment);
            let bytes = inner.client.read(&place, object.bytes, range).await?;
            let (writing, blocks, keys) = (Arc::clone(&inner), bytes.clone(), registered.keys.clone());
            let written = runtime.spawn_blocking(move || {
                let size = usize::try_from(block_bytes).unwrap_or(usize::MAX);
                keys.into_iter().zip(blocks.chunks(size)).for_each(|(key, block)| writing.cache.write(key, block));
            });
            // A block that is not on disk is fetched again. What nobody waits for any more and was not begun is not written.
            let _ = AbortOnDropHandle::new(written).await;
            Ok(bytes)
        };
        // It begins when it is waited for: another task may be the one that waits first.
        let handle = self.runtime.handle().clone();
        let fetch = async move {
            let mut task = AbortOnDropHandle::new(handle.spawn(fetched));
            (&mut task).await.unwrap_or(Err(ObjectError::Refused("reading from the object store was ended")))
        };
        let fetch = fetch.boxed().shared();
        for key in keys {
            if let Some(fetch) = fetch.downgrade() {
                running.insert(key, Running { fetch, number, first, bytes });
            }
        }
        FetchShare::new(fetch, first, bytes)
    }
}

impl Inner {
    /// The bytes of a block.
    fn length(&self, object: &Object, number: u32) -> u64 {
        let start = u64::from(number) * self.cache.block_bytes;
        object.bytes.saturating_sub(start).min(self.cache.block_bytes)
    }
}
