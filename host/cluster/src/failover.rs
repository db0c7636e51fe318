//! Tasks that outlive their worker: what a worker does not finish runs elsewhere, as long as nothing of it was used.
//!
//! A task that runs again may give its rows in another order, and deal them out to its partitions in another way: the
//! streams of a scan take files from one another. So it moves as a whole, all partitions together, and only while nobody
//! has learnt anything of it: neither a row of any of its partitions, nor that one of them ended. After that, a failure is
//! that of the statement. A partition that was not yet asked for moves with the others; asked for later, it reads the
//! attempt that is there then.
//!
//! A damaged object is read by all workers alike: then the next place is this machine.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use datafusion::arrow::array::RecordBatch;
use futures::{Stream, StreamExt};
use tidegate_functions::context::StatementMemory;
use tidegate_sql::Engine;

use crate::attempts::{Attempts, Places};
use crate::damaged_copies::DamagedCopies;
use crate::task::{Task, TaskBounds, TaskRows, TaskRun, Workers};
use crate::task_runner::TaskRunner;
use crate::worker_failure::WorkerFailure;

/// Workers whose tasks run once more on another worker, and then on this machine, when a worker fails before its first
/// row.
#[derive(Debug)]
pub struct Failover(Arc<Places>);

impl Failover {
    /// These workers, and `engine` for what they do not run. It must share the memory of the engine that runs the
    /// statements ([`Engine::for_parts`]): a task that runs here counts in the memory of its statement.
    pub fn new(workers: Arc<dyn Workers>, engine: &Engine, damaged: Arc<DamagedCopies>) -> Self {
        Self(Arc::new(Places { workers, home: TaskRunner::new(engine.for_parts()), damaged }))
    }
}

impl Workers for Failover {
    fn names(&self) -> Vec<Arc<str>> {
        self.0.workers.names()
    }

    fn run(&self, task: &Task, bounds: &TaskBounds, home: &Arc<StatementMemory>) -> Result<TaskRun, WorkerFailure> {
        let mut attempts = Attempts::of(Arc::clone(&self.0), task, *bounds, home);
        let partitions = attempts.start(None)?;
        let count = partitions.len();
        let state = State {
            attempts,
            number: 0,
            is_used: false,
            untaken: partitions.into_iter().map(Some).collect(),
            readers: (0..count).map(|_| Reader::Absent).collect(),
        };
        let shared = Arc::new(Shared(Mutex::new(state)));
        let rows = |partition| MovingRows { shared: Arc::clone(&shared), partition, taken: None, is_done: false };
        let partitions = (0..count).map(|partition| rows(partition).boxed()).collect();
        let (costs, attempts) = (Arc::clone(&shared), Arc::clone(&shared));
        let run = TaskRun::new(partitions, move || costs.state().attempts.cost());
        Ok(run.with_attempts(move || attempts.state().attempts.made()))
    }
}

/// Who reads a partition.
enum Reader {
    /// Nobody has asked for its rows.
    Absent,
    /// It is woken when the task moves.
    Waiting(Waker),
    /// It has all that it wants.
    Gone,
}

/// A task, wherever it runs.
struct State {
    attempts: Attempts,
    /// How often the task has moved.
    number: usize,
    /// Whether a row was handed on, or the end of a partition.
    is_used: bool,
    /// The rows of the last attempt that nobody reads yet.
    untaken: Vec<Option<TaskRows>>,
    readers: Vec<Reader>,
}

struct Shared(Mutex<State>);

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the task away from where it failed, unless another partition has done so since attempt `number`.
    fn moved(&self, number: usize, failure: WorkerFailure) -> Result<(), WorkerFailure> {
        let mut state = self.state();
        if state.number != number {
            return Ok(());
        }
        if !failure.is_of_worker() {
            return Err(failure);
        }
        state.attempts.failed(&failure);
        if state.is_used {
            return Err(failure);
        }
        let mut rows: Vec<_> = state.attempts.start(Some(failure))?.into_iter().map(Some).collect();
        let mut waiting = Vec::new();
        for (rows, reader) in rows.iter_mut().zip(&state.readers) {
            match reader {
                Reader::Waiting(waker) => waiting.push(waker.clone()),
                Reader::Gone => *rows = None,
                Reader::Absent => {}
            }
        }
        state.number += 1;
        let old = std::mem::replace(&mut state.untaken, rows);
        drop(state);
        drop(old);
        waiting.into_iter().for_each(Waker::wake);
        Ok(())
    }
}

/// The rows of a partition, of whichever attempt.
struct MovingRows {
    shared: Arc<Shared>,
    partition: usize,
    /// The attempt that is read, and its rows.
    taken: Option<(usize, TaskRows)>,
    is_done: bool,
}

impl MovingRows {
    /// The rows of the attempt that is there now. Whatever moves the task later wakes the reader.
    fn current(&mut self, cx: &Context<'_>) -> Option<&mut (usize, TaskRows)> {
        let mut state = self.shared.state();
        if let Some(reader) = state.readers.get_mut(self.partition) {
            *reader = Reader::Waiting(cx.waker().clone());
        }
        let number = state.number;
        if self.taken.as_ref().is_none_or(|(taken, _)| *taken != number) {
            let rows = state.untaken.get_mut(self.partition).and_then(Option::take);
            drop(state);
            self.taken = rows.map(|rows| (number, rows));
        }
        self.taken.as_mut()
    }

    /// Whether something of attempt `number` may be handed on; then the task does not move any more.
    fn uses(&self, number: usize) -> bool {
        let mut state = self.shared.state();
        let is_current = state.number == number;
        state.is_used |= is_current;
        is_current
    }

    /// Ends the rows: nothing of the task is needed for this partition any more.
    fn done(&mut self) {
        self.is_done = true;
        let mut state = self.shared.state();
        if let Some(reader) = state.readers.get_mut(self.partition) {
            *reader = Reader::Gone;
        }
        let rows = state.untaken.get_mut(self.partition).and_then(Option::take);
        drop(state);
        drop(rows);
        self.taken = None;
    }
}

impl Stream for MovingRows {
    type Item = Result<RecordBatch, WorkerFailure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.is_done {
            let Some((number, rows)) = self.current(cx) else {
                self.done();
                return Poll::Ready(Some(Err(WorkerFailure::Nonsense("a partition has no rows to read".to_owned()))));
            };
            let number = *number;
            match std::task::ready!(rows.poll_next_unpin(cx)) {
                // Of an attempt that is over, nothing is handed on.
                Some(Ok(batch)) if self.uses(number) => return Poll::Ready(Some(Ok(batch))),
                None if self.uses(number) => self.done(),
                Some(Ok(_)) | None => {}
                Some(Err(failure)) => {
                    if let Err(failure) = self.shared.moved(number, failure) {
                        self.done();
                        return Poll::Ready(Some(Err(failure)));
                    }
                }
            }
        }
        Poll::Ready(None)
    }
}

impl Drop for MovingRows {
    fn drop(&mut self) {
        self.done();
    }
}
