//! What is told of a statement in stages.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_sql::{CarrierReport, StatementCost};

use super::running::RunningStages;
use crate::statement_report::{ExchangeReport, StatementReport};
use crate::stay::Stay;

/// The most scans of a statement, and tasks of each, in a report.
const MOST: usize = 16;

/// What of a statement runs in stages, and what does not.
#[derive(Debug, Default)]
pub(super) struct StatementStages {
    pub(super) running: Vec<Arc<RunningStages>>,
    pub(super) stays: Vec<Stay>,
    pub(super) not_exchanged: Option<String>,
}

impl StatementStages {
    /// What is known now.
    pub(super) fn report(&self) -> StatementReport {
        let mut report = StatementReport {
            stays: self.stays.clone(),
            not_exchanged: self.not_exchanged.clone(),
            ..StatementReport::default()
        };
        let (mut stages, mut workers) = (1, BTreeSet::new());
        for running in &self.running {
            report.leaves.extend(running.leaves());
            report.attempts.extend(running.failed());
            report.fell_back |= running.is_whole();
            if let Some((of_plan, names)) = running.exchange() {
                // All head stages run here, and are one.
                stages += of_plan - 1;
                workers.extend(names.iter().map(|name| name.to_string()));
            }
        }
        if stages > 1 {
            report.exchange = Some(ExchangeReport { stages, workers: workers.into_iter().collect() });
        }
        report
    }
}

impl CarrierReport for StatementStages {
    fn json(&self) -> String {
        // A report has no maps with other keys than texts, so it is always JSON.
        serde_json::to_string(&self.report().shortened(MOST)).unwrap_or_else(|_| "{}".to_owned())
    }

    fn cost(&self) -> StatementCost {
        self.running.iter().map(|running| running.cost()).fold(StatementCost::default(), StatementCost::plus)
    }
}
