//! Reading ranges of objects in blocks, from disk or from the store.
//!
//! A block that several readers want at the same time is fetched once. It is fetched as long as one of them waits.
//! Neighbouring blocks are fetched with one request. Of a fetched block the readers get copies of what they asked for, so
//! that a page of some KiB does not keep the block in memory.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Range,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use futures::{
    FutureExt, StreamExt, TryStreamExt,
    future::{BoxFuture, Shared, WeakShared},
    stream,
};
use uuid::Uuid;

use crate::{
    error::{Result, StoreError},
    objects::{
        block_cache::BlockCache,
        block_index::BlockKey,
        client::{ObjectClient, RequestLimits},
        counters::{ObjectStats, add},
        io_runtime::{EndedWhenDropped, IoRuntime},
        object_error::ObjectError,
        url::StoreUrl,
    },
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

type Fetched = Result<Bytes, ObjectError>;
type Fetch = Shared<BoxFuture<'static, Fetched>>;

/// Blocks that are being fetched.
struct Running {
    fetch: WeakShared<BoxFuture<'static, Fetched>>,
    /// Tells one fetch of a block from a later one.
    number: u64,
    first: u32,
}

struct Inner {
    client: ObjectClient,
    cache: BlockCache,
    running: Mutex<HashMap<BlockKey, Running>>,
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

/// Where a block comes from.
enum Origin {
    Disk,
    /// The fetch of several blocks, of which this is the first.
    Fetch(Fetch, u32),
}

/// A part of a range in one block.
struct Part {
    range: usize,
    within: Range<u64>,
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
        let inner = Inner { client, cache, running: Mutex::default(), fetches: AtomicU64::new(0) };
        Ok(BlockReader { inner: Arc::new(inner), runtime })
    }

    pub(crate) fn stats(&self) -> ObjectStats {
        self.inner.client.counters.stats()
    }

    /// Throws away what is on disk of a segment, because it is wrong.
    pub(crate) fn forget(&self, segment: Uuid) {
        add(&self.inner.client.counters.forgotten, 1);
        self.inner.cache.forget(segment);
    }

    /// Ranges of an object.
    ///
    /// # Errors
    /// If the object is missing or has another length, or if the store does not give it now.
    pub(crate) async fn ranges(&self, object: &Object, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ObjectError> {
        let block_bytes = self.inner.cache.block_bytes;
        let mut wanted: BTreeMap<u32, Vec<Part>> = BTreeMap::new();
        for (place, range) in ranges.iter().enumerate() {
            if range.end > object.bytes {
                return Err(ObjectError::BeyondEnd);
            }
            let mut start = range.start;
            while start < range.end {
                let number = u32::try_from(start / block_bytes).map_err(|_| ObjectError::BeyondEnd)?;
                let first = u64::from(number) * block_bytes;
                let end = range.end.min(first + block_bytes);
                wanted.entry(number).or_default().push(Part { range: place, within: start - first..end - first });
                start = end;
            }
        }
        let numbers: Vec<u32> = wanted.keys().copied().collect();
        let origins = self.origins(object, &numbers);
        let read = stream::iter(wanted.into_iter().zip(origins))
            .map(|((number, parts), origin)| self.parts(object, number, parts, origin))
            .buffered(BLOCKS_AT_ONCE);
        let mut found: Vec<Vec<Bytes>> = vec![Vec::new(); ranges.len()];
        let collected = read.try_for_each(|parts| {
            for (place, bytes) in parts {
                if let Some(found) = found.get_mut(place) {
                    found.push(bytes);
                }
            }
            futures::future::ready(Ok(()))
        });
        collected.await?;
        Ok(found.into_iter().map(joined).collect())
    }

    /// Parts of one block, each with the place of its range.
    async fn parts(
        &self,
        object: &Object,
        number: u32,
        parts: Vec<Part>,
        origin: Origin,
    ) -> Result<Vec<(usize, Bytes)>, ObjectError> {
        let within: Vec<Range<u64>> = parts.iter().map(|part| part.within.clone()).collect();
        let mut origin = origin;
        let bytes = loop {
            match origin {
                Origin::Fetch(fetch, first) => {
                    let block_bytes = self.inner.cache.block_bytes;
                    let fetched = fetch.await?;
                    let start = u64::from(number.saturating_sub(first)) * block_bytes;
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
                    None => origin = self.origins(object, &[number]).pop().ok_or(ObjectError::BeyondEnd)?,
                },
            }
        };
        Ok(parts.into_iter().map(|part| part.range).zip(bytes).collect())
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

    /// Where the blocks come from. What is neither on disk nor on its way is fetched from now on, neighbours together.
    fn origins(&self, object: &Object, numbers: &[u32]) -> Vec<Origin> {
        let counters = &self.inner.client.counters;
        let mut running = self.inner.running();
        let mut origins: Vec<Option<Origin>> = Vec::with_capacity(numbers.len());
        let mut missing: Vec<u32> = Vec::new();
        for number in numbers {
            let key = BlockKey { segment: object.segment, number: *number };
            let fetch = running.get(&key).and_then(|running| Some((running.fetch.upgrade()?, running.first)));
            origins.push(match fetch {
                Some((fetch, first)) => {
                    add(&counters.joined, 1);
                    Some(Origin::Fetch(fetch, first))
                }
                None if self.inner.cache.has(&key) => Some(Origin::Disk),
                None => {
                    missing.push(*number);
                    None
                }
            });
        }
        add(&counters.misses, missing.len() as u64);
        let most = usize::try_from((LONGEST_FETCH / self.inner.cache.block_bytes).max(1)).unwrap_or(1);
        let mut fetches: HashMap<u32, (Fetch, u32)> = HashMap::new();
        let mut missing = missing.as_slice();
        while let Some(first) = missing.first().copied() {
            let neighbours =
                missing.iter().zip(first..).take(most).take_while(|(number, next)| *number == next).count();
            let (now, later) = missing.split_at(neighbours.max(1));
            missing = later;
            let fetch = self.fetch(object, now, &mut running);
            fetches.extend(now.iter().map(|number| (*number, (fetch.clone(), first))));
        }
        let fetched = |number: &u32| fetches.get(number).map(|(fetch, first)| Origin::Fetch(fetch.clone(), *first));
        origins.into_iter().zip(numbers).filter_map(|(origin, number)| origin.or_else(|| fetched(number))).collect()
    }

    /// Fetches neighbouring blocks once somebody waits for them, and puts them on disk.
    fn fetch(&self, object: &Object, numbers: &[u32], running: &mut HashMap<BlockKey, Running>) -> Fetch {
        let number = self.inner.fetches.fetch_add(1, Ordering::Relaxed);
        let first = numbers.first().copied().unwrap_or(0);
        let keys: Vec<BlockKey> =
            numbers.iter().map(|number| BlockKey { segment: object.segment, number: *number }).collect();
        let registered = Registered { inner: Arc::clone(&self.inner), keys: keys.clone(), number };
        let (inner, object, runtime) = (Arc::clone(&self.inner), object.clone(), self.runtime.handle().clone());
        let fetched = async move {
            let _registered = &registered;
            let place = inner.client.place(object.source, object.segment);
            let block_bytes = inner.cache.block_bytes;
            let start = u64::from(first) * block_bytes;
            let end = object.bytes.min(start + registered.keys.len() as u64 * block_bytes);
            let bytes = inner.client.read(&place, object.bytes, start..end).await?;
            let (writing, blocks, keys) = (Arc::clone(&inner), bytes.clone(), registered.keys.clone());
            let written = runtime.spawn_blocking(move || {
                let size = usize::try_from(block_bytes).unwrap_or(usize::MAX);
                keys.into_iter().zip(blocks.chunks(size)).for_each(|(key, block)| writing.cache.write(key, block));
            });
            // A block that is not on disk is fetched again.
            let _ = written.await;
            Ok(bytes)
        };
        // It begins when it is waited for: another task may be the one that waits first.
        let handle = self.runtime.handle().clone();
        let fetch = async move {
            let mut task = EndedWhenDropped(handle.spawn(fetched));
            (&mut task.0).await.unwrap_or(Err(ObjectError::Refused("reading from the object store was ended")))
        };
        let fetch = fetch.boxed().shared();
        for key in keys {
            if let Some(fetch) = fetch.downgrade() {
                running.insert(key, Running { fetch, number, first });
            }
        }
        fetch
    }
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, HashMap<BlockKey, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of a block.
    fn length(&self, object: &Object, number: u32) -> u64 {
        let start = u64::from(number) * self.cache.block_bytes;
        object.bytes.saturating_sub(start).min(self.cache.block_bytes)
    }
}

/// Blocks that are known to be on their way, until this is dropped.
struct Registered {
    inner: Arc<Inner>,
    keys: Vec<BlockKey>,
    number: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut running = self.inner.running();
        for key in &self.keys {
            if running.get(key).is_some_and(|running| running.number == self.number) {
                running.remove(key);
            }
        }
    }
}

/// The parts of a range, in their order, as one.
fn joined(mut parts: Vec<Bytes>) -> Bytes {
    match parts.len() {
        0 => Bytes::new(),
        1 => parts.pop().unwrap_or_default(),
        _ => parts.concat().into(),
    }
}
