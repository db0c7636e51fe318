//! Cache warming: answers that somebody asked for are executed again before they expire, without a request.
//!
//! An entry that nobody has read for as long as it may be cached is left to expire. If a refresh fails, the old answer
//! stays, marked as stale, and the refresh is tried again at the next interval. If the component does not allow its new
//! answer to be cached, the entry is removed, and its warming ends.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::{Cache, CacheEntry, Executed, Key};
use crate::clock::Clock;
use crate::execution::{Executor, RunRecord};
use crate::registry::Registry;
use crate::tenant::Tenant;

/// How often entries that are due are looked for. Intervals are whole seconds.
const TICK: Duration = Duration::from_millis(200);

/// Warms the cache until the service is gone.
pub(crate) async fn warm(cache: Weak<Cache>, executor: Weak<Executor>, clock: Clock, concurrency: usize) {
    let places = Arc::new(Semaphore::new(concurrency.max(1)));
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let (Some(cache), Some(executor)) = (cache.upgrade(), executor.upgrade()) else { return };
        for (key, entry) in &cache.entries.kept {
            if !is_due(&cache, executor.endpoints.registry(), &key, &entry) {
                continue;
            }
            // An entry that finds no place now is still due at the next tick.
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { break };
            // Not due again while it is executed: executions of an entry never overlap.
            let interval = entry.request.endpoint.manifest.settings.proactive_requerying_seconds;
            entry.warming().due = interval.map(|seconds| Instant::now() + Duration::from_secs(seconds));
            let (cache, executor) = (Arc::clone(&cache), Arc::clone(&executor));
            tokio::spawn(async move {
                refresh(&cache, executor, clock, *key, &entry).await;
                drop(place);
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
        // No request can reach it any more.
        cache.entries.kept.invalidate(key);
    }
    current
}

async fn refresh(cache: &Cache, executor: Arc<Executor>, clock: Clock, key: Key, entry: &Arc<CacheEntry>) {
    let request = Arc::clone(&entry.request);
    let make = executor.execute(Arc::clone(&request), clock.now(), Tenant::Warming, RunRecord::default());
    let read = entry.warming().read;
    let (execution, _) = cache.fly(key, request, read, make);
    match execution.await {
        // A request that read the old entry meanwhile counts as a reader of the new one.
        Ok(Executed::Cached(fresh)) => {
            let read = entry.warming().read;
            let mut warming = fresh.warming();
            warming.read = warming.read.max(read);
        }
        // No request asked for it.
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
