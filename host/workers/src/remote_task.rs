//! A task that runs on a worker, as its coordinator sees it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use futures::StreamExt;
use hyper::Method;
use tidegate_cluster::{Task, TaskBounds, TaskRows, TaskRun, WorkerFailure};
use tidegate_functions::context::StatementMemory;
use tidegate_functions::wording::{out_of_memory, timed_out};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::frames::{Frame, FrameError, FrameReader};
use crate::link::{Answer, Link, WINDOW};
use crate::member::{Member, Outcome};
use crate::messages::{CostMessage, StartedMessage, TASKS, TaskMessage};

/// What the partitions of a task share.
#[derive(Debug)]
struct Shared {
    member: Arc<Member>,
    /// The id of the task, or why it was not started.
    started: watch::Receiver<Option<Result<Uuid, WorkerFailure>>>,
    /// Partitions whose rows did not all come.
    left: AtomicUsize,
    failed: OnceLock<Outcome>,
    cost: Arc<Mutex<CostMessage>>,
    /// Reads the answer to the start. When it is dropped, the worker ends the task.
    _lease: AbortOnDropHandle<()>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let is_done = self.left.load(Ordering::Relaxed) == 0;
        let ended = if is_done { Outcome::Done } else { Outcome::Left };
        self.member.ended(self.failed.get().copied().unwrap_or(ended));
    }
}

pub(crate) fn outcome(failure: &WorkerFailure) -> Outcome {
    match failure {
        WorkerFailure::Gone(_) => Outcome::Gone,
        WorkerFailure::Busy(_) => Outcome::Busy,
        WorkerFailure::Nonsense(_) => Outcome::Nonsense,
        WorkerFailure::Damaged(_) => Outcome::Damaged,
        WorkerFailure::Statement(_) => Outcome::Failed,
    }
}

/// What keeps a frame from being read.
pub(crate) fn of_frame(error: FrameError) -> WorkerFailure {
    match error {
        FrameError::Broken(why) => WorkerFailure::Gone(why),
        FrameError::Nonsense(why) => WorkerFailure::Nonsense(why.to_owned()),
        FrameError::NoRoom(failure) => WorkerFailure::Statement(failure),
    }
}

pub(crate) fn unexpected() -> WorkerFailure {
    WorkerFailure::Nonsense("a frame comes where it may not".to_owned())
}

/// Starts a task, within a runtime. Whether it could be started comes with its rows.
///
/// # Errors
/// If it cannot be sent.
pub(crate) fn start(
    member: Arc<Member>,
    link: Link,
    task: &Task,
    bounds: &TaskBounds,
    home: &Arc<StatementMemory>,
) -> Result<TaskRun, WorkerFailure> {
    let body = TaskMessage::of((&task.plan, task.partitions), bounds, member.build()).body(&task.plan.bytes);
    let body = body.map_err(|unreadable| WorkerFailure::Nonsense(unreadable.to_string()))?;
    let home: Arc<dyn MemoryPool> = Arc::clone(home) as _;
    let room = MemoryConsumer::new("task").register(&home);
    room.try_grow(body.len()).map_err(|error| no_room(&error))?;
    let (starting, started) = watch::channel(None);
    let cost = Arc::<Mutex<CostMessage>>::default();
    let lease = {
        let (link, cost, partitions) = (link.clone(), Arc::clone(&cost), task.partitions);
        tokio::spawn(async move {
            let asked = link.ask(Method::POST, TASKS, Some(body)).await;
            drop(room);
            let read = async {
                let mut frames = asked?;
                let id = started_id(&mut frames, partitions).await?;
                starting.send_replace(Some(Ok(id)));
                costs(&mut frames, &cost).await
            };
            if let Err(failure) = read.await {
                // Of a task that was started, its partitions say why it failed.
                starting.send_if_modified(|started| {
                    let is_first = started.is_none();
                    started.get_or_insert(Err(failure));
                    is_first
                });
            }
        })
    };
    let shared = Arc::new(Shared {
        member,
        started,
        left: AtomicUsize::new(task.partitions),
        failed: OnceLock::new(),
        cost: Arc::clone(&cost),
        _lease: AbortOnDropHandle::new(lease),
    });
    let deadline = bounds.time.and_then(|time| Instant::now().checked_add(time));
    let partition = |partition| {
        let reading = Reading {
            shared: Arc::clone(&shared),
            link: link.clone(),
            partition,
            frames: None,
            schema: Arc::clone(&task.schema),
            deadline,
            window: MemoryConsumer::new("rows on their way").register(&home),
            room: MemoryConsumer::new("received rows").register(&home),
            is_done: false,
        };
        futures::stream::unfold(reading, |mut reading| async move {
            let next = reading.next().await?;
            Some((next, reading))
        })
        .boxed()
    };
    let partitions: Vec<TaskRows> = (0..task.partitions).map(partition).collect();
    Ok(TaskRun::new(partitions, move || cost.lock().unwrap_or_else(PoisonError::into_inner).cost()))
}

