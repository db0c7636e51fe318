//! Tasks by themselves: their partitions are read in any order, and what is held is counted.

use std::time::Duration;

use datafusion::execution::memory_pool::MemoryPool;
use futures::{StreamExt, TryStreamExt};
use tidegate_cluster::{TaskBounds, TaskRun, WorkerFailure, Workers};
use tidegate_model::Code;

use super::promises::Coordinator;
use super::support::{Cluster, worker_options};

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_read_in_any_order() {
    let mut options = worker_options();
    options.engine.partitions = 64;
    let cluster = Cluster::with(70, 64, 20, &options).await;
    assert_eq!(cluster.rows(&cluster.cut, "SELECT * FROM t WHERE n >= 0").await.unwrap(), 35_500);
    let tasks = std::mem::take(&mut *cluster.spy.tasks.lock().unwrap());
    let partitions: usize = tasks.iter().map(|(task, _, _)| task.partitions).sum();
    assert!(partitions >= 64, "{partitions} partitions");
    let mut read = 0;
    for (task, bounds, home) in tasks {
        let before = read;
        let TaskRun { partitions, cost, .. } = cluster.workers.run(&task, &bounds, &home).unwrap();
        // Each is begun, then the last one is read first.
        let mut begun = Vec::new();
        for mut rows in partitions {
            let first = rows.next().await.transpose().unwrap().map_or(0, |batch| batch.num_rows());
            begun.push((first, rows));
        }
        assert!(home.reserved() > 0, "what is received counts here");
        for (first, rows) in begun.into_iter().rev() {
            let rest: Vec<_> = rows.try_collect().await.unwrap();
            read += (first + rest.iter().map(|batch| batch.num_rows()).sum::<usize>()) as u64;
        }
        assert_eq!(home.reserved(), 0);
        assert_eq!(cost().rows_read, read - before, "also after its end");
    }
    assert_eq!(read, 35_000);
    cluster.idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_its_way_is_bounded_and_counted() {
    let cluster = Cluster::large().await;
    let (mut rows, home) = cluster.begun("SELECT * FROM t ORDER BY timestamp DESC", None).await;
    let size = rows.next().await.unwrap().unwrap().get_array_memory_size();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let held: usize = cluster.served.iter().map(|served| served.worker.memory_held()).sum();
    assert!(held > size / 2, "{held} bytes are held, a batch has {size}");
    // What is made and not read, and what the plan takes.
    assert!(held < 64 * size + (2 << 20), "{held} bytes are held, {size} a batch");
    assert!(home.reserved() > size / 2, "{} of {size}", home.reserved());
    drop(rows);
    cluster.idle().await;
    assert_eq!(home.reserved(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_ends_with_the_time_of_its_statement() {
    let cluster = Cluster::large().await;
    cluster.rows(&cluster.cut, "SELECT * FROM t ORDER BY event_message").await.unwrap();
    let (task, bounds, home) = cluster.spy.tasks.lock().unwrap().pop().unwrap();
    for time in [0, 5, 200] {
        let bounds = TaskBounds { time: Some(Duration::from_millis(time)), ..bounds };
        let mut run = cluster.workers.run(&task, &bounds, &home).unwrap();
        let mut rows = run.partitions.swap_remove(0);
        tokio::time::sleep(Duration::from_millis(250)).await;
        // Nobody reads; the time is over.
        cluster.idle().await;
        let ended = loop {
            match rows.next().await {
                Some(Ok(_)) => {}
                Some(Err(failure)) => break failure,
                None => panic!("a short answer"),
            }
        };
        assert!(matches!(&ended, WorkerFailure::Statement(failure) if failure.code == Code::Timeout), "{ended}");
        assert!(rows.next().await.is_none());
    }
}
