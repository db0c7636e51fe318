//! An engine whose statements are cut and run by three workers in this process, and what became of them.

#[path = "../counts.rs"]
mod counts;

use std::sync::Arc;

pub(crate) use counts::*;
use tidegate_cluster::{CutCarrier, CutOptions, LocalWorkers};
use tidegate_sql::{Engine, EngineOptions};

const WORKERS: usize = 3;

pub(crate) fn engine(options: &EngineOptions) -> Engine {
    let workers = LocalWorkers::new(WORKERS, options).unwrap();
    let carrier = CutCarrier::new(Arc::new(workers), CutOptions::ALL, |report| {
        counted(if report.is_cut() { "cut" } else { "whole" });
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
