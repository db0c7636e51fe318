//! The cache of answers: which caller may get which answer, for how long, and one execution for all who wait for it.
//!
//! An entry is an encoded answer under a [`Key`] of everything that determines it, so that a caller never gets what was
//! made for another tenant, other parameters or other redaction. The cache is bounded in bytes; entries that are read
//! least are evicted first.
//!
//! An answer is cached for the time that its endpoint allows, or for a shorter one that its component sets. An answer that
//! may not be cached is only for the request that it was made for: requests that waited with that one execute their own.

mod key;
#[cfg(test)]
mod tests;
mod warming;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{Shared, WeakShared};
use moka::Expiry;
use tidegate_model::{Code, Failure};
use uuid::Uuid;

use crate::answer::{CachedBody, Encoded, Outgoing, Reservation, TenantMemory};
use crate::execution::QueryRequest;
pub(crate) use key::Key;
pub(crate) use warming::warm;

/// The estimated bytes of an entry besides its body and its texts: its own structures, and those of the library.
const OVERHEAD: usize = 1024;

/// How often a request waits for the execution of another, before it executes its own.
const JOINS: usize = 2;

/// The most keys that are remembered because their answers may not be cached, and for how long.
const ALONE: u64 = 10_000;
const ALONE_FOR: Duration = Duration::from_secs(60);

/// The cache of answers.
#[derive(Debug)]
pub struct Cache {
    entries: Entries,
    flights: Arc<Mutex<HashMap<Key, Flight>>>,
    next_flight: AtomicU64,
}

/// The cached answers, and the keys whose answers may not be cached.
#[derive(Debug, Clone)]
struct Entries {
    kept: moka::sync::Cache<Key, Arc<CacheEntry>>,
    /// Keys whose last answer may not be cached: their requests do not wait for each other.
    alone: moka::sync::Cache<Key, ()>,
}

/// The answer to a request of an endpoint that caches its answers.
#[derive(Debug)]
pub enum Lookup {
    /// An answer that is in the cache, now or already before.
    Cached(Arc<CacheEntry>, CacheStatus),
    /// An answer that its component does not allow to cache.
    Uncached(Encoded),
}

/// The result of an execution. An answer that is not cached is for the first request that takes it.
#[derive(Debug, Clone)]
enum Executed {
    Cached(Arc<CacheEntry>),
    Uncached(Arc<Mutex<Option<Encoded>>>),
}

/// A cached answer.
#[derive(Debug)]
pub struct CacheEntry {
    /// The answer.
    pub answer: CachedBody,
    /// Its reservation of the memory budget while it is being sent: one for all who read it at that time.
    sending: Mutex<Weak<Reservation>>,
    /// The hash of the body in hex, for `ETag`.
    pub digest: String,
    /// The request, to execute it again.
    request: Arc<QueryRequest>,
    made: Instant,
    lifetime: Duration,
    warming: Mutex<Warming>,
    /// Whether the last attempt to make it anew failed.
    stale: AtomicBool,
}

/// When an entry is executed again without a request.
#[derive(Debug, Clone, Copy)]
struct Warming {
    /// When a request last read it.
    read: Instant,
    /// When it is to be made anew; never for endpoints without warming.
    due: Option<Instant>,
}

/// Where a cached answer came from, for the header `Cache-Status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStatus {
    /// From the cache; `stale`: it could not be made anew when it was due.
    Hit {
        /// See [`CacheStatus::Hit`].
        stale: bool,
    },
    /// Executed for this request, or for another one that this request waited with.
    Miss {
        /// Whether it waited with another.
        collapsed: bool,
    },
}

impl Lookup {
    /// Where the answer came from, in one word, for the log and the metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cached(_, CacheStatus::Hit { stale: false }) => "hit",
            Self::Cached(_, CacheStatus::Hit { stale: true }) => "stale",
            Self::Cached(_, CacheStatus::Miss { collapsed: false }) => "miss",
            Self::Cached(_, CacheStatus::Miss { collapsed: true }) => "collapsed",
            Self::Uncached(_) => "unkept",
        }
    }
}

type Execution = Pin<Box<dyn Future<Output = Result<Executed, Failure>> + Send>>;

/// An execution that others may wait with. It goes on for as long as anyone waits.
#[derive(Debug)]
struct Flight {
    number: u64,
    execution: WeakShared<Execution>,
}

