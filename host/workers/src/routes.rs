//! The routes of a worker.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use datafusion_distributed::TaskKey;
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use tidegate_cluster::WorkerFailure;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::frames;
use crate::messages::{MAX_TASK, STAGES, STATUS, TASKS};
use crate::running_task::RunningTask;
use crate::task_bodies::{PartitionBody, TaskBody};
use crate::worker::Worker;
use crate::worker_metrics;

/// How long the body of a task may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Batches of a partition that wait to be sent, beside the one that is being sent and the one that is made next.
const IN_FLIGHT: usize = 1;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const FRAMES: &str = "application/octet-stream";
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

fn answer<B>(status: StatusCode, kind: &'static str, body: B) -> Answer
where
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn text(status: StatusCode, text: &'static str) -> Answer {
    answer(status, TEXT, Full::from(text))
}

fn single(frame: Bytes) -> Answer {
    answer(StatusCode::OK, FRAMES, Full::new(frame))
}

/// Answers a coordinator whose connection is one too many.
pub(crate) fn crowded() -> Answer {
    text(StatusCode::SERVICE_UNAVAILABLE, "there are too many connections\n")
}

/// Answers what probes and operators ask: nothing of it starts work.
pub(crate) fn probe(worker: &Worker, method: &Method, path: &str) -> Answer {
    if method != Method::GET {
        return text(StatusCode::NOT_FOUND, "there is no such route\n");
    }
    match path {
        "/health" => answer(StatusCode::OK, JSON, Full::from(r#"{"status":"ok"}"#)),
        "/ready" if worker.is_draining() => answer(
            StatusCode::SERVICE_UNAVAILABLE,
            JSON,
            Full::from(
                r#"{"status":"not_ready","problems":[{"what":"draining","message":"the worker is shutting down"}]}"#,
            ),
        ),
        "/ready" => answer(StatusCode::OK, JSON, Full::from(r#"{"status":"ok"}"#)),
        "/metrics" => answer(StatusCode::OK, METRICS, Full::from(worker_metrics::page(worker))),
        _ => text(StatusCode::NOT_FOUND, "there is no such route\n"),
    }
}

/// Answers a request of a coordinator, or of whoever probes.
pub(crate) async fn route(worker: Arc<Worker>, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    match (request.method(), path.as_str()) {
        (&Method::GET, STATUS) => match serde_json::to_vec(&worker.status()) {
            Ok(status) => answer(StatusCode::OK, JSON, Full::from(status)),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the status cannot be written\n"),
        },
        // The end of a connection of HTTP/1 is not seen while an answer waits for rows.
        (_, path) if (path.starts_with(TASKS) || path.starts_with(STAGES)) && request.version() != Version::HTTP_2 => {
            text(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "tasks need HTTP/2\n")
        }
        (&Method::POST, TASKS) => start(worker, request).await,
        (&Method::GET, path) => match (partition(path), task(path)) {
            (Some((key, partition)), _) => rows(&worker, worker.stage_task(key).await, partition),
            (_, Some(id)) => single(match worker.task(id) {
                Ok(task) => frames::cost(&task.cost()),
                Err(failure) => frames::failed(&failure),
            }),
            _ => probe(&worker, request.method(), path),
        },
        _ => text(StatusCode::NOT_FOUND, "there is no such route\n"),
    }
}

/// The task that a path names.
fn task(path: &str) -> Option<Uuid> {
    Uuid::parse_str(path.strip_prefix(TASKS)?.strip_prefix('/')?).ok()
}

/// The task and the partition that a path names.
fn partition(path: &str) -> Option<(TaskKey, usize)> {
    let (task, partition) = path.strip_prefix(STAGES)?.strip_prefix('/')?.split_once("/partitions/")?;
    let mut parts = task.split('/');
    let (statement, stage, task) = (parts.next()?, parts.next()?, parts.next()?);
    let key = TaskKey {
        query_id: Uuid::parse_str(statement).ok()?,
        stage_id: stage.parse().ok()?,
        task_number: task.parse().ok()?,
    };
    parts.next().is_none().then_some(())?;
    Some((key, partition.parse().ok()?))
}

/// `POST /v1/tasks`.
async fn start(worker: Arc<Worker>, request: Request<Incoming>) -> Answer {
    let room = worker.body_room();
    let nonsense = |why: &str| WorkerFailure::Nonsense(why.to_owned());
    let read = async {
        let mut body = request.into_body();
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Err(nonsense("the task is not whole")) };
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len().saturating_add(data.len()) > MAX_TASK {
                return Err(nonsense("the task has too many bytes"));
            }
            room.try_grow(data.len()).map_err(|_| WorkerFailure::Busy("its memory is taken".to_owned()))?;
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.freeze())
    };
    let body = tokio::time::timeout(BODY_TIMEOUT, read).await;
    let started = match body.unwrap_or_else(|_| Err(nonsense("the task came too slowly"))) {
        Ok(body) => worker.start_task(body, room).await,
        Err(failure) => Err(failure),
    };
    match started {
        Ok((task, time)) => answer(StatusCode::OK, FRAMES, TaskBody::new(worker, task, time)),
        Err(failure) => {
            tracing::debug!(%failure, "a task is not started");
            single(frames::failed(&failure))
        }
    }
}

/// `GET /v1/stages/STATEMENT/STAGE/TASK/partitions/N`.
fn rows(worker: &Worker, task: Result<Arc<RunningTask>, WorkerFailure>, partition: usize) -> Answer {
    let sent = task.and_then(|task| {
        let (to, from) = mpsc::channel(IN_FLIGHT);
        let queue = task.open(from);
        Ok((queue, worker.compute(task.send(partition, to))?))
    });
    match sent {
        Ok((queue, sender)) => {
            answer(StatusCode::OK, FRAMES, PartitionBody::new(queue, AbortOnDropHandle::new(sender)))
        }
        Err(failure) => single(frames::failed(&failure)),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::messages::{path_of, path_of_cost};

    #[test]
    fn paths_of_partitions() {
        let id = Uuid::from_bytes([9; 16]);
        assert_eq!(task(&path_of_cost(id)).unwrap(), id);
        assert!(task("/v1/tasks/").is_none() && task("/v1/tasks/1").is_none());
        let key = TaskKey { query_id: id, stage_id: 3, task_number: 14 };
        assert_eq!(partition(&path_of(key, 12)).unwrap(), (key, 12));
        for path in [
            "/v1/stages",
            "/v1/stages/",
            &format!("/v1/stages/{id}/1/2/partitions/"),
            &format!("/v1/stages/{id}/1/2/partitions/-1"),
            &format!("/v1/stages/{id}/1/2/partitions/1/2"),
            &format!("/v2/stages/{id}/1/2/partitions/1"),
            "/v1/stages/x/1/2/partitions/1",
            &format!("/v1/stages/{id}/1/partitions/2"),
            &format!("/v1/stages/{id}/1/2/3/partitions/2"),
        ] {
            assert!(partition(path).is_none(), "{path}");
        }
    }
}
