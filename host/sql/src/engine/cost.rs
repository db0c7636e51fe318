//! What statements cost: the rows and bytes that their scans read, and the memory that they held.
//!
//! The scans count themselves (the metrics of the engine's operators). A statement is added to its request's costs
//! when its last row has come, or when it is dropped before that.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use tidegate_functions::context::ExecutionContext;
use tidegate_model::number;

use super::carrier::CarrierReport;
use super::shortcuts::shared_rows::SharedRows;
use super::statement_cost::StatementCost;

/// Adds up the costs of the statements of one request.
#[derive(Debug, Default)]
pub struct CostCounter(Mutex<Costs>);

#[derive(Debug, Default)]
struct Costs {
    all: StatementCost,
    reports: Vec<Arc<str>>,
}

/// The most bytes of reports of one request that are kept.
const MOST_REPORTED: usize = 64 << 10;

impl CostCounter {
    /// The costs of the statements that have ended so far.
    pub fn cost(&self) -> StatementCost {
        self.costs().all
    }

    /// What ran elsewhere of the statements that have ended so far, each a JSON object
    /// ([`CarrierReport`](super::CarrierReport)); the first, up to 64 KiB together.
    pub fn reports(&self) -> Vec<Arc<str>> {
        self.costs().reports.clone()
    }

    fn add(&self, cost: StatementCost, report: Option<String>) {
        let mut costs = self.costs();
        costs.all = costs.all.plus(cost);
        let reported: usize = costs.reports.iter().map(|report| report.len()).sum();
        costs.reports.extend(report.filter(|report| reported + report.len() <= MOST_REPORTED).map(Arc::from));
    }

    fn costs(&self) -> MutexGuard<'_, Costs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A statement that runs, and where its cost is added when it has ended.
pub(super) struct RunningCost {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<ExecutionContext>,
    /// What of it runs elsewhere.
    report: Option<Arc<dyn CarrierReport>>,
    counter: Option<Arc<CostCounter>>,
}

impl RunningCost {
    pub(super) fn new(
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<ExecutionContext>,
        report: Option<Arc<dyn CarrierReport>>,
    ) -> Self {
        Self { plan, context, report, counter: None }
    }

    pub(super) fn count_in(&mut self, counter: Arc<CostCounter>) {
        self.counter = Some(counter);
    }

    /// Adds the cost, once.
    pub(super) fn ended(&mut self) {
        let Some(counter) = self.counter.take() else { return };
        let elsewhere = self.report.as_ref().map(|report| report.cost()).unwrap_or_default();
        let cost = read_by(&self.plan).plus(elsewhere);
        let cost = StatementCost { statements: 1, memory: number(self.context.peak_memory()), ..cost };
        counter.add(cost, self.report.as_ref().map(|report| report.json()));
    }
}

impl Drop for RunningCost {
    fn drop(&mut self) {
        self.ended();
    }
}

/// What the scans of a plan have read so far.
pub(super) fn read_by(plan: &Arc<dyn ExecutionPlan>) -> StatementCost {
    let mut all = StatementCost::default();
    let mut parts = HashSet::new();
    let mut plans = vec![Arc::clone(plan)];
    while let Some(plan) = plans.pop() {
        // The closure never fails, so neither does the walk.
        let _ = plan.apply(|node| {
            if let Some(shared) = node.downcast_ref::<SharedRows>() {
                if parts.insert(shared.place().part) {
                    plans.push(Arc::clone(shared.input()));
                }
            } else if let Some(metrics) = node.metrics().filter(|_| node.children().is_empty()) {
                let sum = |name: &str| metrics.sum_by_name(name).map_or(0, |value| number(value.as_usize()));
                let handed_on = number(metrics.output_rows().unwrap_or(0));
                all = all.plus(StatementCost {
                    rows_read: handed_on
                        .saturating_add(sum("pushdown_rows_pruned"))
                        .saturating_add(sum("rows_counted")),
                    bytes_read: sum("bytes_scanned"),
                    ..StatementCost::default()
                });
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    all
}
