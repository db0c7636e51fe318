//! The part of a plan that workers run by themselves: the scans of one source, with the operators above them that work on each
//! partition by itself.
//!
//! A piece grows from a scan upwards. Its branches are the inputs of the source's union: segments, which go to workers,
//! and rows in memory, which stay. Each operator that is added is put on all branches, so that the union of the branches
//! gives the rows that the operator above the union gave, in other partitions.
//!
//! More partitions than before are no loss where there were several before: what stands above then merges them, and
//! enforces each limit and each order by itself. Where there was one, nothing stands above that would; then no operator
//! is added that loses an order or counts rows after a limit, and the piece is merged into one partition again.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use tidegate_sql::OwnOperator;
use tidegate_store::ScanDescription;

/// A branch of a piece.
#[derive(Debug, Clone)]
pub(super) enum Branch {
    /// Over a scan of segments.
    Remote {
        /// The operators, down to the scan.
        plan: Arc<dyn ExecutionPlan>,
        /// The scan.
        scan: Arc<dyn ExecutionPlan>,
        /// What it reads.
        reads: Box<ScanDescription>,
    },
    /// Over rows in memory, or over anything else that stays.
    Local(Arc<dyn ExecutionPlan>),
}

impl Branch {
    fn map(self, change: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>) -> Result<Self> {
        Ok(match self {
            Self::Remote { plan, scan, reads } => Self::Remote { plan: change(plan)?, scan, reads },
            Self::Local(plan) => Self::Local(change(plan)?),
        })
    }
}

/// What the operators of a piece do.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    /// Leaves out rows by a condition.
    pub(super) conditions: bool,
    /// Sorts the rows of each partition.
    pub(super) sorts: bool,
    /// Ends with the first half of an aggregation.
    pub(super) aggregates: bool,
    /// Hands on at most so many rows of each partition.
    pub(super) limit: Option<usize>,
    /// The rows are taken as they come, and only so many that a limit above is reached.
    pub(super) early: bool,
    /// The rows come in an order by a column that is not handed on: one partition can rely on it, several cannot be merged.
    pub(super) hides_order: bool,
}

#[derive(Debug)]
pub(super) struct Piece {
    /// The uppermost operator of the piece, as it stands in the plan.
    pub(super) original: Arc<dyn ExecutionPlan>,
    pub(super) branches: Vec<Branch>,
    pub(super) work: Work,
    /// Deals the rows of the branches out to more partitions: it is part of the plan above, unless another operator is
    /// added, and then only branches that stay have it.
    pub(super) spread: Option<Arc<dyn ExecutionPlan>>,
}

impl Piece {
    /// A scan of segments. `early` says that a limit above takes the first rows that come.
    pub(super) fn scan(scan: Arc<dyn ExecutionPlan>, reads: ScanDescription, early: bool) -> Self {
        let conditions = reads.predicate.as_ref().is_some_and(is_condition);
        let early = early || reads.limit.is_some() && reads.orders.is_empty();
        let hides_order = !reads.orders.is_empty() && scan.output_ordering().is_none();
        let work = Work { conditions, limit: reads.limit, early, hides_order, ..Work::default() };
        let plan = Arc::clone(&scan);
        let branch = Branch::Remote { plan, scan: Arc::clone(&scan), reads: Box::new(reads) };
        Self { original: scan, branches: vec![branch], work, spread: None }
    }

    /// The union of the scans of a source. At least one input is a piece.
    pub(super) fn union(union: Arc<dyn ExecutionPlan>, inputs: Vec<Result<Self, Arc<dyn ExecutionPlan>>>) -> Self {
        let mut work = Work { conditions: true, sorts: true, ..Work::default() };
        let mut branches = Vec::new();
        for input in inputs {
            match input {
                Ok(piece) if piece.spread.is_none() => {
                    work.conditions &= piece.work.conditions;
                    work.sorts &= piece.work.sorts;
                    work.aggregates |= piece.work.aggregates;
                    work.early |= piece.work.early;
                    work.limit = work.limit.max(piece.work.limit);
                    branches.extend(piece.branches);
                }
                Ok(piece) => branches.push(Branch::Local(piece.original)),
                Err(plan) => branches.push(Branch::Local(plan)),
            }
        }
        Self { original: union, branches, work, spread: None }
    }

