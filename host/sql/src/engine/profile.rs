//! How long each part of planning takes, for the benchmark of planning.
//!
//! The parts are those of [`Engine::run_within`], in their order: the engine's optimizer tells when each of its rules has
//! ended, so the time of a rule has its walk over the plan in it.

use std::time::{Duration, Instant};

use datafusion::error::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::optimizer::OptimizerConfig;
use datafusion::physical_planner::DefaultPhysicalPlanner;
use tidegate_functions::context::ExecutionContext;

use super::{Engine, Plan, security_barrier};
use crate::fail::{Planning, Result as Planned};

/// The time since the part before.
struct Clock {
    last: Instant,
    parts: Vec<(String, Duration)>,
}

impl Clock {
    fn ended(&mut self, part: &str) {
        let now = Instant::now();
        let took = now.duration_since(self.last);
        match self.parts.iter_mut().find(|(known, _)| known == part) {
            Some((_, all)) => *all += took,
            None => self.parts.push((part.to_owned(), took)),
        }
        self.last = now;
    }
}

impl Engine {
    /// The parts of planning after resolving, with the time that each took. A rule that runs several times is
    /// there once.
    ///
    /// # Errors
    /// If the plan cannot be made.
    pub async fn profile(&self, plan: &Plan) -> Planned<Vec<(String, Duration)>> {
        ExecutionContext::of_planning(&plan.budget).scope(self.profiled(plan)).await.planned()
    }

    async fn profiled(&self, plan: &Plan) -> Result<Vec<(String, Duration)>> {
        // Without rules for operators, which are applied and timed afterwards.
        let plain = SessionStateBuilder::new_from_existing(self.state.clone())
            .with_physical_optimizer_rules(Vec::new())
            .build();
        let logical = plan.logical.clone();
        let mut clock = Clock { last: Instant::now(), parts: Vec::new() };
        let logical = security_barrier::without_needless(logical)?;
        clock.ended("barriers");
        let logical = self.state.analyzer().execute_and_check(logical, &self.state.options(), |_, _| {})?;
        clock.ended("analyzer");
        let optimizer = self.state.optimizer();
        let logical = optimizer.optimize(logical, &self.state, |_, rule| clock.ended(rule.name()))?;
        clock.ended("end of the optimizer");
        let physical = self.state.query_planner().create_physical_plan(&logical, &plain).await?;
        clock.ended("operators");
        let physical = DefaultPhysicalPlanner::default()
            .optimize_physical_plan(physical, &self.state, |_, rule| clock.ended(rule.name()))?;
        clock.ended("end of the rules for operators");
        super::with_own_operators(physical)?;
        clock.ended("own operators");
        Ok(clock.parts)
    }
}
