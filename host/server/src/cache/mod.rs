//! The cache of answers: who may have which, for how long, and one execution for all who wait.
//!
//! An entry is an encoded answer under a [`Key`] of everything that shapes it, so that a caller
//! can never be given what was made for another tenant, other parameters or other redaction. What
//! is held is bounded in bytes; the library beneath evicts what is read least.
//!
//! How long an answer is kept is the shorter of what its endpoint allows and what its component says of it.
//! One that is not to be kept at all is for the request that it was made for: whoever waited with that request
//! makes an answer of its own.

mod key;
mod respond;
mod warm;

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

use crate::answer::{Encoded, Held, Kept, Share};
use crate::execute::Asked;
pub(crate) use key::Key;
pub(crate) use respond::{uncached, unkept};
pub(crate) use warm::warm;

/// What an entry takes beside its body and its texts, in bytes: the structures around it, and those of
/// the library.
const OVERHEAD: usize = 1024;

/// How often a caller waits with others, before it asks for itself alone.
const JOINS: usize = 2;

/// How many keys are known whose answers are not to be kept, and for how long that is thought of them.
const ALONE: u64 = 10_000;
const ALONE_FOR: Duration = Duration::from_secs(60);

/// The cache of answers.
#[derive(Debug)]
pub(crate) struct Cache {
    entries: Entries,
    flights: Arc<Mutex<HashMap<Key, Flight>>>,
    next_flight: AtomicU64,
}

/// What is kept, and what is known not to be.
#[derive(Debug, Clone)]
struct Entries {
    kept: moka::sync::Cache<Key, Arc<Entry>>,
    /// Keys whose last answer was not to be kept: nobody waits for the answer of another in vain.
    alone: moka::sync::Cache<Key, ()>,
}

/// An answer of an endpoint that keeps its answers.
#[derive(Debug)]
pub(crate) enum Found {
    /// One that may be given again.
    Kept(Arc<Entry>, How),
    /// One that its component lets nobody else have.
    Unkept(Encoded),
}

/// What became of an execution. An answer that is not kept is there for the first who takes it.
#[derive(Debug, Clone)]
enum Made {
    Kept(Arc<Entry>),
    Unkept(Arc<Mutex<Option<Encoded>>>),
}

/// An answer that may be given again.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) answer: Kept,
    /// Its part of the room for answers, while it is sent to somebody: once, to however many.
    sending: Mutex<Weak<Held>>,
    /// The hash of the body, for `ETag`.
    pub(crate) digest: String,
    /// What was asked, to ask it again.
    asked: Arc<Asked>,
    made: Instant,
    lifetime: Duration,
    warming: Mutex<Warming>,
    /// Whether the last attempt to make it anew failed.
    stale: AtomicBool,
}

/// When an entry is made anew without a request.
#[derive(Debug, Clone, Copy)]
struct Warming {
    /// When somebody last asked for it.
    read: Instant,
    /// When it is to be made anew; never for endpoints without warming.
    due: Option<Instant>,
}

/// How a kept answer was come by, for `Cache-Status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// From the cache; `stale`: it could not be made anew when it was due.
    Hit {
        /// See [`How::Hit`].
        stale: bool,
    },
    /// Made for this request, or for one before it that it waited with.
    Miss {
        /// Whether it waited with another.
        collapsed: bool,
    },
}

impl Found {
    /// How it was come by in one word, for the log and the metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Kept(_, How::Hit { stale: false }) => "hit",
            Self::Kept(_, How::Hit { stale: true }) => "stale",
            Self::Kept(_, How::Miss { collapsed: false }) => "miss",
            Self::Kept(_, How::Miss { collapsed: true }) => "collapsed",
            Self::Unkept(_) => "unkept",
        }
    }
}

type Execution = Pin<Box<dyn Future<Output = Result<Made, Failure>> + Send>>;

/// An execution that others may wait with. It goes on for as long as anyone waits.
#[derive(Debug)]
struct Flight {
    number: u64,
    execution: WeakShared<Execution>,
}

/// Forgets a flight when it ends, also when it ends because nobody waits any more.
struct Landing {
    flights: Arc<Mutex<HashMap<Key, Flight>>>,
    key: Key,
    number: u64,
}

impl Drop for Landing {
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

impl Expiry<Key, Arc<Entry>> for Lifetimes {
    fn expire_after_create(&self, _: &Key, entry: &Arc<Entry>, _: Instant) -> Option<Duration> {
        Some(entry.lifetime)
    }

    fn expire_after_update(&self, _: &Key, entry: &Arc<Entry>, _: Instant, _: Option<Duration>) -> Option<Duration> {
        Some(entry.lifetime)
    }
}

impl Cache {
    /// A cache that holds at most so many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        let kept = moka::sync::Cache::builder()
            .max_capacity(bytes)
            .weigher(|_: &Key, entry: &Arc<Entry>| u32::try_from(entry.bytes()).unwrap_or(u32::MAX))
            .expire_after(Lifetimes)
            .build();
        let alone = moka::sync::Cache::builder().max_capacity(ALONE).time_to_live(ALONE_FOR).build();
        Self { entries: Entries { kept, alone }, flights: Arc::default(), next_flight: AtomicU64::new(0) }
    }

