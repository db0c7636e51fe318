//! A plan in stages while it runs: what runs after a worker has failed, and what it costs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use tidegate_model::number;
use tidegate_sql::{OwnOperators, StatementCost};

use super::staged::{StagePlanner, Staged};
use super::workers::StageList;
use super::{boundaries, leaves, tasks};
use crate::statement_report::{AttemptReport, LeafReport};

/// How a plan runs again: once with the workers that have not failed, then without any.
pub(super) struct Retry {
    /// As the engine made it.
    plan: Arc<dyn ExecutionPlan>,
    /// Whether workers may exchange rows.
    exchange: bool,
    context: Arc<TaskContext>,
    planner: Arc<StagePlanner>,
}

impl Retry {
    pub(super) fn new(
        plan: &Arc<dyn ExecutionPlan>,
        exchange: bool,
        context: &Arc<TaskContext>,
        planner: &Arc<StagePlanner>,
    ) -> Self {
        Self { plan: Arc::clone(plan), exchange, context: Arc::clone(context), planner: Arc::clone(planner) }
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("planner", &self.planner).finish_non_exhaustive()
    }
}

/// A plan in stages, while it runs.
#[derive(Debug)]
pub(super) struct RunningStages {
    retry: Retry,
    attempts: Mutex<Vec<Attempt>>,
    /// The stages that run after a worker has failed.
    again: OnceLock<Arc<dyn ExecutionPlan>>,
    /// What runs without workers after that.
    whole: OnceLock<Arc<dyn ExecutionPlan>>,
}

/// A run with workers.
#[derive(Debug)]
struct Attempt {
    list: StageList,
    /// The plan with its boundaries.
    plan: Arc<dyn ExecutionPlan>,
    stages: usize,
    exchanges: bool,
    /// Who failed, if it is known, and why.
    failure: Option<AttemptReport>,
}

impl RunningStages {
    pub(super) fn new(staged: &Staged, retry: Retry) -> Self {
        let attempts = Mutex::new(vec![Attempt::of(staged)]);
        Self { retry, attempts, again: OnceLock::new(), whole: OnceLock::new() }
    }

    fn attempts(&self) -> MutexGuard<'_, Vec<Attempt>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What runs after the first attempt: its operators tell what they cost.
    pub(super) fn plans(&self) -> impl Iterator<Item = &Arc<dyn ExecutionPlan>> {
        self.again.get().into_iter().chain(self.whole.get())
    }

    /// What runs after an attempt has failed because of a worker: stages, with the workers that they have, or all of it here.
    /// `own` makes operators that run.
    ///
    /// # Errors
    /// If the operators cannot be made.
    pub(super) fn after(
        &self,
        error: &DataFusionError,
        own: &OwnOperators,
    ) -> Result<(Arc<dyn ExecutionPlan>, Option<StageList>)> {
        tracing::info!(%error, "a statement runs again, because a worker failed");
        let Retry { plan, exchange, context, planner } = &self.retry;
        let plan = leaves::unlearnt(plan, context)?;
        let mut attempts = self.attempts();
        let is_first = attempts.len() == 1;
        let Some(failed) = attempts.last_mut() else { return internal_err!("no stages have run") };
        let (left_out, is_damaged) = failed.failed(error, planner);
        // What could not be sent may go where less is sent.
        let exchange = *exchange && !failed.list.faults.is_unsendable();
        if is_first && !is_damaged {
            let placed = planner.placed(&plan, &left_out, exchange, context);
            if let Some(staged) = placed.staged {
                let run = boundaries::with_inputs(own(boundaries::without_inputs(&staged.plan)?)?)?;
                attempts.push(Attempt::of(&staged));
                return Ok((Arc::clone(self.again.get_or_init(|| run)), Some(staged.list)));
            }
            tracing::debug!(stays = ?placed.stays, "it does not run in stages again");
        }
        drop(attempts);
        if let Some(whole) = self.whole.get() {
            // A part that each of its readers computes.
            return Ok((reset_plan_states(Arc::clone(whole))?, None));
        }
        let run = own(plan)?;
        Ok((Arc::clone(self.whole.get_or_init(|| run)), None))
    }
}

impl Attempt {
    fn of(Staged { plan, stages, exchanges, list }: &Staged) -> Self {
        Self { list: list.clone(), plan: Arc::clone(plan), stages: *stages, exchanges: *exchanges, failure: None }
    }

    /// Notes why it failed: the workers that are left out from now on, and whether workers read a damaged copy.
    fn failed(&mut self, error: &DataFusionError, planner: &StagePlanner) -> (Vec<Arc<str>>, bool) {
        let (places, first) = self.list.faults.blamed();
        let name = |place: &usize| self.list.names.get(*place).map(Arc::clone);
        let (worker, failure) = match first {
            Some((place, failure)) => (name(&place), failure.to_string()),
            None => {
                let unstarted = self.list.faults.why_unstarted();
                (None, unstarted.map_or_else(|| error.strip_backtrace(), |failure| failure.to_string()))
            }
        };
        let damaged = self.list.faults.damaged();
        if let Some(copy) = &damaged {
            planner.found_damaged(copy);
        }
        let names = places.iter().filter_map(name).collect();
        self.failure = Some(AttemptReport { worker: worker.map(|name| name.to_string()), failure });
        (names, damaged.is_some())
    }
}

impl RunningStages {
    /// The stages and the workers of the last attempt, if they exchange rows.
    pub(super) fn exchange(&self) -> Option<(usize, Vec<Arc<str>>)> {
        let attempts = self.attempts();
        let last = attempts.last().filter(|last| last.exchanges)?;
        Some((last.stages, last.list.names.clone()))
    }

    /// The scans of the last attempt, with what the tasks have done that read them.
    pub(super) fn leaves(&self) -> Vec<LeafReport> {
        let attempts = self.attempts();
        let options = self.retry.context.session_config().options();
        attempts.last().map(|Attempt { plan, list, .. }| tasks::reports(plan, list, options)).unwrap_or_default()
    }

    /// The attempts that failed.
    pub(super) fn failed(&self) -> Vec<AttemptReport> {
        self.attempts().iter().filter_map(|attempt| attempt.failure.clone()).collect()
    }

    /// Whether it runs without workers at last.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.get().is_some()
    }

    /// What has run elsewhere has cost.
    pub(super) fn cost(&self) -> StatementCost {
        let attempts = self.attempts();
        let costs = attempts.iter().map(|attempt| attempt.list.cost());
        let all = costs.fold(StatementCost::default(), StatementCost::plus);
        let moves = number(attempts.iter().filter(|attempt| attempt.failure.is_some()).count());
        StatementCost { moves: all.moves.saturating_add(moves), ..all }
    }
}
