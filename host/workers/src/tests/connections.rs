//! Connections that ask nothing hold no places, and hold up nobody.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::cluster::store;
use super::promises::Coordinator;
use super::support::{Cluster, Served, worker_options};
use crate::server::ConnectionBounds;

/// Short times and few places, so that the test is short.
const BOUNDS: ConnectionBounds =
    ConnectionBounds { places: 8, spare: 4, silent: Duration::from_millis(1500), spare_silent: Duration::from_secs(1) };
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The answer to a request, until the connection is closed.
async fn ask(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut answer = String::new();
    let asked = async {
        let request = format!("GET {path} HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_string(&mut answer).await
    };
    let _ = asked.await;
    answer
}

/// A connection on which these bytes are sent, and nothing more.
async fn says(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// When the other end closes the connection.
async fn closed(mut stream: TcpStream) -> Instant {
    let mut read = [0; 1024];
    while stream.read(&mut read).await.is_ok_and(|bytes| bytes > 0) {}
    Instant::now()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_ask_nothing_are_closed_and_probes_answered_beside_them() {
    let (_store, folder) = store(2, 20).await;
    let local = ([127, 0, 0, 1], 0).into();
    let served = Served::start_within(folder.path(), &worker_options(), local, BOUNDS).await;
    for address in [served.address, served.probes] {
        let began = Instant::now();
        // Nothing, a part of what tells the version, all of it, a part of a head.
        let silent: [&[u8]; 8] =
            [b"", b"", b"P", b"PRI * HTTP/2.0\r\n", PREFACE, b"G", b"GET /health HTTP/1.1\r\n", b""];
        let mut waiting = Vec::new();
        for bytes in silent {
            waiting.push(tokio::spawn(closed(says(address, bytes).await)));
        }
        // They have all places, except where what is not HTTP/1 is closed at once.
        assert!(ask(address, "/health").await.starts_with("HTTP/1.1 200"));
        if address == served.address {
            let refused = ask(address, "/v1/worker").await;
            assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
        }
        let mut last = began;
        for waiting in waiting {
            last = last.max(tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap());
        }
        let took = last - began;
        assert!(took >= BOUNDS.silent && took < BOUNDS.silent + Duration::from_secs(10), "{took:?}");
        assert!(ask(address, "/health").await.starts_with("HTTP/1.1 200"));
    }
}

/// One that answers pings, and asks nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_http2_without_requests_is_closed() {
    let (_store, folder) = store(2, 20).await;
    let bounds = ConnectionBounds { silent: Duration::from_millis(1500), ..BOUNDS };
    let served = Served::start_within(folder.path(), &worker_options(), ([127, 0, 0, 1], 0).into(), bounds).await;
    let began = Instant::now();
    let stream = TcpStream::connect(served.address).await.unwrap();
    let (_send, connection) = h2::client::handshake(stream).await.unwrap();
    let _ = tokio::time::timeout(Duration::from_secs(20), connection).await.unwrap();
    assert!(began.elapsed() >= bounds.silent, "{:?}", began.elapsed());
}

/// A server asks often enough, and a task may say nothing for as long as it takes.
#[tokio::test(flavor = "multi_thread")]
async fn connections_of_servers_stay() {
    let (store, folder) = store(8, 3_000).await;
    let bounds = ConnectionBounds { silent: Duration::from_millis(2500), ..BOUNDS };
    let served = Served::start_within(folder.path(), &worker_options(), ([127, 0, 0, 1], 0).into(), bounds).await;
    let mut cluster = Cluster::over(store, folder, &[served.address], 2);
    cluster.served.push(served);
    cluster.usable(1).await;
    let rows = cluster.begun("SELECT * FROM t ORDER BY timestamp DESC", None).await;
    tokio::time::sleep(2 * bounds.silent).await;
    assert_eq!(cluster.count(crate::Outcome::Gone), 0);
    cluster.usable(1).await;
    drop(rows);
    cluster.idle().await;
}
