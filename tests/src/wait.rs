//! Waits for what comes by itself, bounded in time.

use std::time::{Duration, Instant};

use super::Server;

/// Longer than anything takes that comes at all.
const LONG: Duration = Duration::from_secs(120);

/// Waits until something holds; `what` is told if it never does.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG, "in vain for two minutes: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Server {
    /// Waits until the server has printed some words.
    pub fn until_logged(&self, words: &str) {
        until(words, || self.log().contains(words));
    }

    /// Waits until a number of the metrics page is at least so large.
    pub fn until_metric(&self, name: &str, least: f64) {
        until(&format!("{name} is at least {least}"), || self.metric(name) >= least);
    }

    /// Waits until so many segments are there.
    pub fn until_segments(&self, count: usize) {
        self.until_metric("tidegate_store_segments", count as f64);
    }

    /// Waits until all events are in segments.
    pub fn until_flushed(&self) {
        until("all events are in segments", || self.metric("tidegate_store_unflushed_bytes") <= 0.0);
    }

    /// Waits until the server is ready.
    pub fn until_ready(&self) {
        until("the server is ready", || self.call("GET", "/ready", &[], b"").status == 200);
    }
}