/// Forgets a flight when it ends, also when it ends because nobody waits any more.
struct FlightGuard {
    flights: Arc<Mutex<HashMap<Key, Flight>>>,
    key: Key,
    number: u64,
}

impl Drop for FlightGuard {
    fn drop(&mut self) {
        let mut flights = lock(&self.flights);
        // Another may have begun since: that one is not over.
        if flights.get(&self.key).is_some_and(|flight| flight.number == self.number) {
            flights.remove(&self.key);
        }
    }
}

/// Entries end with their lifetime.
struct Lifetimes;

impl Expiry<Key, Arc<CacheEntry>> for Lifetimes {
    fn expire_after_create(&self, _: &Key, entry: &Arc<CacheEntry>, _: Instant) -> Option<Duration> {
        Some(entry.lifetime)
    }

    fn expire_after_update(
        &self,
        _: &Key,
        entry: &Arc<CacheEntry>,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(entry.lifetime)
    }
}

impl Cache {
    /// A cache that holds at most so many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        let kept = moka::sync::Cache::builder()
            .max_capacity(bytes)
            .weigher(|_: &Key, entry: &Arc<CacheEntry>| u32::try_from(entry.bytes()).unwrap_or(u32::MAX))
            .expire_after(Lifetimes)
            .build();
        let alone = moka::sync::Cache::builder().max_capacity(ALONE).time_to_live(ALONE_FOR).build();
        Self { entries: Entries { kept, alone }, flights: Arc::default(), next_flight: AtomicU64::new(0) }
    }

    /// The answer under a key: from the cache, or made by `make`, once for all who ask meanwhile if it may be kept.
    ///
    /// # Errors
    /// The failure of `make`; it is not kept.
    pub async fn answer(
        &self,
        request: &Arc<QueryRequest>,
        make: impl Future<Output = Result<Encoded, Failure>> + Send + 'static,
    ) -> Result<Lookup, Failure> {
        let key = request.key();
        if let Some(entry) = self.entries.kept.get(&key) {
            entry.warming().read = Instant::now();
            let stale = entry.stale.load(Ordering::Relaxed);
            return Ok(Lookup::Cached(entry, CacheStatus::Hit { stale }));
        }
        let mut make = make;
        let joins = if self.entries.alone.contains_key(&key) { 0 } else { JOINS };
        for _ in 0..joins {
            let (execution, own) = self.fly(key, Arc::clone(request), Instant::now(), make);
            make = match (execution.await, own) {
                (Ok(Executed::Cached(entry)), own) => {
                    return Ok(Lookup::Cached(entry, CacheStatus::Miss { collapsed: own.is_some() }));
                }
                (Ok(Executed::Uncached(answer)), None) => return taken(&answer),
                // It is the answer of another, and nobody else's.
                (Ok(Executed::Uncached(_)), Some(own)) => {
                    make = own;
                    break;
                }
                (Err(failure), Some(own)) if is_of_the_other(&failure) => own,
                (Err(failure), _) => return Err(failure),
            };
        }
        match self.entries.keep(key, make.await?, Arc::clone(request), Instant::now()) {
            Executed::Cached(entry) => Ok(Lookup::Cached(entry, CacheStatus::Miss { collapsed: false })),
            Executed::Uncached(answer) => taken(&answer),
        }
    }

    /// Joins the execution for a key, or begins it; `make` comes back, not begun, where another was joined.
    /// `read` is when a request last read the answer.
    fn fly<M>(&self, key: Key, request: Arc<QueryRequest>, read: Instant, make: M) -> (Shared<Execution>, Option<M>)
    where
        M: Future<Output = Result<Encoded, Failure>> + Send + 'static,
    {
        let mut flights = lock(&self.flights);
        if let Some(execution) = flights.get(&key).and_then(|flight| flight.execution.upgrade()) {
            return (execution, Some(make));
        }
        let number = self.next_flight.fetch_add(1, Ordering::Relaxed);
        let guard = FlightGuard { flights: Arc::clone(&self.flights), key, number };
        let entries = self.entries.clone();
        let execution: Execution = Box::pin(async move {
            let _guard = guard;
            Ok(entries.keep(key, make.await?, request, read))
        });
        let execution = execution.shared();
        if let Some(weak) = execution.downgrade() {
            flights.insert(key, Flight { number, execution: weak });
        }
        (execution, None)
    }

    /// Drops the entries of an endpoint. Those of its older versions cannot be reached any more;
    /// this gives back what they hold.
    pub(crate) fn forget(&self, endpoint: Uuid) {
        for (key, entry) in &self.entries.kept {
            if entry.request.endpoint.id == endpoint {
                self.entries.kept.invalidate(&*key);
            }
        }
    }

    /// How many entries there are, and the bytes that they hold.
    pub fn size(&self) -> (u64, u64) {
        self.entries.kept.run_pending_tasks();
        (self.entries.kept.entry_count(), self.entries.kept.weighted_size())
    }
}

