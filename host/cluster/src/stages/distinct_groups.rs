//! `COUNT(DISTINCT x)` over all rows as groups, which can be shared out by their values.
//!
//! Without keys there is nothing to share rows out by: each worker would send all values that it has seen, and one machine
//! would put them all into one set. The optimizer of the engine makes groups of its own COUNT(DISTINCT); ours is another
//! aggregate (`tidegate_functions::count_distinct`).

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use tidegate_functions::aggregate::count_distinct;

/// The plan with groups in the place of each `COUNT(DISTINCT x)` that has no keys and no other aggregate beside it.
pub(super) fn grouped(plan: Arc<dyn ExecutionPlan>, partitions: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| {
        let Some((value, name, input)) = counted(&node) else { return Ok(Transformed::no(node)) };
        let groups = of_groups(&value, &name, input, partitions)?;
        // What stands above knows the columns that were there.
        let is_same = groups.schema() == node.schema();
        Ok(if is_same { Transformed::yes(groups) } else { Transformed::no(node) })
    });
    plan.map(|plan| plan.data)
}

/// Whether an operator becomes groups.
pub(super) fn is_counted(node: &Arc<dyn ExecutionPlan>) -> bool {
    counted(node).is_some()
}

/// What is counted, the name of the count, and the rows.
type Counted = (Arc<dyn PhysicalExpr>, String, Arc<dyn ExecutionPlan>);

fn counted(node: &Arc<dyn ExecutionPlan>) -> Option<Counted> {
    let last = node.downcast_ref::<AggregateExec>().filter(|of| *of.mode() == AggregateMode::Final)?;
    let first = last.input().downcast_ref::<CoalescePartitionsExec>()?.input();
    let first = first.downcast_ref::<AggregateExec>().filter(|of| *of.mode() == AggregateMode::Partial)?;
    let ([aggregate], [None]) = (first.aggr_expr(), first.filter_expr()) else { return None };
    let is_all = first.group_expr().is_true_no_grouping() && last.group_expr().is_true_no_grouping();
    let [value] = aggregate.expressions().try_into().ok()?;
    (is_all && *aggregate.fun() == *count_distinct())
        .then(|| (value, aggregate.name().to_owned(), Arc::clone(first.input())))
}

type Keys = Vec<(Arc<dyn PhysicalExpr>, String)>;

/// An aggregation of rows whose columns before any aggregation were these.
fn aggregation(
    mode: AggregateMode,
    keys: Keys,
    counts: Vec<Arc<AggregateFunctionExpr>>,
    input: Arc<dyn ExecutionPlan>,
    columns: &SchemaRef,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (keys, filters) = (PhysicalGroupBy::new_single(keys), vec![None; counts.len()]);
    Ok(Arc::new(AggregateExec::try_new(mode, keys, counts, filters, input, Arc::clone(columns))?))
}

fn of_groups(
    value: &Arc<dyn PhysicalExpr>,
    name: &str,
    input: Arc<dyn ExecutionPlan>,
    partitions: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let columns = input.schema();
    let key = |expr: &Arc<dyn PhysicalExpr>| vec![(Arc::clone(expr), "value".to_owned())];
    let here = aggregation(AggregateMode::Partial, key(value), vec![], input, &columns)?;
    let group: Arc<dyn PhysicalExpr> = Arc::new(Column::new("value", 0));
    let shared = Partitioning::Hash(vec![Arc::clone(&group)], partitions);
    let shared: Arc<dyn ExecutionPlan> = Arc::new(RepartitionExec::try_new(here, shared)?);
    let groups = aggregation(AggregateMode::FinalPartitioned, key(&group), vec![], shared, &columns)?;
    let columns = groups.schema();
    let count =
        AggregateExprBuilder::new(count_udaf(), vec![group]).schema(Arc::clone(&columns)).alias(name).build()?;
    let counts = vec![Arc::new(count)];
    let here = aggregation(AggregateMode::Partial, vec![], counts.clone(), groups, &columns)?;
    let is_one = here.output_partitioning().partition_count() == 1;
    let all: Arc<dyn ExecutionPlan> = if is_one { here } else { Arc::new(CoalescePartitionsExec::new(here)) };
    aggregation(AggregateMode::Final, vec![], counts, all, &columns)
}
