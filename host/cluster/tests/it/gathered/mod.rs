//! An engine whose segments three workers in this process read, which exchange no rows, and what became of its statements.

#[path = "../counts.rs"]
mod counts;

use std::sync::Arc;

pub(crate) use counts::*;
use tidegate_cluster::stages::{LocalStageWorkers, StageCarrier, StageOptions};
use tidegate_sql::{Engine, EngineOptions};

const WORKERS: usize = 3;

pub(crate) fn engine(options: &EngineOptions) -> Engine {
    let workers = Arc::new(LocalStageWorkers::new(WORKERS, options).unwrap());
    let carrier = StageCarrier::new(Arc::new(workers), StageOptions::GATHERED).telling(|report| {
        counted(if report.is_remote() { "remote" } else { "whole" });
        report.leaves.iter().for_each(|leaf| {
            counted(if leaf.tasks.len() > 1 { "leaves of several tasks" } else { "leaves of one task" })
        });
        for leaf in &report.leaves {
            leaf.operators.iter().for_each(|operator| operators(operator));
        }
        report.stays.iter().for_each(|stay| counted(stay.name()));
    });
    Engine::new(options).unwrap().with_carrier(Arc::new(carrier))
}

fn operators(name: &str) {
    for known in
        ["AggregateExec", "FilterExec", "ProjectionExec", "SortExec", "UnnestExec", "SecurityBarrier", "LocalLimitExec"]
    {
        if name == known {
            counted(known);
        }
    }
}
