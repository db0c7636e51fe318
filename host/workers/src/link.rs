//! One connection to a worker.
//!
//! A window of each stream bounds what is on its way; that of the connection is as large as it can be, so that a partition
//! that nobody reads holds up no other one. Pings find a worker that is gone without a word: a stopped process, a cable.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, RecvStream};
use hyper::{Method, Request, StatusCode};
use tidegate_cluster::WorkerFailure;
use tidegate_tls::handshake_failure;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::frames::{Chunks, FrameReader};
use crate::transport::Connect;

/// How much of one answer may be on its way, in bytes.
pub(crate) const WINDOW: u32 = 256 << 10;
/// All streams together: as many full windows as 8,191 partitions that nobody reads have.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// How long connecting and the handshakes may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a worker is asked whether it is there, and how long its answer may take.
const PING_INTERVAL: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// Streams that were reset and whose last frames may still come. A statement that ends early resets many.
const MAX_RESET_STREAMS: usize = 1 << 14;

/// A connection to a worker. It is closed when all of its clones and streams are dropped.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    send: SendRequest<Bytes>,
    /// Why the connection is closed, when it is.
    closed: watch::Receiver<Option<String>>,
}

impl Link {
    /// Connects, within a runtime, on which the connection is driven.
    ///
    /// # Errors
    /// The reason as text.
    pub(crate) async fn open(address: SocketAddr, host: &str, connect: &Connect) -> Result<Self, String> {
        let opened = async {
            let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
            let _ = stream.set_nodelay(true);
            let stream = connect.connect(stream, address, host).await.map_err(|error| handshake_failure(&error))?;
            let handshake = Builder::new()
                .initial_window_size(WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_header_list_size(16 << 10)
                .max_concurrent_reset_streams(MAX_RESET_STREAMS)
                // What still comes of streams that were reset long ago says nothing against a worker.
                .max_local_error_reset_streams(None)
                .enable_push(false)
                .handshake(stream);
            handshake.await.map_err(|error| reason(&error, connect))
        };
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, opened).await;
        let (send, connection) = opened.unwrap_or_else(|_| Err("connecting takes too long".to_owned()))?;
        let (closing, closed) = watch::channel(None);
        let connect = connect.clone();
        tokio::spawn(async move {
            let why = drive(connection, &connect).await;
            closing.send_replace(Some(why));
        });
        Ok(Self { send, closed })
    }

    /// Whether the connection is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.borrow().is_some() || self.closed.has_changed().is_err()
    }

    /// Waits until the connection is closed. The reason.
    pub(crate) async fn closed(&self) -> String {
        let mut closed = self.closed.clone();
        // An error says that its task is gone, and the connection with it.
        let why = closed.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        why.unwrap_or_else(|| "the connection broke".to_owned())
    }

    /// Asks the worker, and reads the frames of its answer.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<FrameReader<Answer>, WorkerFailure> {
        let answer = self.answer(method, path, body).await.map_err(WorkerFailure::Gone)?;
        match answer {
            (StatusCode::OK, answer) => Ok(FrameReader::new(answer)),
            (status, _) => Err(WorkerFailure::Nonsense(format!("it answers with status {status}"))),
        }
    }

    /// Asks the worker.
    ///
    /// # Errors
    /// The reason as text.
    pub(crate) async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<(StatusCode, Answer), String> {
        let text = |error: h2::Error| error.to_string();
        let request = Request::builder().method(method).uri(format!("http://worker{path}")).body(());
        let request = request.map_err(|error| error.to_string())?;
        let mut send = self.send.clone().ready().await.map_err(text)?;
        let (answer, mut stream) = send.send_request(request, body.is_none()).map_err(text)?;
        if let Some(body) = body {
            stream.send_data(body, true).map_err(text)?;
        }
        let answer: ResponseFuture = answer;
        let (head, stream) = answer.await.map_err(text)?.into_parts();
        Ok((head.status, Answer(stream)))
    }
}

/// The body of an answer. Dropping it before its end resets the stream, which the worker sees.
#[derive(Debug)]
pub(crate) struct Answer(RecvStream);

impl Chunks for Answer {
    async fn next(&mut self) -> Option<Result<Bytes, String>> {
        let data = self.0.data().await?.map_err(|error| error.to_string());
        if let Ok(data) = &data {
            // It fails for more than was taken, which this is not.
            let _ = self.0.flow_control().release_capacity(data.len());
        }
        Some(data)
    }
}

/// Drives a connection until it is closed, or the worker does not answer pings. The reason; with the connection all of its
/// streams fail.
async fn drive<T: AsyncRead + AsyncWrite + Unpin>(mut connection: Connection<T, Bytes>, connect: &Connect) -> String {
    let pings = connection.ping_pong();
    tokio::select! {
        done = connection => match done {
            Ok(()) => "it closed the connection".to_owned(),
            Err(error) => format!("the connection broke: {}", reason(&error, connect)),
        },
        () = unanswered(pings) => "it does not answer".to_owned(),
    }
}

/// Why a connection broke. In TLS 1.3, a worker that refuses this side's certificate says so when this side's handshake is
/// done already. One that wants TLS answers with an alert, whose first bytes are no length of a frame.
fn reason(error: &h2::Error, connect: &Connect) -> String {
    if matches!(connect, Connect::Loopback) && error.reason() == Some(h2::Reason::FRAME_SIZE_ERROR) {
        return "it does not speak HTTP/2 without TLS; if it has a certificate, set tls_certificate, tls_key and tls_ca of [cluster]"
            .to_owned();
    }
    error.get_io().map_or_else(|| error.to_string(), handshake_failure)
}

/// Pings until one is not answered.
async fn unanswered(pings: Option<PingPong>) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        tokio::time::sleep(PING_INTERVAL).await;
        match tokio::time::timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection says more of itself.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}
