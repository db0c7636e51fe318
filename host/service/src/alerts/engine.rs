//! Runs the alerts and sends the messages that are due.
//!
//! Both have places of their own, few, so that many alerts never take what requests of people need, and a slow query or a slow
//! receiver holds up few others: an endpoint has one run at a time, and one host gets half of the places for messages.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tidegate_model::{Alert, Code, Failure, milliseconds};
use tidegate_store::{AlertMessage, AlertRecord, RunOutcome, Store, StoreError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use super::counters::{AlertCounts, Counters, count};
use super::evaluation::{Finding, evaluate};
use super::message::{Subject, body};
use super::occurrence::after_run;
use super::report::{AlertRun, Delivery, RunError, iso};
use super::schedule::{next_run, pause};
use super::sender::{Attempt, Outgoing, Sender};
use crate::answer::Format;
use crate::blocking::blocking;
use crate::clock::Clock;
use crate::endpoints::Endpoints;
use crate::execution::{Executor, RunRecord, SentParameters, check_request, redaction, takes_time};
use crate::options::AlertOptions;
use crate::tenant::Tenant;
use crate::tokens::Access;

/// How often it is looked for what is due. Intervals of alerts are whole minutes.
const TICK: Duration = Duration::from_millis(500);
/// How much later an alert is run that found the server busy, in microseconds.
const BUSY_PAUSE: i64 = 5_000_000;
/// The longest answer of an endpoint that an alert reads, in bytes.
const MOST_ANSWER: usize = 8 << 20;
/// How long a run that was asked for waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most alerts and messages that are looked at in one tick.
const MOST_DUE: usize = 200;

/// The alerts of a service.
#[derive(Debug)]
pub struct Alerts {
    store: Arc<Store>,
    endpoints: Endpoints,
    executor: Arc<Executor>,
    clock: Clock,
    options: AlertOptions,
    sender: Arc<Sender>,
    runs: Arc<Semaphore>,
    sends: Arc<Semaphore>,
    /// The endpoints of which an alert runs.
    asked: InUse<Uuid>,
    /// The hosts to which messages are sent.
    hosts: InUse<String>,
    /// The messages that are sent.
    sending: InUse<i64>,
    counters: Counters,
    /// Notified when there may be something due.
    wake: Notify,
    stopping: AtomicBool,
}

/// What is in use, and how often.
#[derive(Debug)]
struct InUse<T>(Arc<Mutex<HashMap<T, usize>>>);

impl<T> Default for InUse<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Hash + Eq + Clone> InUse<T> {
    /// Uses it, if it is in use less than `most` times.
    fn take(&self, what: &T, most: usize) -> Option<Use<T>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uses = all.entry(what.clone()).or_default();
        let is_free = *uses < most;
        if is_free {
            *uses += 1;
        }
        is_free.then(|| Use { of: Arc::clone(&self.0), what: what.clone() })
    }
}

/// A use, which ends when it is dropped.
#[derive(Debug)]
struct Use<T: Hash + Eq> {
    of: Arc<Mutex<HashMap<T, usize>>>,
    what: T,
}

impl<T: Hash + Eq> Drop for Use<T> {
    fn drop(&mut self) {
        let mut all = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(uses) = all.get_mut(&self.what) {
            *uses = uses.saturating_sub(1);
            if *uses == 0 {
                all.remove(&self.what);
            }
        }
    }
}

/// An answer of an endpoint, with the condition evaluated.
struct Asked {
    /// The endpoint's name.
    endpoint: String,
    finding: Finding,
}

/// Runs alerts and sends messages until the service is dropped.
pub(crate) async fn work(alerts: Weak<Alerts>) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(alerts) = alerts.upgrade() else { return };
        if alerts.stopping.load(Ordering::Relaxed) {
            return;
        }
        if let Err(failure) = alerts.start_due().await {
            tracing::warn!(%failure, "the alerts that are due cannot be read; they are read again soon");
        }
        // What was made just now does not wait for the next tick.
        let _ = tokio::time::timeout(TICK, alerts.wake.notified()).await;
    }
}

