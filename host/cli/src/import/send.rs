//! Sends batches. A batch is sent again if the server says that it is busy, and if its connection breaks: under the same
//! idempotency key it is stored only once, also where the server had stored it and its answer was lost.

use std::time::Instant;

use super::answer::Stored;
use super::lines::Event;
use super::patience::Patience;
use crate::client::Client;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The result of sending a batch.
#[derive(Debug)]
pub(super) enum Sent {
    /// The server took the batch.
    Stored(Stored),
    /// No event of the batch is stored; the reason.
    Refused(String),
}

pub(super) struct Sender {
    client: Client,
    path: String,
    /// Whether a server has answered.
    is_known: bool,
}

impl Sender {
    /// A sender of events for one source.
    pub(super) fn new(client: Client, source: &str) -> Self {
        let source: String = form_urlencoded::byte_serialize(source.as_bytes()).collect();
        Self { client, path: format!("/api/logs?source_name={source}"), is_known: false }
    }

    /// Sends a batch of events. `tell` is told of each connection that breaks.
    ///
    /// # Errors
    /// Failures that would be the same for every batch, and failures after which it is unknown whether this batch is
    /// stored.
    pub(super) fn send(&mut self, events: &[Event], tell: impl Fn(&str)) -> Outcome<Sent> {
        let mut body = Vec::new();
        for event in events {
            body.extend_from_slice(&event.text);
            body.push(b'\n');
        }
        let unknown = |error: &dyn std::fmt::Display| {
            let (first, last) = (events.first().map_or(0, |e| e.line), events.last().map_or(0, |e| e.line));
            format!("{error}; whether lines {first} to {last} were stored is not known")
        };
        let mut patience = Patience::new(Instant::now());
        // The idempotency key of the batch.
        let name = uuid::Uuid::new_v4().to_string();
        loop {
            let key = Some(("idempotency-key", name.as_str()));
            let reply = self.client.send_with(key, "POST", &self.path, Some(("application/x-ndjson", &body)));
            let reply = match reply {
                Ok(reply) => reply,
                Err(error) => {
                    let pause = patience.after_break(Instant::now(), self.is_known).ok_or_else(|| unknown(&error))?;
                    tell(&format!("{error}; the same events are sent again in {} s", pause.as_secs()));
                    std::thread::sleep(pause);
                    continue;
                }
            };
            self.is_known = true;
            if reply.status == 200 {
                let sent = events.iter().fold(0_u64, |all, event| all.saturating_add(event.events));
                let stored = Stored::read(&reply.body, sent).map_err(|error| unknown(&error))?;
                return Ok(Sent::Stored(stored));
            }
            let (status, message) = (reply.status, reply.message());
            let refused = format!("the server answers {status}: {message}");
            match status {
                // 408, 502 and 504 come from a server, or a proxy before it, to which a request or an answer was lost.
                408 | 429 | 502 | 503 | 504 | 507 => {
                    let pause = patience.after_refusal(Instant::now(), reply.retry_after).ok_or(refused)?;
                    std::thread::sleep(pause);
                }
                400 | 413 | 422 => return Ok(Sent::Refused(message)),
                _ => return Err(refused.into()),
            }
        }
    }
}
