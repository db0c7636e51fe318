//! The rows of a partition of a task of a stage, as whoever reads them sees them: a coordinator, or another worker.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_distributed::TaskKey;
use futures::StreamExt;
use futures::stream::BoxStream;
use hyper::Method;
use tidegate_cluster::WorkerFailure;
use tidegate_cluster::stages::columns_from_bytes;
use tidegate_functions::context::{ExecutionContext, time_left};
use tidegate_functions::wording::{out_of_memory, timed_out};
use tokio::time::Instant;

use crate::frames::{Frame, FrameReader};
use crate::link::{Answer, Link, WINDOW};
use crate::messages::path_of;
use crate::task_costs::TaskCost;
use crate::task_failure::{no_room, of_frame, unexpected};

/// A partition that is read.
pub(crate) struct StageRows {
    link: Link,
    path: String,
    frames: Option<(FrameReader<Answer>, SchemaRef)>,
    /// Where a coordinator notes what the task has cost.
    cost: Option<Arc<TaskCost>>,
    deadline: Option<Instant>,
    /// What may be on its way.
    window: MemoryReservation,
    /// The batch that was handed on last, until the next one is asked for.
    room: MemoryReservation,
    is_done: bool,
}

impl StageRows {
    /// The rows of a partition, which are asked for when they are read first. What is held of them counts in the memory of
    /// the statement here.
    pub(crate) fn read(
        link: &Link,
        (task, partition): (TaskKey, usize),
        cost: Option<Arc<TaskCost>>,
        context: &TaskContext,
    ) -> BoxStream<'static, Result<RecordBatch, WorkerFailure>> {
        let execution = context.session_config().get_extension::<ExecutionContext>();
        let time = execution.and_then(|execution| execution.enter(time_left));
        let rows = Self {
            link: link.clone(),
            path: path_of(task, partition),
            frames: None,
            cost,
            deadline: time.and_then(|time| Instant::now().checked_add(time)),
            window: MemoryConsumer::new("rows on their way").register(context.memory_pool()),
            room: MemoryConsumer::new("received rows").register(context.memory_pool()),
            is_done: false,
        };
        let next = |mut rows: Self| async move {
            let next = rows.next().await?;
            Some((next, rows))
        };
        futures::stream::unfold(rows, next).boxed()
    }

    /// The next batch; `None` when the worker said that there are no more, and after a failure.
    async fn next(&mut self) -> Option<Result<RecordBatch, WorkerFailure>> {
        if self.is_done {
            return None;
        }
        self.room.free();
        let read = match self.deadline {
            Some(deadline) => match tokio::time::timeout_at(deadline, self.batch()).await {
                // The worker cuts what it sends when the time is over.
                Err(_) => Err(WorkerFailure::Statement(timed_out())),
                Ok(Err(failure)) if failure.is_of_worker() && Instant::now() >= deadline => {
                    Err(WorkerFailure::Statement(timed_out()))
                }
                Ok(read) => read,
            },
            None => self.batch().await,
        };
        if !matches!(read, Ok(Some(_))) {
            self.is_done = true;
            self.frames = None;
            self.window.free();
            self.room.free();
        }
        read.transpose()
    }

    async fn batch(&mut self) -> Result<Option<RecordBatch>, WorkerFailure> {
        let (frames, columns) = match &mut self.frames {
            Some(frames) => frames,
            None => {
                let window = usize::try_from(WINDOW).unwrap_or(usize::MAX);
                self.window.try_grow(window).map_err(|error| no_room(&error))?;
                let mut frames = self.link.ask(Method::GET, &self.path, None).await?;
                let columns = match frames.next_without_rows().await.map_err(of_frame)? {
                    Some(Frame::Columns(message)) => columns_from_bytes(&message.columns),
                    Some(Frame::Failed(failure)) => return Err(failure),
                    Some(_) => return Err(unexpected()),
                    None => return Err(WorkerFailure::Gone("it did not say what its rows are".to_owned())),
                };
                let columns = columns.map_err(|error| WorkerFailure::Nonsense(error.to_string()))?;
                self.frames.insert((frames, Arc::clone(&columns)))
            }
        };
        let room = &self.room;
        let mut count = |bytes: usize| room.try_grow(bytes).map_err(|error| out_of_memory(&error.to_string()));
        match frames.next(&mut count).await.map_err(of_frame)? {
            Some(Frame::Rows(batch)) => {
                batch.batch(columns).map(Some).map_err(|error| WorkerFailure::Nonsense(error.to_string()))
            }
            Some(Frame::End(so_far)) => {
                if let Some(cost) = &self.cost {
                    cost.ended(so_far);
                }
                Ok(None)
            }
            Some(Frame::Failed(failure)) => Err(failure),
            Some(Frame::Started(_) | Frame::Cost(_) | Frame::Columns(_)) => Err(unexpected()),
            None => Err(WorkerFailure::Gone("the rows end, and it did not say so".to_owned())),
        }
    }
}
