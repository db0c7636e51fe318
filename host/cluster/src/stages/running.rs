//! What is told of a statement that runs in stages.

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_sql::{CarrierReport, StatementCost};

use super::workers::StageList;
use crate::cut_report::{CutReport, ExchangeReport};

/// A statement in stages, while it runs.
#[derive(Debug)]
pub(super) struct RunningStages {
    workers: StageList,
    stages: usize,
    /// Whether it was run again without exchanges.
    fell_back: AtomicBool,
}

impl RunningStages {
    pub(super) fn new(workers: StageList, stages: usize) -> Self {
        Self { workers, stages, fell_back: AtomicBool::new(false) }
    }

    /// Notes that it is run again without exchanges.
    pub(super) fn falls_back(&self) {
        self.fell_back.store(true, Ordering::Relaxed);
    }
}

impl CarrierReport for RunningStages {
    fn json(&self) -> String {
        let exchange = ExchangeReport {
            stages: self.stages,
            workers: self.workers.names.iter().map(|name| name.to_string()).collect(),
            fell_back: self.fell_back.load(Ordering::Relaxed),
        };
        let report = CutReport { exchange: Some(exchange), ..CutReport::default() };
        // A report has no maps with other keys than texts, so it is always JSON.
        serde_json::to_string(&report).unwrap_or_else(|_| "{}".to_owned())
    }

    fn cost(&self) -> StatementCost {
        (self.workers.cost)()
    }
}
