//! The plan of a statement with the boundaries of its stages.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    DesiredTaskCountEvent, DistributedExec, DistributedExt, NetworkBoundaryExt, NetworkShuffleExec, RouteTasksEvent,
    RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse, SessionStateBuilderExt,
    WorkerResolver,
};
use futures::FutureExt;
use tidegate_sql::OwnOperator;
use url::Url;

use super::{distinct_groups, leaves};
use crate::worker_url::url_of;

/// The workers of a statement, as the planner asks for them.
struct Places(Vec<Url>);

impl WorkerResolver for Places {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}

/// The planner below that of stages: it gives the plan that is there already.
#[derive(Debug)]
struct Given(Arc<dyn ExecutionPlan>);

#[async_trait]
impl QueryPlanner for Given {
    async fn create_physical_plan(&self, _: &LogicalPlan, _: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(&self.0))
    }
}

/// The settings of stages: the workers of the statement, and the task with which number goes to which of them.
pub(super) fn settings(config: SessionConfig, workers: usize) -> Result<SessionConfig> {
    let urls = (0..workers).map(url_of).collect::<Result<Vec<_>>>()?;
    let routed = urls.clone();
    let route = move |event: RouteTasksEvent<'_>| {
        // A stage of one task has no shares.
        let first = routed.iter().take(event.task_count).cloned().collect();
        Some(Ok(RouteTasksEventResponse::new(first)))
    };
    config
        .with_distributed_worker_resolver(Places(urls))
        .with_distributed_route_tasks_handler(route)
        .with_distributed_metrics_collection(false)?
        .with_distributed_children_isolator_unions(false)
}

/// The plan with boundaries between its stages; `None` if it has one stage only.
///
/// # Errors
/// Those of the planner.
pub(super) fn staged(
    plan: &Arc<dyn ExecutionPlan>,
    workers: &[Arc<str>],
    context: &Arc<TaskContext>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let plan = distinct_groups::grouped(Arc::clone(plan), context.session_config().target_partitions())?;
    let config = settings(context.session_config().clone(), workers.len())?.with_distributed_broadcast_joins(true)?;
    let (count, desires) = (workers.len(), Arc::clone(context));
    let desired = move |event: DesiredTaskCountEvent<'_>| {
        event.plan.children().is_empty().then(|| leaves::desired(event.plan, count, &desires))
    };
    let (names, scales) = (workers.to_vec(), Arc::clone(context));
    let scaled = move |event: ScaleUpLeafNodeEvent<'_>| {
        Some(leaves::scaled(event.plan, &names, event.task_count, &scales).map(ScaleUpLeafNodeEventResponse::new))
    };
    let config =
        config.with_distributed_desired_task_count_handler(desired).with_distributed_scale_up_leaf_node_handler(scaled);
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(context.runtime_env())
        .with_query_planner(Arc::new(Given(plan)))
        .with_distributed_planner()
        .build();
    let none = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: false,
        schema: Arc::new(datafusion::common::DFSchema::empty()),
    });
    // It waits for nothing but our handlers, which do not wait.
    let planned = state.query_planner().create_physical_plan(&none, &state).now_or_never();
    let Some(planned) = planned else { return internal_err!("the planner of stages waits") };
    let planned = planned?;
    let staged =
        planned.downcast_ref::<DistributedExec>().and_then(|of| of.children().first().map(|plan| Arc::clone(plan)));
    staged.map(without_lost_orders).transpose()
}

/// The plan without the orders that shuffles of several tasks claim to keep: rows of tasks come in any order. Seen with
/// datafusion-distributed 4.0.0; upstream, pull request 735, merged after it. It can go with the release that has it.
fn without_lost_orders(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| {
        let tasks = node.as_network_boundary().map_or(0, |boundary| boundary.input_stage().task_count());
        let loses = tasks > 1 && node.is::<NetworkShuffleExec>() && node.output_ordering().is_some();
        Ok(if loses { Transformed::yes(OwnOperator::Unordered(node).into_plan()) } else { Transformed::no(node) })
    });
    plan.map(|plan| plan.data)
}
