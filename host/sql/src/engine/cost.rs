//! What statements cost: the rows and bytes that their scans read, and the memory that they held.
//!
//! The scans count themselves (the metrics of the engine's operators). A statement is added to its request's costs
//! when its last row has come, or when it is dropped before that.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use tidegate_functions::context::ExecutionContext;
use tidegate_model::number;

use super::shared_rows::SharedRows;

/// What statements cost together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct StatementCost {
    /// Statements that were started.
    pub statements: u64,
    /// Rows of sources that were looked at: those that the scans handed on, and those that their filters left out one by
    /// one. Rows that statistics left out do not count.
    pub rows_read: u64,
    /// Bytes of segments that were read, as they are stored. Rows that are still in memory have none.
    pub bytes_read: u64,
    /// The most bytes that one of the statements held at a time.
    pub memory: u64,
}

impl StatementCost {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            statements: self.statements.saturating_add(other.statements),
            rows_read: self.rows_read.saturating_add(other.rows_read),
            bytes_read: self.bytes_read.saturating_add(other.bytes_read),
            memory: self.memory.max(other.memory),
        }
    }
}

/// Adds up the costs of the statements of one request.
#[derive(Debug, Default)]
pub struct CostCounter {
    statements: AtomicU64,
    rows_read: AtomicU64,
    bytes_read: AtomicU64,
    memory: AtomicU64,
}

impl CostCounter {
    /// The costs of the statements that have ended so far.
    pub fn cost(&self) -> StatementCost {
        StatementCost {
            statements: self.statements.load(Ordering::Relaxed),
            rows_read: self.rows_read.load(Ordering::Relaxed),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            memory: self.memory.load(Ordering::Relaxed),
        }
    }

    fn add(&self, cost: StatementCost) {
        self.statements.fetch_add(cost.statements, Ordering::Relaxed);
        self.rows_read.fetch_add(cost.rows_read, Ordering::Relaxed);
        self.bytes_read.fetch_add(cost.bytes_read, Ordering::Relaxed);
        self.memory.fetch_max(cost.memory, Ordering::Relaxed);
    }
}

/// A statement that runs, and where its cost is added when it has ended.
pub(super) struct RunningCost {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<ExecutionContext>,
    counter: Option<Arc<CostCounter>>,
}

impl RunningCost {
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>, context: Arc<ExecutionContext>) -> Self {
        Self { plan, context, counter: None }
    }

    pub(super) fn count_in(&mut self, counter: Arc<CostCounter>) {
        self.counter = Some(counter);
    }

    /// Adds the cost, once.
    pub(super) fn ended(&mut self) {
        let Some(counter) = self.counter.take() else { return };
        let (rows_read, bytes_read) = read_by(&self.plan);
        counter.add(StatementCost { statements: 1, rows_read, bytes_read, memory: number(self.context.peak_memory()) });
    }
}

impl Drop for RunningCost {
    fn drop(&mut self) {
        self.ended();
    }
}

/// The rows and bytes that the scans of a plan have read so far.
pub(super) fn read_by(plan: &Arc<dyn ExecutionPlan>) -> (u64, u64) {
    let (mut rows, mut bytes) = (0_u64, 0_u64);
    let mut parts = HashSet::new();
    let mut plans = vec![Arc::clone(plan)];
    while let Some(plan) = plans.pop() {
        // The closure never fails, so neither does the walk.
        let _ = plan.apply(|node| {
            if let Some(shared) = node.downcast_ref::<SharedRows>() {
                if parts.insert(shared.part()) {
                    plans.push(Arc::clone(shared.input()));
                }
            } else if let Some(metrics) = node.metrics().filter(|_| node.children().is_empty()) {
                let sum = |name: &str| metrics.sum_by_name(name).map_or(0, |value| number(value.as_usize()));
                let handed_on = number(metrics.output_rows().unwrap_or(0));
                rows = rows.saturating_add(handed_on).saturating_add(sum("pushdown_rows_pruned"));
                bytes = bytes.saturating_add(sum("bytes_scanned"));
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    (rows, bytes)
}