    /// The piece with an operator above it on each branch; the piece as it is if the operator stays above.
    ///
    /// # Errors
    /// If the engine cannot make an operator over a branch.
    pub(super) fn with(self, operator: &Arc<dyn ExecutionPlan>) -> Result<Result<Self, Self>> {
        if self.spread.is_none() && self.work.limit.is_none() && !self.work.aggregates && spreads(operator) {
            let (original, spread) = (Arc::clone(operator), Some(Arc::clone(operator)));
            return Ok(Ok(Self { original, spread, ..self }));
        }
        let Some(work) = self.work_with(operator) else { return Ok(Err(self)) };
        let (over, is_one) = (above(operator), self.is_one_partition());
        let spread = self.spread;
        let branches = self.branches.into_iter().map(|branch| {
            let branch = match (branch, &spread) {
                (Branch::Local(plan), Some(spread)) => {
                    Branch::Local(replace_children_if_necessary(Arc::clone(spread), vec![plan])?)
                }
                (branch, _) => branch,
            };
            branch.map(|plan| replace_children_if_necessary(Arc::clone(&over), vec![plan]))
        });
        let branches = branches.collect::<Result<Vec<_>>>()?;
        debug_assert!(!is_one || branches.len() == 1);
        Ok(Ok(Self { original: Arc::clone(operator), branches, work, spread: None }))
    }

    /// Whether the rows are one partition in the plan, so that nothing above merges partitions.
    pub(super) fn is_one_partition(&self) -> bool {
        self.original.output_partitioning().partition_count() == 1
    }

    /// What the piece does with an operator on each branch; `None` if it must stay above.
    fn work_with(&self, operator: &Arc<dyn ExecutionPlan>) -> Option<Work> {
        let work = self.work;
        if work.aggregates {
            return None;
        }
        let limited = |own: Option<usize>| match (work.limit, own) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let changes_no_rows = operator.is::<ProjectionExec>()
            || operator.is::<CooperativeExec>()
            || operator.is::<LocalLimitExec>()
            || matches!(OwnOperator::of(operator.as_ref()), Some(OwnOperator::Barrier(_)));
        let added = if changes_no_rows {
            Work { limit: limited(operator.fetch()), ..work }
        } else if work.limit.is_some() {
            // The limit counts the rows below this operator.
            return None;
        } else if operator.is::<FilterExec>() {
            Work { conditions: true, limit: operator.fetch(), ..work }
        } else if operator.is::<UnnestExec>() {
            work
        } else if let Some(sort) = operator.downcast_ref::<SortExec>() {
            let is_by_partition = sort.preserve_partitioning() || self.is_one_partition();
            if !is_by_partition {
                return None;
            }
            Work { sorts: true, limit: sort.fetch(), hides_order: false, ..work }
        } else if let Some(aggregate) = operator.downcast_ref::<AggregateExec>() {
            if *aggregate.mode() != AggregateMode::Partial {
                return None;
            }
            Work { aggregates: true, hides_order: false, ..work }
        } else {
            return None;
        };
        // Of one partition the order may be that of the result, though nothing above asks for it.
        let keys = |plan: &Arc<dyn ExecutionPlan>| plan.output_ordering().map_or(0, |order| order.len());
        let is_kept = added.aggregates || !self.is_one_partition() || keys(operator) >= keys(&self.original);
        is_kept.then_some(added)
    }
}

/// The operator as it stands on a branch: a sort of one partition sorts each of several there.
fn above(operator: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match operator.downcast_ref::<SortExec>() {
        Some(sort) if !sort.preserve_partitioning() => Arc::new(sort.clone().with_preserve_partitioning(true)),
        _ => Arc::clone(operator),
    }
}

/// Whether an operator deals rows out to partitions in turn, in no order.
fn spreads(operator: &Arc<dyn ExecutionPlan>) -> bool {
    operator.downcast_ref::<RepartitionExec>().is_some_and(|repartition| {
        !repartition.preserve_order() && matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_))
    })
}

/// Whether an expression leaves out rows of itself: filters that other operators make while they run are not sent.
fn is_condition(expr: &Arc<dyn PhysicalExpr>) -> bool {
    split_conjunction(expr).into_iter().any(|part| part.downcast_ref::<DynamicFilterPhysicalExpr>().is_none())
}
