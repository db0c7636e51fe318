//! An engine whose statements run in stages on three workers in this process, and what became of them.

#[path = "../counts.rs"]
mod counts;

use std::sync::Arc;

pub(crate) use counts::*;
use tidegate_cluster::stages::{LocalStageWorkers, StageCarrier, StageOptions, StageReport};
use tidegate_sql::{Engine, EngineOptions};

const WORKERS: usize = 3;

pub(crate) fn engine(options: &EngineOptions) -> Engine {
    // With one partition there is no hash partitioning, and so no shuffle.
    let options = &EngineOptions { partitions: options.partitions.max(2), ..options.clone() };
    let workers = Arc::new(LocalStageWorkers::new(WORKERS, options).unwrap());
    let carrier = StageCarrier::new(Arc::new(workers), StageOptions::ALL, Arc::default(), |report| match report {
        StageReport::NoSegments => counted("no segments"),
        StageReport::OneStage => counted("one stage"),
        StageReport::Stages(2) => counted("two stages"),
        StageReport::Stages(_) => counted("more stages"),
        StageReport::Refused(why) => {
            eprintln!("refused: {why}");
            counted("refused");
        }
    });
    Engine::new(options).unwrap().with_carrier(Arc::new(carrier))
}
