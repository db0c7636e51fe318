//! Running statements: plan under what may be read, execute under limits, stream the rows.

mod batch;
mod carrier;
mod context;
mod correlated;
mod cost;
mod distinct;
mod explained;
mod field_path;
mod followed;
mod limits;
mod narrow;
mod operator_run;
mod own_operator;
mod partial_groups;
mod planner;
mod profile;
pub(crate) mod security_barrier;
mod shared_input;
mod shared_part;
mod shared_rows;
mod stoppable_join;
mod stoppable_rules;
mod text_condition;
mod unordered;
mod view_buffers;
mod window_memory;
mod wrapper;
mod yielding;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryLimit, MemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use futures::{Stream, StreamExt};
use sqlparser::ast::Query;
use tidegate_functions::context::planning::within_budget;
use tidegate_functions::context::{ExecutionContext, PlanningBudget, StatementMemory, check_planning};
use tidegate_model::{Code, Failure, Limits, TextLimits};

use crate::catalog::Binding;
use crate::fail::{Planning, Result, from_running};
use crate::resolve::{self, Output, ResolvedStatement};
use crate::saved_query::SavedQuery;
use crate::text;
use crate::types::Type;
pub use carrier::{Carried, Carrier, CarrierReport};
pub use cost::{CostCounter, StatementCost};
pub use explained::ExplainedPlan;
pub use followed::PreparedPlan;
pub use narrow::Narrow;
pub use operator_run::{OperatorCost, OperatorRows, OperatorRun, RunBounds};
pub use own_operator::OwnOperator;
use shared_rows::SharedParts;

/// Names of the engine's rules for operators.
const LAST_CHECK: &str = "SanityCheckPlan";
const TAKES_PROJECTIONS_IN: &str = "ProjectionPushdown";

/// The footers of a hundred million rows of 35 columns, about: a kilobyte for each column of a row group.
const FOOTER_MEMORY: usize = 256 << 20;

/// Settings of the engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// How many parts of a statement run at once.
    pub partitions: usize,
    /// Bytes that the operators of one statement may hold.
    pub statement_memory: usize,
    /// Bytes that the operators of all statements may hold together.
    pub total_memory: usize,
    /// Bytes of what is kept of files that are scanned, such as footers; what is needed least recently is dropped. A scan
    /// reads again what is not kept.
    pub footer_memory: usize,
    /// What the text of a statement may be.
    pub text: TextLimits,
    /// How tables are taken that have records of many fields, of which a statement reads few.
    pub narrow: Narrow,
}

impl Default for EngineOptions {
    fn default() -> Self {
        let partitions = std::thread::available_parallelism().map_or(2, usize::from);
        let limits = Limits::default();
        Self {
            partitions,
            statement_memory: limits.statement_memory,
            total_memory: limits.total_memory,
            footer_memory: FOOTER_MEMORY,
            text: limits.text,
            narrow: narrow::never,
        }
    }
}

/// Plans and runs statements. Clones share their memory.
#[derive(Debug, Clone)]
pub struct Engine {
    state: SessionState,
    /// The same without the rule [`TAKES_PROJECTIONS_IN`] and with unions of no order; see [`Engine::operators`].
    careful: SessionState,
    /// For statements over new rows.
    in_order: SessionState,
    runtime: Arc<RuntimeEnv>,
    /// What all statements may hold together, and each of them.
    total_memory: Arc<dyn MemoryPool>,
    statement_memory: usize,
    text: TextLimits,
    /// What changes operators before they run, if anything does.
    carrier: Option<Arc<dyn Carrier>>,
}

/// A statement that can run: its names are resolved, its types are known.
#[derive(Debug)]
pub struct Plan {
    pub(crate) logical: LogicalPlan,
    columns: Vec<(String, Type)>,
    /// What it took to plan, and the regular expressions that were compiled.
    budget: Arc<PlanningBudget>,
    never_seen: Vec<Failure>,
}

/// The rows of a running statement. Dropping it stops the statement.
pub struct ResultStream {
    columns: Arc<[(String, Type)]>,
    stream: SendableRecordBatchStream,
    /// Keeps the first failure of a function of the statement.
    context: Arc<ExecutionContext>,
    cost: cost::RunningCost,
    /// The memory of the plan counts until all rows have come.
    _budget: Arc<PlanningBudget>,
}

