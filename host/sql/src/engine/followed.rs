//! Statements that are followed: filters over one stored table, run again and again over its new rows.
//!
//! What decides whether a statement can be followed is its plan, so that the query of a granted table counts as well as
//! the caller's: projections, conditions and UNNEST look at one row at a time, and all other operators at several. For
//! such a plan there are two uses. [`Engine::newest`] gives the newest rows of its answer. [`Engine::prepare`] puts a
//! table of new rows in the place of the stored one and makes the operators once; [`Engine::run_prepared`] runs them over
//! each slice. Operators hold no state of a run, so nothing is planned then. In both, columns of the table are carried
//! through the plan beside the columns of the statement.

use std::any::Any;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{Column, DataFusionError, ScalarValue};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::logical_plan::SubqueryAlias;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, Projection, TableScan, Unnest, lit};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use tidegate_functions::context::{ExecutionContext, PlanningBudget};
use tidegate_model::{Code, Failure};

use super::cost::RunningCost;
use super::guards::needless_barriers::without_needless;
use super::result_stream::ResultStream;
use super::run::Run;
use super::{Engine, Plan, batch, with_own_operators};
use crate::barrier::{above_same_barrier, opened};
use crate::exprs::reads_beyond;
use crate::fail::{Planning, Result};
use crate::types::Type;

/// The name under which the `nth` column is carried through a plan. No name of a resolved plan has a space at its begin.
fn carried_name(nth: usize) -> String {
    format!(" carried {nth}")
}

/// A statement over new rows, ready to be run over any slice of them.
#[derive(Debug)]
pub struct PreparedPlan {
    physical: Arc<dyn ExecutionPlan>,
    columns: Arc<[(String, Type)]>,
    /// How many of the columns are those of the statement; the others are carried.
    own: usize,
    /// Rows of a batch.
    rows: usize,
    /// The memory of the plan counts while it is kept.
    budget: Arc<PlanningBudget>,
}

impl PreparedPlan {
    /// The names and types of the statement's columns, without the carried ones.
    pub fn columns(&self) -> &[(String, Type)] {
        self.columns.get(..self.own).unwrap_or_default()
    }
}

impl Plan {
    /// The stored table of which the statement's rows are, if the statement is a filter over it: each row of the answer
    /// depends on one row of the table.
    ///
    /// # Errors
    /// [`Code::Unsupported`] with the first clause that makes it something else.
    pub fn followed_table(&self) -> Result<Arc<dyn TableProvider>> {
        provider(&self.logical, false)
    }

    /// Whether two plans of one text are the same, as those for two times are where the text does not use the time.
    pub fn is_same(&self, other: &Self) -> bool {
        self.logical == other.logical
    }
}

impl Engine {
    /// A plan for the newest `rows` rows of a statement that can be followed, newest first by the column `time` of its
    /// table. With `since`, in microseconds, only rows from that time on.
    ///
    /// # Errors
    /// As [`Plan::followed_table`].
    pub fn newest(&self, plan: &Plan, time: &str, since: Option<i64>, rows: usize) -> Result<Plan> {
        plan.followed_table()?;
        let own = plan.logical.schema().columns();
        let build = || {
            let carrying = carrying(&plan.logical, None, &[time])?;
            let column = Expr::Column(carried(&carrying)?);
            let mut builder = LogicalPlanBuilder::from(carrying);
            if let Some(since) = since {
                builder =
                    builder.filter(column.clone().gt_eq(lit(ScalarValue::TimestampMicrosecond(Some(since), None))))?;
            }
            let newest = Sort { expr: column, asc: false, nulls_first: false };
            builder.sort([newest])?.limit(0, Some(rows))?.project(own.into_iter().map(Expr::Column))?.build()
        };
        let logical = build().planned()?;
        let Plan { columns, budget, .. } = plan;
        Ok(Plan { logical, columns: columns.clone(), budget: Arc::clone(budget), never_seen: Vec::new() })
    }

    /// The statement over `table`, which has the columns of [`Plan::followed_table`] and those with the names `numbers`,
    /// integers. They are the last columns of the rows, which come in the order of the table.
    ///
    /// # Errors
    /// As [`Plan::followed_table`].
    pub async fn prepare(&self, plan: &Plan, table: Arc<dyn TableProvider>, numbers: &[&str]) -> Result<PreparedPlan> {
        plan.followed_table()?;
        let Plan { logical, columns, budget, .. } = plan;
        let logical = carrying(logical, Some(&table), numbers).planned()?;
        let make = async {
            let plan = without_needless(logical.clone())?;
            let optimized = self.sessions.in_order.optimize(&plan)?;
            self.sessions.in_order.query_planner().create_physical_plan(&optimized, &self.sessions.in_order).await
        };
        let physical = ExecutionContext::of_planning(budget).scope(make).await;
        let physical = physical.and_then(|plan| with_own_operators(plan, self.counted)).planned()?;
        let own = columns.len();
        let carried = (0..numbers.len()).map(|nth| (carried_name(nth), Type::Int64));
        let columns = columns.iter().cloned().chain(carried).collect();
        let rows = batch::rows(&logical, &physical);
        Ok(PreparedPlan { physical, columns, own, rows, budget: Arc::clone(budget) })
    }

