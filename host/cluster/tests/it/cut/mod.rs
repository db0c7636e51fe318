//! An engine whose statements are cut and run by three workers in this process, and what became of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_cluster::{CutCarrier, CutOptions, LocalWorkers};
use tidegate_sql::{Engine, EngineOptions};

const WORKERS: usize = 3;

/// How many statements were cut and how many scans stayed for which reason, in the tests of the module that has this one.
static COUNTS: Mutex<BTreeMap<&'static str, usize>> = Mutex::new(BTreeMap::new());

pub(crate) fn counted(what: &'static str) {
    *COUNTS.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
}

pub(crate) fn count(what: &str) -> usize {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner).get(what).copied().unwrap_or_default()
}

pub(crate) fn counts() -> String {
    format!("{:?}", COUNTS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Waits until so many statements were cut: other tests of the same module count too, and run at the same time.
pub(crate) fn wait_for(what: &str, least: usize) {
    let (mut last, mut since) = (0, Instant::now());
    while last < least {
        std::thread::sleep(Duration::from_millis(100));
        if count(what) > last {
            (last, since) = (count(what), Instant::now());
        }
        assert!(since.elapsed() < Duration::from_secs(300), "{last} of {least}: {}", counts());
    }
}

pub(crate) fn engine(options: &EngineOptions) -> Engine {
    if std::env::var_os("STAGES").is_some() {
        return staged(options);
    }
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

fn staged(options: &EngineOptions) -> Engine {
    use tidegate_cluster::stages::{LocalStageWorkers, StageCarrier, StageReport};
    let options = &EngineOptions { partitions: options.partitions.max(2), ..options.clone() };
    let workers = LocalStageWorkers::new(WORKERS, options).unwrap();
    let shows = std::env::var_os("SHOW").is_some();
    let carrier = StageCarrier::new(Arc::new(workers), move |report, plan| {
        match report {
            StageReport::NoSegments => counted("no segments"),
            StageReport::OneStage => counted("one stage"),
            StageReport::Stages(2) => counted("two stages"),
            StageReport::Stages(_) => counted("cut"),
            StageReport::Refused(why) => {
                let why: String = why.chars().take(120).collect();
                counted(Box::leak(format!("refused: {}", why.replace('\n', " ")).into_boxed_str()));
            }
        }
        if shows {
            eprintln!("{report:?}\n{}", datafusion::physical_plan::displayable(plan.as_ref()).indent(true));
        }
    });
    Engine::new(options).unwrap().with_carrier(Arc::new(carrier))
}
