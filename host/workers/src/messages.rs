//! What coordinators and workers send each other beside rows.
//!
//! Both ends are the same build: a worker of another one is not used. So messages have no optional parts for older peers,
//! only a number of the protocol and the name of the build, which are compared first. The name is that of the program,
//! which knows all of its sources ([`crate::WorkerOptions::build`]).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use datafusion_distributed::TaskKey;
use prost::Message;
use serde::{Deserialize, Serialize};
use tidegate_cluster::{EncodedPlan, MAX_PLAN_BYTES, TaskBounds, TaskFigures};
use tidegate_model::{number, size};
use tidegate_sql::StatementCost;
use tidegate_store::SegmentName;
use uuid::Uuid;

/// The number of the protocol.
pub(crate) const PROTOCOL: u32 = 4;
/// What coordinators ask is below this.
pub(crate) const API: &str = "/v1/";
/// Where tasks are started; `/ID` below it gives what one costs.
pub(crate) const TASKS: &str = "/v1/tasks";
/// Where rows of tasks are read; `STATEMENT/STAGE/TASK/partitions/N` below it.
pub(crate) const STAGES: &str = "/v1/stages";
/// Where a worker says what it is.
pub(crate) const STATUS: &str = "/v1/worker";

/// The most bytes of what precedes the plan in the body of a task.
const MAX_HEADER: usize = 24 << 20;
/// The most bytes of the body of a task.
pub(crate) const MAX_TASK: usize = 4 + MAX_HEADER + MAX_PLAN_BYTES;
/// The most workers of a statement.
const MAX_PEERS: usize = 1024;
/// The most bytes of a worker's status.
pub(crate) const MAX_STATUS: usize = 64 << 10;

/// The path of a partition of a task.
pub(crate) fn path_of(TaskKey { query_id, stage_id, task_number }: TaskKey, partition: usize) -> String {
    format!("{STAGES}/{query_id}/{stage_id}/{task_number}/partitions/{partition}")
}

/// The path of what a task costs.
pub(crate) fn path_of_cost(task: Uuid) -> String {
    format!("{TASKS}/{task}")
}

/// A message that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(pub(crate) &'static str);

/// The bounds of a task and what it reads. The plan follows it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TaskMessage {
    #[prost(uint32, tag = "1")]
    pub(crate) protocol: u32,
    #[prost(string, tag = "2")]
    pub(crate) build: String,
    /// Bytes that its operators may hold.
    #[prost(uint64, tag = "3")]
    pub(crate) memory: u64,
    /// Rows of a batch.
    #[prost(uint64, tag = "4")]
    pub(crate) batch_rows: u64,
    /// Milliseconds that it may take; none is no limit.
    #[prost(uint64, optional, tag = "5")]
    pub(crate) time: Option<u64>,
    /// How many partitions the plan has.
    #[prost(uint32, tag = "6")]
    pub(crate) partitions: u32,
    #[prost(message, repeated, tag = "7")]
    pub(crate) segments: Vec<SegmentMessage>,
    /// The 16 bytes of the number of the statement.
    #[prost(bytes = "vec", tag = "8")]
    pub(crate) statement: Vec<u8>,
    /// The stage of its statement that it is a task of.
    #[prost(uint32, tag = "9")]
    pub(crate) stage: u32,
    #[prost(uint32, tag = "10")]
    pub(crate) task: u32,
    /// How many tasks the stage has.
    #[prost(uint32, tag = "11")]
    pub(crate) tasks: u32,
    /// The workers of the statement, which its plan names by their places here.
    #[prost(message, repeated, tag = "12")]
    pub(crate) workers: Vec<PeerMessage>,
    /// Rows that the coordinator has in memory (`tidegate_cluster::stages::rows_of_leaves`).
    #[prost(bytes = "vec", tag = "13")]
    pub(crate) rows: Vec<u8>,
}

impl TaskMessage {
    /// The key of the task among those of all statements.
    pub(crate) fn key(&self, statement: Uuid) -> TaskKey {
        TaskKey { query_id: statement, stage_id: self.stage as usize, task_number: self.task as usize }
    }

    /// The workers.
    pub(crate) fn peers(&self) -> Result<Vec<Peer>, Unreadable> {
        if self.workers.is_empty() || self.workers.len() > MAX_PEERS || self.tasks as usize > MAX_PEERS {
            return Err(Unreadable("a statement has no workers, or too many"));
        }
        let peer = |PeerMessage { address, host }: &PeerMessage| {
            let address = address.parse().map_err(|_| Unreadable("a worker has no address"))?;
            Ok(Peer { address, host: host.as_str().into() })
        };
        self.workers.iter().map(peer).collect()
    }
}

