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

use super::shortcuts::{shared_input, shared_part};
use super::{Engine, Plan};
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
        let plain = SessionStateBuilder::new_from_existing(self.sessions.usual.clone())
            .with_physical_optimizer_rules(Vec::new())
            .build();
        let logical = plan.logical.clone();
        let mut clock = Clock { last: Instant::now(), parts: Vec::new() };
        let leaves = shared_part::with_leaves(&logical)?;
        clock.ended("search for shared parts");
        let logical = self.prepared(leaves.clone().unwrap_or(logical))?;
        clock.ended("barriers");
        let logical =
            self.sessions.usual.analyzer().execute_and_check(logical, &self.sessions.usual.options(), |_, _| {})?;
        clock.ended("analyzer");
        let optimizer = self.sessions.usual.optimizer();
        let mut logical = optimizer.optimize(logical, &self.sessions.usual, |_, rule| clock.ended(rule.name()))?;
        clock.ended("end of the optimizer");
        if leaves.is_some() {
            let completed = shared_input::with_inputs(&logical, |part| self.sessions.usual.optimize(part))?;
            logical = match completed {
                Some(completed) => completed,
                None => self.sessions.usual.optimize(&self.prepared(plan.logical.clone())?)?,
            };
        } else {
            logical = shared_input::completed(logical, |part| self.sessions.usual.optimize(part))?;
        }
        clock.ended("shared parts");
        let physical = self.sessions.usual.query_planner().create_physical_plan(&logical, &plain).await?;
        clock.ended("operators");
        let physical =
            DefaultPhysicalPlanner::default()
                .optimize_physical_plan(physical, &self.sessions.usual, |_, rule| clock.ended(rule.name()))?;
        clock.ended("end of the rules for operators");
        super::with_own_operators(physical, self.counted)?;
        clock.ended("own operators");
        Ok(clock.parts)
    }
}
