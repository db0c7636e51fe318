//! From the optimized plan to operators: tables are narrowed first, and nodes of our own become operators of our own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::guards::barrier::barrier_operator;
use super::guards::needless_barriers::{Stage, without_needless_policies};
use super::shortcuts::narrow::{Narrow, narrowed};
use super::shortcuts::shared_part::{SharedPart, part_of};
use super::shortcuts::shared_rows::SharedRows;

/// Makes physical plans.
#[derive(Debug)]
pub(super) struct Planner {
    pub(super) narrow: Narrow,
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let open = without_needless_policies(plan, Stage::Optimized)?;
        let plan = narrowed(open.as_ref().unwrap_or(plan), self.narrow)?;
        let mut parts = BTreeMap::new();
        plan.apply(|node| {
            if let Some(part) = part_of(node) {
                parts.insert(part.id, Arc::clone(&part.input));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let mut shared = HashMap::new();
        for (id, input) in parts {
            shared.insert(id, self.create_physical_plan(&input, state).await?);
        }
        let own = OwnNodes { shared, readers: AtomicUsize::new(0) };
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(own)]).create_physical_plan(&plan, state).await
    }
}

/// Makes the operators of nodes of our own.
struct OwnNodes {
    /// The plans of shared parts, by number.
    shared: HashMap<usize, Arc<dyn ExecutionPlan>>,
    /// How many readers of shared parts there are so far.
    readers: AtomicUsize,
}

#[async_trait]
impl ExtensionPlanner for OwnNodes {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(part) = node.as_any().downcast_ref::<SharedPart>() {
            let reader = self.readers.fetch_add(1, Ordering::Relaxed);
            let input = self.shared.get(&part.id);
            return Ok(input.map(|input| SharedRows::of(part.id, reader, Arc::clone(input))));
        }
        Ok(barrier_operator(node, inputs.first()))
    }
}