/// A worker of a statement.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PeerMessage {
    #[prost(string, tag = "1")]
    address: String,
    /// The name that its certificate must have.
    #[prost(string, tag = "2")]
    host: String,
}

/// Where a worker is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// The name that its certificate must have.
    pub(crate) host: Arc<str>,
}

impl From<&Peer> for PeerMessage {
    fn from(Peer { address, host }: &Peer) -> Self {
        Self { address: address.to_string(), host: host.to_string() }
    }
}

/// The columns of the rows that follow (`tidegate_cluster::stages::columns_to_bytes`).
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ColumnsMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) columns: Vec<u8>,
}

/// A segment that a task reads.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SegmentMessage {
    /// The 16 bytes of the id of its source.
    #[prost(bytes = "vec", tag = "1")]
    source: Vec<u8>,
    /// The 16 bytes of its id.
    #[prost(bytes = "vec", tag = "2")]
    id: Vec<u8>,
    #[prost(uint64, tag = "3")]
    bytes: u64,
    #[prost(uint64, tag = "4")]
    rows: u64,
    #[prost(uint32, optional, tag = "5")]
    checksum: Option<u32>,
}

impl SegmentMessage {
    fn of(name: &SegmentName) -> Self {
        let SegmentName { source, id, bytes, rows, checksum } = name;
        Self {
            source: source.as_bytes().to_vec(),
            id: id.as_bytes().to_vec(),
            bytes: *bytes,
            rows: *rows,
            checksum: *checksum,
        }
    }

    pub(crate) fn name(&self) -> Result<SegmentName, Unreadable> {
        let Self { source, id, bytes, rows, checksum } = self;
        let read = |id: &[u8]| Uuid::from_slice(id).map_err(|_| Unreadable("a segment has no id"));
        Ok(SegmentName { source: read(source)?, id: read(id)?, bytes: *bytes, rows: *rows, checksum: *checksum })
    }
}

impl TaskMessage {
    /// The message of a task with this plan, which has so many partitions. Which one it is, and what it reads beside segments, is
    /// not in it yet.
    pub(crate) fn of((plan, partitions): (&EncodedPlan, usize), bounds: &TaskBounds, build: &str) -> Self {
        let TaskBounds { statement, memory, batch_rows, time } = *bounds;
        Self {
            protocol: PROTOCOL,
            build: build.to_owned(),
            memory: number(memory),
            batch_rows: number(batch_rows),
            time: time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            partitions: u32::try_from(partitions).unwrap_or(u32::MAX),
            segments: plan.segments.iter().map(|(_, name)| SegmentMessage::of(name)).collect(),
            statement: statement.as_bytes().to_vec(),
            ..Self::default()
        }
    }

    /// The bounds of the task.
    pub(crate) fn bounds(&self) -> Result<TaskBounds, Unreadable> {
        let statement = Uuid::from_slice(&self.statement).map_err(|_| Unreadable("a statement has no number"))?;
        let (memory, batch_rows) = (size(self.memory), size(self.batch_rows));
        Ok(TaskBounds { statement, memory, batch_rows, time: self.time.map(Duration::from_millis) })
    }

    /// The body of a task.
    pub(crate) fn body(&self, plan: &[u8]) -> Result<Bytes, Unreadable> {
        let header = self.encode_to_vec();
        let length = u32::try_from(header.len()).ok().filter(|_| header.len() <= MAX_HEADER);
        let Some(length) = length else { return Err(Unreadable("a task has too many segments")) };
        Ok([length.to_le_bytes().as_slice(), &header, plan].concat().into())
    }

    /// What a body of a task has, and its plan.
    pub(crate) fn read(body: &Bytes) -> Result<(Self, Bytes), Unreadable> {
        let whole = Unreadable("a task is not whole");
        let Some((length, _)) = body.split_first_chunk::<4>() else { return Err(whole) };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_HEADER {
            return Err(Unreadable("a task has too many segments"));
        }
        let Some(header) = body.get(4..length.saturating_add(4)) else { return Err(whole) };
        let message = Self::decode(header).map_err(|_| Unreadable("a task cannot be read"))?;
        let plan = body.slice(length.saturating_add(4)..);
        if plan.len() > MAX_PLAN_BYTES {
            return Err(Unreadable("a plan has too many bytes"));
        }
        Ok((message, plan))
    }

    /// Whether the sender speaks as this build does, and is of it.
    pub(crate) fn is_of_build(&self, build: &str) -> bool {
        self.protocol == PROTOCOL && self.build == build
    }
}

