//! One run of an alert: its endpoint is asked, its condition evaluated, and what follows is written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_model::{Alert, Code, Failure, milliseconds};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use super::counters::count;
use super::evaluation::{Finding, evaluate};
use super::in_use::Use;
use super::message::{Subject, body};
use super::occurrence::after_run;
use super::report::{AlertRun, RunError, iso};
use super::schedule::next_run;
use super::state::{Alerts, definition, unwritable};
use crate::account::Account;
use crate::answer::Format;
use crate::blocking::blocking;
use crate::catalog::{AlertRecord, AlertTable, RunOutcome};
use crate::execution::{RunRecord, SentParameters, redaction};
use crate::tokens::Access;

/// How much later an alert is run that found the server busy, in microseconds.
const BUSY_PAUSE: i64 = 5_000_000;
/// The longest answer of an endpoint that an alert reads, in bytes.
const MOST_ANSWER: usize = 8 << 20;

/// An answer of an endpoint, with the condition evaluated.
pub(super) struct Asked {
    /// The endpoint's name.
    pub(super) endpoint: String,
    pub(super) finding: Finding,
}

impl Alerts {
    /// Runs an alert, and writes what follows.
    pub(super) async fn run(
        &self,
        record: AlertRecord,
        permit: OwnedSemaphorePermit,
        turn: Use<Uuid>,
    ) -> Result<AlertRun, Failure> {
        let alert = definition(&record.definition)?;
        let (now, began) = (self.clock.now(), Instant::now());
        let asked = self.ask(record.endpoint, &alert, now).await;
        drop(permit);
        if let Err(failure) = &asked
            && matches!(failure.code, Code::Overloaded | Code::TooManyRequests)
        {
            count(&self.counters.postponed);
            let (endpoint, name) = (record.endpoint, record.name.clone());
            let later = now.saturating_add(BUSY_PAUSE);
            blocking(&self.store, move |store| AlertTable(store.catalog()).reschedule(endpoint, &name, later)).await?;
            return Err(failure.clone());
        }
        let (state, made) = match &asked {
            Ok(asked) => after_run(&alert, record.state, asked.finding.holds, now, Uuid::new_v4()),
            // An answer that is not there says nothing about the condition.
            Err(_) => (record.state, None),
        };
        let message = match (&asked, made) {
            (Ok(asked), Some((made, occurrence, since))) => {
                let about = Subject {
                    alert: &alert,
                    endpoint: &asked.endpoint,
                    endpoint_id: record.endpoint,
                    finding: &asked.finding,
                    at: now,
                };
                let text = body(about, made.name(), occurrence, since).map_err(unwritable)?;
                Some((made.name(), text))
            }
            _ => None,
        };
        let finding = asked.as_ref().ok().map(|asked| &asked.finding);
        let run = AlertRun {
            at: iso(now),
            milliseconds: milliseconds(began.elapsed()),
            holds: finding.map(|finding| finding.holds),
            rows: finding.map(|finding| finding.rows),
            value: finding.and_then(|finding| finding.value.clone()),
            error: asked.as_ref().err().map(RunError::from),
            occurrence: state.occurrence.or(record.state.occurrence).map(|(id, _)| id.to_string()),
            message: message.as_ref().map(|(state, _)| (*state).to_owned()),
        };
        let (told, noted) = (message.as_ref().map(|(state, _)| *state), record.clone());
        let text = serde_json::to_string(&run).map_err(unwritable)?;
        let next_run = next_run(record.endpoint, &alert, now.max(self.clock.now()));
        let outcome = RunOutcome { next_run, state, run: text, message, now };
        let written =
            blocking(&self.store, move |store| AlertTable(store.catalog()).finish_run(&record, &outcome)).await;
        if let Err(failure) = written.clone() {
            tracing::error!(%failure, "the run of an alert cannot be written; it is run again");
            // It is still due. Its endpoint is not asked again at once.
            tokio::time::sleep(Duration::from_micros(BUSY_PAUSE.unsigned_abs())).await;
            return Err(failure);
        }
        if written == Ok(false) {
            let message = "the alert was changed while it ran; what it found counts for nothing";
            return Err(Failure::new(Code::Conflict, message));
        }
        self.note(&noted, &asked, told);
        drop(turn);
        Ok(run)
    }

    /// Counts a run and writes it to the log.
    fn note(&self, record: &AlertRecord, asked: &Result<Asked, Failure>, message: Option<&str>) {
        let alert = record.name.as_str();
        match asked {
            Ok(Asked { endpoint, finding }) => {
                count(&self.counters.runs);
                match message {
                    Some(state) => {
                        tracing::info!(endpoint, alert, state, rows = finding.rows, "an alert changed its state")
                    }
                    None => tracing::debug!(endpoint, alert, rows = finding.rows, "an alert was run"),
                }
            }
            Err(failure) => {
                count(&self.counters.failed_runs);
                let code = failure.code.name();
                tracing::warn!(endpoint = %record.endpoint, alert, code, "an alert could not be run");
            }
        }
    }

    /// Asks the endpoint with the parameters of the alert, and evaluates its condition.
    pub(super) async fn ask(&self, id: Uuid, alert: &Alert, now: i64) -> Result<Asked, Failure> {
        let access = Arc::new(Access::to_endpoint(id, "an alert", alert.tenant.clone()));
        let endpoint = self.endpoints.find(&access, &id.to_string()).await?;
        let name = endpoint.manifest.name.to_string();
        let redact = redaction(&endpoint, &access, None)?;
        let values = alert.parameters.iter().map(|(name, text)| (name.clone(), text.clone())).collect();
        let sent = SentParameters { values, ..SentParameters::default() };
        let checked = self.executor.checked(Account::Alerts, endpoint, access, sent, Format::NdJson, redact);
        let mut request = checked.await?;
        request.limits.answer_bytes = request.limits.answer_bytes.min(MOST_ANSWER);
        let running =
            Arc::clone(&self.executor).execute(Arc::new(request), now, Account::Alerts, Arc::<RunRecord>::default());
        let answer = running.await?;
        let condition = alert.condition.clone();
        let evaluated = tokio::task::spawn_blocking(move || evaluate(&condition, &answer.concat(), answer.truncated));
        let finding = evaluated.await.map_err(|error| {
            tracing::error!(%error, "an answer could not be evaluated");
            Failure::new(Code::Internal, "the answer could not be evaluated; the server's log has the details")
        })??;
        Ok(Asked { endpoint: name, finding })
    }
}
