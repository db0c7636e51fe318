//! The limit of a sort stays where it stands while sorts are placed.
//!
//! While the optimizer places sorts where orders are required, it moves them down, and the limit of a sort moves along: below
//! the second half of an aggregation, whose input has each group several times (`SELECT DISTINCT x ... ORDER BY x LIMIT 4`
//! gave three rows), or below a window that looks ahead. So limits are taken out of sorts before that rule, into an
//! operator through which nothing moves, and are put back afterwards.
//!
//! Seen with DataFusion 55.2.0: issue 24927 upstream, mended on its main branch by pull request 24932. It can go with the first
//! version that has that, for which `tests` has a statement.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties};
use futures::stream;

use crate::engine::wrapper::{Wrapper, inside, wrapped};

/// The rule that places sorts, applied to sorts whose limits were taken out.
#[derive(Debug)]
pub(crate) struct SortsWithoutLimits(pub(crate) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for SortsWithoutLimits {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let apart = plan.transform_up(|node| {
            Ok(match node.downcast_ref::<SortExec>().and_then(|sort| Some((sort, sort.fetch()?))) {
                Some((sort, rows)) if !sort.preserve_partitioning() => {
                    let limit = OrderedLimit { rows, order: sort.expr().clone() };
                    Transformed::yes(wrapped(Arc::new(sort.with_fetch(None)), limit))
                }
                _ => Transformed::no(node),
            })
        });
        let placed = self.0.optimize(apart.data()?, config)?;
        let again = placed.transform_up(|node| {
            Ok(match inside(node.as_ref()) {
                Some((input, OrderedLimit { rows, order })) => {
                    let mut limit = GlobalLimitExec::new(Arc::clone(input), 0, Some(*rows));
                    limit.set_required_ordering(Some(order.clone()));
                    Transformed::yes(Arc::new(limit) as Arc<dyn ExecutionPlan>)
                }
                None => Transformed::no(node),
            })
        });
        again.data()
    }
}

/// The first rows of an order. It exists only while sorts are placed: it requires its order and provides it, but says
/// that it maintains none, so that neither orders nor limits move through it.
#[derive(Debug, Clone)]
struct OrderedLimit {
    rows: usize,
    order: LexOrdering,
}

impl Wrapper for OrderedLimit {
    const NAME: &'static str = "OrderedLimit";
    const KEEPS_ORDER: bool = false;

    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        let order = input.equivalence_properties().clone();
        let one = Partitioning::UnknownPartitioning(1);
        Arc::new(PlanProperties::new(order, one, input.pipeline_behavior(), input.boundedness()))
    }

    fn required(&self) -> Option<(&LexOrdering, usize)> {
        Some((&self.order, self.rows))
    }

    fn wrap(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        let failure = DataFusionError::Internal("an ordered limit exists only while sorts are placed".to_owned());
        Box::pin(RecordBatchStreamAdapter::new(rows.schema(), stream::iter([Err(failure)])))
    }
}
