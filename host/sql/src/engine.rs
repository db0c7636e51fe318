//! Running statements: plan under what may be read, execute under limits, stream the rows.

mod arrival_order;
mod attempts;
mod batch;
mod carrier;
mod correlated;
mod cost;
mod explained;
mod fixes;
mod followed;
mod guards;
mod operator_run;
mod options;
mod own_operator;
mod planner;
mod profile;
mod result_stream;
mod rules;
mod run;
mod sessions;
mod shortcuts;
mod statement_cost;
mod wrapper;

use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryLimit, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use sqlparser::ast::Query;
use tidegate_functions::context::planning::within_budget;
use tidegate_functions::context::{ExecutionContext, PlanningBudget, StatementMemory, check_planning};
use tidegate_model::{Code, Failure, TextLimits, nearest};

use crate::catalog::Binding;
use crate::fail::{Planning, Result};
use crate::piece_names::PieceNames;
use crate::resolve::{self, Output, ResolvedStatement};
use crate::saved_query::SavedQuery;
use crate::text;
use crate::types::Type;
pub use arrival_order::Placed;
pub use carrier::{Carried, Carrier, CarrierReport, Finish, OwnOperators};
pub use cost::CostCounter;
pub use explained::ExplainedPlan;
use fixes::{distinct, view_buffers};
pub use followed::PreparedPlan;
use guards::{context, list_copies, needless_barriers, rounds, window_memory, yielding};
pub use operator_run::{OperatorCost, OperatorRows, PreparedOperators, RunBounds};
pub use options::EngineOptions;
pub use own_operator::OwnOperator;
pub use result_stream::ResultStream;
use run::Run;
use sessions::{Sessions, runtime};
pub use shortcuts::narrow::Narrow;
pub use shortcuts::partial_groups::Counted;
pub use shortcuts::shared_rows::PartReader;
use shortcuts::{partial_groups, shared_input, shared_part, shared_rows};
pub use statement_cost::StatementCost;
pub use wrapper::{Wrapper, each_batch, inside, wrapped};

/// The rule of the optimizer of operators that looks whether they fit each other.
const LAST_CHECK: &str = "SanityCheckPlan";

/// Plans and runs statements. Clones share their memory.
#[derive(Debug, Clone)]
pub struct Engine {
    sessions: Sessions,
    runtime: Arc<RuntimeEnv>,
    /// What all statements may hold together, and each of them.
    total_memory: Arc<dyn MemoryPool>,
    statement_memory: usize,
    text: TextLimits,
    /// How tables tell the places of their rows.
    placed: Placed,
    /// How scans count rows by a value.
    counted: Counted,
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

impl Engine {
    /// An engine.
    ///
    /// # Errors
    /// If its runtime cannot be set up.
    pub fn new(options: &EngineOptions) -> Result<Self> {
        let runtime = Arc::new(runtime(options)?);
        let sessions = Sessions::new(options, &runtime);
        let total_memory = Arc::new(GreedyMemoryPool::new(options.total_memory));
        let EngineOptions { statement_memory, text, placed, counted, .. } = *options;
        Ok(Self { sessions, runtime, total_memory, statement_memory, text, placed, counted, carrier: None })
    }

    /// The same engine with something that changes operators before they run.
    #[must_use]
    pub fn with_carrier(self, carrier: Arc<dyn Carrier>) -> Self {
        Self { carrier: Some(carrier), ..self }
    }

    /// The same engine with every rule of the optimizer in two passes, for tests: its plans are the same, and take longer
    /// to make.
    #[must_use]
    pub fn with_all_rules(self) -> Self {
        Self { sessions: self.sessions.with_all_rules(), ..self }
    }

