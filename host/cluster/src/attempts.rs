//! Where a task runs: on its worker; after a failure of that worker, on another one; at last on this machine.

use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use tidegate_functions::context::StatementMemory;
use tidegate_functions::wording::timed_out;
use tidegate_model::{Code, Failure, Quota};
use tidegate_sql::{OperatorRun, StatementCost};
use tidegate_store::SegmentName;
use uuid::Uuid;

use crate::damaged_copies::DamagedCopies;
use crate::rendezvous::worker_of;
use crate::task::{Attempt, CostSoFar, Task, TaskBounds, TaskRows, TaskRun, Workers};
use crate::task_runner::TaskRunner;
use crate::worker_failure::WorkerFailure;

/// What may run a task.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) workers: Arc<dyn Workers>,
    /// Runs tasks on this machine.
    pub(crate) home: TaskRunner,
    /// What workers need not try to read.
    pub(crate) damaged: Arc<DamagedCopies>,
}

/// The attempts to run one task. Each place is tried once.
pub(crate) struct Attempts {
    places: Arc<Places>,
    task: Task,
    bounds: TaskBounds,
    /// When the time of the bounds began.
    began: Instant,
    /// The memory of the statement on this machine.
    memory: Arc<StatementMemory>,
    made: Vec<Attempt>,
    costs: Vec<CostSoFar>,
}

impl Attempts {
    pub(crate) fn of(places: Arc<Places>, task: &Task, bounds: TaskBounds, memory: &Arc<StatementMemory>) -> Self {
        let (task, memory, began) = (task.clone(), Arc::clone(memory), Instant::now());
        Self { places, task, bounds, began, memory, made: Vec::new(), costs: Vec::new() }
    }

    /// Where it ran so far, and why not any more.
    pub(crate) fn made(&self) -> Vec<Attempt> {
        self.made.clone()
    }

    /// What all of them have cost so far.
    pub(crate) fn cost(&self) -> StatementCost {
        self.costs.iter().map(|cost| cost()).fold(StatementCost::default(), StatementCost::plus)
    }

    /// Notes why the last attempt failed.
    pub(crate) fn failed(&mut self, failure: &WorkerFailure) {
        if let Some(attempt) = self.made.last_mut() {
            let worker = attempt.worker.as_deref().unwrap_or("this machine");
            match failure {
                // A worker without room says so of each part that it is asked for: metrics and costs of statements tell of it.
                WorkerFailure::Busy(_) => {
                    tracing::debug!(worker, %failure, "a part of a statement fails where it runs")
                }
                WorkerFailure::Damaged(copy) if copy.is_shared => {
                    if self.places.damaged.found(&copy.failure, Instant::now()) {
                        tracing::error!(
                            worker,
                            %failure,
                            "a copy of a segment is damaged; for some minutes, what needs it is not given to workers"
                        );
                    }
                }
                _ => tracing::warn!(worker, %failure, "a part of a statement fails where it runs"),
            }
            attempt.failure = Some(failure.to_string());
        }
    }

    /// Starts the task at the first place that has not been tried and takes it: the rows of its partitions. `before` is why the place before failed,
    /// and what comes of it if there is no other place.
    ///
    /// # Errors
    /// A failure of the statement, or of the last place.
    pub(crate) fn start(&mut self, before: Option<WorkerFailure>) -> Result<Vec<TaskRows>, WorkerFailure> {
        let mut last = before.unwrap_or_else(|| WorkerFailure::Gone("there is no worker".to_owned()));
        while let Some(worker) = self.next_place(&last) {
            let mut bounds = self.bounds;
            if let Some(time) = &mut bounds.time {
                *time = time.saturating_sub(self.began.elapsed());
                if time.is_zero() {
                    return Err(WorkerFailure::Statement(timed_out()));
                }
            }
            self.made.push(Attempt { worker: worker.clone(), failure: None });
            let run = match worker {
                Some(worker) => {
                    let task = Task { worker, ..self.task.clone() };
                    self.places.workers.run(&task, &bounds, &self.memory)
                }
                None => self.at_home(&bounds),
            };
            last = match run {
                Ok(TaskRun { partitions, cost, .. }) if partitions.len() == self.task.partitions => {
                    self.costs.push(cost);
                    return Ok(partitions);
                }
                Ok(run) => {
                    let (count, expected) = (run.partitions.len(), self.task.partitions);
                    WorkerFailure::Nonsense(format!("a task has {count} partitions instead of {expected}"))
                }
                Err(failure) => failure,
            };
            if !last.is_of_worker() {
                break;
            }
            self.failed(&last);
        }
        Err(last)
    }

    /// The name of a worker; `None` in it is this machine.
    #[expect(clippy::option_option, reason = "no place, this machine, a worker")]
    fn next_place(&self, last: &WorkerFailure) -> Option<Option<Arc<str>>> {
        let now = Instant::now();
        let is_damaged = |(_, segment): &(_, SegmentName)| self.places.damaged.has(segment.id, now);
        let is_shared = matches!(last, WorkerFailure::Damaged(copy) if copy.is_shared);
        if is_shared || self.task.plan.segments.iter().any(is_damaged) {
            return self.here();
        }
        let Some(first) = self.made.first() else { return Some(Some(Arc::clone(&self.task.worker))) };
        if self.made.len() == 1 {
            let mut names = self.places.workers.names();
            names.retain(|name| Some(name) != first.worker.as_ref());
            let segment = self.task.plan.segments.first().map_or(Uuid::nil(), |(_, segment)| segment.id);
            if let Some(name) = worker_of(&names, &segment).and_then(|place| names.get(place)) {
                return Some(Some(Arc::clone(name)));
            }
        }
        self.here()
    }

    /// This machine, if it has not been tried.
    #[expect(clippy::option_option, reason = "as a place")]
    fn here(&self) -> Option<Option<Arc<str>>> {
        let was_here = self.made.iter().any(|attempt| attempt.worker.is_none());
        (!was_here).then_some(None)
    }

    fn at_home(&self, bounds: &TaskBounds) -> Result<TaskRun, WorkerFailure> {
        let Task { plan, held, .. } = &self.task;
        let held = held.only(plan.segments.iter().map(|(_, segment)| segment));
        let run = self.places.home.run_in(&plan.bytes, &held, bounds, Arc::clone(&self.memory)).map_err(of_home)?;
        let OperatorRun { partitions, cost, memory: _ } = run;
        let partitions = partitions
            .into_iter()
            .map(|rows| rows.map(|batch| batch.map_err(|failure| of_home(WorkerFailure::of_run(failure)))).boxed());
        Ok(TaskRun::new(partitions.collect(), move || cost.so_far()))
    }
}

/// The failure of a task on this machine, which is the last place.
fn of_home(failure: WorkerFailure) -> WorkerFailure {
    let failure = match failure {
        WorkerFailure::Statement(failure) if failure.quota == Some(Quota::Memory) => no_room(),
        WorkerFailure::Busy(_) => no_room(),
        WorkerFailure::Statement(failure) => failure,
        WorkerFailure::Damaged(copy) => copy.failure,
        WorkerFailure::Gone(why) | WorkerFailure::Nonsense(why) => {
            tracing::error!(%why, "a part of a statement that was encoded here does not run here");
            Failure::new(Code::Internal, "the statement could not be run; the server's log has the details")
        }
    };
    WorkerFailure::Statement(failure)
}

fn no_room() -> Failure {
    let message = "the workers that read a part of the data failed, and this server has no memory left to read it itself; \
                   try again later";
    Failure::new(Code::Overloaded, message).retry_after(1)
}
