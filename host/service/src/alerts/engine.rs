//! Runs the alerts and sends the messages that are due, and those that somebody asks for.
//!
//! Both have permits of their own, few, so that many alerts never take what requests of people need, and a slow query or a slow
//! receiver holds up few others: an endpoint has one run at a time, and one host gets half of the permits for messages.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tidegate_model::{Code, Failure};
use tidegate_store::Store;
use uuid::Uuid;

use super::deliveries::{delivery, host};
use super::message::{Subject, body};
use super::report::{AlertRun, Delivery};
use super::state::{Alerts, definition, unknown, unwritable};
use crate::blocking::blocking;
use crate::catalog::{AlertMessageTable, AlertTable, is_due};

/// How often it is looked for what is due. Intervals of alerts are whole minutes.
const TICK: Duration = Duration::from_millis(500);
/// The most alerts that are looked at in one tick, and the most messages that are read at once.
const MOST_DUE: usize = 200;
/// How often messages are read in one tick. What is behind them has its turn at the next tick.
const MOST_READS: usize = 5;

/// Runs alerts and sends messages until the service is dropped.
pub(crate) async fn work(alerts: Weak<Alerts>) {
    let mut last_sent = None;
    // The time at the last tick. At the start, what is written may be of any clock.
    let mut last = i64::MAX;
    loop {
        let Some(alerts) = alerts.upgrade() else { return };
        if alerts.stopping.load(Ordering::Relaxed) {
            return;
        }
        let now = alerts.clock.now();
        if now < last {
            match alerts.bring_forward(now).await {
                Ok(()) => last = now,
                Err(failure) => {
                    tracing::warn!(%failure, "the times of alerts cannot be looked at; that is tried again soon")
                }
            }
        } else {
            last = now;
        }
        let started = alerts.start_runs().await;
        let sent = alerts.start_sends(&mut last_sent).await;
        if let Err(failure) = started.and(sent) {
            tracing::warn!(%failure, "the alerts that are due cannot be read; they are read again soon");
        }
        // What was made just now does not wait for the next tick. A service that is dropped does not wait for this.
        let wake = Arc::clone(&alerts.wake);
        drop(alerts);
        let _ = tokio::time::timeout(TICK, wake.notified()).await;
    }
}

impl Alerts {
    /// Starts the runs that are due and find a permit. The others are due at the next tick.
    async fn start_runs(self: &Arc<Self>) -> Result<(), Failure> {
        let now = self.clock.now();
        let alerts = blocking(&self.store, move |store| AlertTable(store.catalog()).due(now, MOST_DUE)).await?;
        for record in alerts {
            let Ok(permit) = Arc::clone(&self.runs).try_acquire_owned() else { break };
            let Some(turn) = self.asked.take(&record.endpoint, 1) else { continue };
            let own = Arc::clone(self);
            tokio::spawn(async move {
                // Read again, now that nobody else runs it: it may have been run since it was found to be due.
                let record = match own.record(record.endpoint, &record.name).await {
                    Ok(record) if record.next_run.is_some_and(|time| is_due(time, now)) => record,
                    _ => return,
                };
                if own.run(record, permit, turn).await.is_ok() {
                    own.wake();
                }
            });
        }
        Ok(())
    }

    /// Starts the sends that are due and find a permit. They are read from behind `last` on, the last that was looked at and
    /// had to wait: a host that does not answer may have more messages than are read in one tick, and those of other
    /// hosts stand behind them.
    async fn start_sends(self: &Arc<Self>, last: &mut Option<(i64, i64)>) -> Result<(), Failure> {
        let now = self.clock.now();
        let most = (self.options.send_concurrency / 2).max(1);
        for _ in 0..MOST_READS {
            let after = *last;
            let read = move |store: &Store| AlertMessageTable(store.catalog()).due(now, after, MOST_DUE);
            let messages = blocking(&self.store, read).await?;
            let is_end = messages.len() < MOST_DUE;
            for message in messages {
                let Ok(permit) = Arc::clone(&self.sends).try_acquire_owned() else { return Ok(()) };
                *last = Some((message.next_try, message.id));
                let Ok(alert) = definition(&message.definition) else { continue };
                let Some(sending) = self.sending.take(&message.id, 1) else { continue };
                let Some(host) = self.hosts.take(&host(&alert.url), most) else { continue };
                let own = Arc::clone(self);
                tokio::spawn(async move {
                    own.deliver(message, &alert).await;
                    drop((permit, host, sending));
                    own.wake();
                });
            }
            if is_end {
                *last = None;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Runs an alert now, as if its time had come. A paused one is run too.
    ///
    /// # Errors
    /// [`Code::NotFound`]; [`Code::Overloaded`] while other alerts run, or the server is busy.
    pub async fn run_now(self: &Arc<Self>, endpoint: Uuid, name: &str) -> Result<AlertRun, Failure> {
        let (permit, turn) = self.wait_for_turn(endpoint).await?;
        let record = self.record(endpoint, name).await?;
        let own = Arc::clone(self);
        // A client who leaves does not break off a run.
        let run = tokio::spawn(async move {
            let run = own.run(record, permit, turn).await;
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
        let secret = self.secret(endpoint, name).await?.ok_or_else(|| unknown(name))?;
        let most = (self.options.send_concurrency / 2).max(1);
        let began = Instant::now();
        let (permit, host) = loop {
            if let Some(host) = self.hosts.take(&host(&alert.url), most)
                && let Ok(permit) = Arc::clone(&self.sends).try_acquire_owned()
            {
                break (permit, host);
            }
            self.wait_a_moment(began, "other messages are being sent").await?;
        };
        let attempt = self.attempt(alert.url.clone(), secret, text).await;
        drop((permit, host));
        Ok((holds, delivery(now, "test", 1, true, &attempt)))
    }
}
