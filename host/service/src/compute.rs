//! The compute threads: threads for the work of requests, separate from those that serve connections.
//!
//! Operators of the query engine compute for a while between two points at which they can be stopped or yield, and a
//! hostile statement makes these intervals long. On separate threads they cannot delay accepting a connection,
//! answering a health check, or telling a caller that the time is over. There are more threads than processors, so that
//! the operating system shares the processors among statements that do not yield by themselves. One account gets at most
//! half of the threads (see [`InTurn`]).

use std::future::Future;
use std::sync::Arc;

use futures::FutureExt;
use tidegate_model::{Code, Failure};
use tokio::runtime::{Builder, Runtime};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::admission::Permit;
use crate::in_turn::{InTurn, for_tasks_of_the_engine};

/// The number of threads per processor, and the minimum number of threads.
const THREADS_PER_PROCESSOR: usize = 4;
const LEAST_THREADS: usize = 8;
/// The stack size of a thread, in bytes. Plans are walked by recursion, and the limits on a statement's text allow deep
/// plans. Stack memory is allocated only when it is used.
const STACK: usize = 64 << 20;

/// The threads on which the work of requests runs.
#[derive(Debug)]
pub struct Compute {
    /// Always set, except while `self` is dropped.
    runtime: Option<Runtime>,
    threads: usize,
}

impl Compute {
    pub(crate) fn start() -> std::io::Result<Self> {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let threads = (processors * THREADS_PER_PROCESSOR).max(LEAST_THREADS);
        for_tasks_of_the_engine();
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_stack_size(STACK)
            .thread_name("tidegate-compute")
            .enable_all()
            .build()?;
        Ok(Self { runtime: Some(runtime), threads })
    }

    /// The number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Runs work on these threads. If the returned future is dropped, the work stops when it next yields.
    ///
    /// # Errors
    /// The failure of the work; an internal failure if its task panicked or was cancelled.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let mut task = self.start_work(work)?;
        (&mut task).await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request's work broke off");
            Err(Failure::new(Code::Internal, "the request failed; the server's log has the details"))
        })
    }

    /// Runs the work of a request on these threads, in turns of its account. The permit is returned when the work has
    /// ended.
    ///
    /// # Errors
    /// As [`Compute::run`].
    pub(crate) async fn run_in<T: Send + 'static>(
        &self,
        permit: Arc<Permit>,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        self.run(InTurn::new(permit, work.boxed())).await
    }

    /// Starts work on these threads that delivers its results by itself. If the returned task is dropped, the work
    /// stops when it next yields.
    ///
    /// # Errors
    /// The server is shutting down.
    pub(crate) fn start_work<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<AbortOnDropHandle<T>, Failure> {
        match &self.runtime {
            Some(runtime) => Ok(AbortOnDropHandle::new(runtime.spawn(work.in_current_span()))),
            None => Err(Failure::new(Code::Overloaded, "the server is shutting down")),
        }
    }
}

impl Drop for Compute {
    fn drop(&mut self) {
        // Asynchronous code cannot block until the threads have ended. It is not needed either: no caller waits for
        // their results any more.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn work_that_does_not_let_go_blocks_nobody_else() {
        let compute = Compute::start().unwrap();
        let (end, told) = std::sync::mpsc::channel::<()>();
        let stubborn = compute.run(async move {
            let _ = told.recv();
            Ok(())
        });
        assert!(tokio::time::timeout(Duration::from_millis(50), stubborn).await.is_err());
        // The other one goes on.
        let next = compute.run(async { Ok(1) });
        assert_eq!(tokio::time::timeout(Duration::from_secs(30), next).await.unwrap().unwrap(), 1);
        drop(end);
    }

    #[tokio::test]
    async fn dropped_and_broken_work_ends() {
        let compute = Compute::start().unwrap();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let work = compute.run(async move {
            std::future::pending::<()>().await;
            drop(sender);
            Ok(())
        });
        assert!(tokio::time::timeout(Duration::from_millis(50), work).await.is_err());
        assert!(receiver.await.is_err(), "the work is dropped");
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod turn_tests {
    use std::time::{Duration, Instant};

    use datafusion::common::runtime::SpawnedTask;
    use tidegate_model::Failure;

    use super::*;
    use crate::account::Account;
    use crate::admission::Admission;
    use crate::options::AdmissionOptions;

    const A: Account = Account::Token([1; 32]);
    const B: Account = Account::Token([2; 32]);
    const LONG: Duration = Duration::from_millis(1_000);

    fn admission(compute: &Compute) -> Admission {
        let options = AdmissionOptions { concurrency: 64, queue: 64, wait: LONG, ..AdmissionOptions::default() };
        Admission::new(&options, compute.threads())
    }

    /// Blocks its thread, and starts a task of the engine that blocks its thread too.
    async fn stubborn() -> Result<(), Failure> {
        let task = SpawnedTask::spawn(async { std::thread::sleep(LONG) });
        std::thread::sleep(LONG);
        let _ = task.await;
        Ok(())
    }

    #[tokio::test]
    async fn one_account_leaves_half_of_the_threads_to_others() {
        let compute = Arc::new(Compute::start().unwrap());
        let admission = admission(&compute);
        let mut hostile = Vec::new();
        for _ in 0..compute.threads() + 8 {
            let permit = Arc::new(admission.enter(A).await.unwrap());
            let compute = Arc::clone(&compute);
            hostile.push(tokio::spawn(async move { compute.run_in(permit, stubborn()).await }));
        }
        tokio::time::sleep(LONG / 10).await;
        let began = Instant::now();
        let permit = Arc::new(admission.enter(B).await.unwrap());
        assert_eq!(compute.run_in(permit, async { Ok(1) }).await.unwrap(), 1);
        assert!(began.elapsed() < LONG / 2, "{:?}", began.elapsed());
        assert!(hostile.iter().all(|work| !work.is_finished()), "the others are still at it");
        for work in hostile {
            work.await.unwrap().unwrap();
        }
        assert_eq!(admission.numbers().0, 0);
    }

    #[tokio::test]
    async fn a_permit_is_free_when_the_work_has_really_ended() {
        let compute = Compute::start().unwrap();
        let admission = admission(&compute);
        let permit = Arc::new(admission.enter(A).await.unwrap());
        let waiting = tokio::time::timeout(LONG / 10, compute.run_in(permit, stubborn()));
        assert!(waiting.await.is_err());
        assert_eq!(admission.numbers().0, 1, "nobody waits for it, and it goes on");
        let began = Instant::now();
        while admission.numbers().0 > 0 {
            assert!(began.elapsed() < 10 * LONG);
            tokio::time::sleep(LONG / 20).await;
        }
    }

    #[tokio::test]
    async fn who_waits_for_a_turn_and_leaves_passes_it_on() {
        let compute = Arc::new(Compute::start().unwrap());
        let admission = admission(&compute);
        let mut work = Vec::new();
        for _ in 0..3 * compute.threads() {
            let Ok(permit) = admission.enter(A).await.map(Arc::new) else { break };
            let compute = Arc::clone(&compute);
            work.push(tokio::spawn(async move {
                let step = async {
                    std::thread::sleep(LONG / 20);
                    Ok(())
                };
                compute.run_in(permit, step).await
            }));
        }
        for (n, work) in work.into_iter().enumerate() {
            if n % 3 == 0 {
                work.abort();
            } else {
                tokio::time::timeout(10 * LONG, work).await.unwrap().unwrap().unwrap();
            }
        }
    }
}
