//! The clock of one connection: how long its client may take for each step.
//!
//! hyper has one timer, for request heads, and runs it on idle connections too. So everything with which a slow or
//! hostile client can hold a connection is watched here, for HTTP/1 and HTTP/2 alike: a request head that arrives byte
//! by byte, an idle connection, a response that the client does not read. A client must never pause longer than a
//! timeout. Over the whole transfer it must also keep a minimum rate, so that a byte now and then does not count as
//! progress. The bodies of requests are watched in [`crate::middleware::body_timeout`], where a response can still be
//! sent.

mod body;
mod head_memory;
mod io;

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::Version;
use tidegate_service::options::ServerOptions;

pub(crate) use body::{ActiveRequest, TimedBody};
pub(crate) use head_memory::HeadMemory;
pub(crate) use io::{Side, TimedStream};

/// How long after the start of a graceful shutdown an idle connection is closed by force.
const SHUTDOWN_TIME: Duration = Duration::from_secs(5);
/// The most bytes that count towards the rate: a client that was fast for an hour may not be slow for the next.
const CREDIT: u64 = 64 << 20;

/// Whose a request's connection is, as an extension of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) uses_tls: bool,
}

/// The timeouts of a connection, and the minimum rate of its transfers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) head: Duration,
    pub(crate) idle: Duration,
    pub(crate) write: Duration,
    /// Bytes per second.
    pub(crate) rate: u64,
}

impl Timeouts {
    pub(crate) fn of(options: &ServerOptions) -> Self {
        Self {
            head: options.head_timeout,
            idle: options.idle_timeout,
            write: options.write_timeout,
            rate: options.least_rate,
        }
    }

    /// How often the clock is checked: often enough that a timeout is exceeded by a quarter at most.
    pub(crate) fn grain(&self) -> Duration {
        let least = self.head.min(self.idle).min(self.write) / 4;
        least.clamp(Duration::from_millis(25), Duration::from_secs(1))
    }
}

/// The bytes that were moved in one direction, and the time that was spent waiting for the client.
#[derive(Debug, Default)]
pub(crate) struct TransferRate {
    bytes: u64,
    waited: Duration,
    waiting_since: Option<Instant>,
}

impl TransferRate {
    /// Records that the connection waits for the client.
    pub(crate) fn wait(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// Records that the connection no longer waits for the client, which may have moved some bytes.
    pub(crate) fn moved(&mut self, bytes: usize, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += now.saturating_duration_since(since);
        }
        self.bytes = self.bytes.saturating_add(tidegate_model::number(bytes)).min(CREDIT);
    }

    /// When the time of the client is over, if nothing moves until then. None while the connection does not wait for
    /// it.
    pub(crate) fn deadline(&self, timeout: Duration, rate: u64) -> Option<Instant> {
        let since = self.waiting_since?;
        let whole = timeout + Duration::from_secs(self.bytes / rate.max(1));
        Some(since + timeout.min(whole.saturating_sub(self.waited)))
    }
}

/// What to do with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The client is within its timeouts.
    Keep,
    /// The connection is idle: it is shut down gracefully.
    End,
    /// The client has exceeded a timeout: the connection is closed by force, for this reason.
    Cut(&'static str),
}

/// The clock of one connection, which its stream and its requests share.
#[derive(Debug)]
pub(crate) struct ConnectionClock {
    timeouts: Timeouts,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Requests whose responses are not complete.
    requests: usize,
    /// When the last response was completed.
    idle_since: Instant,
    /// When the first byte arrived that belongs to no request yet. With HTTP/2 only before the first request: later bytes
    /// are mostly none of a head (the answer to a ping, room for more data), and the time for idle connections bounds
    /// a head that does not come.
    head_since: Option<Instant>,
    is_http2: bool,
    /// The bytes that are written to the socket.
    socket: TransferRate,
    /// The bodies of responses, by the id of their request. With HTTP/2 a client can refuse to read one while it reads
    /// others.
    answers: Vec<(u64, TransferRate)>,
    next: u64,
}

