//! Work that takes its account's turns on the compute threads: one account never holds more than half of them.
//!
//! Work should let go of its thread every few milliseconds. A step of the engine that does not holds its thread for as
//! long as it lasts, whether or not anybody still waits for it. So an account has fewer turns ([`Turns`](crate::turns::Turns))
//! than there are threads. The tasks that the engine starts for a statement take turns too. All of them hold the
//! request's permit ([`Permit`]), which becomes free when the last of them has really ended.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream};

use crate::admission::Permit;

tokio::task_local! {
    /// The permit of the work that runs on this thread in its turn.
    static HELD: Arc<Permit>;
}

/// Work, or rows, that take turns and hold a permit.
pub(crate) struct InTurn<W> {
    // Dropped before the permit is free.
    work: W,
    permit: Arc<Permit>,
    ticket: Option<u64>,
}

impl<W> InTurn<W> {
    pub(crate) fn new(permit: Arc<Permit>, work: W) -> Self {
        Self { work, permit, ticket: None }
    }

    /// Goes on with the work, if there is a turn. What is part of work that has its turn needs none.
    fn step<T>(&mut self, cx: &mut Context<'_>, go: impl FnOnce(&mut W, &mut Context<'_>) -> Poll<T>) -> Poll<T> {
        if HELD.try_with(|held| Arc::ptr_eq(held, &self.permit)).unwrap_or(false) {
            return go(&mut self.work, cx);
        }
        let Some(_turn) = self.permit.turns().take(&mut self.ticket, cx.waker()) else { return Poll::Pending };
        HELD.sync_scope(Arc::clone(&self.permit), || go(&mut self.work, cx))
    }
}

impl<W> Drop for InTurn<W> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.permit.turns().leave(ticket);
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
            Ok(permit) => InTurn::new(permit, task).boxed(),
            Err(_) => task,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match HELD.try_with(Arc::clone) {
            Ok(permit) => Box::new(move || {
                let result = work();
                drop(permit);
                result
            }),
            Err(_) => work,
        }
    }
}
