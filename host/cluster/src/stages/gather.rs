//! Stages that workers run by themselves: from the plan of a statement to one in which workers read segments, and whose other
//! operators run where the statement is.
//!
//! What works on each partition by itself, over the segments of a source, goes to workers: conditions, columns, UNNEST,
//! the first half of an aggregation, sorts, limits in an order. Rows in memory, joins, second halves and everything after
//! stay. Workers exchange no rows among each other.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{NetworkBoundary, NetworkCoalesceExec, Stage};
use tidegate_sql::OwnOperator;
use tidegate_store::{ScanDescription, is_source_union, source_union};
use uuid::Uuid;

use super::options::StageOptions;
use super::piece::{Branch, Piece};
use super::weight::Weight;
use super::{leaves, travel};
use crate::stay::Stay;

/// A plan whose pieces workers run.
pub(super) struct Gathered {
    /// It has one partition.
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// Why other scans stay.
    pub(super) stays: Vec<Stay>,
    /// How many stages workers run.
    pub(super) stages: usize,
}

/// The plan, whose pieces the workers of these names run: all of those that have segments to read.
///
/// # Errors
/// If the engine cannot make the operators again: none that is known.
pub(super) fn gathered(
    plan: &Arc<dyn ExecutionPlan>,
    workers: &[Arc<str>],
    options: StageOptions,
    context: &TaskContext,
) -> Result<Gathered> {
    let mut gatherer = Gatherer { statement: Uuid::new_v4(), workers, options, context, stays: Vec::new(), stages: 0 };
    let plan = gatherer.closed(plan, false)?;
    let Gatherer { stays, stages, .. } = gatherer;
    let is_one = plan.output_partitioning().partition_count() == 1;
    let plan = if is_one || stages == 0 { plan } else { Arc::new(CoalescePartitionsExec::new(plan)) };
    Ok(Gathered { plan, stays, stages })
}

struct Gatherer<'c> {
    statement: Uuid,
    workers: &'c [Arc<str>],
    options: StageOptions,
    context: &'c TaskContext,
    stays: Vec<Stay>,
    stages: usize,
}

/// A piece that may grow, or a plan that is done.
type Walked = std::result::Result<Piece, Arc<dyn ExecutionPlan>>;

impl Gatherer<'_> {
    /// The plan with its pieces in stages. `early`: a limit above takes the first rows that come.
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
        match ScanDescription::of(plan.as_ref(), self.context.session_config().options()) {
            Some(Ok(reads)) => return Ok(Ok(Piece::scan(Arc::clone(plan), reads, early))),
            Some(Err(error)) => {
                self.stays.push(Stay::Unsendable(error.strip_backtrace()));
                return Ok(Err(Arc::clone(plan)));
            }
            None => {}
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

    /// The piece with its segments read by workers, or as it was.
    fn close(&mut self, piece: Piece) -> Result<Arc<dyn ExecutionPlan>> {
        let mut made = Vec::new();
        for branch in &piece.branches {
            let Branch::Remote { plan, scan, reads } = branch else { continue };
            let stage = match self.worth(&piece, reads) {
                None => self.stage(plan, scan),
                Some(stay) => Err(stay),
            };
            match stage {
                Ok(stage) => made.push(stage),
                Err(stay) => {
                    self.stays.push(stay);
                    return Ok(piece.original);
                }
            }
        }
        self.in_stages(&piece, made)
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

    /// The operators `plan` over the scan of segments `scan`, of which each worker reads its own.
    fn stage(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        scan: &Arc<dyn ExecutionPlan>,
    ) -> std::result::Result<Arc<dyn ExecutionPlan>, Stay> {
        let stage = leaves::scaled(scan, self.workers, self.workers.len(), self.context)
            .and_then(|leaf| with_leaf(plan, scan, &leaf))
            .map_err(|error| Stay::Unsendable(error.strip_backtrace()))?;
        travel::checked(&stage, self.context).map_err(Stay::Unsendable)?;
        Ok(stage)
    }

    /// The rows of all workers that run a stage, each of whose partitions has the orders of `plan`.
    fn boundary(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        stage: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.stages += 1;
        // What one worker reads of the scan may be in more orders than what another one reads.
        let boundary: Arc<dyn ExecutionPlan> =
            Arc::new(NetworkCoalesceExec::try_new(Arc::clone(plan), self.workers.len(), 1)?);
        numbered(replace_children_if_necessary(boundary, vec![stage])?, self.statement, Some(self.stages))
    }

    /// The piece whose branches that are sent are `stages`.
    fn in_stages(&mut self, piece: &Piece, stages: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut stages = stages.into_iter();
        let mut branches = Vec::new();
        for branch in &piece.branches {
            branches.push(match (branch, stages.len()) {
                (Branch::Local(plan), _) => Arc::clone(plan),
                (Branch::Remote { plan, .. }, _) => match stages.next() {
                    Some(stage) => self.boundary(plan, stage)?,
                    None => Arc::clone(plan),
                },
            });
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
}

/// A boundary whose stage belongs to this run of a statement, and has this number in it.
///
/// # Errors
/// Those of the library.
pub(super) fn numbered(
    boundary: Arc<dyn ExecutionPlan>,
    statement: Uuid,
    number: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    use datafusion_distributed::NetworkBoundaryExt;
    let Some(of) = boundary.as_network_boundary() else { return Ok(boundary) };
    let mut stage = of.input_stage().clone();
    if let Stage::Local(stage) = &mut stage {
        stage.query_id = statement;
        stage.num = number.unwrap_or(stage.num);
    }
    let boundary: Arc<dyn NetworkBoundary> = of.with_input_stage(stage)?;
    Ok(boundary)
}

/// The plan over another leaf.
fn with_leaf(
    plan: &Arc<dyn ExecutionPlan>,
    leaf: &Arc<dyn ExecutionPlan>,
    other: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = Arc::clone(plan).transform_up(|node| {
        Ok(if Arc::ptr_eq(&node, leaf) { Transformed::yes(Arc::clone(other)) } else { Transformed::no(node) })
    });
    changed.map(|changed| changed.data)
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
