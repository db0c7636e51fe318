//! The cache of answers. It decides which caller gets which answer and for how long, and it lets concurrent requests
//! for the same answer share one execution.
//!
//! An entry is an encoded answer. Its [`Key`] covers everything that determines the answer, so a caller never gets an
//! answer that was made for another tenant, other parameters or other redaction. The cache is bounded in bytes and
//! evicts the least used entries first.
//!
//! The endpoint sets how long an answer may be cached; its component may set a shorter time. An answer that may not be
//! cached belongs to the one request that executed it. Requests that waited for it then execute their own.

mod key;
#[cfg(test)]
mod tests;
mod warming;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{Shared, WeakShared};
use moka::Expiry;
use tidegate_model::{Code, Failure};
use uuid::Uuid;

use crate::answer::{AccountMemory, CachedBody, Encoded, Outgoing, SharedBytes};
use crate::execution::QueryRequest;
pub(crate) use key::Key;
pub(crate) use warming::warm;

/// The estimated bytes of an entry besides its body and its texts: our structures and those of the cache library.
const OVERHEAD: usize = 1024;

/// The number of times that a request joins the execution of another request before it executes its own.
const JOINS: usize = 2;

/// The capacity and the lifetime of the list of keys whose answers may not be cached.
const UNCACHEABLE_KEYS: u64 = 10_000;
const UNCACHEABLE_FOR: Duration = Duration::from_secs(60);

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
    cached: moka::sync::Cache<Key, Arc<CacheEntry>>,
    /// Keys whose last answer may not be cached. Requests for them do not wait for each other, because they could not
    /// share the answer.
    uncacheable: moka::sync::Cache<Key, ()>,
}

/// The answer to a request, for an endpoint whose answers are cached.
#[derive(Debug)]
pub enum Lookup {
    /// The answer is in the cache: it was there before, or it was executed and stored now.
    Cached(Arc<CacheEntry>, CacheStatus),
    /// The component does not allow this answer to be cached.
    Uncached(Encoded),
}

/// The result of a shared execution. An answer that is not cached goes to the first request that takes it.
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
    /// The reservations of answer memory while the entry is being sent. They may outlive the entry in the cache: the readers
    /// of an evicted entry keep its bytes in memory.
    sending: SharedBytes,
    /// The hash of the body in hex, for `ETag`.
    pub digest: String,
    /// The request, which is executed again for warming.
    request: Arc<QueryRequest>,
    made: Instant,
    lifetime: Duration,
    warming: Mutex<Warming>,
    /// Whether the last refresh of the entry failed.
    stale: AtomicBool,
}

/// When an entry is executed again without a request.
#[derive(Debug, Clone, Copy)]
struct Warming {
    /// When a request last read the entry.
    read: Instant,
    /// When the next refresh is due; `None` for endpoints without warming.
    due: Option<Instant>,
}

/// How a cached answer was obtained, for the header `Cache-Status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStatus {
    /// The answer was in the cache. `stale` means that its last refresh failed.
    Hit {
        /// See [`CacheStatus::Hit`].
        stale: bool,
    },
    /// The answer was executed for this request, or for another request that this one waited for.
    Miss {
        /// Whether this request waited for the execution of another.
        collapsed: bool,
    },
}

impl Lookup {
    /// The lookup result as one word, for the log and the metrics.
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

/// A running execution that other requests may join. It runs for as long as at least one request waits for it.
#[derive(Debug)]
struct Flight {
    number: u64,
    execution: WeakShared<Execution>,
}

/// Removes a flight from the table when it ends. A flight also ends when no request waits for it any more.
struct FlightGuard {
    flights: Arc<Mutex<HashMap<Key, Flight>>>,
    key: Key,
    number: u64,
}

impl Drop for FlightGuard {
    fn drop(&mut self) {
        let mut flights = lock(&self.flights);
        // A new flight for the same key may have started since. It stays.
        if flights.get(&self.key).is_some_and(|flight| flight.number == self.number) {
            flights.remove(&self.key);
        }
    }
}

/// Entries expire at the end of their own lifetime.
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
    /// A cache with a capacity in bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        let cached = moka::sync::Cache::builder()
            .max_capacity(bytes)
            .weigher(|_: &Key, entry: &Arc<CacheEntry>| u32::try_from(entry.bytes()).unwrap_or(u32::MAX))
            .expire_after(Lifetimes)
            .build();
        let uncacheable =
            moka::sync::Cache::builder().max_capacity(UNCACHEABLE_KEYS).time_to_live(UNCACHEABLE_FOR).build();
        Self { entries: Entries { cached, uncacheable }, flights: Arc::default(), next_flight: AtomicU64::new(0) }
    }

    /// The answer for the key of a request. It comes from the cache or from `make`. Concurrent requests for the same
    /// key share one execution, if its answer may be cached.
    ///
    /// # Errors
    /// The failure of `make`. Failures are not cached.
    pub async fn answer(
        &self,
        request: &Arc<QueryRequest>,
        make: impl Future<Output = Result<Encoded, Failure>> + Send + 'static,
    ) -> Result<Lookup, Failure> {
        let key = request.key();
        if let Some(entry) = self.entries.cached.get(&key) {
            entry.warming().read = Instant::now();
            let stale = entry.stale.load(Ordering::Relaxed);
            return Ok(Lookup::Cached(entry, CacheStatus::Hit { stale }));
        }
        let mut make = make;
        let joins = if self.entries.uncacheable.contains_key(&key) { 0 } else { JOINS };
        for _ in 0..joins {
            let (execution, own) = self.join_or_start(key, Arc::clone(request), Instant::now(), make);
            make = match (execution.await, own) {
                (Ok(Executed::Cached(entry)), own) => {
                    return Ok(Lookup::Cached(entry, CacheStatus::Miss { collapsed: own.is_some() }));
                }
                (Ok(Executed::Uncached(answer)), None) => return take_own(&answer),
                // The answer may not be cached, and it belongs to the request that executed it.
                (Ok(Executed::Uncached(_)), Some(own)) => {
                    make = own;
                    break;
                }
                (Err(failure), Some(own)) if is_about_the_caller(&failure) => own,
                (Err(failure), _) => return Err(failure),
            };
        }
        match self.entries.keep(key, make.await?, Arc::clone(request), Instant::now()) {
            Executed::Cached(entry) => Ok(Lookup::Cached(entry, CacheStatus::Miss { collapsed: false })),
            Executed::Uncached(answer) => take_own(&answer),
        }
    }

    /// Joins the running execution for a key, or starts one with `make`. If it joins, it returns `make` unused. `read`
    /// is the time at which a request last read the answer.
    fn join_or_start<M>(
        &self,
        key: Key,
        request: Arc<QueryRequest>,
        read: Instant,
        make: M,
    ) -> (Shared<Execution>, Option<M>)
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

    /// Removes the entries of an endpoint. No request can reach the entries of its older versions any more; removing
    /// them frees their memory.
    pub(crate) fn forget(&self, endpoint: Uuid) {
        for (key, entry) in &self.entries.cached {
            if entry.request.endpoint.id == endpoint {
                self.entries.cached.invalidate(&*key);
            }
        }
    }

    /// The number of entries and their size in bytes.
    pub fn size(&self) -> (u64, u64) {
        self.entries.cached.run_pending_tasks();
        (self.entries.cached.entry_count(), self.entries.cached.weighted_size())
    }
}