/// A task that was started.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StartedMessage {
    /// The 16 bytes of its id.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) id: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub(crate) partitions: u32,
}

/// What a task has cost so far.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct CostMessage {
    #[prost(uint64, tag = "1")]
    rows_read: u64,
    #[prost(uint64, tag = "2")]
    bytes_read: u64,
    /// The most bytes that it held at a time.
    #[prost(uint64, tag = "3")]
    memory: u64,
    /// Rows that it has sent.
    #[prost(uint64, tag = "4")]
    pub(crate) rows_sent: u64,
    /// Microseconds from its start until its last row, or until now.
    #[prost(uint64, tag = "5")]
    taken: u64,
}

impl CostMessage {
    pub(crate) fn of(cost: &StatementCost, figures: &TaskFigures) -> Self {
        let StatementCost { rows_read, bytes_read, memory, .. } = *cost;
        let taken = u64::try_from(figures.taken().as_micros()).unwrap_or(u64::MAX);
        Self { rows_read, bytes_read, memory, rows_sent: figures.rows(), taken }
    }

    /// Two messages of one task come in any order: the larger numbers are the later ones.
    pub(crate) fn later(self, other: Self) -> Self {
        Self {
            rows_read: self.rows_read.max(other.rows_read),
            bytes_read: self.bytes_read.max(other.bytes_read),
            memory: self.memory.max(other.memory),
            rows_sent: self.rows_sent.max(other.rows_sent),
            taken: self.taken.max(other.taken),
        }
    }

    /// From the start of the task until its last row, or until this was said.
    pub(crate) fn taken(self) -> Duration {
        Duration::from_micros(self.taken)
    }

    /// As the cost of a part of a statement, which is no statement of its own.
    pub(crate) fn cost(self) -> StatementCost {
        let Self { rows_read, bytes_read, memory, .. } = self;
        StatementCost { rows_read, bytes_read, memory, ..StatementCost::default() }
    }
}

/// What a worker is and does, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkerStatus {
    pub(crate) protocol: u32,
    pub(crate) build: String,
    /// Whether it takes no new tasks, because it ends.
    pub(crate) draining: bool,
    /// Tasks that run, and how many may.
    pub(crate) tasks: usize,
    pub(crate) max_tasks: usize,
    /// Bytes that tasks hold, and how many they may hold together.
    pub(crate) memory_held: usize,
    pub(crate) memory_limit: usize,
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn task() -> TaskMessage {
        let (source, id) = (Uuid::from_bytes([8; 16]), Uuid::from_bytes([7; 16]));
        let name = SegmentName { source, id, bytes: 10, rows: 3, checksum: Some(5) };
        TaskMessage {
            protocol: PROTOCOL,
            build: "1.2.3+45".to_owned(),
            memory: u64::MAX,
            batch_rows: 8192,
            time: Some(250),
            partitions: 2,
            segments: vec![SegmentMessage::of(&name)],
            statement: vec![3; 16],
            stage: 1,
            tasks: 2,
            ..TaskMessage::default()
        }
    }

    #[test]
    fn tasks_are_the_same_again() {
        let body = task().body(b"plan").unwrap();
        let (message, plan) = TaskMessage::read(&body).unwrap();
        assert_eq!((message.clone(), plan.as_ref()), (task(), b"plan".as_slice()));
        assert!(message.is_of_build("1.2.3+45"));
        assert!(!message.is_of_build("1.2.3+46") && !message.is_of_build("1.2.3"));
        assert!(!TaskMessage { protocol: PROTOCOL + 1, ..message.clone() }.is_of_build("1.2.3+45"));
        let bounds = message.bounds().unwrap();
        assert_eq!((bounds.memory, bounds.time), (usize::MAX, Some(Duration::from_millis(250))));
        let name = message.segments[0].name().unwrap();
        assert_eq!((name.source, name.rows, name.checksum), (Uuid::from_bytes([8; 16]), 3, Some(5)));
    }

    #[test]
    fn tasks_that_are_cut_or_too_large_are_refused() {
        let body = task().body(b"").unwrap();
        for length in 0..body.len() {
            assert!(TaskMessage::read(&body.slice(..length)).is_err(), "{length} bytes");
        }
        let mut lies = body.to_vec();
        lies[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(TaskMessage::read(&lies.into()).is_err());
        let large = task().body(&vec![0; MAX_PLAN_BYTES + 1]).unwrap();
        assert!(TaskMessage::read(&large).is_err());
        let short = SegmentMessage { id: vec![1; 15], ..task().segments[0].clone() };
        assert!(short.name().is_err());
        assert!(TaskMessage { statement: vec![1; 17], ..task() }.bounds().is_err());
    }
}
