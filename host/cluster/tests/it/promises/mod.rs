//! What workers promise, whatever is between them and their coordinator: failures keep their code and text, and what nobody
//! reads ends. The tests of workers in this process ask for it, and those of workers over a network.

use futures::{StreamExt, TryStreamExt};
use tidegate_model::{Code, Failure};
use tidegate_sql::{Engine, ResultStream};

use super::cluster::ROWS;

/// A coordinator with workers, over the rows of [`super::cluster`].
pub(crate) trait Coordinator {
    /// An engine whose statements run on workers.
    fn remote(&self) -> &Engine;
    /// An engine that runs statements whole.
    fn whole(&self) -> &Engine;
    async fn run(&self, engine: &Engine, sql: &str) -> Result<ResultStream, Failure>;
    /// Whether the last statement was given to workers.
    fn was_remote(&self) -> bool;
    /// Waits until the workers hold nothing.
    async fn idle(&self);

    /// How many rows a statement has.
    async fn rows(&self, engine: &Engine, sql: &str) -> Result<usize, Failure> {
        let batches: Vec<_> = self.run(engine, sql).await?.try_collect().await?;
        Ok(batches.iter().map(|batch| batch.num_rows()).sum())
    }
}

pub(crate) async fn failures_keep_their_code_and_text(coordinator: &impl Coordinator) {
    for sql in [
        "SELECT CAST(event_message AS INT64) AS x FROM t WHERE n = 7",
        "SELECT COUNT(*) AS c FROM t WHERE 1 / (n - 7) > 0",
        "SELECT id, ERROR('stop ' || id) AS e FROM t WHERE id = '00007'",
    ] {
        let expected = coordinator.rows(coordinator.whole(), sql).await.unwrap_err();
        let got = coordinator.rows(coordinator.remote(), sql).await.unwrap_err();
        assert!(coordinator.was_remote());
        assert_eq!((got.code, &got.message, got.position), (expected.code, &expected.message, expected.position));
        assert_eq!(got.code, Code::InvalidValue, "{got}");
        coordinator.idle().await;
    }
}

/// Returns how many statements were read to their end.
pub(crate) async fn what_nobody_reads_ends_and_gives_its_memory_back(coordinator: &impl Coordinator) -> u64 {
    let statements = [
        "SELECT * FROM t ORDER BY timestamp DESC",
        "SELECT * FROM t ORDER BY event_message",
        "SELECT n, COUNT(*) AS c, ARRAY_AGG(event_message) AS a FROM t GROUP BY n",
    ];
    for sql in statements {
        let mut rows = coordinator.run(coordinator.remote(), sql).await.unwrap();
        assert!(rows.next().await.unwrap().unwrap().num_rows() > 0);
        drop(rows);
        coordinator.idle().await;
        // Nothing of it was read.
        drop(coordinator.run(coordinator.remote(), sql).await.unwrap());
        coordinator.idle().await;
        assert_eq!(coordinator.rows(coordinator.remote(), sql).await.unwrap(), ROWS);
        assert!(coordinator.was_remote());
        coordinator.idle().await;
    }
    statements.len() as u64
}