/// The id of a task from the answer to its start.
pub(crate) async fn started_id(frames: &mut FrameReader<Answer>, partitions: usize) -> Result<Uuid, WorkerFailure> {
    match frames.next_without_rows().await.map_err(of_frame)? {
        Some(Frame::Started(StartedMessage { id, partitions: made })) => match Uuid::from_slice(&id) {
            Ok(id) if u32::try_from(partitions) == Ok(made) => Ok(id),
            _ => Err(WorkerFailure::Nonsense("it started another task".to_owned())),
        },
        Some(Frame::Failed(failure)) => Err(failure),
        Some(_) => Err(unexpected()),
        None => Err(WorkerFailure::Gone("it did not say that the task is started".to_owned())),
    }
}

/// Keeps what a task costs, as long as it runs.
async fn costs(frames: &mut FrameReader<Answer>, cost: &Mutex<CostMessage>) -> Result<(), WorkerFailure> {
    loop {
        match frames.next_without_rows().await.map_err(of_frame)? {
            Some(Frame::Cost(so_far)) => {
                let mut cost = cost.lock().unwrap_or_else(PoisonError::into_inner);
                *cost = cost.later(so_far);
            }
            Some(Frame::Failed(failure)) => return Err(failure),
            Some(_) => return Err(unexpected()),
            None => return Ok(()),
        }
    }
}

/// A partition that is read.
struct Reading {
    shared: Arc<Shared>,
    link: Link,
    partition: usize,
    frames: Option<FrameReader<Answer>>,
    schema: SchemaRef,
    deadline: Option<Instant>,
    /// What may be on its way.
    window: MemoryReservation,
    /// The batch that was handed on last, until the next one is asked for.
    room: MemoryReservation,
    is_done: bool,
}

impl Reading {
    /// The next batch; `None` when the worker said that there are no more, and after a failure.
    async fn next(&mut self) -> Option<Result<RecordBatch, WorkerFailure>> {
        if self.is_done {
            return None;
        }
        self.room.free();
        let read = match self.deadline {
            Some(deadline) => match tokio::time::timeout_at(deadline, self.read()).await {
                // The worker cuts what it sends when the time is over.
                Err(_) => Err(WorkerFailure::Statement(timed_out())),
                Ok(Err(failure)) if failure.is_of_worker() && Instant::now() >= deadline => {
                    Err(WorkerFailure::Statement(timed_out()))
                }
                Ok(read) => read,
            },
            None => self.read().await,
        };
        match &read {
            Ok(Some(_)) => {}
            Ok(None) => {
                self.is_done = true;
                self.shared.left.fetch_sub(1, Ordering::Relaxed);
            }
            Err(failure) => {
                self.is_done = true;
                // Only the first counts.
                let _ = self.shared.failed.set(outcome(failure));
            }
        }
        if self.is_done {
            self.frames = None;
            self.window.free();
            self.room.free();
        }
        read.transpose()
    }

    async fn read(&mut self) -> Result<Option<RecordBatch>, WorkerFailure> {
        let frames = match &mut self.frames {
            Some(frames) => frames,
            None => {
                let id = {
                    let mut started = self.shared.started.clone();
                    let started = started.wait_for(Option::is_some).await;
                    let gone = || Err(WorkerFailure::Gone("the start of the task broke off".to_owned()));
                    started.ok().and_then(|started| started.clone()).unwrap_or_else(gone)?
                };
                let window = usize::try_from(WINDOW).unwrap_or(usize::MAX);
                self.window.try_grow(window).map_err(|error| no_room(&error))?;
                let path = format!("{TASKS}/{id}/partitions/{}", self.partition);
                self.frames.insert(self.link.ask(Method::GET, &path, None).await?)
            }
        };
        let room = &self.room;
        let mut count = |bytes: usize| room.try_grow(bytes).map_err(|error| out_of_memory(&error.to_string()));
        match frames.next(&mut count).await.map_err(of_frame)? {
            Some(Frame::Rows(batch)) => {
                let batch = batch.batch(&self.schema).map_err(|error| WorkerFailure::Nonsense(error.to_string()))?;
                Ok(Some(batch))
            }
            Some(Frame::End(so_far)) => {
                let mut cost = self.shared.cost.lock().unwrap_or_else(PoisonError::into_inner);
                *cost = cost.later(so_far);
                Ok(None)
            }
            Some(Frame::Failed(failure)) => Err(failure),
            Some(Frame::Started(_) | Frame::Cost(_) | Frame::Columns(_)) => Err(unexpected()),
            None => Err(WorkerFailure::Gone("the rows end, and it did not say so".to_owned())),
        }
    }
}

pub(crate) fn no_room(error: &datafusion::error::DataFusionError) -> WorkerFailure {
    WorkerFailure::Statement(out_of_memory(&error.to_string()))
}