impl std::fmt::Debug for ResultStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResultStream").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// What the operators of one run have in common.
struct Run {
    task: Arc<TaskContext>,
    context: Arc<ExecutionContext>,
}

impl Engine {
    /// An engine.
    ///
    /// # Errors
    /// If its runtime cannot be set up.
    pub fn new(options: &EngineOptions) -> Result<Self> {
        let mut config = SessionConfig::new()
            .with_target_partitions(options.partitions.max(1))
            .with_batch_size(batch::ROWS)
            .with_information_schema(false);
        let settings = config.options_mut();
        settings.execution.time_zone = Some("UTC".to_owned());
        settings.execution.parquet.pushdown_filters = true;
        // MIN and MAX without groups would tell the scan which rows can still change them, and leave out
        // those of them that have had no value yet: `MAX(id), MIN(n)` lost the rows whose `n` came late.
        settings.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
        // The optimizer would look for more to do up to three times, with all of its rules. The rules that find more stand in
        // the list a second time.
        settings.optimizer.max_passes = 1;
        // Operators do not spill to disk: a statement that needs more memory than its limit is refused, and temporary
        // files cannot fill the disk that holds the logs.
        let no_disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let runtime = RuntimeEnvBuilder::new()
            .with_disk_manager_builder(no_disk)
            .with_metadata_cache_limit(options.footer_memory)
            .build()
            .planned()?;
        let runtime = Arc::new(runtime);
        // Each call of a function in a plan holds options. Without these it would have its own, and comparing two calls, as
        // the optimizer does often, would compare the options as texts.
        let mut properties = ExecutionProps::new();
        properties.config_options = Some(Arc::new(ConfigOptions::default()));
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_execution_props(properties)
            .with_runtime_env(Arc::clone(&runtime))
            .with_optimizer_rules(stoppable_rules::logical_rules())
            .with_physical_optimizer_rules(stoppable_rules::physical_rules())
            .with_query_planner(Arc::new(planner::Planner { narrow: options.narrow }))
            .build();
        let own: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(unordered::UnorderedUnions);
        let others = stoppable_rules::physical_rules().into_iter();
        let others = others.filter(|rule| rule.name() != TAKES_PROJECTIONS_IN);
        let rules = std::iter::once(own).chain(others).collect();
        let careful =
            SessionStateBuilder::new_from_existing(state.clone()).with_physical_optimizer_rules(rules).build();
        let total_memory = Arc::new(GreedyMemoryPool::new(options.total_memory));
        let EngineOptions { statement_memory, text, .. } = *options;
        let in_order = followed::in_order(&state);
        Ok(Self { state, careful, in_order, runtime, total_memory, statement_memory, text, carrier: None })
    }

    /// The same engine with something that changes operators before they run.
    #[must_use]
    pub fn with_carrier(self, carrier: Arc<dyn Carrier>) -> Self {
        Self { carrier: Some(carrier), ..self }
    }

    /// The same engine with every rule of the optimizer in two passes, for tests: its plans are the same, and take longer
    /// to make.
    #[must_use]
    pub fn with_all_rules(mut self) -> Self {
        for state in [&mut self.state, &mut self.careful] {
            let mut config = state.config().clone();
            config.options_mut().optimizer.max_passes = 2;
            *state = SessionStateBuilder::new_from_existing(state.clone())
                .with_config(config)
                .with_optimizer_rules(stoppable_rules::all_logical_rules())
                .build();
        }
        self
    }

    /// The bytes that running statements, and components from [`Engine::memory`], have reserved.
    pub fn memory_reserved(&self) -> usize {
        self.total_memory.reserved()
    }

    /// The bytes of footers, and of other facts about files that are scanned, that are kept.
    pub fn footers_kept(&self) -> usize {
        let kept = self.runtime.cache_manager.get_file_metadata_cache().list_entries();
        kept.values().map(|entry| entry.size_bytes).sum()
    }

    /// A memory pool for components: taken from that of all statements, and at most half of it, so that components
    /// cannot keep others from running statements.
    pub fn memory(&self) -> Arc<dyn MemoryPool> {
        let half = match self.total_memory.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / 2,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        Arc::new(StatementMemory::new(Arc::clone(&self.total_memory), half))
    }

