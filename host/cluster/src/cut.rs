//! The cut: from the plan of a statement to that of a coordinator, and tasks for workers.
//!
//! What works on each partition by itself, over the segments of a source, goes to workers: conditions, columns, UNNEST,
//! the first half of an aggregation, sorts, limits in an order. Rows in memory, joins, second halves and everything after
//! stay. Workers exchange no rows among each other.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use tidegate_sql::OwnOperator;
use tidegate_store::{ScanDescription, is_source_union, source_union};
use uuid::Uuid;

use crate::assignment::{Weight, tasks};
use crate::cut_report::{CutReport, LeafReport, TaskReport};
use crate::error::PlanError;
use crate::piece::{Branch, Piece, has_subquery_value};
use crate::remote_leaf::{RemoteLeaf, TaskRuns};
use crate::running_cut::RunningCut;
use crate::stay::Stay;
use crate::task::{Task, Workers};

/// From what size on scans are sent to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutOptions {
    /// The fewest bytes of segments of a scan, as they are stored, that are worth a task.
    pub least_bytes: u64,
    /// The fewest rows, before any condition.
    pub least_rows: u64,
    /// Whether to send also what gains nothing by it: for tests.
    pub always: bool,
}

impl CutOptions {
    /// Whatever can be sent is sent.
    pub const ALL: Self = Self { least_bytes: 0, least_rows: 0, always: true };
}

/// A statement that was cut, or stays whole.
#[derive(Debug)]
pub struct Cut {
    /// What the coordinator runs. It starts the tasks when their rows are read.
    pub plan: Arc<dyn ExecutionPlan>,
    /// What was cut, and what was not and why.
    pub report: CutReport,
    /// The tasks of each scan of the report.
    pub(crate) runs: Vec<Arc<TaskRuns>>,
}

impl Cut {
    /// The report, which tells what the tasks do while the plan runs.
    pub fn running(&self) -> RunningCut {
        RunningCut::new(self.report.clone(), self.runs.clone())
    }
}

/// Cuts a plan as the engine of `tidegate-sql` hands it to a [`Carrier`](tidegate_sql::Carrier). `context` has the
/// options that it was planned with.
///
/// # Errors
/// If the engine cannot make the operators again: none that is known.
pub fn cut(
    plan: &Arc<dyn ExecutionPlan>,
    workers: &Arc<dyn Workers>,
    options: CutOptions,
    context: &TaskContext,
) -> Result<Cut> {
    let names = workers.names();
    let stays = |stay| Cut { plan: Arc::clone(plan), report: CutReport::whole(stay), runs: Vec::new() };
    if names.is_empty() {
        return Ok(stays(Stay::NoWorkers));
    }
    if is_recursive(plan)? {
        return Ok(stays(Stay::Recursive));
    }
    let mut cutter = Cutter {
        workers,
        statement: Uuid::new_v4(),
        names,
        options,
        context,
        report: CutReport::default(),
        runs: Vec::new(),
        parts: HashMap::new(),
        scans: 0,
    };
    let made = cutter.closed(plan, false)?;
    if cutter.scans == 0 {
        return Ok(stays(Stay::NoSegments));
    }
    // What the engine checks of each plan at last: that every operator has the order and the partitions that it needs.
    let refused =
        cutter.parts.values().chain([&made]).find_map(|plan| {
            SanityCheckPlan::new().optimize(Arc::clone(plan), context.session_config().options()).err()
        });
    if let Some(error) = refused {
        tracing::debug!(%error, "a plan is not cut");
        return Ok(stays(Stay::OrderLost(error.strip_backtrace())));
    }
    Ok(Cut { plan: made, report: cutter.report, runs: cutter.runs })
}

/// Whether something in a plan runs again and again, over rows that are on this machine.
pub(crate) fn is_recursive(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))
}