impl ConnectionClock {
    pub(crate) fn new(timeouts: Timeouts, now: Instant) -> Self {
        let state = State {
            requests: 0,
            idle_since: now,
            // The time for the head of the first request starts with the connection.
            head_since: Some(now),
            is_http2: false,
            socket: TransferRate::default(),
            answers: Vec::new(),
            next: 0,
        };
        Self { timeouts, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that bytes were read.
    pub(crate) fn read(&self, now: Instant) {
        let mut state = self.state();
        if state.requests == 0 && !state.is_http2 {
            state.head_since.get_or_insert(now);
        }
    }

    /// Records that the socket takes no more bytes.
    pub(crate) fn blocked(&self, now: Instant) {
        self.state().socket.wait(now);
    }

    /// Records that the socket took bytes.
    pub(crate) fn wrote(&self, bytes: usize, now: Instant) {
        self.state().socket.moved(bytes, now);
    }

    /// Records that the head of a request has arrived. Returns the id of the request on this connection.
    fn begin(&self, version: Version) -> u64 {
        let mut state = self.state();
        state.is_http2 = version == Version::HTTP_2;
        if state.requests == 0 {
            state.socket.bytes = 0;
            state.socket.waited = Duration::ZERO;
        }
        state.requests += 1;
        state.head_since = None;
        state.next += 1;
        let id = state.next;
        state.answers.push((id, TransferRate::default()));
        id
    }

    fn answer(&self, id: u64, change: impl FnOnce(&mut TransferRate)) {
        let mut state = self.state();
        if let Some((_, transfer)) = state.answers.iter_mut().find(|(known, _)| *known == id) {
            change(transfer);
        }
    }

    /// Records that a response was completed or dropped.
    fn end(&self, id: u64, now: Instant) {
        let mut state = self.state();
        state.answers.retain(|(known, _)| *known != id);
        state.requests = state.requests.saturating_sub(1);
        state.idle_since = now;
    }

    /// What to do with the connection now.
    pub(crate) fn verdict(&self, now: Instant) -> Verdict {
        let state = self.state();
        let Timeouts { head, idle, write, rate } = self.timeouts;
        let late = |transfer: &TransferRate| transfer.deadline(write, rate).is_some_and(|deadline| deadline <= now);
        if late(&state.socket) || state.answers.iter().any(|(_, transfer)| late(transfer)) {
            return Verdict::Cut("its client does not take its answer");
        }
        if state.requests > 0 {
            return Verdict::Keep;
        }
        if state.head_since.is_some_and(|since| now.saturating_duration_since(since) >= head) {
            return Verdict::Cut("a request's head does not come");
        }
        match now.saturating_duration_since(state.idle_since) {
            time if time >= idle + SHUTDOWN_TIME => Verdict::Cut("it is idle"),
            time if time >= idle => Verdict::End,
            _ => Verdict::Keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn clock() -> (ConnectionClock, Instant) {
        let now = Instant::now();
        let timeouts = Timeouts { head: SECOND * 10, idle: SECOND * 60, write: SECOND * 30, rate: 1000 };
        (ConnectionClock::new(timeouts, now), now)
    }

    #[test]
    fn heads_have_their_time_also_on_new_and_on_kept_connections() {
        let (clock, start) = clock();
        assert_eq!(clock.verdict(start + SECOND * 9), Verdict::Keep);
        assert!(matches!(clock.verdict(start + SECOND * 10), Verdict::Cut(_)));
        let id = clock.begin(Version::HTTP_11);
        assert_eq!(clock.verdict(start + SECOND * 1000), Verdict::Keep, "a request may take its time");
        let done = start + SECOND * 1000;
        clock.end(id, done);
        assert_eq!(clock.verdict(done + SECOND * 59), Verdict::Keep);
        assert_eq!(clock.verdict(done + SECOND * 60), Verdict::End);
        assert!(matches!(clock.verdict(done + SECOND * 66), Verdict::Cut(_)));
        clock.read(done + SECOND * 40);
        clock.read(done + SECOND * 49);
        assert!(matches!(clock.verdict(done + SECOND * 50), Verdict::Cut(_)), "a byte now and then is no head");
    }

    #[test]
    fn what_comes_on_an_idle_http2_connection_is_no_head() {
        let (clock, start) = clock();
        assert!(matches!(clock.verdict(start + SECOND * 10), Verdict::Cut(_)), "the first request has its time");
        let id = clock.begin(Version::HTTP_2);
        clock.end(id, start);
        // The answer to a ping.
        clock.read(start + SECOND * 30);
        assert_eq!(clock.verdict(start + SECOND * 59), Verdict::Keep);
        assert_eq!(clock.verdict(start + SECOND * 60), Verdict::End);
        assert!(matches!(clock.verdict(start + SECOND * 66), Verdict::Cut(_)));
    }

    #[test]
    fn answers_must_be_taken_without_a_long_pause_and_at_the_least_rate() {
        let (clock, start) = clock();
        let id = clock.begin(Version::HTTP_11);
        clock.blocked(start);
        assert_eq!(clock.verdict(start + SECOND * 29), Verdict::Keep);
        assert!(matches!(clock.verdict(start + SECOND * 30), Verdict::Cut(_)));
        // A byte every 20 seconds is within the timeout, and far below the minimum rate.
        let mut now = start;
        for _ in 0..2 {
            now += SECOND * 20;
            clock.wrote(1, now);
            clock.blocked(now);
        }
        assert!(matches!(clock.verdict(now), Verdict::Cut(_)));
        clock.end(id, now);
        clock.wrote(0, now);
        let _next = clock.begin(Version::HTTP_11);
        clock.blocked(now);
        assert_eq!(clock.verdict(now + SECOND * 29), Verdict::Keep, "each request begins anew");
    }

    #[test]
    fn one_answer_among_others_cannot_be_held_back() {
        let (clock, start) = clock();
        let (held, taken) = (clock.begin(Version::HTTP_11), clock.begin(Version::HTTP_11));
        clock.answer(held, |transfer| transfer.wait(start));
        for i in 1..40 {
            clock.answer(taken, |transfer| {
                transfer.moved(1000, start + SECOND * i);
                transfer.wait(start + SECOND * i);
            });
        }
        assert!(matches!(clock.verdict(start + SECOND * 40), Verdict::Cut(_)));
        clock.end(held, start + SECOND * 40);
        assert_eq!(clock.verdict(start + SECOND * 40), Verdict::Keep);
    }
}
