//! Sending batches: again where the server says that it is busy, never where it may have stored
//! them already.

use std::time::{Duration, Instant};

use super::lines::Event;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// How long one batch is tried while the server is busy.
const PATIENCE: Duration = Duration::from_secs(600);
/// The longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What became of a batch.
#[derive(Debug)]
pub(super) enum Sent {
    /// All but these: the place of each in the batch and the reason, and how many there are.
    Stored(Vec<(usize, String)>, u64),
    /// Nothing of it was stored, and why.
    Refused(String),
}

pub(super) struct Sender {
    agent: ureq::Agent,
    url: String,
    token: String,
}

impl Sender {
    /// # Errors
    /// An address that is none.
    pub(super) fn new(url: &str, source: &str, token: String) -> Outcome<Self> {
        if !url.starts_with("http://") {
            return Err(format!("{url}: an address begins with http://; encryption is left to a proxy").into());
        }
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(120)))
            .build()
            .new_agent();
        let source: String = form_urlencoded::byte_serialize(source.as_bytes()).collect();
        let url = format!("{}/api/logs?source_name={source}", url.trim_end_matches('/'));
        Ok(Self { agent, url, token })
    }

    /// # Errors
    /// What would be the same for every batch, and what leaves open whether this one was stored.
    pub(super) fn send(&self, events: &[Event]) -> Outcome<Sent> {
        let mut body = Vec::new();
        for event in events {
            body.extend_from_slice(&event.text);
            body.push(b'\n');
        }
        let began = Instant::now();
        loop {
            let request = self
                .agent
                .post(&self.url)
                .header("x-api-key", &self.token)
                .header("content-type", "application/x-ndjson");
            let mut response = request.send(&body[..]).map_err(|error| {
                let (first, last) = (events.first().map_or(0, |e| e.line), events.last().map_or(0, |e| e.line));
                format!("{error}; whether lines {first} to {last} were stored is not known")
            })?;
            let status = response.status().as_u16();
            if status == 200 {
                let told = response.body_mut().read_to_string().unwrap_or_default();
                let (named, count) = refused(&told);
                return Ok(Sent::Stored(named, count));
            }
            let wait = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
            let message = message(&response.body_mut().read_to_string().unwrap_or_default());
            match status {
                429 | 503 | 507 if began.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_secs(wait.unwrap_or(1).max(1)).min(LONGEST_WAIT));
                }
                400 | 413 | 422 => return Ok(Sent::Refused(message)),
                _ => return Err(format!("the server answers {status}: {message}").into()),
            }
        }
    }
}

/// The events of a batch that were not stored; the answer names some and counts all.
fn refused(body: &str) -> (Vec<(usize, String)>, u64) {
    let Ok(body) = serde_json::from_str::<serde_json::Value>(body) else { return (Vec::new(), 0) };
    let named = body.get("errors").and_then(|errors| errors.as_array()).into_iter().flatten().filter_map(|error| {
        let index = usize::try_from(error.get("index")?.as_u64()?).ok()?;
        Some((index, error.get("message")?.as_str()?.to_owned()))
    });
    (named.collect(), body.get("rejected").and_then(serde_json::Value::as_u64).unwrap_or(0))
}

/// The message of an error, or the whole if it has another form.
fn message(body: &str) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let message = parsed.as_ref().and_then(|body| body.get("error")?.get("message")?.as_str());
    message.unwrap_or(body).chars().take(500).collect()
}
