//! Tasks by themselves: their partitions are read in any order, and what is held is counted.

use std::time::Duration;

use datafusion::execution::memory_pool::MemoryPool;
use futures::{StreamExt, TryStreamExt};
use tidegate_model::Code;

use super::promises::Coordinator;
use super::support::{Begun, Cluster, failure, worker_options};

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_read_in_any_order() {
    let mut options = worker_options();
    options.engine.partitions = 64;
    let cluster = Cluster::with(70, 64, 20, &options).await;
    let sql = "SELECT * FROM t WHERE n >= 0";
    assert_eq!(cluster.rows(&cluster.remote, sql).await.unwrap(), 35_500);
    let Begun { partitions, home, .. } = &mut cluster.task(sql, None).await;
    assert!(partitions.len() >= 64, "{} partitions", partitions.len());
    // Each is begun, then the last one is read first.
    let mut begun = Vec::new();
    for mut rows in std::mem::take(partitions) {
        let first = rows.next().await.transpose().unwrap().map_or(0, |batch| batch.num_rows());
        begun.push((first, rows));
    }
    assert!(home.reserved() > 0, "what is received counts here");
    let mut read = 0;
    for (first, rows) in begun.into_iter().rev() {
        let rest: Vec<_> = rows.try_collect().await.unwrap();
        read += first + rest.iter().map(|batch| batch.num_rows()).sum::<usize>();
    }
    assert_eq!(home.reserved(), 0);
    let last = cluster.last.lock().unwrap().clone();
    let planned: Vec<_> = last.leaves[0].tasks.iter().map(|task| task.segments * 500).collect();
    assert!(planned.contains(&read), "{read} of {planned:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_its_way_is_bounded_and_counted() {
    let cluster = Cluster::large().await;
    let (mut rows, task) = cluster.begun("SELECT * FROM t ORDER BY timestamp DESC", None).await;
    let size = rows.next().await.unwrap().unwrap().get_array_memory_size();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let held: usize = cluster.served.iter().map(|served| served.worker.memory_held()).sum();
    assert!(held > size / 2, "{held} bytes are held, a batch has {size}");
    // What is made and not read, and what the plan takes.
    assert!(held < 64 * size + (2 << 20), "{held} bytes are held, {size} a batch");
    let home = std::sync::Arc::clone(&task.home);
    assert!(home.reserved() > size / 2, "{} of {size}", home.reserved());
    drop((rows, task));
    cluster.idle().await;
    assert_eq!(home.reserved(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_ends_with_the_time_of_its_statement() {
    let cluster = Cluster::large().await;
    for time in [0, 5, 200] {
        let time = Some(Duration::from_millis(time));
        let mut task = cluster.task("SELECT * FROM t ORDER BY event_message", time).await;
        let mut rows = task.partitions.swap_remove(0);
        tokio::time::sleep(Duration::from_millis(250)).await;
        // Nobody reads; the time is over.
        cluster.idle().await;
        let ended = loop {
            match rows.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break failure(&error),
                None => panic!("a short answer"),
            }
        };
        assert_eq!(ended.code, Code::Timeout, "{ended}");
        assert!(rows.next().await.is_none());
    }
}