impl Entries {
    /// Stores an answer for the time that it may be cached. If it may not be cached, the older answer under its key is
    /// removed, because the component's latest decision holds. `read` is the time at which a request last read the
    /// answer.
    fn keep(&self, key: Key, answer: Encoded, request: Arc<QueryRequest>, read: Instant) -> Executed {
        let most = Duration::from_secs(request.endpoint.manifest.settings.cache_duration_seconds);
        let lifetime = answer.metadata.lifetime(most);
        if lifetime.is_zero() {
            self.cached.invalidate(&key);
            self.uncacheable.insert(key, ());
            return Executed::Uncached(Arc::new(Mutex::new(Some(answer))));
        }
        self.uncacheable.invalidate(&key);
        let entry = Arc::new(CacheEntry::new(answer, lifetime, request, read));
        self.cached.insert(key, Arc::clone(&entry));
        Executed::Cached(entry)
    }
}

/// The answer of the caller's own execution. No other request takes it.
fn take_own(answer: &Mutex<Option<Encoded>>) -> Result<Lookup, Failure> {
    let lost = || Failure::new(Code::Internal, "the answer was lost on its way; send the request again");
    lock(answer).take().map(Lookup::Uncached).ok_or_else(lost)
}

impl CacheEntry {
    fn new(answer: Encoded, lifetime: Duration, request: Arc<QueryRequest>, read: Instant) -> Self {
        // From here on the cache counts these bytes, not the budget for answers.
        let answer = answer.into_cached();
        let settings = &request.endpoint.manifest.settings;
        let made = Instant::now();
        // Callers can send any number of different ad-hoc texts, so only requests without ad-hoc text are warmed.
        let interval = settings.proactive_requerying_seconds.filter(|_| request.adhoc.is_none());
        let due = interval.map(|seconds| made + Duration::from_secs(seconds));
        Self {
            digest: key::digest(answer.pieces.iter().map(|piece| &**piece)),
            answer,
            sending: SharedBytes::default(),
            made,
            lifetime,
            warming: Mutex::new(Warming { read, due }),
            stale: AtomicBool::new(false),
            request,
        }
    }

    /// The time since the answer was made.
    pub fn age(&self) -> Duration {
        self.made.elapsed()
    }

    /// The time for which the entry may still be served.
    pub fn remaining(&self) -> Duration {
        self.lifetime.saturating_sub(self.age())
    }

    fn bytes(&self) -> usize {
        self.answer.len() + self.answer.metadata.bytes() + self.request.bytes() + OVERHEAD
    }

    /// The answer for one caller. Its bytes are reserved in the memory budget, once for all callers of its account.
    ///
    /// # Errors
    /// The budget is used up; see [`AccountMemory::take`].
    pub async fn outgoing(&self, memory: &AccountMemory) -> Result<Outgoing, Failure> {
        let held = self.sending.take(memory, self.answer.len()).await?;
        Ok(self.answer.outgoing(memory, &held))
    }

    fn warming(&self) -> MutexGuard<'_, Warming> {
        lock(&self.warming)
    }
}

/// Whether a failure concerns the caller and not the answer. Requests that waited do not get such a failure.
fn is_about_the_caller(failure: &Failure) -> bool {
    matches!(failure.code, Code::TooManyRequests | Code::Overloaded)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
