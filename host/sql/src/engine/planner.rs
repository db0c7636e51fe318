//! From the optimized plan to operators: tables are narrowed first, and nodes of our own become operators of our own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::attempts::attempt_operator;
use super::guards::barrier::barrier_operator;
use super::guards::needless_barriers::{Stage, without_needless_policies};
use super::shortcuts::narrow::{Narrow, narrowed};
use super::shortcuts::shared_part::{SharedPart, all_parts};
use super::shortcuts::shared_rows::{PartReader, SharedRows};

/// Makes physical plans.
#[derive(Debug)]
pub(super) struct Planner {
    pub(super) narrow: Narrow,
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let own = Arc::new(OwnNodes::default());
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::clone(&own) as _]);
        // Those with lower numbers may stand in those with higher ones.
        for (id, part) in all_parts(plan)? {
            let made = self.operators(&planner, &part.input, state).await?;
            own.parts().insert(id, made);
        }
        self.operators(&planner, plan, state).await
    }
}

impl Planner {
    async fn operators(
        &self,
        planner: &DefaultPhysicalPlanner,
        plan: &LogicalPlan,
        state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let open = without_needless_policies(plan, Stage::Optimized)?;
        let plan = narrowed(open.as_ref().unwrap_or(plan), self.narrow)?;
        planner.create_physical_plan(&plan, state).await
    }
}

/// Makes the operators of nodes of our own.
#[derive(Default)]
struct OwnNodes {
    /// The plans of shared parts that were made so far, by number.
    parts: Mutex<HashMap<usize, Arc<dyn ExecutionPlan>>>,
    /// How many readers of shared parts there are so far.
    readers: AtomicUsize,
}

impl OwnNodes {
    fn parts(&self) -> MutexGuard<'_, HashMap<usize, Arc<dyn ExecutionPlan>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
            let place = PartReader { part: part.id, reader, once: part.once };
            return Ok(self.parts().get(&part.id).map(|input| SharedRows::of(place, Arc::clone(input))));
        }
        Ok(barrier_operator(node, inputs.first()).or_else(|| attempt_operator(node, inputs.first())))
    }
}
