//! Bounds of recursive tables: how often their query is repeated, and how many rows that gives.
//!
//! The engine repeats it until it gives no rows, which may be never. Its rows of one round count in the statement's memory, as do
//! those that DISTINCT compares with; a statement is stopped between two rounds as between two batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use tidegate_functions::context;
use tidegate_model::{Code, Failure};

use crate::engine::wrapper::{Wrapper, each_batch, wrapped};

/// How often the query of a recursive table is repeated.
const MOST_ROUNDS: usize = 500;

/// How many rows its rounds give together.
const MOST_ROWS: usize = 10_000_000;

/// The plan with bounded recursive tables.
pub(crate) fn bounded(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let Some(recursive) = node.downcast_ref::<RecursiveQueryExec>() else { return Ok(Transformed::no(node)) };
        // The first word of the name is a column of the plan.
        let name = recursive.name().split_once(' ').map_or("", |(_, name)| name).to_owned();
        let rounds = Rounds { name: name.into(), rounds: Arc::default(), rows: Arc::default() };
        let (first, repeated) = (Arc::clone(recursive.static_term()), Arc::clone(recursive.recursive_term()));
        let children = vec![first, wrapped(repeated, rounds)];
        replace_children_if_necessary(Arc::clone(&node), children).map(Transformed::yes)
    })
    .data()
}

/// Counts rounds, each of which runs the operator again, and their rows.
#[derive(Debug, Clone)]
struct Rounds {
    name: Arc<str>,
    rounds: Arc<AtomicUsize>,
    rows: Arc<AtomicUsize>,
}

impl Rounds {
    fn exceeded(&self, what: &str, most: usize) -> DataFusionError {
        let message = format!(
            "the recursive table {} has more than {most} {what}; bound it with a condition, such as a counter in WHERE",
            self.name
        );
        DataFusionError::External(Box::new(Failure::new(Code::LimitExceeded, message)))
    }
}

impl Wrapper for Rounds {
    const NAME: &'static str = "Rounds";
    const KEEPS_ORDER: bool = false;

    fn wrap(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        let checked = match round < MOST_ROUNDS {
            true => context::check(),
            false => Err(self.exceeded("rounds", MOST_ROUNDS)),
        };
        if let Err(error) = checked {
            let failed = futures::stream::once(async move { Err(error) });
            return Box::pin(RecordBatchStreamAdapter::new(rows.schema(), failed));
        }
        let bounds = self.clone();
        each_batch(rows, move |batch| {
            context::check()?;
            let before = bounds.rows.fetch_add(batch.num_rows(), Ordering::Relaxed);
            match before.saturating_add(batch.num_rows()) > MOST_ROWS {
                true => Err(bounds.exceeded("rows", MOST_ROWS)),
                false => Ok(batch),
            }
        })
    }
}
