//! What the engine's messages cannot say, or may not say here.
//!
//! The engine's encoders leave out some of what operators have and cut numbers to 32 bits, without an error
//! ([`sendable`]). Its decoders make any operator that has a message, among them readers and writers of files, and trust
//! the numbers in it, of which some are sizes and some make them panic ([`allowed`]).

use std::sync::Arc;

use datafusion::common::JoinSide;
use datafusion::error::Result;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, WindowExpr};
use datafusion_proto::protobuf::partitioning::PartitionMethod;
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto::protobuf::window_frame::EndBound;
use datafusion_proto::protobuf::{Partitioning, WindowFrame};

use crate::bounds::{MAX_BATCH_ROWS, MAX_PARTITIONS};
use crate::error::{refused, unsendable};
use crate::literal_check;

/// Whether an operator of the engine has nothing that its message would lose.
///
/// # Errors
/// What it has.
pub(crate) fn sendable(plan: &dyn ExecutionPlan) -> Result<()> {
    // Each of its rounds reads the rows of the one before, where it runs.
    if plan.is::<RecursiveQueryExec>() {
        return unsendable("a query that reads itself does not travel");
    }
    if plan.output_partitioning().partition_count() > MAX_PARTITIONS {
        return unsendable(format!("{} has too many partitions", plan.name()));
    }
    if literal_check::schema(&plan.schema()).is_err() {
        return unsendable(format!("{} has a column of a type that is not sent", plan.name()));
    }
    // Its message does not tell no set from the empty one.
    let keys = plan.downcast_ref::<AggregateExec>().map(AggregateExec::group_expr);
    if keys.is_some_and(|keys| keys.is_empty() && keys.has_grouping_set()) {
        return unsendable("grouping sets without keys do not travel");
    }
    // In messages a number of rows is of 32 bits, or of 64 bits with a sign.
    let is_short = plan.is::<LocalLimitExec>() || plan.is::<FilterExec>() || plan.is::<CoalescePartitionsExec>();
    let most = if is_short { u64::from(u32::MAX) } else { i64::MAX as u64 };
    let skip = plan.downcast_ref::<GlobalLimitExec>().map_or(0, GlobalLimitExec::skip);
    let groups = plan.downcast_ref::<AggregateExec>().and_then(AggregateExec::limit_options).map_or(0, |of| of.limit());
    if plan.fetch().unwrap_or(0).max(groups) as u64 > most || skip as u64 > u64::from(u32::MAX) {
        return unsendable(format!("{} counts more rows than a message can say", plan.name()));
    }
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        return window.window_expr().iter().try_for_each(sendable_window);
    }
    if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        return window.window_expr().iter().try_for_each(sendable_window);
    }
    Ok(())
}

/// The message of a window function has no place for its direction, that of an aggregate none for its FILTER, and that of
/// another function none for IGNORE NULLS.
fn sendable_window(window: &Arc<dyn WindowExpr>) -> Result<()> {
    let any = window.as_any();
    let aggregate = any
        .downcast_ref::<PlainAggregateWindowExpr>()
        .map(PlainAggregateWindowExpr::get_aggregate_expr)
        .or_else(|| any.downcast_ref::<SlidingAggregateWindowExpr>().map(|of| of.get_aggregate_expr()));
    let is_whole = match aggregate {
        // It does not tell its filter otherwise.
        Some(aggregate) => !aggregate.is_reversed() && !format!("{window:?}").contains("filter: Some("),
        None => any
            .downcast_ref::<StandardWindowExpr>()
            .and_then(|of| of.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>())
            // These are its last fields.
            .is_some_and(|of| format!("{of:?}").ends_with("is_reversed: false, ignore_nulls: false }")),
    };
    if is_whole { Ok(()) } else { unsendable("a window function has a flag that its message cannot say") }
}