impl Alerts {
    pub(crate) fn new(
        options: &AlertOptions,
        store: &Arc<Store>,
        endpoints: &Endpoints,
        executor: &Arc<Executor>,
        clock: Clock,
    ) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            endpoints: endpoints.clone(),
            executor: Arc::clone(executor),
            clock,
            options: options.clone(),
            sender: Arc::new(Sender::new(options)),
            runs: Arc::new(Semaphore::new(options.concurrency.max(1))),
            sends: Arc::new(Semaphore::new(options.send_concurrency.max(1))),
            asked: InUse::default(),
            hosts: InUse::default(),
            sending: InUse::default(),
            counters: Counters::default(),
            wake: Notify::new(),
            stopping: AtomicBool::new(false),
        })
    }

    /// What happened since the start.
    pub fn counts(&self) -> AlertCounts {
        self.counters.now()
    }

    /// Starts nothing any more.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Looks at what is due at once, because something was saved.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Starts the runs and the sends that are due and find a place. The others are due at the next tick.
    async fn start_due(self: &Arc<Self>) -> Result<(), Failure> {
        let now = self.clock.now();
        let look = move |store: &Store| {
            let catalog = store.catalog();
            Ok::<_, StoreError>((catalog.due_alerts(now, MOST_DUE)?, catalog.due_alert_messages(now, MOST_DUE)?))
        };
        let (alerts, messages) = blocking(&self.store, look).await?;
        for record in alerts {
            let Ok(place) = Arc::clone(&self.runs).try_acquire_owned() else { break };
            let Some(turn) = self.asked.take(&record.endpoint, 1) else { continue };
            let own = Arc::clone(self);
            tokio::spawn(async move {
                if own.run(record, place, turn).await.is_ok() {
                    own.wake();
                }
            });
        }
        let most = (self.options.send_concurrency / 2).max(1);
        for message in messages {
            let Ok(place) = Arc::clone(&self.sends).try_acquire_owned() else { break };
            let Ok(alert) = definition(&message.definition) else { continue };
            let Some(sending) = self.sending.take(&message.id, 1) else { continue };
            let Some(host) = self.hosts.take(&host(&alert.url), most) else { continue };
            let own = Arc::clone(self);
            tokio::spawn(async move {
                own.deliver(message, &alert).await;
                drop((place, host, sending));
                own.wake();
            });
        }
        Ok(())
    }

    /// Runs an alert now, as if its time had come. A paused one is run too.
    ///
    /// # Errors
    /// [`Code::NotFound`]; [`Code::Conflict`] while another alert of the endpoint runs; the server is busy.
    pub async fn run_now(self: &Arc<Self>, endpoint: Uuid, name: &str) -> Result<AlertRun, Failure> {
        let (place, turn) = self.wait_for_turn(endpoint).await?;
        let record = self.record(endpoint, name).await?;
        let own = Arc::clone(self);
        // A client who leaves does not break off a run.
        let run = tokio::spawn(async move {
            let run = own.run(record, place, turn).await;
            own.wake();
            run
        });
        run.await.unwrap_or_else(|error| {
            tracing::error!(%error, "the run of an alert broke off");
            Err(Failure::new(Code::Internal, "the run failed; the server's log has the details"))
        })
    }

    /// Asks the endpoint as the alert does, and sends a message with the state `test`, once. Nothing is kept.
    ///
    /// # Errors
    /// [`Code::NotFound`]; why the endpoint did not answer, or why the condition cannot be decided.
    pub async fn test(self: &Arc<Self>, endpoint: Uuid, name: &str) -> Result<(bool, Delivery), Failure> {
        let (run_place, turn) = self.wait_for_turn(endpoint).await?;
        let record = self.record(endpoint, name).await?;
        let alert = definition(&record.definition)?;
        let now = self.clock.now();
        let asked = self.ask(endpoint, &alert, now).await?;
        drop((run_place, turn));
        let holds = asked.finding.holds;
        let about = Subject {
            alert: &alert,
            endpoint: &asked.endpoint,
            endpoint_id: endpoint,
            finding: &asked.finding,
            at: now,
        };
        let text = body(about, "test", Uuid::new_v4(), now).map_err(unwritable)?;
        let key = name.to_owned();
        let secret = blocking(&self.store, move |store| store.catalog().alert_secret(endpoint, &key)).await?;
        let secret = secret.ok_or_else(|| unknown(name))?;
        let most = (self.options.send_concurrency / 2).max(1);
        let began = Instant::now();
        let (place, host) = loop {
            if let Some(host) = self.hosts.take(&host(&alert.url), most)
                && let Ok(place) = Arc::clone(&self.sends).try_acquire_owned()
            {
                break (place, host);
            }
            self.wait_a_moment(began, "other messages are being sent").await?;
        };
        let attempt = self.attempt(alert.url.clone(), secret, text).await;
        drop((place, host));
        Ok((holds, delivery(now, "test", 1, true, &attempt)))
    }

    async fn record(&self, endpoint: Uuid, name: &str) -> Result<AlertRecord, Failure> {
        let key = name.to_owned();
        let record = blocking(&self.store, move |store| store.catalog().alert(endpoint, &key)).await?;
        record.ok_or_else(|| unknown(name))
    }

    /// A place for a run that somebody asked for.
    async fn wait_for_turn(&self, endpoint: Uuid) -> Result<(OwnedSemaphorePermit, Use<Uuid>), Failure> {
        let began = Instant::now();
        loop {
            if let Some(turn) = self.asked.take(&endpoint, 1)
                && let Ok(place) = Arc::clone(&self.runs).try_acquire_owned()
            {
                return Ok((place, turn));
            }
            self.wait_a_moment(began, "other alerts are being run").await?;
        }
    }

    async fn wait_a_moment(&self, began: Instant, why: &str) -> Result<(), Failure> {
        if began.elapsed() > PATIENCE {
            return Err(Failure::new(Code::Overloaded, format!("{why}; try again later")).retry_after(5));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    }

    /// Runs an alert, and writes what follows.
    async fn run(
        &self,
        record: AlertRecord,
        place: OwnedSemaphorePermit,
        turn: Use<Uuid>,
    ) -> Result<AlertRun, Failure> {
        let alert = definition(&record.definition)?;
        let (now, began) = (self.clock.now(), Instant::now());
        let asked = self.ask(record.endpoint, &alert, now).await;
        drop(place);
        if let Err(failure) = &asked
            && matches!(failure.code, Code::Overloaded | Code::TooManyRequests)
        {
            count(&self.counters.postponed);
            let (endpoint, name) = (record.endpoint, record.name.clone());
            let later = now.saturating_add(BUSY_PAUSE);
            blocking(&self.store, move |store| store.catalog().postpone_alert(endpoint, &name, later)).await?;
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
        self.note(&record, &asked, message.as_ref().map(|(state, _)| *state));
        let text = serde_json::to_string(&run).map_err(unwritable)?;
        let next_run = next_run(record.endpoint, &alert, now.max(self.clock.now()));
        let outcome = RunOutcome { next_run, state, run: text, message, now };
        let written = blocking(&self.store, move |store| store.catalog().finish_alert_run(&record, &outcome)).await;
        if let Err(failure) = written {
            tracing::error!(%failure, "the run of an alert cannot be written; it is run again");
            // It is still due. Its endpoint is not asked again at once.
            tokio::time::sleep(Duration::from_micros(BUSY_PAUSE.unsigned_abs())).await;
            return Err(failure);
        }
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
    async fn ask(&self, id: Uuid, alert: &Alert, now: i64) -> Result<Asked, Failure> {
        let access = Access::to_endpoint(id, "an alert");
        let endpoint = self.endpoints.find(&access, &id.to_string()).await?;
        let name = endpoint.manifest.name.to_string();
        let reads = self.endpoints.reads(&endpoint).await?;
        let redact = redaction(&endpoint, &access, None)?;
        let values = alert.parameters.iter().map(|(name, text)| (name.clone(), text.clone())).collect();
        let sent = SentParameters { values, adhoc: None };
        let executor = Arc::clone(&self.executor);
        let is_slow = takes_time(&endpoint.manifest, &reads, &sent);
        let check = move || check_request(executor.limits(), endpoint, &reads, &access, sent, Format::NdJson, redact);
        let mut request = if is_slow { self.executor.run_in_place(Tenant::Alerts, check).await? } else { check()? };
        request.tenant = Tenant::Alerts;
        request.limits.answer_bytes = request.limits.answer_bytes.min(MOST_ANSWER);
        let running =
            Arc::clone(&self.executor).execute(Arc::new(request), now, Tenant::Alerts, Arc::<RunRecord>::default());
        let answer = running.await?;
        let condition = alert.condition.clone();
        let evaluated = tokio::task::spawn_blocking(move || evaluate(&condition, &answer.concat(), answer.truncated));
        let finding = evaluated.await.map_err(|error| {
            tracing::error!(%error, "an answer could not be evaluated");
            Failure::new(Code::Internal, "the answer could not be evaluated; the server's log has the details")
        })??;
        Ok(Asked { endpoint: name, finding })
    }

    /// Sends a message once, and writes what became of it.
    async fn deliver(&self, message: AlertMessage, alert: &Alert) {
        let now = self.clock.now();
        let attempt = self.attempt(alert.url.clone(), message.secret.clone(), message.body.clone()).await;
        let number = message.attempts.saturating_add(1);
        let is_last = u32::try_from(self.options.attempts).unwrap_or(u32::MAX) <= number;
        let confirmed = attempt.is_confirmed();
        let delivery = delivery(now, &message.state, number, is_last && !confirmed, &attempt);
        let (name, host) = (message.name.as_str(), host(&alert.url));
        let Delivery { state, status, error, .. } = &delivery;
        match (confirmed, is_last) {
            (true, _) => {
                count(&self.counters.sent);
                tracing::info!(endpoint = %message.endpoint, alert = name, state, host, "a message of an alert was sent");
            }
            (false, is_last) => {
                count(&self.counters.failed_sends);
                if is_last {
                    count(&self.counters.given_up);
                }
                tracing::warn!(
                    endpoint = %message.endpoint, alert = name, state, host, status, error, given_up = is_last,
                    "a message of an alert was not taken"
                );
            }
        }
        let text = serde_json::to_string(&delivery).unwrap_or_else(|_| "null".to_owned());
        let next =
            (!confirmed && !is_last).then(|| self.clock.now().saturating_add(pause(self.options.retry_wait, number)));
        let write = move |store: &Store| store.catalog().finish_alert_attempt(&message, &text, next);
        if let Err(failure) = blocking(&self.store, write).await {
            tracing::error!(%failure, "what became of a message of an alert cannot be written; it may be sent again");
            tokio::time::sleep(Duration::from_micros(BUSY_PAUSE.unsigned_abs())).await;
        }
    }

    async fn attempt(&self, url: String, secret: String, body: String) -> Attempt {
        let sender = Arc::clone(&self.sender);
        let seconds = self.clock.now() / 1_000_000;
        let send = move || sender.send(&Outgoing { url: &url, secret: &secret, body: &body, seconds });
        tokio::task::spawn_blocking(send).await.unwrap_or_else(|error| {
            tracing::error!(%error, "sending a message of an alert broke off");
            Attempt { status: Err("the attempt failed; the server's log has the details".to_owned()), milliseconds: 0 }
        })
    }
}

fn delivery(now: i64, state: &str, attempt: u32, given_up: bool, made: &Attempt) -> Delivery {
    Delivery {
        at: iso(now),
        state: state.to_owned(),
        attempt,
        delivered: made.is_confirmed(),
        given_up: given_up && !made.is_confirmed(),
        status: made.status.as_ref().ok().copied(),
        error: made.status.as_ref().err().cloned(),
        milliseconds: made.milliseconds,
    }
}

/// The host and port of an address, for the log and for the share of one host. The rest of an address may be a secret.
fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase()
}

fn definition(text: &str) -> Result<Alert, Failure> {
    serde_json::from_str(text).map_err(|error| {
        tracing::error!(%error, "the definition of an alert cannot be read");
        Failure::new(Code::Internal, "the definition of the alert cannot be read")
    })
}

fn unwritable(error: serde_json::Error) -> Failure {
    tracing::error!(%error, "a message of an alert cannot be written");
    Failure::new(Code::Internal, "the message cannot be written; the server's log has the details")
}

/// The failure for an alert that is not there.
fn unknown(name: &str) -> Failure {
    Failure::new(Code::NotFound, format!("the endpoint has no alert {name}")).about(name)
}
