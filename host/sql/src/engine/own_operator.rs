//! The operators of this crate that stand in a plan before it runs, for a codec of plans.
//!
//! Others are put into a plan when it runs, on the machine on which it runs (`with_own_operators`): those that count
//! memory, yield, check the stop sign, set the execution context, and the first halves of groupings. A codec never
//! sees them.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use super::attempts::AttemptExec;
use super::fixes::unordered_unions::Unordered;
use super::guards::barrier::Barrier;
use super::shortcuts::shared_rows::{PartReader, SharedRows};
use super::wrapper::{inside, wrapped};

/// An operator of this crate.
#[derive(Debug, Clone)]
pub enum OwnOperator {
    /// What stands above a granted table: it hands its rows on.
    Barrier(Arc<dyn ExecutionPlan>),
    /// What stands above a union whose rows have no order: it hands them on.
    Unordered(Arc<dyn ExecutionPlan>),
    /// One row with the value of a subquery, or with the reason why it has none.
    Attempt(Arc<dyn ExecutionPlan>),
    /// A reader of the rows of a part that is computed once for all of its readers.
    SharedRows {
        /// Which part it is, and which of its readers.
        place: PartReader,
        /// The plan of the part, which is the same for all of its readers and no child of the operator.
        input: Arc<dyn ExecutionPlan>,
    },
}

impl OwnOperator {
    /// Which operator of this crate it is, if it is one.
    pub fn of(plan: &dyn ExecutionPlan) -> Option<Self> {
        if let Some((input, Barrier)) = inside(plan) {
            return Some(Self::Barrier(Arc::clone(input)));
        }
        if let Some((input, Unordered)) = inside(plan) {
            return Some(Self::Unordered(Arc::clone(input)));
        }
        if let Some(attempt) = plan.downcast_ref::<AttemptExec>() {
            return Some(Self::Attempt(Arc::clone(attempt.input())));
        }
        plan.downcast_ref::<SharedRows>()
            .map(|rows| Self::SharedRows { place: rows.place(), input: Arc::clone(rows.input()) })
    }

    /// The operator.
    pub fn into_plan(self) -> Arc<dyn ExecutionPlan> {
        match self {
            Self::Barrier(input) => wrapped(input, Barrier),
            Self::Unordered(input) => wrapped(input, Unordered),
            Self::Attempt(input) => AttemptExec::over(input),
            Self::SharedRows { place, input } => SharedRows::of(place, input),
        }
    }
}