impl Entries {
    /// Keeps an answer for as long as it may be. One that may not be kept ends what was kept before it: that
    /// is what the component said last. `read` is when a request last read the answer.
    fn keep(&self, key: Key, answer: Encoded, request: Arc<QueryRequest>, read: Instant) -> Executed {
        let most = Duration::from_secs(request.endpoint.manifest.settings.cache_duration_seconds);
        let lifetime = answer.metadata.lifetime(most);
        if lifetime.is_zero() {
            self.kept.invalidate(&key);
            self.alone.insert(key, ());
            return Executed::Uncached(Arc::new(Mutex::new(Some(answer))));
        }
        self.alone.invalidate(&key);
        let entry = Arc::new(CacheEntry::new(answer, lifetime, request, read));
        self.kept.insert(key, Arc::clone(&entry));
        Executed::Cached(entry)
    }
}

/// The answer of one's own execution, which nobody else takes.
fn taken(answer: &Mutex<Option<Encoded>>) -> Result<Lookup, Failure> {
    let lost = || Failure::new(Code::Internal, "the answer was lost on its way; send the request again");
    lock(answer).take().map(Lookup::Uncached).ok_or_else(lost)
}

impl CacheEntry {
    fn new(answer: Encoded, lifetime: Duration, request: Arc<QueryRequest>, read: Instant) -> Self {
        // From here on the cache counts it.
        let answer = answer.into_cached();
        let settings = &request.endpoint.manifest.settings;
        let made = Instant::now();
        // Ad-hoc texts are as many as callers like; only what the endpoint itself says is kept warm.
        let interval = settings.proactive_requerying_seconds.filter(|_| request.adhoc.is_none());
        let due = interval.map(|seconds| made + Duration::from_secs(seconds));
        Self {
            digest: key::digest(answer.pieces.iter().map(|piece| &**piece)),
            answer,
            sending: Mutex::default(),
            made,
            lifetime,
            warming: Mutex::new(Warming { read, due }),
            stale: AtomicBool::new(false),
            request,
        }
    }

    /// CacheStatus long ago the answer was made.
    pub fn age(&self) -> Duration {
        self.made.elapsed()
    }

    /// For how much longer it may be given.
    pub fn remaining(&self) -> Duration {
        self.lifetime.saturating_sub(self.age())
    }

    fn bytes(&self) -> usize {
        self.answer.len() + self.answer.metadata.bytes() + self.request.bytes() + OVERHEAD
    }

    /// The answer as it is sent to one caller, within the memory budget of the caller's tenant.
    ///
    /// # Errors
    /// The budget is used up; see [`TenantMemory::take`].
    pub async fn outgoing(&self, memory: &TenantMemory) -> Result<Outgoing, Failure> {
        Ok(self.answer.outgoing(memory, &self.held(memory).await?))
    }

    /// The reservation for sending the answer, shared by all who are sent it. It outlives the entry in the cache: an entry
    /// that was evicted is held by its readers.
    ///
    /// # Errors
    /// The budget is used up; see [`TenantMemory::take`].
    async fn held(&self, memory: &TenantMemory) -> Result<Arc<Reservation>, Failure> {
        if let Some(held) = lock(&self.sending).upgrade() {
            return Ok(held);
        }
        let held = Arc::new(memory.take(self.answer.len()).await?);
        let mut sending = lock(&self.sending);
        match sending.upgrade() {
            // Somebody else was quicker.
            Some(known) => Ok(known),
            None => {
                *sending = Arc::downgrade(&held);
                Ok(held)
            }
        }
    }

    fn warming(&self) -> MutexGuard<'_, Warming> {
        lock(&self.warming)
    }
}

/// Whether a failure is about the caller and not about the answer. Such a failure is not passed on to others who wait.
fn is_of_the_other(failure: &Failure) -> bool {
    matches!(failure.code, Code::TooManyRequests | Code::Overloaded)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