    /// Reads and resolves a statement.
    ///
    /// # Errors
    /// Everything that can be wrong with the text, with its place.
    pub fn plan(&self, sql: &str, binding: Binding<'_>) -> Result<Plan> {
        let query = text::parse(sql, &self.text)?;
        check_planning()?;
        self.plan_query(&query, binding)
    }

    /// Resolves a statement that was read already.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn plan_query(&self, query: &Query, binding: Binding<'_>) -> Result<Plan> {
        self.planned(|| resolve::statement(query, binding, &self.text))
    }

    /// Resolves the body of a saved query. Whatever the tables of the binding are, the body reads the query's own CTEs and
    /// the sources.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn plan_saved(&self, saved: &SavedQuery, binding: Binding<'_>) -> Result<Plan> {
        self.planned(|| resolve::saved_body(saved, binding, &self.text))
    }

    /// Resolves under the limits of planning.
    fn planned(&self, resolve: impl FnOnce() -> Result<ResolvedStatement>) -> Result<Plan> {
        let budget = PlanningBudget::new(&self.total_memory, self.statement_memory);
        let context = ExecutionContext::of_planning(&budget);
        let ResolvedStatement { resolved, never_seen } = context.enter(|| {
            let statement = resolve()?;
            within_budget()?;
            Ok::<_, Failure>(statement)
        })?;
        let columns = resolved.columns.into_iter().map(|Output { name, column: _, ty }| (name, ty)).collect();
        Ok(Plan { logical: resolved.plan, columns, budget, never_seen })
    }

    /// Resolves all of a query, also the CTEs that its body does not read, and tells which of its names may be
    /// misspelt: no row has had them, and some have had one that is near. The texts of granted tables are not checked.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn check(&self, query: &SavedQuery, binding: Binding<'_>) -> Result<Vec<Failure>> {
        let budget = PlanningBudget::new(&self.total_memory, self.statement_memory);
        ExecutionContext::of_planning(&budget).enter(|| resolve::remarks(&query.query, binding, &self.text))
    }

    /// Starts a statement. At most `rows` rows come out.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn run(&self, plan: Plan, rows: Option<usize>) -> Result<ResultStream> {
        self.run_within(plan, rows, self.statement_memory).await
    }

    /// Starts a statement whose operators may hold `memory` bytes, and never more than the engine
    /// lets any statement hold. At most `rows` rows come out.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn run_within(&self, plan: Plan, rows: Option<usize>, memory: usize) -> Result<ResultStream> {
        let Plan { logical, columns, budget, never_seen: _ } = plan;
        let logical = limited(logical, rows)?;
        let mut report = None;
        let physical = ExecutionContext::of_planning(&budget)
            .scope(self.physical(&logical))
            .await
            .and_then(|plan| self.carried(plan, &mut report))
            .and_then(with_own_operators)
            .map_err(|error| correlated::of_planning(error, &logical))?;
        let memory = self.memory_of_statement(memory);
        let Run { task, context } = self.new_run(&budget, memory, batch::rows(&logical, &physical))?;
        let cost = cost::RunningCost::new(Arc::clone(&physical), Arc::clone(&context), report);
        let stream = execute_stream(physical, task).planned()?;
        Ok(ResultStream { columns: columns.into(), stream, context, cost, _budget: budget })
    }

    /// What belongs to one run: its memory; batches of so many rows; the execution context, which stops with the current
    /// one of the thread.
    fn new_run(&self, budget: &PlanningBudget, memory: Arc<StatementMemory>, rows: usize) -> Result<Run> {
        let pool: Arc<dyn MemoryPool> = Arc::clone(&memory) as _;
        let context = ExecutionContext::of_run(memory, Arc::clone(budget.patterns()));
        let runtime = RuntimeEnvBuilder::from_runtime_env(&self.runtime).with_memory_pool(pool).build().planned()?;
        let config = self.state.config().clone().with_batch_size(rows).with_extension(Arc::clone(&context));
        let config = config.with_extension(Arc::<SharedParts>::default());
        let task = TaskContext::from(&self.state).with_session_config(config).with_runtime(Arc::new(runtime));
        Ok(Run { task: Arc::new(task), context })
    }

    /// The operators that run in the place of these; `report` is given what is said of them.
    fn carried(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        report: &mut Option<Arc<dyn CarrierReport>>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let Some(carrier) = &self.carrier else { return Ok(plan) };
        let carried = carrier.carry(plan, &TaskContext::from(&self.state))?;
        *report = carried.report;
        Ok(carried.plan)
    }

    /// The plan as operators, with parts that several of them read computed once.
    async fn physical(&self, logical: &LogicalPlan) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        match self.with_shared_parts(logical).await {
            Ok(Some(plan)) => return Ok(plan),
            Ok(None) => {}
            // Nothing depends on it: each reader can compute the part.
            Err(error) => tracing::debug!(%error, "planned without shared parts"),
        }
        let plan = security_barrier::without_needless(logical.clone())?;
        self.operators(&self.state.optimize(&plan)?).await
    }

    /// The plan as operators, if there are parts to share.
    async fn with_shared_parts(
        &self,
        logical: &LogicalPlan,
    ) -> datafusion::error::Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(plan) = shared_part::with_leaves(logical)? else { return Ok(None) };
        let optimize = |plan: &LogicalPlan| self.state.optimize(plan);
        let plan = optimize(&security_barrier::without_needless(plan)?)?;
        let Some(plan) = shared_input::with_inputs(&plan, optimize)? else { return Ok(None) };
        self.operators(&plan).await.map(Some)
    }

    /// The operators of an optimized plan. Where the optimizer of operators loses an order that it relies on, which its own
    /// last check finds, they are made again without what does so: a rule takes projections into filters and forgets
    /// which columns were constant for that, and so need not be sorted by; and sorts are moved below unions.
    async fn operators(&self, optimized: &LogicalPlan) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        match self.state.query_planner().create_physical_plan(optimized, &self.state).await {
            Err(DataFusionError::Context(rule, error)) if rule == LAST_CHECK => {
                tracing::debug!(%error, "planned again, with fewer rules");
                self.careful.query_planner().create_physical_plan(optimized, &self.careful).await
            }
            planned => planned,
        }
    }
}

