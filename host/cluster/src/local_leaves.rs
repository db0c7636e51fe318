//! Operators without inputs that stay with the sender of a plan.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

/// Operators that an encoded plan names by number. Only who has them can decode the plan: tests, which read tables in
/// memory. A plan for another machine has none.
#[derive(Debug, Clone, Default)]
pub struct LocalLeaves {
    pub(crate) plans: Vec<Arc<dyn ExecutionPlan>>,
}

impl LocalLeaves {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.plans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }
}
