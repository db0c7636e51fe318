//! The connections of a worker.
//!
//! Windows of HTTP/2 bound what is on its way to a coordinator that reads slowly, and pings find a coordinator that is
//! gone without a word: its tasks end with its connection.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::connection::{Refused, Serves, serve_connection};
use crate::transport::Accept;
use crate::worker::Worker;

/// How often the worker looks whether its last task has ended, while it waits for that.
const DRAIN_INTERVAL: Duration = Duration::from_millis(50);

/// Where a worker listens, and how it ends.
#[derive(Debug)]
pub struct WorkerListeners {
    /// For coordinators.
    pub tasks: TcpListener,
    /// How connections of coordinators are accepted.
    pub accept: Accept,
    /// For probes and metrics only, without TLS.
    pub probes: Option<TcpListener>,
    /// How long running tasks may go on after the worker was told to end.
    pub grace: Duration,
}

/// The bounds of the connections of one listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionBounds {
    /// Connections at once, over all coordinators and probes.
    pub(crate) places: usize,
    /// Connections beyond these, on which probes only are answered.
    pub(crate) spare: usize,
    /// How long a connection may be without a request, its handshake included.
    pub(crate) silent: Duration,
    /// The same for those beyond the places.
    pub(crate) spare_silent: Duration,
}

impl Default for ConnectionBounds {
    fn default() -> Self {
        let (silent, spare_silent) = (Duration::from_secs(10), Duration::from_secs(2));
        Self { places: 1024, spare: 64, silent, spare_silent }
    }
}

/// Serves until `stop` resolves, then takes no new tasks and waits for those that run.
pub async fn serve(worker: Arc<Worker>, listeners: WorkerListeners, stop: impl Future<Output = ()>) {
    serve_within(worker, listeners, ConnectionBounds::default(), stop).await;
}

/// [`serve`] with other bounds.
pub(crate) async fn serve_within(
    worker: Arc<Worker>,
    listeners: WorkerListeners,
    bounds: ConnectionBounds,
    stop: impl Future<Output = ()>,
) {
    let WorkerListeners { tasks, accept, probes, grace } = listeners;
    let mut serving = JoinSet::new();
    serving.spawn(accept.clone().watch());
    serving.spawn(worker.connect().clone().watch());
    serving.spawn(accept_all(tasks, Arc::clone(&worker), Some(accept), bounds));
    if let Some(probes) = probes {
        serving.spawn(accept_all(probes, Arc::clone(&worker), None, bounds));
    }
    stop.await;
    worker.drain();
    tracing::info!(tasks = worker.tasks(), "no new tasks are taken");
    let ended = async {
        while worker.tasks() > 0 {
            tokio::time::sleep(DRAIN_INTERVAL).await;
        }
    };
    if tokio::time::timeout(grace, ended).await.is_err() {
        tracing::warn!(tasks = worker.tasks(), "tasks did not end in time");
    }
    worker.close();
    // Coordinators read what the last tasks have sent.
    tokio::time::sleep(DRAIN_INTERVAL).await;
    serving.shutdown().await;
}

/// Accepts connections for ever: of coordinators, or of probes if nothing says how.
async fn accept_all(
    listener: TcpListener,
    worker: Arc<Worker>,
    accept: Option<Accept>,
    ConnectionBounds { places, spare, silent, spare_silent }: ConnectionBounds,
) {
    let (places, spare) = (Arc::new(Semaphore::new(places)), Arc::new(Semaphore::new(spare)));
    let usual = if accept.is_some() { Serves::Tasks } else { Serves::Probes };
    let accept = Arc::new(accept);
    // The connections end with this.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (place, serves, silent) = match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => (Ok(place), usual, silent),
            Err(_) => (Arc::clone(&spare).try_acquire_owned(), Serves::Spare, spare_silent),
        };
        let Ok(place) = place else {
            tracing::warn!(%peer, "there are too many connections");
            continue;
        };
        let (worker, accept) = (Arc::clone(&worker), Arc::clone(&accept));
        connections.spawn(async move {
            let served =
                serve_connection((stream, peer), accept.as_ref().as_ref(), Arc::clone(&worker), serves, silent);
            if let Err(error) = served.await {
                match error.is::<Refused>() {
                    true => worker.handshake_refused(peer, &*error),
                    false => tracing::debug!(%error, %peer, "a connection ended early"),
                }
            }
            drop(place);
        });
    }
}