struct Cutter<'c> {
    workers: &'c Arc<dyn Workers>,
    statement: Uuid,
    names: Vec<Arc<str>>,
    options: CutOptions,
    context: &'c TaskContext,
    report: CutReport,
    /// The tasks of each scan of the report.
    runs: Vec<Arc<TaskRuns>>,
    /// The plans of shared parts, by number.
    parts: HashMap<usize, Arc<dyn ExecutionPlan>>,
    /// How many scans of segments there are.
    scans: usize,
}

/// A piece that may grow, or a plan that is done.
type Walked = std::result::Result<Piece, Arc<dyn ExecutionPlan>>;

impl Cutter<'_> {
    /// The plan with its pieces cut off. `early`: a limit above takes the first rows that come.
    fn closed(&mut self, plan: &Arc<dyn ExecutionPlan>, early: bool) -> Result<Arc<dyn ExecutionPlan>> {
        match self.walked(plan, early)? {
            Ok(piece) => self.close(piece),
            Err(plan) => Ok(plan),
        }
    }

    fn walked(&mut self, plan: &Arc<dyn ExecutionPlan>, early: bool) -> Result<Walked> {
        stacker::maybe_grow(256 << 10, 4 << 20, || self.walked_inner(plan, early))
    }

    fn walked_inner(&mut self, plan: &Arc<dyn ExecutionPlan>, early: bool) -> Result<Walked> {
        let early = is_early(plan, early);
        if let Some(OwnOperator::SharedRows { place, input }) = OwnOperator::of(plan.as_ref()) {
            let input = match self.parts.get(&place.part) {
                Some(input) => Arc::clone(input),
                None => self.closed(&input, false)?,
            };
            self.parts.insert(place.part, Arc::clone(&input));
            return Ok(Err(OwnOperator::SharedRows { place, input }.into_plan()));
        }
        if let Some(reads) = ScanDescription::of(plan.as_ref(), self.context.session_config().options()) {
            return self.scan(plan, reads, early);
        }
        let mut inputs = Vec::new();
        for child in plan.children() {
            inputs.push(self.walked(child, early)?);
        }
        if is_source_union(plan.as_ref()) && inputs.iter().any(std::result::Result::is_ok) {
            return Ok(Ok(Piece::union(Arc::clone(plan), inputs)));
        }
        let mut made = Vec::new();
        let is_alone = inputs.len() == 1;
        for input in inputs {
            made.push(match input {
                Ok(piece) if is_alone => match piece.with(plan)? {
                    Ok(piece) => return Ok(Ok(piece)),
                    Err(piece) => self.close(piece)?,
                },
                Ok(piece) => self.close(piece)?,
                Err(plan) => plan,
            });
        }
        replace_children_if_necessary(Arc::clone(plan), made).map(Err)
    }

    fn scan(&mut self, plan: &Arc<dyn ExecutionPlan>, reads: Result<ScanDescription>, early: bool) -> Result<Walked> {
        self.scans += 1;
        let stay = match reads {
            Ok(_) if has_subquery_value(plan)? => Stay::SubqueryValue,
            Ok(reads) => return Ok(Ok(Piece::scan(Arc::clone(plan), reads, early))),
            Err(error) => Stay::Unsendable(error.strip_backtrace()),
        };
        self.report.stays.push(stay);
        Ok(Err(Arc::clone(plan)))
    }

    /// The piece with its segments read by workers, or as it was.
    fn close(&mut self, piece: Piece) -> Result<Arc<dyn ExecutionPlan>> {
        let mut made = Vec::new();
        for branch in &piece.branches {
            let Branch::Remote { plan, scan, reads } = branch else { continue };
            let tasks = match self.worth(&piece, reads) {
                None => tasks(plan, scan, reads, &self.names, self.context).map_err(|error| match error {
                    PlanError::Unsendable(why) | PlanError::Refused(why) => Stay::Unsendable(why),
                }),
                Some(stay) => Err(stay),
            };
            match tasks {
                Ok(tasks) => made.push(tasks),
                Err(stay) => {
                    self.report.stays.push(stay);
                    return Ok(piece.original);
                }
            }
        }
        self.cut_off(&piece, made)
    }

    /// Why a piece is not sent, if it is not worth it.
    fn worth(&self, piece: &Piece, reads: &ScanDescription) -> Option<Stay> {
        let work = piece.work;
        if work.hides_order && piece.is_one_partition() {
            return Some(Stay::OrderLost("the rows come in the order of a column that they do not have".to_owned()));
        }
        if self.options.always {
            return None;
        }
        // With conditions, or a sort, all rows may have to be read before there are enough.
        let reads_all = work.conditions || work.sorts;
        let Weight { bytes, rows } = Weight::of(reads, work.limit.filter(|_| !reads_all));
        if work.early && !work.conditions {
            return Some(Stay::EarlyLimit);
        }
        if !(work.conditions || work.sorts || work.aggregates || work.limit.is_some()) {
            return Some(Stay::NothingToDo);
        }
        let is_little = bytes < self.options.least_bytes || rows < self.options.least_rows;
        is_little.then_some(Stay::Little { bytes, rows })
    }

    /// The piece with leaves for the tasks of its branches, `tasks` for each that is sent.
    fn cut_off(&mut self, piece: &Piece, tasks: Vec<Vec<Task>>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut tasks = tasks.into_iter();
        let mut branches: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        for branch in &piece.branches {
            let (plan, reads) = match branch {
                Branch::Remote { plan, reads, .. } => (plan, reads),
                Branch::Local(plan) => {
                    branches.push(Arc::clone(plan));
                    continue;
                }
            };
            let tasks = tasks.next().unwrap_or_default();
            self.report.leaves.push(self.leaf_report(plan, reads, &tasks));
            let equivalences = plan.properties().equivalence_properties().clone();
            let leaf = RemoteLeaf::of(Arc::clone(self.workers), self.statement, tasks.into(), equivalences);
            self.runs.push(leaf.runs());
            branches.push(leaf);
        }
        let union = source_union(branches)?;
        let union = match &piece.spread {
            Some(spread) => replace_children_if_necessary(Arc::clone(spread), vec![union])?,
            None => union,
        };
        if !piece.is_one_partition() || union.output_partitioning().partition_count() == 1 {
            return Ok(union);
        }
        // Nothing above merges partitions.
        Ok(match piece.original.output_ordering() {
            Some(order) => Arc::new(SortPreservingMergeExec::new(order.clone(), union).with_fetch(piece.work.limit)),
            None => Arc::new(CoalescePartitionsExec::new(union).with_fetch(piece.work.limit)),
        })
    }

    fn leaf_report(&self, plan: &Arc<dyn ExecutionPlan>, reads: &ScanDescription, tasks: &[Task]) -> LeafReport {
        let mut operators = Vec::new();
        let mut next = Some(plan);
        while let Some(operator) = next {
            operators.push(operator.name().to_owned());
            next = operator.children().into_iter().next();
        }
        let task = |task: &Task| TaskReport {
            worker: task.worker.to_string(),
            segments: task.plan.segments.len(),
            partitions: task.partitions,
            bytes: task.bytes,
            rows: task.rows,
            plan_bytes: task.plan.bytes.len(),
            ran: None,
        };
        let tasks = tasks.iter().map(task).collect();
        LeafReport { source: reads.source.to_string(), operators, tasks, left_out: 0 }
    }
}

/// Whether the rows below an operator are taken as they come until a limit is reached, if `above` says so of its own rows.
fn is_early(plan: &Arc<dyn ExecutionPlan>, above: bool) -> bool {
    let hands_on = plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<UnnestExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<UnionExec>()
        || plan.children().is_empty()
        || is_source_union(plan.as_ref())
        || matches!(OwnOperator::of(plan.as_ref()), Some(OwnOperator::Barrier(_) | OwnOperator::Unordered(_)));
    hands_on && (above || plan.fetch().is_some() && plan.output_ordering().is_none())
}
