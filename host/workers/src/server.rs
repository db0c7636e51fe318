//! The connections of a worker.
//!
//! Windows of HTTP/2 bound what is on its way to a coordinator that reads slowly, and pings find a coordinator that is
//! gone without a word: its tasks end with its connection.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::routes::{probe, route};
use crate::transport::Accept;
use crate::worker::Worker;

/// Connections at once, over all coordinators and probes.
const MAX_CONNECTIONS: usize = 1024;
/// How long a handshake, or the head of a request, may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a silent coordinator is asked whether it is there, and how long its answer may take.
const PING_INTERVAL: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// Streams of a connection at once. Each partition that is read is one, and none may wait for another.
const MAX_STREAMS: u32 = 1 << 16;
/// Streams that a coordinator may have reset and the worker not yet seen to. A statement that ends early resets many.
const MAX_RESET_STREAMS: usize = 1 << 14;
/// How much of the body of a request may be on its way.
const WINDOW: u32 = 256 << 10;
/// How much of an answer is taken from its task before the connection takes it.
const SEND_BUFFER: usize = 64 << 10;
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

/// Serves until `stop` resolves, then takes no new tasks and waits for those that run.
pub async fn serve(worker: Arc<Worker>, listeners: WorkerListeners, stop: impl Future<Output = ()>) {
    let WorkerListeners { tasks, accept, probes, grace } = listeners;
    let mut serving = JoinSet::new();
    serving.spawn(accept.clone().watch());
    serving.spawn(accept_all(tasks, Arc::clone(&worker), Some(accept)));
    if let Some(probes) = probes {
        serving.spawn(accept_all(probes, Arc::clone(&worker), None));
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
async fn accept_all(listener: TcpListener, worker: Arc<Worker>, accept: Option<Accept>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
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
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(%peer, "there are too many connections");
            continue;
        };
        let (worker, accept) = (Arc::clone(&worker), Arc::clone(&accept));
        connections.spawn(async move {
            if let Err(error) = connection(stream, worker, accept.as_ref().as_ref(), peer).await {
                tracing::debug!(%error, %peer, "a connection ended early");
            }
            drop(place);
        });
    }
}

async fn connection(
    stream: TcpStream,
    worker: Arc<Worker>,
    accept: Option<&Accept>,
    peer: SocketAddr,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let _ = stream.set_nodelay(true);
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(64 << 10);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(16 * WINDOW)
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_local_error_reset_streams(MAX_RESET_STREAMS)
        .max_header_list_size(16 << 10)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    match accept {
        Some(accept) => {
            let stream = tokio::time::timeout(HEAD_TIMEOUT, accept.accept(stream, peer)).await??;
            let service = service_fn(|request: Request<Incoming>| {
                let worker = Arc::clone(&worker);
                async move { Ok::<_, Infallible>(route(worker, request).await) }
            });
            pin!(builder.serve_connection(TokioIo::new(stream), service)).await
        }
        None => {
            let service = service_fn(|request: Request<Incoming>| {
                let answer = probe(&worker, request.method(), request.uri().path());
                async move { Ok::<_, Infallible>(answer) }
            });
            pin!(builder.serve_connection(TokioIo::new(stream), service)).await
        }
    }
}
