//! Warming: answers that someone asked for are made anew before they expire, without a request.
//!
//! An entry that nobody has read for as long as it may be kept is left to expire. A refresh that
//! fails leaves the old rows in place, marked stale, and is tried again at the next interval. One whose
//! component lets its answer not be kept ends the entry, and with it the warming.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::{Entry, Key, Made};
use crate::admission::Tenant;
use crate::app::App;
use crate::execute::execute;

/// How often it is looked for entries that are due: intervals are whole seconds.
const TICK: Duration = Duration::from_millis(200);

/// Warms until the service is gone.
pub(crate) async fn warm(app: Weak<App>, concurrency: usize) {
    let places = Arc::new(Semaphore::new(concurrency.max(1)));
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(app) = app.upgrade() else { return };
        for (key, entry) in &app.cache.entries.kept {
            if !is_due(&app, &key, &entry) {
                continue;
            }
            // What finds no place now is still due at the next tick.
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { break };
            // Not due again while it is being made: an execution never overlaps itself.
            let interval = entry.asked.endpoint.manifest.settings.proactive_requerying_seconds;
            entry.warming().due = interval.map(|seconds| Instant::now() + Duration::from_secs(seconds));
            let app = Arc::clone(&app);
            tokio::spawn(async move {
                refresh(&app, *key, &entry).await;
                drop(place);
            });
        }
    }
}

fn is_due(app: &App, key: &Key, entry: &Arc<Entry>) -> bool {
    let warming = *entry.warming();
    let now = Instant::now();
    if warming.due.is_none_or(|due| now < due) || now.duration_since(warming.read) >= entry.lifetime {
        return false;
    }
    let asked = &entry.asked;
    let current = app.registry.by_id(asked.endpoint.id);
    let current = current.is_some_and(|endpoint| {
        let reads = app.registry.reads(&endpoint.tables);
        endpoint.version == asked.endpoint.version
            && reads.iter().map(|read| (read.id, read.version)).eq(asked.reads.iter().copied())
    });
    if !current {
        // Nobody can reach it any more.
        app.cache.entries.kept.invalidate(key);
    }
    current
}

async fn refresh(app: &Arc<App>, key: Key, entry: &Arc<Entry>) {
    let asked = Arc::clone(&entry.asked);
    let make = execute(Arc::clone(app), Arc::clone(&asked), app.clock.now(), Tenant::Warming);
    let read = entry.warming().read;
    let (execution, _) = app.cache.fly(key, asked, read, make);
    match execution.await {
        // Who read the old entry meanwhile has read this one as well.
        Ok(Made::Kept(fresh)) => {
            let read = entry.warming().read;
            let mut warming = fresh.warming();
            warming.read = warming.read.max(read);
        }
        // It was made for nobody.
        Ok(Made::Unkept(_)) => {}
        Err(failure) => {
            entry.stale.store(true, Ordering::Relaxed);
            let endpoint = entry.asked.endpoint.manifest.name.as_str();
            tracing::warn!(
                endpoint,
                code = failure.code.name(),
                "a cached answer could not be refreshed; the old one is served"
            );
        }
    }
}
