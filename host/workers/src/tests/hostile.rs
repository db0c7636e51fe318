//! A worker that sends nonsense, or nothing: each is a failure that is the worker's fault, and never a short answer: the server
//! reads the rows itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::ipc::CompressionType;
use datafusion::arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use hyper::{Method, Response};
use tidegate_cluster::BatchBytes;
use tidegate_cluster::stages::columns_to_bytes;
use tidegate_model::{Code, Failure};
use tidegate_sql::Stop;
use tokio::net::TcpListener;

use super::cluster::store;
use super::promises::Coordinator;
use super::support::{BUILD, Cluster};
use crate::Outcome;
use crate::frames;
use crate::messages::{CostMessage, PROTOCOL, STATUS, StartedMessage, WorkerStatus};

/// What a fake worker answers to the start of a task, and to the request for a partition.
#[derive(Debug, Clone)]
struct Script {
    status: u16,
    start: Said,
    rows: Said,
}

#[derive(Debug, Clone)]
enum Said {
    /// These bytes, and the end of the answer.
    Bytes(Vec<u8>),
    /// These bytes, and nothing more.
    Open(Vec<u8>),
    /// These bytes, and then the stream is reset.
    Reset(Vec<u8>),
    /// The connection is closed.
    Closed,
}

fn status() -> WorkerStatus {
    WorkerStatus {
        protocol: PROTOCOL,
        build: BUILD.to_owned(),
        draining: false,
        tasks: 0,
        max_tasks: 1,
        memory_held: 0,
        memory_limit: 1,
    }
}

/// Serves each connection by the script.
async fn fake(script: Script) -> SocketAddr {
    fake_of(script, status()).await
}

async fn fake_of(script: Script, status: WorkerStatus) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let shared = Arc::new((script, status));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                let (script, status) = shared.as_ref();
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let mut kept = Vec::new();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let said = match (request.method(), request.uri().path()) {
                        (&Method::GET, STATUS) => {
                            let response = respond.send_response(Response::new(()), false);
                            let mut stream = response.unwrap();
                            stream.send_data(serde_json::to_vec(status).unwrap().into(), true).unwrap();
                            continue;
                        }
                        (&Method::POST, _) => &script.start,
                        _ => &script.rows,
                    };
                    let response = Response::builder().status(script.status).body(()).unwrap();
                    let Ok(mut stream) = respond.send_response(response, false) else { continue };
                    match said.clone() {
                        Said::Bytes(bytes) => drop(stream.send_data(Bytes::from(bytes), true)),
                        Said::Open(bytes) => drop(stream.send_data(Bytes::from(bytes), false)),
                        Said::Reset(bytes) => {
                            let _ = stream.send_data(Bytes::from(bytes), false);
                            tokio::time::sleep(Duration::from_millis(20)).await;
                            stream.send_reset(h2::Reason::INTERNAL_ERROR);
                        }
                        Said::Closed => return,
                    }
                    kept.push((stream, request));
                }
            });
        }
    });
    address
}

fn started(partitions: u32) -> Vec<u8> {
    frames::started(&StartedMessage { id: vec![1; 16], partitions }).to_vec()
}

fn lie(kind: u8, rows: u64, message: u32, body: u64) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&rows.to_le_bytes());
    bytes.extend_from_slice(&message.to_le_bytes());
    bytes.extend_from_slice(&body.to_le_bytes());
    bytes
}

fn end() -> Vec<u8> {
    frames::end(&CostMessage::default()).to_vec()
}

/// These frames after that of the columns.
fn after_columns(frames: &[u8]) -> Vec<u8> {
    let columns = columns_to_bytes(&Schema::new(vec![Field::new("n", DataType::Int64, true)])).unwrap();
    [frames::columns(columns).as_ref(), frames].concat()
}

/// Rows as the format has them compressed, of which a length says that they are 64 TiB: to allocate as much would end
/// the process.
fn compressed() -> BatchBytes {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7; 1000]));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
    let (mut dictionaries, mut context) = (DictionaryTracker::new(true), IpcWriteContext::default());
    let encoded = IpcDataGenerator::default().encode(&batch, &mut dictionaries, &options, &mut context).unwrap().1;
    let mut body = encoded.arrow_data;
    let length = body.windows(8).position(|bytes| bytes == 8000_u64.to_le_bytes()).unwrap();
    body[length..length + 8].copy_from_slice(&(1_u64 << 46).to_le_bytes());
    BatchBytes { message: encoded.ipc_message, body: body.into(), rows: 1000 }
}

