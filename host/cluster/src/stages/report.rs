//! What is told of a statement in stages.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};
use tidegate_sql::{CarrierReport, StatementCost};

use super::running::RunningStages;
use crate::cut_report::ExchangeReport;

/// The plans of a statement that run in stages.
#[derive(Debug)]
pub(super) struct StatementStages(pub(super) Vec<Arc<RunningStages>>);

impl CarrierReport for StatementStages {
    fn json(&self) -> String {
        let mut exchange = ExchangeReport { stages: 1, workers: Vec::new(), attempts: Vec::new(), fell_back: false };
        let mut workers = BTreeSet::new();
        let (mut remote, mut local) = (Vec::new(), Vec::new());
        for running in &self.0 {
            let (stages, names) = running.last();
            exchange.stages += stages - 1;
            workers.extend(names.iter().map(|name| name.to_string()));
            exchange.attempts.extend(running.failed());
            if let Some(whole) = running.whole() {
                exchange.fell_back = true;
                let mut whole: Map<String, Value> = serde_json::from_str(&whole).unwrap_or_default();
                for (name, all) in [("remote", &mut remote), ("local", &mut local)] {
                    if let Some(Value::Array(some)) = whole.remove(name) {
                        all.extend(some);
                    }
                }
            }
        }
        exchange.workers = workers.into_iter().collect();
        serde_json::json!({ "remote": remote, "local": local, "exchange": exchange }).to_string()
    }

    fn cost(&self) -> StatementCost {
        self.0.iter().map(|running| running.cost()).fold(StatementCost::default(), StatementCost::plus)
    }
}
