//! An engine whose plans are encoded and decoded before they run.

#[path = "../../../../sql/tests/dialect/no_shadow.rs"]
mod no_shadow;

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, displayable};
pub(crate) use no_shadow::Shadow;
use tidegate_cluster::{LocalLeaves, PlanError, decode, encode, held_segments};
use tidegate_sql::{Carried, Carrier, Engine, EngineOptions, OwnOperator};

pub(crate) fn engine(options: &EngineOptions) -> Engine {
    Engine::new(options).unwrap().with_carrier(Arc::new(ThereAndBack))
}

/// Why a plan stays where it is. Every other one travels.
const STAYS: [&str; 6] = [
    "sketch does not travel",
    "a query that reads itself does not travel",
    "grouping sets without keys do not travel",
    "a window function has a flag that its message cannot say",
    "a subquery over arrays does not travel",
    "LocalLimitExec counts more rows than a message can say",
];

#[derive(Debug)]
struct ThereAndBack;

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).set_show_schema(true).indent(true).to_string()
}

/// Whether an operator has an expression that changes while the plan runs.
fn changes(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|operator| match OwnOperator::of(operator.as_ref()) {
        Some(OwnOperator::SharedRows { input, .. }) => changes(&input),
        _ => Ok(!operator.dynamic_expressions_produced().is_empty()),
    })
}

impl Carrier for ThereAndBack {
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> Result<Carried> {
        let options = task.session_config().options();
        let mut leaves = LocalLeaves::default();
        let encoded = match encode(&plan, options, Some(&mut leaves)) {
            Ok(encoded) => encoded,
            Err(PlanError::Unsendable(why)) if STAYS.iter().any(|known| why.contains(known)) => {
                return Ok(plan.into());
            }
            Err(error) => panic!("{error}\n{}", shown(&plan)),
        };
        let again = decode(&encoded.bytes, &held_segments(&plan), task, &leaves)
            .unwrap_or_else(|error| panic!("{error}\n{}", shown(&plan)));
        assert_eq!(shown(&again), shown(&plan));
        // Copies of a filter that changes while the plan runs know their columns in two ways.
        if !changes(&plan)? {
            let mut kept = LocalLeaves::default();
            let twice = encode(&again, options, Some(&mut kept)).unwrap_or_else(|error| panic!("{error}"));
            assert!(twice.bytes == encoded.bytes, "encoded again it is another plan\n{}", shown(&plan));
        }
        Ok(again.into())
    }
}
