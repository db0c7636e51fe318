//! Stopping a statement that nobody waits for any more.
//!
//! A running statement is stopped by dropping its stream, but only between two polls, and the
//! engine's joins answer as long as they have rows: a filter over a cross join that lets nothing
//! through stays in one poll for hours. So operators that make many rows of few are wrapped to
//! let go after some milliseconds. Planning has no such points at all; there, each rule of the
//! optimizer asks first whether the result is still wanted. And the condition of a join, which may
//! be computed for millions of pairs within one poll, asks with each batch of them.

use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{ColumnarValue, LogicalPlan};
use datafusion::optimizer::optimizer::Optimizer;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};
use futures::{Stream, StreamExt};
use tidegate_model::{Code, Failure};

use crate::engine::limits;
use crate::engine::statement::at_hand;
use crate::engine::through::{Around, through};
use crate::fail::failed;

/// How long an operator may go on before it lets others run.
const SLICE: Duration = Duration::from_millis(10);

tokio::task_local! {
    static CURRENT: Stop;
}

/// Tells work that its result is no longer wanted: nobody waits, or the time is over.
#[derive(Debug, Clone)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// `None` is never.
    deadline: Option<Instant>,
}

impl Stop {
    /// Stops when asked to, and of itself after a time.
    pub fn after(time: Duration) -> Self {
        Self { asked: Arc::default(), deadline: Instant::now().checked_add(time) }
    }

    /// Asks the work to stop.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Does work that can be stopped. Tasks that it spawns are not covered by themselves.
    pub async fn cover<T>(&self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self.clone(), work).await
    }

    fn is_due(&self) -> bool {
        self.asked.load(Ordering::Relaxed) || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The sign of the work at hand; one that is never due where nobody set one.
    pub(crate) fn current() -> Self {
        CURRENT.try_with(Self::clone).unwrap_or_else(|_| Self { asked: Arc::default(), deadline: None })
    }

    /// Fails if the result is no longer wanted. Computations of seconds ask every few
    /// milliseconds.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_due() {
            let message = "the request ran out of time; narrow the time range or select less";
            return Err(failed(Failure::new(Code::Timeout, message)));
        }
        Ok(())
    }
}

/// Fails if the result of the work at hand is no longer wanted.
pub(crate) fn check() -> std::result::Result<(), Failure> {
    if CURRENT.try_with(Stop::is_due).unwrap_or(false) {
        let message = "the request ran out of time while its statement was planned; the statement is too complicated";
        return Err(Failure::new(Code::Timeout, message));
    }
    Ok(())
}

fn checked() -> Result<()> {
    check().map_err(failed)
}

/// Fails if the result of the statement that runs is no longer wanted: for computations that
/// take long for one batch of rows.
pub(crate) fn check_running() -> Result<()> {
    at_hand(|statement| statement.stop.check()).unwrap_or(Ok(()))
}

/// A rule of the optimizer that asks first.
#[derive(Debug)]
struct Asking<R: ?Sized>(Arc<R>);

impl OptimizerRule for Asking<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        checked()?;
        if !matches!(plan, LogicalPlan::Projection(_)) || self.name() != MOVES_FIELDS_DOWN {
            return self.0.rewrite(plan, config);
        }
        // It sometimes makes a column twice, and fails. What it does is needed by nothing: the plan stays as it was.
        let before = plan.clone();
        self.0.rewrite(plan, config).or_else(|error| {
            tracing::debug!(%error, "planned without {MOVES_FIELDS_DOWN}");
            Ok(Transformed::no(before))
        })
    }
}

/// The rule that reads fields of records nearer to where they are stored. It changes projections only.
const MOVES_FIELDS_DOWN: &str = "push_down_leaf_projections";

impl PhysicalOptimizerRule for Asking<dyn PhysicalOptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        checked()?;
        self.0.optimize(plan, config)
    }
    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn datafusion::physical_optimizer::PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        checked()?;
        self.0.optimize_with_context(plan, context)
    }
}

/// The engine's rules, each asking first.
pub(crate) fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let rules = Optimizer::default().rules.into_iter();
    rules.map(|rule| Arc::new(Asking(rule)) as Arc<dyn OptimizerRule + Send + Sync>).collect()
}

/// The engine's rules for physical plans, each asking first.
pub(crate) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let rules = limits::physical_rules().into_iter();
    rules.map(|rule| Arc::new(Asking(rule)) as Arc<dyn PhysicalOptimizerRule + Send + Sync>).collect()
}

/// A plan whose operators let go.
pub(crate) fn yielding(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let stop = Stop::current();
    plan.transform_up(|plan| {
        let plan = asking_join(plan, &stop)?;
        Ok(match plan.cardinality_effect() {
            // Joins do not know what they do to the number of rows.
            CardinalityEffect::Unknown | CardinalityEffect::GreaterEqual if !plan.children().is_empty() => {
                Transformed::yes(through(plan, Yielding))
            }
            _ => Transformed::no(plan),
        })
    })
    .data()
}

/// A join whose condition asks.
fn asking_join(plan: Arc<dyn ExecutionPlan>, stop: &Stop) -> Result<Arc<dyn ExecutionPlan>> {
    let asking = |filter: &JoinFilter| {
        let expr = AskingExpr { inner: Arc::clone(filter.expression()), stop: stop.clone() };
        JoinFilter::new(Arc::new(expr), filter.column_indices().to_vec(), Arc::clone(filter.schema()))
    };
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter()
    {
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(asking(filter))).build()?;
        return Ok(Arc::new(join));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter()
    {
        let filter = asking(filter);
        return Ok(Arc::new(join.builder().with_filter(Some(filter)).build()?));
    }
    Ok(plan)
}

/// An expression that asks before it is computed.
#[derive(Debug)]
struct AskingExpr {
    inner: Arc<dyn PhysicalExpr>,
    stop: Stop,
}

impl PartialEq for AskingExpr {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for AskingExpr {}

impl Hash for AskingExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for AskingExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

impl PhysicalExpr for AskingExpr {
    fn data_type(&self, input_schema: &Schema) -> Result<DataType> {
        self.inner.data_type(input_schema)
    }
    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.inner.nullable(input_schema)
    }
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.stop.check()?;
        self.inner.evaluate(batch)
    }
    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }
    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.is_empty()) {
            (Some(inner), true) => Ok(Arc::new(Self { inner, stop: self.stop.clone() })),
            _ => Err(DataFusionError::Internal("this expression has one input".to_owned())),
        }
    }
    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}

/// Lets go between the rows of an operator.
#[derive(Debug, Clone)]
struct Yielding;

impl Around for Yielding {
    const NAME: &'static str = "Yielding";

    fn around(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        Box::pin(YieldingStream { input: rows, since: None })
    }
}

struct YieldingStream {
    input: SendableRecordBatchStream,
    /// Since when it is asked without having let go.
    since: Option<Instant>,
}

impl Stream for YieldingStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= SLICE {
            self.since = None;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = self.input.poll_next_unpin(cx);
        if next.is_pending() {
            self.since = None;
        }
        next
    }
}

impl RecordBatchStream for YieldingStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_stopped_by_its_time_and_by_who_waits() {
        assert!(check().is_ok(), "nobody set a limit");
        let stop = Stop::after(Duration::from_secs(60));
        assert!(stop.cover(async { check() }).await.is_ok());
        stop.ask();
        assert_eq!(stop.cover(async { check() }).await.map_err(|failure| failure.code), Err(Code::Timeout));
        let stop = Stop::after(Duration::ZERO);
        assert!(stop.cover(async { check() }).await.is_err());
    }
}
