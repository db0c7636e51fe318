//! Events that come in while questions are asked: 10,000 a second, in twenty requests, on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::generator::{EDGE, Form, Generator, Plan};
use super::http::Connection;
use super::tidegate::send;
use crate::service::PRIVATE;

const PACE: Duration = Duration::from_millis(50);
const EVENTS: u64 = 500;

/// A sender, which ends with this value. It rests until it is told to send.
#[derive(Debug)]
pub(crate) struct Sender {
    sending: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    time: Duration,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Sender {
    /// # Errors
    /// Where there is no service.
    pub(crate) fn start(url: &str, seed: u64) -> Result<Self, String> {
        let mut connection = Connection::open(url, PRIVATE)?;
        let [sending, ended] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let sent = Arc::new(AtomicU64::new(0));
        let (is_sending, has_ended, count) = (Arc::clone(&sending), Arc::clone(&ended), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            let plan = Plan { records: u64::from(u32::MAX), seed, form: Form::Lines, later: true };
            let mut generator = Generator::new(plan);
            let mut due = Instant::now();
            while !has_ended.load(Ordering::Relaxed) {
                if !is_sending.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                    due = Instant::now();
                    continue;
                }
                let Some(part) = generator.parts.get_mut(EDGE) else { break };
                (part.records, _) = (0, part.bytes.clear());
                for _ in 0..EVENTS {
                    generator.step();
                }
                let Some(part) = generator.parts.get(EDGE) else { break };
                send(&mut connection, EDGE, part.records, &part.bytes)?;
                count.fetch_add(part.records, Ordering::Relaxed);
                // What is late is caught up with.
                due += PACE;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            Ok(())
        });
        Ok(Self { sending, ended, sent, time: Duration::ZERO, thread: Some(thread) })
    }

    /// Does something while events come in; they come for half a second before.
    pub(crate) fn during<T>(&mut self, what: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        self.sending.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(500));
        let done = what();
        self.sending.store(false, Ordering::Relaxed);
        self.time += began.elapsed();
        done
    }

    /// Ends it; how many events it sent, and how many a second while it did.
    ///
    /// # Errors
    /// What the service refused.
    pub(crate) fn end(mut self) -> Result<(u64, f64), String> {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| "the sender failed")??;
        }
        let sent = self.sent.load(Ordering::Relaxed);
        Ok((sent, sent as f64 / self.time.as_secs_f64().max(1e-9)))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}