    /// Starts a prepared statement over the rows of `slice`, which its table knows. Its operators may hold `memory` bytes.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run_prepared<S: Any + Send + Sync>(
        &self,
        plan: &PreparedPlan,
        slice: Arc<S>,
        memory: usize,
    ) -> Result<ResultStream> {
        let PreparedPlan { physical, columns, own: _, rows, budget } = plan;
        let settings = self.sessions.in_order.config().clone().with_extension(slice);
        let Run { task, context } = self.new_run(settings, budget, self.memory_of_statement(memory), *rows)?;
        // Each run counts in metrics of its own: those of operators that run again and again would grow without bound.
        let physical = reset_plan_states(Arc::clone(physical)).planned()?;
        let cost = RunningCost::new(Arc::clone(&physical), Arc::clone(&context), None);
        let stream = execute_stream(physical, task).planned()?;
        Ok(ResultStream { columns: Arc::clone(columns), stream, context, cost, _budget: Arc::clone(budget) })
    }
}

/// The table of a plan that is a filter. `granted` tells whether the plan is that of a granted table.
fn provider(plan: &LogicalPlan, granted: bool) -> Result<Arc<dyn TableProvider>> {
    if let Some(input) = opened(plan) {
        return provider(input, true);
    }
    let what = match plan {
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) => {
            if plan.expressions().iter().any(reads_beyond) {
                return Err(refused("a subquery", granted));
            }
            return input_of(plan, granted);
        }
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Unnest(_) => return input_of(plan, granted),
        // Without LIMIT it does not change which rows a granted table has.
        LogicalPlan::Sort(sort) if granted && sort.fetch.is_none() => return input_of(plan, granted),
        LogicalPlan::TableScan(TableScan { source, fetch: None, .. }) => {
            return match source.get_logical_plan() {
                Some(view) => provider(&view, granted),
                None => source_as_provider(source).planned(),
            };
        }
        LogicalPlan::Aggregate(_) => "GROUP BY or an aggregate function",
        LogicalPlan::Distinct(_) => "DISTINCT",
        LogicalPlan::Window(_) => "a window function (OVER)",
        LogicalPlan::Sort(_) => "ORDER BY",
        LogicalPlan::Limit(_) => "LIMIT",
        LogicalPlan::Join(_) => "a join or a subquery",
        LogicalPlan::Union(_) => "UNION",
        LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_) => "rows that are in no source",
        _ => "a clause that looks at several rows",
    };
    Err(refused(what, granted))
}

fn input_of(plan: &LogicalPlan, granted: bool) -> Result<Arc<dyn TableProvider>> {
    match plan.inputs().first() {
        Some(input) => provider(input, granted),
        None => Err(refused("no table", granted)),
    }
}

fn refused(what: &str, granted: bool) -> Failure {
    let message = if granted {
        format!(
            "the granted table of this query is made with {what}, and only a table that selects rows of one source can be \
             followed; ask for the answer itself, or let the endpoint grant a table that only filters"
        )
    } else {
        format!(
            "a query with {what} cannot be followed: it must select rows of one table (SELECT columns FROM table WHERE \
             condition, or filters in LQL); new rows come in the order of their arrival, and follow_rows tells how many \
             older ones come first"
        )
    };
    Failure::new(Code::Unsupported, message)
}

/// The last column of a plan.
fn carried(plan: &LogicalPlan) -> datafusion::error::Result<Column> {
    plan.schema().columns().pop().ok_or_else(|| DataFusionError::Plan("a plan without columns".to_owned()))
}

/// A plan that is a filter, with columns of its table as the last of its columns; over another table if there is one.
fn carrying(
    plan: &LogicalPlan,
    table: Option<&Arc<dyn TableProvider>>,
    names: &[&str],
) -> datafusion::error::Result<LogicalPlan> {
    if let Some(input) = opened(plan)
        && let Some(barrier) = above_same_barrier(plan, carrying(input, table, names)?)
    {
        return Ok(barrier);
    }
    let input = |input: &LogicalPlan| Ok::<_, DataFusionError>(Arc::new(carrying(input, table, names)?));
    Ok(match plan {
        LogicalPlan::Projection(projection) => {
            let input = input(&projection.input)?;
            let columns = input.schema().columns();
            let carried = columns.iter().skip(columns.len().saturating_sub(names.len())).cloned().map(Expr::Column);
            let exprs = projection.expr.iter().cloned().chain(carried).collect();
            LogicalPlan::Projection(Projection::try_new(exprs, input)?)
        }
        LogicalPlan::Filter(filter) => {
            LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), input(&filter.input)?)?)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input(&alias.input)?, alias.alias.clone())?)
        }
        LogicalPlan::Sort(sort) => return carrying(&sort.input, table, names),
        LogicalPlan::Unnest(unnest) => {
            let (columns, options) = (unnest.exec_columns.clone(), unnest.options.clone());
            LogicalPlan::Unnest(Unnest::try_new(input(&unnest.input)?, columns, options)?)
        }
        LogicalPlan::TableScan(scan) => {
            if let Some(view) = scan.source.get_logical_plan() {
                let view = carrying(&view, table, names)?;
                return LogicalPlanBuilder::from(view).alias(scan.table_name.clone())?.build();
            }
            let own = scan.projected_schema.columns();
            let source = table.map_or_else(|| Arc::clone(&scan.source), |table| provider_as_source(Arc::clone(table)));
            let carried = names.iter().enumerate().map(|(nth, name)| {
                Expr::Column(Column::new(Some(scan.table_name.clone()), *name)).alias(carried_name(nth))
            });
            let mut all = LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?;
            for filter in &scan.filters {
                all = all.filter(filter.clone())?;
            }
            all.project(own.into_iter().map(Expr::Column).chain(carried))?.build()?
        }
        other => return Err(DataFusionError::Plan(format!("no filter: {}", other.display()))),
    })
}
