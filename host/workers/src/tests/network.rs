//! What workers promise, over the network: failures keep their code and text, nobody waits for what nobody reads, what was
//! held is given back, and no answer is short.

use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::MemoryPool;
use futures::{StreamExt, TryStreamExt};
use tidegate_model::Code;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::promises::{self, Coordinator};
use super::support::{BUILD, Cluster, Served, failure, worker_options};
use crate::{Connect, Outcome, RemoteWorkers, WorkerAddress, WorkerOptions, WorkerView};

const ALL: &str = "SELECT * FROM t ORDER BY timestamp DESC";

#[tokio::test(flavor = "multi_thread")]
async fn failures_keep_their_code_and_text() {
    let cluster = Cluster::new().await;
    promises::failures_keep_their_code_and_text(&cluster).await;
    cluster.counted(Outcome::Failed, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_reads_ends_and_gives_its_memory_back() {
    let cluster = Cluster::new().await;
    let done = promises::what_nobody_reads_ends_and_gives_its_memory_back(&cluster).await;
    cluster.counted(Outcome::Done, done).await;
    assert_eq!(cluster.count(Outcome::Gone) + cluster.count(Outcome::Nonsense) + cluster.count(Outcome::Busy), 0);
}

/// A statement that ends early resets streams; a connection that counts these must not break for the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_lasts_however_many_statements_end_early() {
    let cluster = Cluster::large().await;
    let (reading, task) = cluster.begun(ALL, None).await;
    for _ in 0..150 {
        let mut rows = cluster.run(&cluster.remote, "SELECT * FROM t ORDER BY event_message").await.unwrap();
        assert!(rows.next().await.unwrap().unwrap().num_rows() > 0);
        drop(rows);
        drop(cluster.run(&cluster.remote, ALL).await.unwrap());
    }
    let rest: Vec<_> = reading.try_collect().await.unwrap();
    assert!(rest.len() > 3);
    drop(task);
    assert_eq!(cluster.count(Outcome::Gone), 0);
    cluster.idle().await;
}

/// The reader is there and takes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_is_cut_by_the_time() {
    let cluster = Cluster::large().await;
    let (mut rows, task) = cluster.begun(ALL, Some(Duration::from_millis(700))).await;
    assert!(cluster.served.iter().any(|served| served.worker.tasks() > 0));
    // The task is gone with all that it had; a little is still on its way to the reader, who could take it.
    let began = Instant::now();
    while cluster.served.iter().any(|served| served.worker.tasks() > 0) {
        assert!(began.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let held: usize = cluster.served.iter().map(|served| served.worker.memory_held()).sum();
    assert!(held < 256 << 10, "{held}");
    let ended = loop {
        match rows.next().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => break failure(&error),
            None => panic!("a short answer"),
        }
    };
    assert_eq!(ended.code, Code::Timeout, "{ended}");
    assert_eq!(task.home.reserved(), 0);
    cluster.idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_is_gone_leaves_nothing() {
    let cluster = Cluster::large().await;
    let addresses: Vec<_> = cluster.served.iter().map(|served| served.address).collect();
    // Another coordinator, on threads of its own.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (store, (reads, read)) = (std::sync::Arc::clone(&cluster.store), tokio::sync::oneshot::channel());
    runtime.spawn(async move {
        let other = Cluster::over(store, tempfile::tempdir().unwrap(), &addresses, 2);
        other.usable(3).await;
        let _rows = other.begun(ALL, None).await;
        let _ = reads.send(());
        std::future::pending::<()>().await;
    });
    read.await.unwrap();
    assert!(cluster.served.iter().any(|served| served.worker.tasks() > 0));
    let began = Instant::now();
    runtime.shutdown_background();
    cluster.idle().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_gone_is_no_end_of_the_rows() {
    let mut cluster = Cluster::large().await;
    let (rows, _task) = cluster.begun(ALL, None).await;
    let mut addresses = Vec::new();
    for served in std::mem::take(&mut cluster.served) {
        addresses.push(served.address);
        served.kill().await;
    }
    let failure = failure(&rows.try_collect::<Vec<_>>().await.unwrap_err());
    assert_eq!(failure.code, Code::DataUnavailable, "{failure}");
    cluster.usable(0).await;
    // They come back.
    for address in addresses {
        cluster.served.push(Served::start(cluster.folder.path(), &worker_options(), address).await);
    }
    cluster.usable(3).await;
    assert_eq!(cluster.rows(&cluster.remote, ALL).await.unwrap(), 4500);
    assert!(cluster.was_remote());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_places_says_that_it_is_busy() {
    let cluster = Cluster::with(8, 2, 20, &WorkerOptions { tasks: 0, ..worker_options() }).await;
    assert_eq!(cluster.rows(&cluster.remote, ALL).await.unwrap(), 4500);
    assert!(cluster.was_remote());
    cluster.counted(Outcome::Busy, 1).await;
    cluster.idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_memory_says_that_it_is_busy() {
    let mut options = worker_options();
    options.engine.total_memory = 20_000;
    let cluster = Cluster::with(8, 2, 20, &options).await;
    assert_eq!(cluster.rows(&cluster.remote, "SELECT * FROM t ORDER BY event_message").await.unwrap(), 4500);
    assert!(cluster.was_remote());
    cluster.counted(Outcome::Busy, 1).await;
    cluster.idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_needs_too_much_on_a_worker_fails_as_it_does_here() {
    let mut options = worker_options();
    options.engine.statement_memory = 30_000;
    let cluster = Cluster::with(8, 2, 20, &options).await;
    let failure = cluster.rows(&cluster.remote, "SELECT * FROM t ORDER BY event_message").await.unwrap_err();
    assert_eq!(failure.code, Code::LimitExceeded, "{failure}");
    cluster.idle().await;
}

/// A worker that is told to end takes no new tasks, and ends when those that run have ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_ends_lets_its_tasks_end() {
    let mut cluster = Cluster::large().await;
    let (rows, _task) = cluster.begun(ALL, None).await;
    for served in &mut cluster.served {
        served.drain();
    }
    cluster.usable(0).await;
    let leaves = |view: &WorkerView| view.unusable.as_deref() == Some("it is shutting down");
    assert_eq!(cluster.workers.views().iter().filter(|view| leaves(view)).count(), 1, "the one that runs the task");
    // Nothing is given to them any more.
    assert_eq!(cluster.rows(&cluster.remote, ALL).await.unwrap(), 4500);
    assert!(!cluster.was_remote());
    let rest: Vec<_> = rows.try_collect().await.unwrap();
    assert!(rest.len() > 3);
    for served in std::mem::take(&mut cluster.served) {
        served.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_answers_probes() {
    let cluster = Cluster::new().await;
    assert_eq!(cluster.rows(&cluster.remote, ALL).await.unwrap(), 4500);
    let ask = async |path: &str| {
        let mut stream = TcpStream::connect(cluster.served[0].address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    assert!(ask("/ready").await.starts_with("HTTP/1.1 200"));
    assert!(ask("/health").await.starts_with("HTTP/1.1 200"));
    // A task may end after its last row was taken.
    let mut metrics = ask("/metrics").await;
    for _ in 0..1000 {
        if metrics.contains("tidegate_worker_tasks 0\n") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        metrics = ask("/metrics").await;
    }
    assert!(metrics.contains("tidegate_worker_tasks 0\n"), "{metrics}");
    assert!(metrics.contains("tidegate_worker_tasks_asked_total{outcome=\"started\"} "), "{metrics}");
    assert!(ask("/v1/tasks").await.starts_with("HTTP/1.1 505"));
    assert!(ask("/v1/else").await.starts_with("HTTP/1.1 404"));
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_on_other_machines_need_tls() {
    let far = [WorkerAddress::Fixed("192.0.2.1:4100".parse().unwrap())];
    assert!(RemoteWorkers::start(&far, Connect::Loopback, BUILD.into()).unwrap_err().contains("needs TLS"));
}

/// A name stands for all its addresses.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_workers_are_looked_up() {
    let mut cluster = Cluster::new().await;
    let port = cluster.served[0].address.port();
    let addresses =
        [WorkerAddress::Named("localhost".into(), port), WorkerAddress::Named("no.such.name.invalid".into(), 1)];
    cluster.workers = RemoteWorkers::start(&addresses, Connect::Loopback, BUILD.into()).unwrap();
    cluster.usable(1).await;
    let views = cluster.workers.views();
    assert!(views.iter().any(|view| view.name.as_ref() == format!("127.0.0.1:{port}")), "{views:?}");
    let began = Instant::now();
    let unknown = |view: &crate::WorkerView| view.unusable.as_ref().is_some_and(|why| why.contains("looked up"));
    while !cluster.workers.views().iter().any(unknown) {
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", cluster.workers.views());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
