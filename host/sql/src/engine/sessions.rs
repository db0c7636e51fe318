//! The sessions of the engine: which rules make the plan and the operators of a statement, and with which settings.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::SessionConfig;

use super::fixes::unordered_unions;
use super::options::EngineOptions;
use super::planner::Planner;
use super::{batch, rules};
use crate::fail::{Planning, Result};

/// The name of the rule that takes projections into the operators below them.
const TAKES_PROJECTIONS_IN: &str = "ProjectionPushdown";

/// The sessions that statements are planned in.
#[derive(Debug, Clone)]
pub(super) struct Sessions {
    /// For most statements.
    pub(super) usual: SessionState,
    /// The same without the rule [`TAKES_PROJECTIONS_IN`] and with unions of no order, for statements whose operators lose
    /// an order in the usual one. A filter that takes a projection in forgets what is constant in it. Seen with DataFusion
    /// 55.2.0, by a statement over two parts of a store that `tests/property` keeps; upstream, issue 17077, closed, is the same
    /// of scans. It can go when no statement of the tests is planned again. Nor does it move the reading of fields towards the
    /// scan; see `fixes/leaf_projections.rs`.
    pub(super) careful: SessionState,
    /// For statements whose rows must come in the order of their table: in one partition.
    pub(super) in_order: SessionState,
}

impl Sessions {
    /// The sessions of an engine with these options.
    pub(super) fn new(options: &EngineOptions, runtime: &Arc<RuntimeEnv>) -> Self {
        let usual = usual(options, runtime);
        Self { careful: careful(&usual), in_order: in_order(&usual), usual }
    }

    /// A plan as it is optimized. The rules that move the reading of fields may make one that another rule cannot take: then
    /// without them. What fails for another reason fails again.
    pub(super) fn optimized(&self, plan: &LogicalPlan) -> datafusion::error::Result<LogicalPlan> {
        self.usual.optimize(plan).or_else(|error| {
            tracing::debug!(%error, "optimized again, with fewer rules");
            self.careful.optimize(plan)
        })
    }

    /// The same with every rule of the optimizer, in two passes.
    pub(super) fn with_all_rules(mut self) -> Self {
        for state in [&mut self.usual, &mut self.careful] {
            let mut config = state.config().clone();
            config.options_mut().optimizer.max_passes = 2;
            *state = SessionStateBuilder::new_from_existing(state.clone())
                .with_config(config)
                .with_optimizer_rules(rules::all_logical_rules())
                .build();
        }
        self
    }
}

/// What operators find on this machine.
pub(super) fn runtime(options: &EngineOptions) -> Result<RuntimeEnv> {
    // Operators do not spill to disk: a statement that needs more memory than its limit is refused, and temporary
    // files cannot fill the disk that holds the logs.
    let no_disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    RuntimeEnvBuilder::new()
        .with_disk_manager_builder(no_disk)
        .with_metadata_cache_limit(options.footer_memory)
        .build()
        .planned()
}

fn usual(options: &EngineOptions, runtime: &Arc<RuntimeEnv>) -> SessionState {
    let mut config = SessionConfig::new()
        .with_target_partitions(options.partitions.max(1))
        .with_batch_size(batch::ROWS)
        .with_information_schema(false);
    let settings = config.options_mut();
    settings.execution.time_zone = Some("UTC".to_owned());
    settings.execution.parquet.pushdown_filters = true;
    // MIN and MAX without groups would tell the scan which rows can still change them, and leave out
    // those of them that have had no value yet: `MAX(id), MIN(n)` lost the rows whose `n` came late. Seen with
    // DataFusion 55.2.0; upstream, issue 25147, open, is of such filters. It can be on when a MIN or MAX without a value
    // makes the filter TRUE (`build_dynamic_filter_from_accumulator_bounds` skips it), and our own MIN and MAX of FLOAT64, which
    // it takes for its own by their names, do not need the rows with NaN, which the filter would leave out.
    settings.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // The engine would refuse a grouping by an expression of which the logical plan knows that it is never NULL, as of
    // `IF(x NOT IN (1, y), x, 0)`, and the operators do not. Seen with DataFusion 55.2.0.
    settings.execution.skip_physical_aggregate_schema_check = true;
    // The optimizer would look for more to do up to three times, with all of its rules. The rules that find more stand in
    // the list a second time.
    settings.optimizer.max_passes = 1;
    // Each call of a function in a plan holds options. Without these it would have its own, and comparing two calls, as
    // the optimizer does often, would compare the options as texts.
    let mut properties = ExecutionProps::new();
    properties.config_options = Some(Arc::new(ConfigOptions::default()));
    SessionStateBuilder::new()
        .with_config(config)
        .with_execution_props(properties)
        .with_runtime_env(Arc::clone(runtime))
        .with_optimizer_rules(rules::logical_rules())
        .with_physical_optimizer_rules(rules::physical_rules())
        .with_query_planner(Arc::new(Planner { narrow: options.narrow }))
        .build()
}

fn careful(usual: &SessionState) -> SessionState {
    let own: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(unordered_unions::RULE);
    let others = rules::physical_rules().into_iter();
    let others = others.filter(|rule| rule.name() != TAKES_PROJECTIONS_IN);
    let rules = std::iter::once(own).chain(others).collect();
    let mut config = usual.config().clone();
    config.options_mut().optimizer.enable_leaf_expression_pushdown = false;
    SessionStateBuilder::new_from_existing(usual.clone())
        .with_config(config)
        .with_physical_optimizer_rules(rules)
        .build()
}

fn in_order(usual: &SessionState) -> SessionState {
    let config = usual.config().clone().with_target_partitions(1);
    SessionStateBuilder::new_from_existing(usual.clone()).with_config(config).build()
}
