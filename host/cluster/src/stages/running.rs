//! A plan in stages while it runs: what runs after a worker has failed, and what it costs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use tidegate_model::number;
use tidegate_sql::{CarrierReport, OwnOperators, StatementCost};

use super::staged::{Instead, StagePlanner, Staged};
use super::workers::StageList;
use super::{boundaries, leaves};
use crate::cut_report::AttemptReport;

/// How a plan runs again: once with the workers that have not failed, then without exchanges.
pub(super) struct Retry {
    /// As the engine made it.
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    planner: Arc<StagePlanner>,
    instead: Instead,
}

impl Retry {
    pub(super) fn new(
        plan: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
        planner: &Arc<StagePlanner>,
        instead: &Instead,
    ) -> Self {
        let (plan, context, planner) = (Arc::clone(plan), Arc::clone(context), Arc::clone(planner));
        Self { plan, context, planner, instead: Arc::clone(instead) }
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
    whole: OnceLock<Whole>,
}

/// What runs after that, and what is told of it.
type Whole = (Arc<dyn ExecutionPlan>, Option<Arc<dyn CarrierReport>>);

/// A run with exchanges.
#[derive(Debug)]
struct Attempt {
    list: StageList,
    stages: usize,
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
        self.again.get().into_iter().chain(self.whole.get().map(|(plan, _)| plan))
    }

    /// What runs after an attempt has failed because of a worker: stages, with the workers that they have, or all of it here.
    ///
    /// # Errors
    /// If the operators cannot be made.
    pub(super) fn after(
        &self,
        error: &DataFusionError,
        own: &OwnOperators,
    ) -> Result<(Arc<dyn ExecutionPlan>, Option<StageList>)> {
        tracing::info!(%error, "a statement runs again, because a worker failed");
        let Retry { plan, context, planner, instead } = &self.retry;
        let plan = leaves::unlearnt(plan, context)?;
        let mut attempts = self.attempts();
        let is_first = attempts.len() == 1;
        let Some(failed) = attempts.last_mut() else { return internal_err!("no stages have run") };
        let (left_out, is_damaged) = failed.failed(error, planner);
        if is_first && !is_damaged {
            match planner.staged(&plan, &left_out, context) {
                Ok(staged) => {
                    let run = boundaries::with_inputs(own(boundaries::without_inputs(&staged.plan)?)?)?;
                    attempts.push(Attempt::of(&staged));
                    return Ok((Arc::clone(self.again.get_or_init(|| run)), Some(staged.list)));
                }
                Err(why) => tracing::debug!(?why, "it does not run in stages again"),
            }
        }
        drop(attempts);
        let carried = instead(plan)?;
        let report = carried.report.as_ref().map(Arc::clone);
        let run = carried.finished(Arc::clone(own))?;
        Ok((Arc::clone(&self.whole.get_or_init(|| (run, report)).0), None))
    }
}

impl Attempt {
    fn of(staged: &Staged) -> Self {
        Self { list: staged.list.clone(), stages: staged.stages, failure: None }
    }

    /// Notes why it failed: the workers that are left out from now on, and whether workers read a damaged copy.
    fn failed(&mut self, error: &DataFusionError, planner: &StagePlanner) -> (Vec<Arc<str>>, bool) {
        let (places, first) = self.list.faults.blamed();
        let name = |place: &usize| self.list.names.get(*place).map(Arc::clone);
        let (worker, failure) = match first {
            Some((place, failure)) => (name(&place), failure.to_string()),
            None => (None, error.strip_backtrace()),
        };
        let failure = AttemptReport { worker: worker.map(|name| name.to_string()), failure: Some(failure) };
        let damaged = self.list.faults.damaged();
        if let Some(copy) = &damaged {
            planner.found_damaged(copy);
        }
        let names = places.iter().filter_map(name).collect();
        self.failure = Some(failure);
        (names, damaged.is_some())
    }
}

impl RunningStages {
    /// The stages and the workers of the last attempt.
    pub(super) fn last(&self) -> (usize, Vec<Arc<str>>) {
        self.attempts().last().map_or((1, Vec::new()), |last| (last.stages, last.list.names.clone()))
    }

    /// The attempts that failed.
    pub(super) fn failed(&self) -> Vec<AttemptReport> {
        self.attempts().iter().filter_map(|attempt| attempt.failure.clone()).collect()
    }

    /// What is told of the run without exchanges, if there was one.
    pub(super) fn whole(&self) -> Option<String> {
        self.whole.get().map(|(_, report)| report.as_ref().map(|report| report.json()).unwrap_or_default())
    }

    /// What has run elsewhere has cost.
    pub(super) fn cost(&self) -> StatementCost {
        let attempts = self.attempts();
        let costs = attempts.iter().map(|attempt| (attempt.list.cost)());
        let all = costs.fold(StatementCost::default(), StatementCost::plus);
        let moves = number(attempts.iter().filter(|attempt| attempt.failure.is_some()).count());
        let whole = self.whole.get().and_then(|(_, report)| report.as_ref()).map(|report| report.cost());
        StatementCost { moves: all.moves.saturating_add(moves), ..all }.plus(whole.unwrap_or_default())
    }
}
