//! What of a statement runs on workers, for people and for programs.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::stay::Stay;

/// What of a statement runs on workers, and what does not and why. As JSON: `remote` (the scans that workers read), `local`
/// (why others are not), and `exchange` if workers exchange rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StatementWorkers")]
pub struct StatementReport {
    /// The scans whose segments workers read. The statement runs on the server alone if there are none.
    #[serde(rename = "remote")]
    pub leaves: Vec<LeafReport>,
    /// Why other scans are read by the server; not of rows in memory, which always are.
    #[serde(rename = "local")]
    #[schemars(with = "Vec<StayForm>")]
    pub stays: Vec<Stay>,
    /// Scans that are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
    /// The stages of a statement whose workers exchange rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ExchangeReport")]
    pub exchange: Option<ExchangeReport>,
    /// Why workers exchange no rows of a statement that is large enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub not_exchanged: Option<String>,
    /// Runs that failed because of a worker before the first row; each time, it ran again without those that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptReport>,
    /// Whether it ran on the server alone at last.
    #[serde(skip_serializing_if = "is_false")]
    pub fell_back: bool,
}

/// The stages of a statement between which workers exchange rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ExchangeReport {
    /// How many stages it has; the last one runs on the server.
    pub stages: usize,
    /// The workers that run the others.
    pub workers: Vec<String>,
}

/// One scan of a source that workers read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct LeafReport {
    /// The source.
    pub source: String,
    /// The names of the operators that the workers run which read it, the scan last.
    pub operators: Vec<String>,
    /// One for each worker that has some of the segments.
    pub tasks: Vec<TaskReport>,
    /// Tasks that are not listed: those that took least.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

/// What a worker does of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "WorkerTask")]
pub struct TaskReport {
    /// The worker.
    pub worker: String,
    /// How many segments it reads.
    pub segments: usize,
    /// In how many partitions.
    pub partitions: usize,
    /// Bytes of the segments, about, as they are stored and with all columns.
    pub bytes: u64,
    /// Rows before any condition, about.
    pub rows: u64,
    /// What the task did that reads them; absent if it was not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RunReport")]
    pub ran: Option<RunReport>,
}

/// What a task did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct RunReport {
    /// From its start until its last row, or until nobody read it any more.
    #[serde(rename = "milliseconds", serialize_with = "milliseconds")]
    #[schemars(with = "f64", range(min = 0))]
    pub taken: Duration,
    /// Rows that it sent.
    pub rows_sent: u64,
    /// Rows of sources that it looked at.
    pub rows_read: u64,
    /// Bytes of segments.
    pub bytes_read: u64,
    /// The most bytes that it held at a time.
    pub memory: u64,
}

/// A run that failed because of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct AttemptReport {
    /// The worker; null if it is not known which.
    pub worker: Option<String>,
    /// Why it failed.
    pub failure: String,
}

fn milliseconds<S: Serializer>(taken: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((taken.as_secs_f64() * 1e4).round() / 10.0)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(is: &bool) -> bool {
    !*is
}

impl StatementReport {
    /// The report with at most so many scans, and so many tasks of each: those that took longest.
    pub(crate) fn shortened(mut self, most: usize) -> Self {
        for leaf in &mut self.leaves {
            leaf.left_out = leaf.tasks.len().saturating_sub(most);
            if leaf.left_out > 0 {
                leaf.tasks.sort_by_key(|task| Reverse(task.ran.as_ref().map(|ran| ran.taken)));
                leaf.tasks.truncate(most);
            }
        }
        self.left_out = self.leaves.len().saturating_sub(most) + self.stays.len().saturating_sub(most);
        self.leaves.truncate(most);
        self.stays.truncate(most);
        self
    }

    /// Whether workers have something to do.
    pub fn is_remote(&self) -> bool {
        !self.leaves.is_empty()
    }
}

/// How a reason is written.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct StayForm {
    /// A word for programs.
    reason: &'static str,
    message: String,
}

impl Serialize for Stay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        StayForm { reason: self.name(), message: self.to_string() }.serialize(serializer)
    }
}

impl fmt::Display for StatementReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for LeafReport { source, operators, tasks, left_out: _ } in &self.leaves {
            writeln!(f, "source `{source}`: workers run {}", operators.join(" over "))?;
            for TaskReport { worker, segments, partitions, bytes, rows, ran: _ } in tasks {
                writeln!(f, "  {worker}: {segments} segments in {partitions} partitions, {bytes} bytes, {rows} rows")?;
            }
        }
        self.stays.iter().try_for_each(|stay| writeln!(f, "a scan stays with the server: {stay}"))
    }
}