    /// The bytes that running statements, and components from [`Engine::memory`], have reserved.
    pub fn memory_held(&self) -> usize {
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

    /// The same for a text that a caller sends to an endpoint with this saved query: each of its parameters is in the
    /// arguments, or is one of the saved query's, which may be left out.
    ///
    /// # Errors
    /// As [`Engine::plan`]; [`Code::InvalidParameter`] for another parameter, which would be NULL without a word.
    pub fn plan_sent(&self, sql: &str, binding: Binding<'_>, saved: &SavedQuery) -> Result<Plan> {
        let query = text::parse(sql, &self.text)?;
        check_planning()?;
        let mut used = PieceNames::within(&query).parameters;
        // A name with another @ is that of a system variable, which resolving refuses.
        used.retain(|name| !name.starts_with('@') && !name.is_empty() && !has(binding.arguments.keys(), name));
        let optional = if used.is_empty() { Vec::new() } else { saved.parameters() };
        if let Some(name) = used.iter().find(|name| !has(optional.iter(), name)) {
            let known = binding.arguments.keys().chain(&optional).map(String::as_str);
            let hint = nearest(name, known).map_or(String::new(), |near| format!("; did you mean @{near}?"));
            let message = format!("the query uses @{name}, which was not sent: send it as {name}=VALUE{hint}");
            return Err(Failure::new(Code::InvalidParameter, message).about(name));
        }
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
        let (resolved, never_seen, logical) = context.enter(|| {
            let ResolvedStatement { mut resolved, never_seen, correlated, subqueries_in_arms } = resolve()?;
            within_budget()?;
            let mut plan = std::mem::take(&mut resolved.plan);
            if subqueries_in_arms {
                plan = attempts::attempted(plan).planned()?;
            }
            let plan = if correlated { correlated::joined(plan)? } else { plan };
            within_budget()?;
            Ok::<_, Failure>((resolved, never_seen, plan))
        })?;
        let columns = resolved.columns.into_iter().map(|Output { name, ty, .. }| (name, ty)).collect();
        Ok(Plan { logical, columns, budget, never_seen })
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
        let operators = ExecutionContext::of_planning(&budget)
            .scope(self.physical(&logical))
            .await
            .and_then(|plan| self.carried(plan))
            .and_then(|carried| {
                let report = carried.report.as_ref().map(Arc::clone);
                let counted = self.counted;
                Ok((carried.finished(Arc::new(move |plan| with_own_operators(plan, counted)))?, report))
            });
        let (physical, report) = operators.map_err(|error| correlated::of_planning(error, &logical))?;
        let memory = self.memory_of_statement(memory);
        let settings = self.sessions.usual.config().clone();
        let Run { task, context } = self.new_run(settings, &budget, memory, batch::rows(&logical, &physical))?;
        let cost = cost::RunningCost::new(Arc::clone(&physical), Arc::clone(&context), report);
        let stream = execute_stream(physical, task).planned()?;
        Ok(ResultStream { columns: columns.into(), stream, context, cost, _budget: budget })
    }

    /// What runs in the place of these operators.
    fn carried(&self, plan: Arc<dyn ExecutionPlan>) -> datafusion::error::Result<Carried> {
        match &self.carrier {
            Some(carrier) => carrier.carry(plan, &TaskContext::from(&self.sessions.usual)),
            None => Ok(plan.into()),
        }
    }

    /// The plan as operators, with parts that several of them read computed once.
    async fn physical(&self, logical: &LogicalPlan) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        match self.with_shared_parts(logical).await {
            Ok(Some(plan)) => return Ok(plan),
            Ok(None) => {}
            // Nothing depends on it: each reader can compute the part.
            Err(error) => tracing::debug!(%error, "planned without shared parts"),
        }
        let optimize = |plan: &LogicalPlan| self.sessions.optimized(plan);
        let plan = optimize(&self.prepared(logical.clone())?)?;
        self.operators(&shared_input::completed(plan, optimize)?).await
    }

    /// The resolved plan as it is optimized.
    fn prepared(&self, plan: LogicalPlan) -> datafusion::error::Result<LogicalPlan> {
        let plan = shared_part::each_changed(plan, needless_barriers::without_needless)?;
        arrival_order::by_arrival(plan, self.placed)
    }

    /// The plan as operators, if there are parts to share.
    async fn with_shared_parts(
        &self,
        logical: &LogicalPlan,
    ) -> datafusion::error::Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(plan) = shared_part::with_leaves(logical)? else { return Ok(None) };
        let optimize = |plan: &LogicalPlan| self.sessions.optimized(plan);
        let plan = optimize(&self.prepared(plan)?)?;
        let Some(plan) = shared_input::with_inputs(&plan, optimize)? else { return Ok(None) };
        self.operators(&plan).await.map(Some)
    }

    /// The operators of an optimized plan. Where the optimizer of operators loses an order that it relies on, which its own
    /// last check finds, they are made again without what does so: a rule takes projections into filters and forgets
    /// which columns were constant for that, and so need not be sorted by; and sorts are moved below unions.
    async fn operators(&self, optimized: &LogicalPlan) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        match self.sessions.usual.query_planner().create_physical_plan(optimized, &self.sessions.usual).await {
            Err(DataFusionError::Context(rule, error)) if rule == LAST_CHECK => {
                tracing::debug!(%error, "planned again, with fewer rules");
                self.sessions.careful.query_planner().create_physical_plan(optimized, &self.sessions.careful).await
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
fn with_own_operators(
    plan: Arc<dyn ExecutionPlan>,
    counted: Counted,
) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
    let own_operators = |plan| own_operators(plan, counted);
    own_operators(shared_rows::with_inputs(plan, own_operators)?)
}

fn own_operators(plan: Arc<dyn ExecutionPlan>, counted: Counted) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
    distinct::without_hints(plan)
        .and_then(window_memory::counted)
        .and_then(|plan| partial_groups::with_partial_groups(plan, counted))
        .and_then(list_copies::bounded)
        .and_then(rounds::bounded)
        .and_then(yielding::yielding)
        .and_then(view_buffers::with_few_buffers)
        .and_then(context::within_context)
}

/// Whether there is such a parameter, in any spelling.
fn has<'n>(mut known: impl Iterator<Item = &'n String>, name: &str) -> bool {
    known.any(|own| own.eq_ignore_ascii_case(name))
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
