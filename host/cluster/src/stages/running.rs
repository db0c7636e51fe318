//! A statement in stages while it runs: what runs of it after a worker has failed, and what is told of it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use serde_json::{Map, Value};
use tidegate_sql::{CarrierReport, OwnOperators, StatementCost};

use super::carrier::{Instead, StagePlanner};
use super::head;
use super::workers::StageList;
use crate::cut_report::{AttemptReport, ExchangeReport};

/// How a statement runs again: once with the workers that have not failed, then without exchanges.
pub(super) struct Retry {
    /// As the engine made it.
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    planner: Arc<StagePlanner>,
    instead: Mutex<Option<Instead>>,
}

impl Retry {
    pub(super) fn new(
        plan: &Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        planner: &Arc<StagePlanner>,
        instead: Instead,
    ) -> Self {
        Self { plan: Arc::clone(plan), context, planner: Arc::clone(planner), instead: Mutex::new(Some(instead)) }
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("planner", &self.planner).finish_non_exhaustive()
    }
}

/// A statement in stages, while it runs.
#[derive(Debug)]
pub(super) struct RunningStages {
    retry: Retry,
    attempts: Mutex<Vec<Attempt>>,
    /// The stages that run after a worker has failed.
    again: OnceLock<Arc<dyn ExecutionPlan>>,
    /// What runs after that, and what is told of it.
    whole: OnceLock<(Arc<dyn ExecutionPlan>, Option<Arc<dyn CarrierReport>>)>,
}

/// A run with exchanges.
#[derive(Debug)]
struct Attempt {
    list: StageList,
    stages: usize,
    /// Who failed, if it is known, and why.
    failure: Option<AttemptReport>,
}

impl RunningStages {
    pub(super) fn new(list: StageList, stages: usize, retry: Retry) -> Self {
        let attempts = Mutex::new(vec![Attempt { list, stages, failure: None }]);
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
        // Filters that operators make while they run, and rows that they share, are those of one run.
        let plan = reset_plan_states(Arc::clone(plan))?;
        let mut attempts = self.attempts();
        let is_first = attempts.len() == 1;
        let Some(failed) = attempts.last_mut() else { return internal_err!("no stages have run") };
        let (left_out, is_damaged) = failed.failed(error, planner);
        if is_first
            && !is_damaged
            && let Ok(staged) = planner.staged(&plan, &left_out, context)
        {
            let run = head::finished(&own(head::without_inputs(&staged.plan)?)?)?;
            attempts.push(Attempt { list: staged.list.clone(), stages: staged.stages, failure: None });
            return Ok((Arc::clone(self.again.get_or_init(|| run)), Some(staged.list)));
        }
        drop(attempts);
        let instead = instead.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(instead) = instead else { return internal_err!("a statement runs whole twice") };
        let carried = instead(plan)?;
        let report = carried.report.as_ref().map(Arc::clone);
        let run = carried.finished(Arc::clone(own))?;
        Ok((Arc::clone(&self.whole.get_or_init(|| (run, report)).0), None))
    }
}

impl Attempt {
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

impl CarrierReport for RunningStages {
    fn json(&self) -> String {
        let whole = self.whole.get();
        let exchange = {
            let attempts = self.attempts();
            let last = attempts.last();
            ExchangeReport {
                stages: last.map_or(0, |last| last.stages),
                workers: last
                    .map(|last| last.list.names.iter().map(|name| name.to_string()).collect())
                    .unwrap_or_default(),
                attempts: attempts.iter().filter_map(|attempt| attempt.failure.clone()).collect(),
                fell_back: whole.is_some(),
            }
        };
        let whole = whole.and_then(|(_, report)| Some(report.as_ref()?.json()));
        let mut report = whole.and_then(|report| serde_json::from_str(&report).ok()).unwrap_or_else(|| {
            let none = || Value::Array(Vec::new());
            Map::from_iter([("remote".to_owned(), none()), ("local".to_owned(), none())])
        });
        // It has no maps with other keys than texts, so it is always JSON.
        report.insert("exchange".to_owned(), serde_json::to_value(exchange).unwrap_or_default());
        Value::Object(report).to_string()
    }

    fn cost(&self) -> StatementCost {
        let attempts = self.attempts();
        let all =
            attempts.iter().map(|attempt| (attempt.list.cost)()).fold(StatementCost::default(), StatementCost::plus);
        let moves = attempts.iter().filter(|attempt| attempt.failure.is_some()).count();
        let moves = all.moves.saturating_add(tidegate_model::number(moves));
        let whole = self.whole.get().and_then(|(_, report)| report.as_ref()).map(|report| report.cost());
        StatementCost { moves, ..all }.plus(whole.unwrap_or_default())
    }
}
