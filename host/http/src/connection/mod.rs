//! The clocks of one connection: how long its client may take for what.
//!
//! hyper has one timer, for heads, and runs it on idle connections too. Everything else that a slow or
//! hostile client can hold on to is watched here, for HTTP/1 and HTTP/2 alike: a head that
//! dribbles in, an idle connection, an answer that is not taken. A client must never pause longer
//! than a timeout, and over the whole it must keep a least rate, so that a byte now and then does
//! not count as progress. Bodies of requests are watched in [`crate::middleware::body_timeout`], where they can be
//! answered.

mod address;
mod body;
mod io;

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_service::options::ServerOptions;

pub(crate) use address::{AddressLimits, AnonymousConnection};
pub(crate) use body::{ActiveRequest, TimedBody};
pub(crate) use io::{Side, TimedStream};

/// How long after a polite end an idle connection is cut.
const POLITE: Duration = Duration::from_secs(5);
/// Bytes that count towards the rate, at most: a client that was quick for an hour may not be slow
/// for the next.
const CREDIT: u64 = 64 << 20;

/// The address at the other end of a request's connection, as an extension of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// How long a client may take for what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) head: Duration,
    pub(crate) idle: Duration,
    pub(crate) write: Duration,
    /// Bytes a second.
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

    /// How often to look: often enough that a timeout is kept within a quarter.
    pub(crate) fn grain(&self) -> Duration {
        let least = self.head.min(self.idle).min(self.write) / 4;
        least.clamp(Duration::from_millis(25), Duration::from_secs(1))
    }
}

/// The progress of bytes in one direction, and the time that was spent waiting for the client.
#[derive(Debug, Default)]
pub(crate) struct TransferRate {
    bytes: u64,
    waited: Duration,
    waiting_since: Option<Instant>,
}

impl TransferRate {
    /// The client is waited for.
    pub(crate) fn wait(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// The client is not waited for, until it is again; it may have moved some bytes.
    pub(crate) fn moved(&mut self, bytes: usize, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += now.saturating_duration_since(since);
        }
        self.bytes = self.bytes.saturating_add(tidegate_model::number(bytes)).min(CREDIT);
    }

    /// When the client's time is over, if nothing moves until then; nothing while it is not
    /// waited for.
    pub(crate) fn deadline(&self, timeout: Duration, rate: u64) -> Option<Instant> {
        let since = self.waiting_since?;
        let whole = timeout + Duration::from_secs(self.bytes / rate.max(1));
        Some(since + timeout.min(whole.saturating_sub(self.waited)))
    }
}

/// What is to be done with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All is well.
    Keep,
    /// It is idle: it ends politely.
    End,
    /// Its client does not do its part: it is cut.
    Cut(&'static str),
}

/// The clocks of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionClock {
    timeouts: Timeouts,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Requests whose answers are not through.
    requests: usize,
    /// When the last answer was through.
    idle_since: Instant,
    /// When the first byte came that belongs to no request yet.
    head_since: Option<Instant>,
    /// Bytes to the socket.
    socket: TransferRate,
    /// Bodies of answers. On HTTP/2 a client can refuse one while it takes others.
    answers: Vec<(u64, TransferRate)>,
    next: u64,
}

impl ConnectionClock {
    pub(crate) fn new(timeouts: Timeouts, now: Instant) -> Self {
        let state = State {
            requests: 0,
            idle_since: now,
            // A new connection is there for a head.
            head_since: Some(now),
            socket: TransferRate::default(),
            answers: Vec::new(),
            next: 0,
        };
        Self { timeouts, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes came.
    pub(crate) fn read(&self, now: Instant) {
        let mut state = self.state();
        if state.requests == 0 {
            state.head_since.get_or_insert(now);
        }
    }

    /// The socket takes nothing.
    pub(crate) fn blocked(&self, now: Instant) {
        self.state().socket.wait(now);
    }

    /// The socket took bytes.
    pub(crate) fn wrote(&self, bytes: usize, now: Instant) {
        self.state().socket.moved(bytes, now);
    }

    /// A request's head is here.
    fn begin(&self) -> u64 {
        let mut state = self.state();
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
        if let Some((_, pace)) = state.answers.iter_mut().find(|(known, _)| *known == id) {
            change(pace);
        }
    }

    /// An answer is through, or dropped.
    fn end(&self, id: u64, now: Instant) {
        let mut state = self.state();
        state.answers.retain(|(known, _)| *known != id);
        state.requests = state.requests.saturating_sub(1);
        state.idle_since = now;
    }

    /// What is to be done.
    pub(crate) fn verdict(&self, now: Instant) -> Verdict {
        let state = self.state();
        let Timeouts { head, idle, write, rate } = self.timeouts;
        let late = |pace: &TransferRate| pace.deadline(write, rate).is_some_and(|deadline| deadline <= now);
        if late(&state.socket) || state.answers.iter().any(|(_, pace)| late(pace)) {
            return Verdict::Cut("its client does not take its answer");
        }
        if state.requests > 0 {
            return Verdict::Keep;
        }
        if state.head_since.is_some_and(|since| now.saturating_duration_since(since) >= head) {
            return Verdict::Cut("a request's head does not come");
        }
        match now.saturating_duration_since(state.idle_since) {
            time if time >= idle + POLITE => Verdict::Cut("it is idle"),
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
        let id = clock.begin();
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
    fn answers_must_be_taken_without_a_long_pause_and_at_the_least_rate() {
        let (clock, start) = clock();
        let id = clock.begin();
        clock.blocked(start);
        assert_eq!(clock.verdict(start + SECOND * 29), Verdict::Keep);
        assert!(matches!(clock.verdict(start + SECOND * 30), Verdict::Cut(_)));
        // A byte every 20 seconds is no pause, and no progress.
        let mut now = start;
        for _ in 0..2 {
            now += SECOND * 20;
            clock.wrote(1, now);
            clock.blocked(now);
        }
        assert!(matches!(clock.verdict(now), Verdict::Cut(_)));
        clock.end(id, now);
        clock.wrote(0, now);
        let _next = clock.begin();
        clock.blocked(now);
        assert_eq!(clock.verdict(now + SECOND * 29), Verdict::Keep, "each request begins anew");
    }

    #[test]
    fn one_answer_among_others_cannot_be_held_back() {
        let (clock, start) = clock();
        let (held, taken) = (clock.begin(), clock.begin());
        clock.answer(held, |pace| pace.wait(start));
        for i in 1..40 {
            clock.answer(taken, |pace| {
                pace.moved(1000, start + SECOND * i);
                pace.wait(start + SECOND * i);
            });
        }
        assert!(matches!(clock.verdict(start + SECOND * 40), Verdict::Cut(_)));
        clock.end(held, start + SECOND * 40);
        assert_eq!(clock.verdict(start + SECOND * 40), Verdict::Keep);
    }
}