/// The plan with at most so many rows.
fn limited(logical: LogicalPlan, rows: Option<usize>) -> Result<LogicalPlan> {
    match rows {
        Some(rows) => {
            LogicalPlanBuilder::from(logical).limit(0, Some(rows)).and_then(LogicalPlanBuilder::build).planned()
        }
        None => Ok(logical),
    }
}

/// The operators of the engine with those of ours among them.
fn with_own_operators(plan: Arc<dyn ExecutionPlan>) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
    own_operators(shared_rows::with_inputs(plan, own_operators)?)
}

fn own_operators(plan: Arc<dyn ExecutionPlan>) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
    distinct::without_hints(plan)
        .and_then(window_memory::counted)
        .and_then(partial_groups::with_partial_groups)
        .and_then(yielding::yielding)
        .and_then(view_buffers::with_few_buffers)
        .and_then(context::within_context)
}

impl Plan {
    /// The names and types of the result's columns.
    pub fn columns(&self) -> &[(String, Type)] {
        &self.columns
    }

    /// Names that stand alone in the statement's own text and are NULL because no record ever had them, with their
    /// places; the first eight. Such a name is looked for as a field of the records in scope, so one that is misspelt, or
    /// a column that the tables do not have, is no error there.
    pub fn never_seen(&self) -> &[Failure] {
        &self.never_seen
    }
}

impl ResultStream {
    /// The names and types of the columns, in the order of the batches' columns.
    pub fn columns(&self) -> Arc<[(String, Type)]> {
        Arc::clone(&self.columns)
    }

    /// Adds the cost of the statement to `counter` when it has ended.
    #[must_use]
    pub fn counted_in(mut self, counter: Arc<CostCounter>) -> Self {
        self.cost.count_in(counter);
        self
    }
}

impl Stream for ResultStream {
    type Item = std::result::Result<RecordBatch, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.poll_next_unpin(cx).map(|next| {
            if next.is_none() {
                self.cost.ended();
            }
            next.map(|batch| {
                let batch = batch.map_err(|error| from_running(error, self.context.failure()))?;
                if batch.num_columns() == self.columns.len() {
                    return Ok(batch);
                }
                Err(Failure::new(Code::Internal, "the statement's columns changed while it ran"))
            })
        })
    }
}