/// Whether the message of an operator may be decoded.
///
/// # Errors
/// If the operator is not in the list, or a number in it is out of bounds.
pub(crate) fn allowed(operator: &PhysicalPlanType) -> Result<()> {
    match operator {
        PhysicalPlanType::Projection(_)
        | PhysicalPlanType::GlobalLimit(_)
        | PhysicalPlanType::LocalLimit(_)
        | PhysicalPlanType::Sort(_)
        | PhysicalPlanType::SortPreservingMerge(_)
        | PhysicalPlanType::Merge(_)
        | PhysicalPlanType::Cooperative(_)
        | PhysicalPlanType::CrossJoin(_)
        | PhysicalPlanType::HashJoin(_)
        | PhysicalPlanType::NestedLoopJoin(_)
        | PhysicalPlanType::SortMergeJoin(_)
        | PhysicalPlanType::ScalarSubquery(_) => Ok(()),
        PhysicalPlanType::Window(window) => {
            let frames = window.window_expr.iter().filter_map(|of| of.window_frame.as_ref());
            frames.into_iter().try_for_each(frame)
        }
        PhysicalPlanType::Filter(filter) => within(filter.batch_size.into(), MAX_BATCH_ROWS),
        PhysicalPlanType::Empty(empty) => within(empty.partitions.max(1).into(), MAX_PARTITIONS),
        PhysicalPlanType::PlaceholderRow(row) => within(row.partitions.max(1).into(), MAX_PARTITIONS),
        PhysicalPlanType::Repartition(of) => partitions(of.partitioning.as_ref()),
        PhysicalPlanType::Union(union) => within(union.inputs.len() as u64, MAX_PARTITIONS),
        PhysicalPlanType::Interleave(union) => within(union.inputs.len() as u64, MAX_PARTITIONS),
        PhysicalPlanType::Aggregate(aggregate) => {
            let keys = aggregate.group_expr.len();
            let is_even = match keys {
                0 => aggregate.groups.is_empty() || aggregate.group_expr_name.is_empty(),
                keys => aggregate.groups.len().is_multiple_of(keys),
            };
            let is_whole = is_even
                && (keys > 0 || aggregate.groups.is_empty())
                && aggregate.group_expr_name.len() == keys
                && (aggregate.null_expr.is_empty() || aggregate.null_expr.len() == keys)
                && aggregate.aggr_expr_name.len() == aggregate.aggr_expr.len()
                && aggregate.filter_expr.len() == aggregate.aggr_expr.len();
            if is_whole { Ok(()) } else { refused("an aggregation contradicts itself") }
        }
        PhysicalPlanType::Unnest(unnest) => {
            let recursions = unnest.options.iter().flat_map(|options| &options.recursions);
            let is_whole = recursions
                .into_iter()
                .all(|recursion| recursion.input_column.is_some() && recursion.output_column.is_some());
            if is_whole { Ok(()) } else { refused("an unnesting has no column") }
        }
        _ => refused("the plan has an operator that may not run here"),
    }
}

/// Its bounds are literals.
fn frame(frame: &WindowFrame) -> Result<()> {
    let end = frame.end_bound.as_ref().map(|EndBound::Bound(end)| end);
    let bounds = frame.start_bound.iter().chain(end);
    bounds.filter_map(|bound| bound.bound_value.as_ref()).try_for_each(literal_check::literal)
}

fn within(number: u64, most: usize) -> Result<()> {
    if (1..=most as u64).contains(&number) { Ok(()) } else { refused("a size in the plan is out of bounds") }
}

/// Whether a partitioning may be here.
///
/// # Errors
/// If it may not.
pub(crate) fn partitions(partitioning: Option<&Partitioning>) -> Result<()> {
    match partitioning.and_then(|of| of.partition_method.as_ref()) {
        Some(PartitionMethod::RoundRobin(count) | PartitionMethod::Unknown(count)) => within(*count, MAX_PARTITIONS),
        Some(PartitionMethod::Hash(hash)) => within(hash.partition_count, MAX_PARTITIONS),
        Some(PartitionMethod::Range(_)) | None => refused("the plan has a partitioning that may not be here"),
    }
}

/// Whether an operator that was decoded names only columns that its inputs have, and has columns of types that may be
/// here. (Columns in expressions are looked at one by one.)
///
/// # Errors
/// If it does not.
pub(crate) fn consistent(plan: &dyn ExecutionPlan) -> Result<()> {
    literal_check::schema(&plan.schema())?;
    let filter = match (plan.downcast_ref::<HashJoinExec>(), plan.downcast_ref::<NestedLoopJoinExec>()) {
        (Some(join), _) => join.filter(),
        (_, Some(join)) => join.filter(),
        _ => plan.downcast_ref::<SortMergeJoinExec>().and_then(|join| join.filter().as_ref()),
    };
    let Some(filter) = filter else { return Ok(()) };
    let columns: Vec<usize> = plan.children().iter().map(|child| child.schema().fields().len()).collect();
    let is_there = filter.column_indices().iter().all(|column| {
        let side = match column.side {
            JoinSide::Left => columns.first(),
            JoinSide::Right => columns.get(1),
            JoinSide::None => Some(&1),
        };
        side.is_some_and(|columns| column.index < *columns)
    });
    if is_there && filter.column_indices().len() == filter.schema().fields().len() {
        Ok(())
    } else {
        refused("the condition of a join names columns that are not there")
    }
}
