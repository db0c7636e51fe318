//! One attempt to send a message, and what becomes of it.

use std::sync::Arc;
use std::time::Duration;

use tidegate_model::Alert;
use tidegate_store::{AlertMessage, Store};

use super::counters::count;
use super::report::{Delivery, iso};
use super::schedule::pause;
use super::sender::{Attempt, Outgoing};
use super::state::Alerts;
use crate::blocking::blocking;

/// How long a message is kept back when what became of it cannot be written.
const WRITE_PAUSE: Duration = Duration::from_secs(5);

impl Alerts {
    /// Sends a message once, and writes what became of it.
    pub(super) async fn deliver(&self, message: AlertMessage, alert: &Alert) {
        let (id, tried) = (message.id, message.attempts);
        // It was read before it was taken up here, and may have been sent in between.
        match blocking(&self.store, move |store| store.catalog().alert_message_waits(id, tried)).await {
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
        let write = move |store: &Store| store.catalog().finish_alert_attempt(&message, &text, next);
        if let Err(failure) = blocking(&self.store, write).await {
            tracing::error!(%failure, "what became of a message of an alert cannot be written; it may be sent again");
            tokio::time::sleep(WRITE_PAUSE).await;
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
