//! Cache warming: cached answers are executed again before they expire, without a request.
//!
//! An entry that no request has read for its whole lifetime is not refreshed and expires. If a refresh fails, the old
//! answer stays in the cache, marked as stale, and the refresh is tried again after the next interval. If the component
//! does not allow the new answer to be cached, the entry is removed and its warming ends.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::{Cache, CacheEntry, Executed, Key};
use crate::account::Account;
use crate::clock::Clock;
use crate::execution::{Executor, RunRecord};
use crate::registry::Registry;

/// The interval of the search for entries that are due. Warming intervals are whole seconds.
const TICK: Duration = Duration::from_millis(200);

/// Warms the cache until the service is dropped.
pub(crate) async fn warm(cache: Weak<Cache>, executor: Weak<Executor>, clock: Clock, concurrency: usize) {
    let permits = Arc::new(Semaphore::new(concurrency.max(1)));
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let (Some(cache), Some(executor)) = (cache.upgrade(), executor.upgrade()) else { return };
        for (key, entry) in &cache.entries.cached {
            if !is_due(&cache, executor.endpoints.registry(), &key, &entry) {
                continue;
            }
            // An entry that does not get a permit now is still due at the next tick.
            let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else { break };
            // The next due time is set before the execution, so that executions of one entry never overlap.
            let interval = entry.request.endpoint.manifest.settings.proactive_requerying_seconds;
            entry.warming().due = interval.map(|seconds| Instant::now() + Duration::from_secs(seconds));
            let (cache, executor) = (Arc::clone(&cache), Arc::clone(&executor));
            tokio::spawn(async move {
                refresh(&cache, executor, clock, *key, &entry).await;
                drop(permit);
            });
        }
    }
}

fn is_due(cache: &Cache, registry: &Registry, key: &Key, entry: &Arc<CacheEntry>) -> bool {
    let warming = *entry.warming();
    let now = Instant::now();
    if warming.due.is_none_or(|due| now < due) || now.duration_since(warming.read) >= entry.lifetime {
        return false;
    }
    let request = &entry.request;
    let current = registry.by_id(request.endpoint.id);
    let current = current.is_some_and(|endpoint| {
        let reads = registry.reads(&endpoint.tables);
        endpoint.version == request.endpoint.version
            && reads.iter().map(|read| (read.id, read.version)).eq(request.reads.iter().copied())
    });
    if !current {
        // The endpoint has changed, so no request can reach this entry any more.
        cache.entries.cached.invalidate(key);
    }
    current
}

async fn refresh(cache: &Cache, executor: Arc<Executor>, clock: Clock, key: Key, entry: &Arc<CacheEntry>) {
    let request = Arc::clone(&entry.request);
    let make = executor.execute(Arc::clone(&request), clock.now(), Account::Warming, Arc::<RunRecord>::default());
    let read = entry.warming().read;
    let (execution, _) = cache.join_or_start(key, request, read, make);
    match execution.await {
        // A request may have read the old entry during the refresh. It counts as a reader of the new entry.
        Ok(Executed::Cached(fresh)) => {
            let read = entry.warming().read;
            let mut warming = fresh.warming();
            warming.read = warming.read.max(read);
        }
        // No request waits for this answer, so it is dropped.
        Ok(Executed::Uncached(_)) => {}
        Err(failure) => {
            entry.stale.store(true, Ordering::Relaxed);
            let endpoint = entry.request.endpoint.manifest.name.as_str();
            tracing::warn!(
                endpoint,
                code = failure.code.name(),
                "a cached answer could not be refreshed; the old one is served"
            );
        }
    }
}
