//! The report of a statement that was cut, with what its tasks have done.

use std::sync::Arc;

use tidegate_sql::CarrierReport;

use crate::cut_report::CutReport;
use crate::remote_leaf::TaskRuns;

/// The most scans of a statement, and tasks of each, in a report.
const MOST: usize = 16;

/// A statement that was cut, while it runs.
#[derive(Debug)]
pub struct RunningCut {
    report: CutReport,
    /// The tasks of each scan of the report.
    runs: Vec<Arc<TaskRuns>>,
}

impl RunningCut {
    pub(crate) fn new(report: CutReport, runs: Vec<Arc<TaskRuns>>) -> Self {
        Self { report, runs }
    }

    /// What was cut, with what each task has done so far.
    pub fn report(&self) -> CutReport {
        let mut report = self.report.clone();
        for (leaf, runs) in report.leaves.iter_mut().zip(&self.runs) {
            for (place, task) in leaf.tasks.iter_mut().enumerate() {
                task.ran = runs.report(place);
            }
        }
        report
    }
}

impl CarrierReport for RunningCut {
    fn json(&self) -> String {
        // A report has no maps with other keys than texts, so it is always JSON.
        serde_json::to_string(&self.report().shortened(MOST)).unwrap_or_else(|_| "{}".to_owned())
    }
}
