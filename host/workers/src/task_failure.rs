//! What the answer to a request for a task says, and how it fails.

use datafusion::error::DataFusionError;
use tidegate_cluster::WorkerFailure;
use tidegate_functions::wording::out_of_memory;
use uuid::Uuid;

use crate::frames::{Frame, FrameError, FrameReader};
use crate::link::Answer;
use crate::member::Outcome;
use crate::messages::StartedMessage;

/// How a task has ended that failed with this.
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

pub(crate) fn no_room(error: &DataFusionError) -> WorkerFailure {
    WorkerFailure::Statement(out_of_memory(&error.to_string()))
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