    /// The answer under a key: from the cache, or made by `make`, once for all who ask meanwhile if it may be kept.
    ///
    /// # Errors
    /// The failure of `make`; it is not kept.
    pub(crate) async fn answer(
        &self,
        asked: &Arc<Asked>,
        make: impl Future<Output = Result<Encoded, Failure>> + Send + 'static,
    ) -> Result<Found, Failure> {
        let key = asked.key();
        if let Some(entry) = self.entries.kept.get(&key) {
            entry.warming().read = Instant::now();
            let stale = entry.stale.load(Ordering::Relaxed);
            return Ok(Found::Kept(entry, How::Hit { stale }));
        }
        let mut make = make;
        let joins = if self.entries.alone.contains_key(&key) { 0 } else { JOINS };
        for _ in 0..joins {
            let (execution, own) = self.fly(key, Arc::clone(asked), Instant::now(), make);
            make = match (execution.await, own) {
                (Ok(Made::Kept(entry)), own) => {
                    return Ok(Found::Kept(entry, How::Miss { collapsed: own.is_some() }));
                }
                (Ok(Made::Unkept(answer)), None) => return taken(&answer),
                // It is the answer of another, and nobody else's.
                (Ok(Made::Unkept(_)), Some(own)) => {
                    make = own;
                    break;
                }
                (Err(failure), Some(own)) if is_of_the_other(&failure) => own,
                (Err(failure), _) => return Err(failure),
            };
        }
        match self.entries.keep(key, make.await?, Arc::clone(asked), Instant::now()) {
            Made::Kept(entry) => Ok(Found::Kept(entry, How::Miss { collapsed: false })),
            Made::Unkept(answer) => taken(&answer),
        }
    }

    /// Joins the execution for a key, or begins it; `make` comes back, not begun, where another was joined.
    /// `read` is when the answer was last asked for.
    fn fly<M>(&self, key: Key, asked: Arc<Asked>, read: Instant, make: M) -> (Shared<Execution>, Option<M>)
    where
        M: Future<Output = Result<Encoded, Failure>> + Send + 'static,
    {
        let mut flights = lock(&self.flights);
        if let Some(execution) = flights.get(&key).and_then(|flight| flight.execution.upgrade()) {
            return (execution, Some(make));
        }
        let number = self.next_flight.fetch_add(1, Ordering::Relaxed);
        let landing = Landing { flights: Arc::clone(&self.flights), key, number };
        let entries = self.entries.clone();
        let execution: Execution = Box::pin(async move {
            let _landing = landing;
            Ok(entries.keep(key, make.await?, asked, read))
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
            if entry.asked.endpoint.id == endpoint {
                self.entries.kept.invalidate(&*key);
            }
        }
    }

    /// How many entries there are, and the bytes that they hold.
    pub(crate) fn size(&self) -> (u64, u64) {
        self.entries.kept.run_pending_tasks();
        (self.entries.kept.entry_count(), self.entries.kept.weighted_size())
    }
}

impl Entries {
    /// Keeps an answer for as long as it may be. One that may not be kept ends what was kept before it: that
    /// is the component's newest word. `read` is when it was last asked for.
    fn keep(&self, key: Key, answer: Encoded, asked: Arc<Asked>, read: Instant) -> Made {
        let most = Duration::from_secs(asked.endpoint.manifest.settings.cache_duration_seconds);
        let lifetime = answer.told.lifetime(most);
        if lifetime.is_zero() {
            self.kept.invalidate(&key);
            self.alone.insert(key, ());
            return Made::Unkept(Arc::new(Mutex::new(Some(answer))));
        }
        self.alone.invalidate(&key);
        let entry = Arc::new(Entry::new(answer, lifetime, asked, read));
        self.kept.insert(key, Arc::clone(&entry));
        Made::Kept(entry)
    }
}

/// The answer of one's own execution, which nobody else takes.
fn taken(answer: &Mutex<Option<Encoded>>) -> Result<Found, Failure> {
    let lost = || Failure::new(Code::Internal, "the answer was lost on its way; send the request again");
    lock(answer).take().map(Found::Unkept).ok_or_else(lost)
}

impl Entry {
    fn new(answer: Encoded, lifetime: Duration, asked: Arc<Asked>, read: Instant) -> Self {
        // From here on the cache counts it.
        let answer = answer.kept();
        let settings = &asked.endpoint.manifest.settings;
        let made = Instant::now();
        // Ad-hoc texts are as many as callers like; only what the endpoint itself says is kept warm.
        let interval = settings.proactive_requerying_seconds.filter(|_| asked.adhoc.is_none());
        let due = interval.map(|seconds| made + Duration::from_secs(seconds));
        Self {
            digest: key::digest(answer.pieces.iter().map(|piece| &**piece)),
            answer,
            sending: Mutex::default(),
            made,
            lifetime,
            warming: Mutex::new(Warming { read, due }),
            stale: AtomicBool::new(false),
            asked,
        }
    }

    /// How long ago the answer was made.
    pub(crate) fn age(&self) -> Duration {
        self.made.elapsed()
    }

    /// For how much longer it may be given.
    pub(crate) fn remaining(&self) -> Duration {
        self.lifetime.saturating_sub(self.age())
    }

    fn bytes(&self) -> usize {
        self.answer.len() + self.answer.told.bytes() + self.asked.bytes() + OVERHEAD
    }

    /// The part of the room for answers that sending it takes, which all who are sent it share. It outlives the
    /// cache's own count: an entry that is dropped there is held by its readers.
    ///
    /// # Errors
    /// There is no room; see [`Share::take`].
    async fn held(&self, share: &Share) -> Result<Arc<Held>, Failure> {
        if let Some(held) = lock(&self.sending).upgrade() {
            return Ok(held);
        }
        let held = Arc::new(share.take(self.answer.len()).await?);
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

/// Whether a failure says something of who asked, and nothing of the answer: it is not for others who wait.
fn is_of_the_other(failure: &Failure) -> bool {
    matches!(failure.code, Code::TooManyRequests | Code::Overloaded)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
