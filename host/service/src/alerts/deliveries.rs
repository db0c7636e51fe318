//! One attempt to send a message, and what becomes of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_model::Alert;
use tidegate_store::Store;

use super::counters::count;
use super::report::{Delivery, iso};
use super::schedule::pause;
use super::sender::{Attempt, Outgoing};
use super::state::Alerts;
use crate::blocking::blocking;
use crate::catalog::{AlertMessage, AlertMessageTable};

/// The first and the longest pause before what became of a message is written again that could not be.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Alerts {
    /// Sends a message once, and writes what became of it. Ends when that is written.
    pub(super) async fn deliver(&self, message: AlertMessage, alert: &Alert) {
        let (id, tried) = (message.id, message.attempts);
        // It was read before it was taken up here, and may have been sent in between.
        match blocking(&self.store, move |store| AlertMessageTable(store.catalog()).waits(id, tried)).await {
            Ok(true) => {}
            Ok(false) | Err(_) => return,
        }
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
        self.write_down(message, text, next).await;
    }

    /// Writes what became of a message. Where that fails the write alone is tried again until the service stops: a receiver
    /// that has confirmed a message would get it again else. The message keeps its place among those that are sent, so
    /// that no more of them wait here than are sent at once, and nothing is sent of which no note can be made.
    async fn write_down(&self, message: AlertMessage, delivery: String, next: Option<i64>) {
        let what = Arc::new((message, delivery));
        let mut pause = FIRST_PAUSE;
        loop {
            let own = Arc::clone(&what);
            let write = move |store: &Store| AlertMessageTable(store.catalog()).finish_attempt(&own.0, &own.1, next);
            let Err(failure) = blocking(&self.store, write).await else { return };
            if self.stopping.load(Ordering::Relaxed) {
                tracing::error!(%failure, "what became of a message of an alert cannot be written; it may be sent again");
                return;
            }
            if pause == FIRST_PAUSE {
                tracing::error!(%failure, "what became of a message of an alert cannot be written; that is tried again");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    pub(super) async fn attempt(&self, url: String, secret: String, body: String) -> Attempt {
        let sender = Arc::clone(&self.sender);
        let seconds = self.clock.now() / 1_000_000;
        let (done, waiting) = tokio::sync::oneshot::channel();
        let send = move || {
            let _ = done.send(sender.send(&Outgoing { url: &url, secret: &secret, body: &body, seconds }));
        };
        // A thread that the end of the process does not wait for, unlike those of the runtime: a receiver may be slow.
        let started = std::thread::Builder::new().name("tidegate-alert".to_owned()).spawn(send);
        let attempt = match started {
            Ok(_) => waiting.await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        attempt.unwrap_or_else(|error| {
            tracing::error!(error, "sending a message of an alert broke off");
            Attempt { status: Err("the attempt failed; the server's log has the details".to_owned()), milliseconds: 0 }
        })
    }
}

/// An attempt, as it is stored and shown.
pub(super) fn delivery(now: i64, state: &str, attempt: u32, given_up: bool, made: &Attempt) -> Delivery {
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
pub(super) fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase()
}
