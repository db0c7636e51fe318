//! Sends batches. A batch is sent again if the server says that it is busy, but not if the server may have stored it
//! already.

use std::time::{Duration, Instant};

use super::lines::Event;
use crate::client::Client;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The time for which a batch is retried while the server is busy.
const PATIENCE: Duration = Duration::from_secs(600);
/// The longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The result of sending a batch.
#[derive(Debug)]
pub(super) enum Sent {
    /// The batch is stored, except for these events: the index in the batch and the reason of some, and the number of
    /// all.
    Stored(Vec<(usize, String)>, u64),
    /// No event of the batch is stored; the reason.
    Refused(String),
}

pub(super) struct Sender {
    client: Client,
    path: String,
}

impl Sender {
    /// A sender of events for one source.
    pub(super) fn new(client: Client, source: &str) -> Self {
        let source: String = form_urlencoded::byte_serialize(source.as_bytes()).collect();
        Self { client, path: format!("/api/logs?source_name={source}") }
    }

    /// Sends a batch of events.
    ///
    /// # Errors
    /// Failures that would be the same for every batch, and failures after which it is unknown whether this batch is
    /// stored.
    pub(super) fn send(&self, events: &[Event]) -> Outcome<Sent> {
        let mut body = Vec::new();
        for event in events {
            body.extend_from_slice(&event.text);
            body.push(b'\n');
        }
        let began = Instant::now();
        // The idempotency key of the batch. The server may not know whether it stored a batch; if the batch is sent
        // again under the same key, it is stored only once.
        let name = uuid::Uuid::new_v4().to_string();
        loop {
            let reply = self.client.send_as(Some(&name), "POST", &self.path, Some(("application/x-ndjson", &body)));
            let reply = reply.map_err(|error| {
                let (first, last) = (events.first().map_or(0, |e| e.line), events.last().map_or(0, |e| e.line));
                format!("{error}; whether lines {first} to {last} were stored is not known")
            })?;
            if reply.status == 200 {
                let (named, count) = refused(&reply.body);
                return Ok(Sent::Stored(named, count));
            }
            let (status, message) = (reply.status, reply.message());
            match status {
                429 | 503 | 507 if began.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_secs(reply.retry_after.unwrap_or(1).max(1)).min(LONGEST_WAIT));
                }
                400 | 413 | 422 => return Ok(Sent::Refused(message)),
                _ => return Err(format!("the server answers {status}: {message}").into()),
            }
        }
    }
}

/// The events of a batch that were not stored. The answer lists some of them, and the number of all.
fn refused(body: &[u8]) -> (Vec<(usize, String)>, u64) {
    let Ok(body) = serde_json::from_slice::<serde_json::Value>(body) else { return (Vec::new(), 0) };
    let named = body.get("errors").and_then(|errors| errors.as_array()).into_iter().flatten().filter_map(|error| {
        let index = usize::try_from(error.get("index")?.as_u64()?).ok()?;
        Some((index, error.get("message")?.as_str()?.to_owned()))
    });
    (named.collect(), body.get("rejected").and_then(serde_json::Value::as_u64).unwrap_or(0))
}
