//! The execution context of a running statement, for its operators.
//!
//! Each operator is wrapped, because operators start tasks that poll their inputs: whichever task polls an operator, the
//! context of the statement is then the current one of the thread. The context comes with the `TaskContext` when the
//! operator is executed; the plan holds none.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use tidegate_functions::context::ExecutionContext;

use crate::engine::wrapper::{Wrapper, wrapped};

/// The plan with every operator polled in the execution context of its statement.
pub(crate) fn within_context(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|operator| Ok(Transformed::yes(wrapped(operator, WithinContext)))).map(|plan| plan.data)
}

#[derive(Debug, Clone)]
struct WithinContext;

impl Wrapper for WithinContext {
    const NAME: &'static str = "WithinContext";

    fn wrap(&self, rows: SendableRecordBatchStream, context: &TaskContext) -> SendableRecordBatchStream {
        match context.session_config().get_extension::<ExecutionContext>() {
            Some(context) => context.scope_stream(rows),
            None => rows,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::time::Duration;

    use datafusion::arrow::array::RecordBatch;
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use datafusion::prelude::SessionConfig;
    use futures::StreamExt;
    use tidegate_functions::context::{Stop, check};

    use super::*;

    /// One batch, before which the stop sign of the current context is checked.
    #[derive(Debug, Clone)]
    struct Checks;

    impl Wrapper for Checks {
        const NAME: &'static str = "Checks";

        fn wrap(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
            let batch = RecordBatch::new_empty(rows.schema());
            let rows = futures::stream::once(async move { check().map(|()| batch) });
            Box::pin(RecordBatchStreamAdapter::new(Arc::new(Schema::empty()), rows))
        }
    }

    /// The plan itself holds no context: it runs with that of its task, or without one.
    #[tokio::test]
    async fn operators_run_in_the_context_of_their_task() {
        let plan = wrapped(Arc::new(EmptyExec::new(Arc::new(Schema::empty()))), Checks);
        let plan = within_context(plan).unwrap();
        let rows = |config: SessionConfig| {
            plan.execute(0, Arc::new(TaskContext::default().with_session_config(config))).unwrap()
        };
        let stop = Stop::after(Duration::from_secs(60));
        let config = SessionConfig::new().with_extension(ExecutionContext::of_request(stop.clone()));
        assert!(rows(config.clone()).next().await.unwrap().is_ok());
        stop.ask();
        assert!(rows(config).next().await.unwrap().is_err());
        assert!(rows(SessionConfig::new()).next().await.unwrap().is_ok());
    }
}
