//! The alerts of a service: what they need to run and to send, and what is going on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_model::{Alert, Code, Failure};
use tidegate_store::Store;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use super::counters::{AlertCounts, Counters};
use super::in_use::{InUse, Use};
use super::sender::Sender;
use crate::blocking::blocking;
use crate::catalog::{AlertRecord, AlertTable};
use crate::clock::Clock;
use crate::endpoints::Endpoints;
use crate::execution::Executor;
use crate::options::AlertOptions;

/// How long what was asked for waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// The alerts of a service.
#[derive(Debug)]
pub struct Alerts {
    pub(super) store: Arc<Store>,
    pub(super) endpoints: Endpoints,
    pub(super) executor: Arc<Executor>,
    pub(super) clock: Clock,
    pub(super) options: AlertOptions,
    pub(super) sender: Arc<Sender>,
    pub(super) runs: Arc<Semaphore>,
    pub(super) sends: Arc<Semaphore>,
    /// The endpoints of which an alert runs.
    pub(super) asked: InUse<Uuid>,
    /// The hosts to which messages are sent.
    pub(super) hosts: InUse<String>,
    /// The messages that are sent.
    pub(super) sending: InUse<i64>,
    pub(super) counters: Counters,
    /// Notified when there may be something due.
    pub(super) wake: Arc<Notify>,
    pub(super) stopping: AtomicBool,
}

impl Alerts {
    pub(crate) fn new(
        options: &AlertOptions,
        store: &Arc<Store>,
        endpoints: &Endpoints,
        executor: &Arc<Executor>,
        clock: Clock,
    ) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            endpoints: endpoints.clone(),
            executor: Arc::clone(executor),
            clock,
            options: options.clone(),
            sender: Arc::new(Sender::new(options)),
            runs: Arc::new(Semaphore::new(options.concurrency.max(1))),
            sends: Arc::new(Semaphore::new(options.send_concurrency.max(1))),
            asked: InUse::default(),
            hosts: InUse::default(),
            sending: InUse::default(),
            counters: Counters::default(),
            wake: Arc::new(Notify::new()),
            stopping: AtomicBool::new(false),
        })
    }

    /// What happened since the start.
    pub fn counts(&self) -> AlertCounts {
        self.counters.now()
    }

    /// Starts nothing any more.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Looks at what is due at once, because something was saved.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    pub(super) async fn record(&self, endpoint: Uuid, name: &str) -> Result<AlertRecord, Failure> {
        let key = name.to_owned();
        let record = blocking(&self.store, move |store| AlertTable(store.catalog()).one(endpoint, &key)).await?;
        record.ok_or_else(|| unknown(name))
    }

    /// A permit for a run that somebody asked for.
    pub(super) async fn wait_for_turn(&self, endpoint: Uuid) -> Result<(OwnedSemaphorePermit, Use<Uuid>), Failure> {
        let began = Instant::now();
        loop {
            if let Some(turn) = self.asked.take(&endpoint, 1)
                && let Ok(permit) = Arc::clone(&self.runs).try_acquire_owned()
            {
                return Ok((permit, turn));
            }
            self.wait_a_moment(began, "other alerts are being run").await?;
        }
    }

    pub(super) async fn wait_a_moment(&self, began: Instant, why: &str) -> Result<(), Failure> {
        if began.elapsed() > PATIENCE {
            return Err(Failure::new(Code::Overloaded, format!("{why}; try again later")).retry_after(5));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    }
}

/// What an alert is.
///
/// # Errors
/// None that are expected.
pub(super) fn definition(text: &str) -> Result<Alert, Failure> {
    serde_json::from_str(text).map_err(|error| {
        tracing::error!(%error, "the definition of an alert cannot be read");
        Failure::new(Code::Internal, "the definition of the alert cannot be read")
    })
}

/// The failure for a message that cannot be written as JSON.
pub(super) fn unwritable(error: serde_json::Error) -> Failure {
    tracing::error!(%error, "a message of an alert cannot be written");
    Failure::new(Code::Internal, "the message cannot be written; the server's log has the details")
}

/// The failure for an alert that is not there.
pub(super) fn unknown(name: &str) -> Failure {
    Failure::new(Code::NotFound, format!("the endpoint has no alert {name}")).about("alert")
}
