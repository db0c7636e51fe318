//! What was cut of a statement, for people and for programs.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::stay::Stay;

/// What was cut, and what was not and why. As JSON: `remote` (the scans that go to workers) and `local` (why others do
/// not).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CutReport {
    /// The scans whose segments workers read. The statement stays whole if there are none.
    #[serde(rename = "remote")]
    pub leaves: Vec<LeafReport>,
    /// Why other scans are read by the coordinator; not of rows in memory, which always are.
    #[serde(rename = "local")]
    pub stays: Vec<Stay>,
}

/// One scan of a source that goes to workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeafReport {
    /// The source.
    pub source: String,
    /// The names of the operators that workers run, the scan last.
    pub operators: Vec<String>,
    /// One for each worker that has some of the segments.
    pub tasks: Vec<TaskReport>,
}

/// What a worker does of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskReport {
    /// The name of the worker.
    pub worker: String,
    /// How many segments it reads.
    pub segments: usize,
    /// In how many partitions.
    pub partitions: usize,
    /// Bytes of the segments, about, as they are stored and with all columns.
    pub bytes: u64,
    /// Rows before any condition, about.
    pub rows: u64,
    /// The length of the plan that is sent.
    pub plan_bytes: usize,
}

impl CutReport {
    /// Of a statement that stays whole for one reason.
    pub(crate) fn whole(stay: Stay) -> Self {
        Self { leaves: Vec::new(), stays: vec![stay] }
    }

    /// Whether workers have something to do.
    pub fn is_cut(&self) -> bool {
        !self.leaves.is_empty()
    }
}

impl Serialize for Stay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("reason", self.name())?;
        map.serialize_entry("message", &self.to_string())?;
        map.end()
    }
}

impl fmt::Display for CutReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for LeafReport { source, operators, tasks } in &self.leaves {
            writeln!(f, "source `{source}`: workers run {}", operators.join(" over "))?;
            for TaskReport { worker, segments, partitions, bytes, rows, plan_bytes } in tasks {
                writeln!(
                    f,
                    "  {worker}: {segments} segments in {partitions} partitions, {bytes} bytes, {rows} rows; a plan of \
                     {plan_bytes} bytes"
                )?;
            }
        }
        self.stays.iter().try_for_each(|stay| writeln!(f, "a scan stays with the coordinator: {stay}"))
    }
}