/// A statement over one worker that plays the script; one partition.
async fn play(script: Script) -> (Result<usize, Failure>, Cluster) {
    let (store, folder) = store(2, 20).await;
    let address = fake(script).await;
    let cluster = Cluster::over(store, folder, &[address], 1);
    cluster.usable(1).await;
    // Nothing is handed on before all rows are there.
    let sql = "SELECT * FROM t WHERE n >= 0 ORDER BY event_message";
    let stop = Stop::after(Duration::from_secs(2));
    let rows = stop.cover(cluster.rows(&cluster.remote, sql)).await;
    assert!(cluster.was_remote());
    (rows, cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_told_as_that() {
    let rows = BatchBytes { message: vec![7; 200], body: vec![9_u8; 1000].into(), rows: 3 };
    let rows = [frames::rows_head(&rows), rows.body.to_vec(), end()].concat();
    let packed = compressed();
    let packed = [frames::rows_head(&packed), packed.body.to_vec(), end()].concat();
    let ok = |rows: Vec<u8>| Script { status: 200, start: Said::Open(started(1)), rows: Said::Bytes(rows) };
    let after = |rows: &[u8]| ok(after_columns(rows));
    for script in [
        ok(b"HTTP/1.1 200 OK\r\n\r\nhello, this is no worker".to_vec()),
        ok(end()),
        ok(frames::columns(vec![7; 100]).to_vec()),
        after(&lie(5, 1, 10, 1 << 60)),
        after(&lie(5, u64::MAX, u32::MAX, u64::MAX)),
        after(&rows),
        after(&packed),
        after(&started(1)),
        after(&frames::cost(&CostMessage::default())),
        Script { status: 404, ..ok(Vec::new()) },
        Script { start: Said::Open(started(2)), ..ok(end()) },
        Script { start: Said::Open(end()), ..ok(end()) },
        Script { start: Said::Open(vec![0; 4096]), ..ok(end()) },
        Script { start: Said::Open(lie(1, 0, 1 << 31, 0)), ..ok(end()) },
        Script { start: Said::Open(lie(5, 1, 100, 1 << 29)), ..ok(end()) },
    ] {
        let (got, cluster) = play(script.clone()).await;
        assert_eq!(got.unwrap(), 1500, "{script:?}");
        cluster.counted(Outcome::Nonsense, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cut_is_never_the_end() {
    let head = lie(5, 1, 100, 100_000);
    let open = |rows: Said| Script { status: 200, start: Said::Open(started(1)), rows };
    for script in [
        open(Said::Bytes(Vec::new())),
        open(Said::Bytes(after_columns(&[]))),
        open(Said::Bytes(after_columns(&head))),
        open(Said::Bytes(after_columns(&end()[..10]))),
        open(Said::Reset(Vec::new())),
        open(Said::Reset(after_columns(&head))),
        open(Said::Closed),
        Script { start: Said::Bytes(Vec::new()), ..open(Said::Closed) },
        Script { start: Said::Reset(Vec::new()), ..open(Said::Closed) },
        Script { start: Said::Closed, ..open(Said::Closed) },
    ] {
        let (got, cluster) = play(script.clone()).await;
        assert_eq!(got.unwrap(), 1500, "{script:?}");
        cluster.counted(Outcome::Gone, 1).await;
    }
    // The counterpart: the worker has no rows, and those in memory are the answer.
    let (got, cluster) = play(open(Said::Bytes(after_columns(&end())))).await;
    assert_eq!(got.unwrap(), 500);
    cluster.counted(Outcome::Done, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_says_nothing_is_waited_for_until_the_time_is_over() {
    let open = |start, rows| Script { status: 200, start, rows };
    for script in [
        open(Said::Open(Vec::new()), Said::Open(Vec::new())),
        open(Said::Open(started(1)), Said::Open(Vec::new())),
        open(Said::Open(started(1)), Said::Open(after_columns(&lie(5, 1, 100, 1000)))),
    ] {
        let (got, _cluster) = play(script).await;
        assert_eq!(got.unwrap_err().code, Code::Timeout);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_for_which_there_is_no_room_is_a_failure_of_the_statement() {
    let rows = Said::Open(after_columns(&lie(5, 1, 100, 1 << 30)));
    let (got, _cluster) = play(Script { status: 200, start: Said::Open(started(1)), rows }).await;
    let failure = got.unwrap_err();
    assert_eq!(failure.code, Code::LimitExceeded, "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_another_version_are_not_used() {
    let script = Script { status: 200, start: Said::Closed, rows: Said::Closed };
    let (store, folder) = store(2, 20).await;
    let mut addresses = Vec::new();
    // The last one is of the same version, and of other sources.
    let builds = [(PROTOCOL + 1, BUILD), (PROTOCOL, "0.0.1"), (PROTOCOL, BUILD), (PROTOCOL, "1.2.3+46")];
    for (protocol, build) in builds {
        addresses.push(fake_of(script.clone(), WorkerStatus { protocol, build: build.to_owned(), ..status() }).await);
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    addresses.push(listener.local_addr().unwrap());
    drop(listener);
    let cluster = Cluster::over(store, folder, &addresses, 1);
    cluster.usable(1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(cluster.names(), [addresses[2].to_string().into()]);
    let views = cluster.workers.views();
    let why = |address: SocketAddr| {
        let view = views.iter().find(|view| view.name.as_ref() == address.to_string()).unwrap();
        view.unusable.clone().unwrap_or_default()
    };
    assert!(why(addresses[0]).contains(&format!("protocol {}", PROTOCOL + 1)), "{views:?}");
    assert!(why(addresses[1]).contains("version 0.0.1"), "{views:?}");
    assert!(
        why(addresses[3]).contains(&format!("version 1.2.3+46 (protocol {PROTOCOL}), this server of 1.2.3+45")),
        "{views:?}"
    );
    assert!(why(addresses[4]).contains("cannot be reached"), "{views:?}");
}
