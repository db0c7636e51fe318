//! An engine whose statements run in stages on three workers in this process, between which these exchange rows wherever they
//! can, and what became of them.

#[path = "../counts.rs"]
mod counts;

use std::sync::Arc;

pub(crate) use counts::*;
use tidegate_cluster::stages::{LocalStageWorkers, StageCarrier, StageOptions};
use tidegate_sql::{Engine, EngineOptions};

const WORKERS: usize = 3;

pub(crate) fn engine(options: &EngineOptions) -> Engine {
    // With one partition there is no hash partitioning, and so no shuffle.
    let options = &EngineOptions { partitions: options.partitions.max(2), ..options.clone() };
    let workers = Arc::new(LocalStageWorkers::new(WORKERS, options).unwrap());
    let carrier = StageCarrier::new(Arc::new(workers), StageOptions::ALL).telling(|report| {
        counted(match report.exchange {
            Some(_) => "exchanged",
            None if report.is_remote() => "remote",
            None => "whole",
        });
        if let Some(why) = &report.not_exchanged {
            eprintln!("not exchanged: {why}");
            counted("not exchanged");
        }
    });
    Engine::new(options).unwrap().with_carrier(Arc::new(carrier))
}
