//! Turns on the threads that compute: one tenant never holds more than half of them.
//!
//! What runs lets go every few milliseconds, or should: a step of the engine that does not holds its thread as
//! long as it lasts, whether or not anybody still waits for it. So each piece of work takes a turn for as long
//! as it is on a thread, and a tenant has fewer turns than there are threads. What finds none waits aside,
//! without a thread, until a turn of its tenant is over. The tasks that the engine starts for a statement take
//! turns too; and all of them hold the request's place, which is free when the last of them has really ended.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream};

use crate::admission::Permit;

tokio::task_local! {
    /// The place of the work that has its turn on this thread.
    static HELD: Arc<Permit>;
}

/// The turns of one tenant.
#[derive(Debug)]
pub(crate) struct Turns {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// Who waits, in the order in which they came.
    waiting: BTreeMap<u64, Waker>,
    last: u64,
}

impl Turns {
    /// So many turns at once, and one at least.
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn, or a ticket for when one is over.
    fn take(&self, ticket: &mut Option<u64>, waker: &Waker) -> Option<Turn<'_>> {
        let mut state = self.state();
        if state.running < self.most {
            state.running += 1;
            if let Some(ticket) = ticket.take() {
                state.waiting.remove(&ticket);
            }
            return Some(Turn(self));
        }
        let number = ticket.unwrap_or_else(|| {
            state.last += 1;
            state.last
        });
        *ticket = Some(number);
        state.waiting.insert(number, waker.clone());
        None
    }

    /// Who waits no longer may have been told that there is a turn: the next is told.
    fn leave(&self, ticket: u64) {
        let mut state = self.state();
        state.waiting.remove(&ticket);
        let next = if state.running < self.most { state.waiting.pop_first() } else { None };
        drop(state);
        wake(next);
    }
}

fn wake(next: Option<(u64, Waker)>) {
    if let Some((_, waker)) = next {
        waker.wake();
    }
}

/// A thread that a tenant has.
struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running = state.running.saturating_sub(1);
        let next = state.waiting.pop_first();
        drop(state);
        wake(next);
    }
}

/// Work, or rows, that take turns and hold a place.
pub(crate) struct InTurn<W> {
    // Dropped before the place is free.
    work: W,
    place: Arc<Permit>,
    ticket: Option<u64>,
}

impl<W> InTurn<W> {
    pub(crate) fn new(place: Arc<Permit>, work: W) -> Self {
        Self { work, place, ticket: None }
    }

    /// Goes on with the work, if there is a turn. What is part of work that has its turn needs none.
    fn step<T>(&mut self, cx: &mut Context<'_>, go: impl FnOnce(&mut W, &mut Context<'_>) -> Poll<T>) -> Poll<T> {
        if HELD.try_with(|held| Arc::ptr_eq(held, &self.place)).unwrap_or(false) {
            return go(&mut self.work, cx);
        }
        let Some(_turn) = self.place.turns().take(&mut self.ticket, cx.waker()) else { return Poll::Pending };
        HELD.sync_scope(Arc::clone(&self.place), || go(&mut self.work, cx))
    }
}

impl<W> Drop for InTurn<W> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.place.turns().leave(ticket);
        }
    }
}

impl<W: Future + Unpin> Future for InTurn<W> {
    type Output = W::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.step(cx, |work, cx| work.poll_unpin(cx))
    }
}

impl<W: Stream + Unpin> Stream for InTurn<W> {
    type Item = W::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.step(cx, |rows, cx| Pin::new(rows).poll_next(cx))
    }
}

/// Makes the tasks that the engine starts take turns.
pub(crate) fn for_tasks_of_the_engine() {
    // The same for every service of the process: whoever came first has set it.
    let _ = set_join_set_tracer(&Tasks);
}

struct Tasks;

impl JoinSetTracer for Tasks {
    fn trace_future(&self, task: BoxFuture<'static, Box<dyn Any + Send>>) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match HELD.try_with(Arc::clone) {
            Ok(place) => InTurn::new(place, task).boxed(),
            Err(_) => task,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match HELD.try_with(Arc::clone) {
            Ok(place) => Box::new(move || {
                let result = work();
                drop(place);
                result
            }),
            Err(_) => work,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::time::{Duration, Instant};

    use datafusion::common::runtime::SpawnedTask;
    use tidegate_model::Failure;

    use super::*;
    use crate::admission::{Admission, Tenant};
    use crate::compute::Compute;
    use crate::options::AdmissionOptions;

    const A: Tenant = Tenant::Token([1; 32]);
    const B: Tenant = Tenant::Token([2; 32]);
    const LONG: Duration = Duration::from_millis(1_000);

    fn admission(compute: &Compute) -> Admission {
        let options = AdmissionOptions { concurrency: 64, queue: 64, wait: LONG, ..AdmissionOptions::default() };
        Admission::new(&options, compute.threads())
    }

    /// Holds the thread; so does a task of the engine that it starts.
    async fn stubborn() -> Result<(), Failure> {
        let task = SpawnedTask::spawn(async { std::thread::sleep(LONG) });
        std::thread::sleep(LONG);
        let _ = task.await;
        Ok(())
    }

    #[tokio::test]
    async fn one_tenant_leaves_half_of_the_threads_to_others() {
        let compute = Arc::new(Compute::start().unwrap());
        let admission = admission(&compute);
        let mut hostile = Vec::new();
        for _ in 0..compute.threads() + 8 {
            let place = Arc::new(admission.enter(A).await.unwrap());
            let compute = Arc::clone(&compute);
            hostile.push(tokio::spawn(async move { compute.run_in(place, stubborn()).await }));
        }
        tokio::time::sleep(LONG / 10).await;
        let began = Instant::now();
        let place = Arc::new(admission.enter(B).await.unwrap());
        assert_eq!(compute.run_in(place, async { Ok(1) }).await.unwrap(), 1);
        assert!(began.elapsed() < LONG / 2, "{:?}", began.elapsed());
        assert!(hostile.iter().all(|work| !work.is_finished()), "the others are still at it");
        for work in hostile {
            work.await.unwrap().unwrap();
        }
        assert_eq!(admission.numbers().0, 0);
    }

    #[tokio::test]
    async fn a_place_is_free_when_the_work_has_really_ended() {
        let compute = Compute::start().unwrap();
        let admission = admission(&compute);
        let place = Arc::new(admission.enter(A).await.unwrap());
        let waiting = tokio::time::timeout(LONG / 10, compute.run_in(place, stubborn()));
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
            let Ok(place) = admission.enter(A).await.map(Arc::new) else { break };
            let compute = Arc::clone(&compute);
            work.push(tokio::spawn(async move {
                let step = async {
                    std::thread::sleep(LONG / 20);
                    Ok(())
                };
                compute.run_in(place, step).await
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
