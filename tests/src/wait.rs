//! Waits for what comes by itself, bounded in time.

use std::time::{Duration, Instant};

use super::Server;

/// Longer than anything takes that comes at all.
const LONG: Duration = Duration::from_secs(120);

/// Waits until something holds; `what` is told if it never does.
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    until_within(LONG, what, holds);
}

/// The same where the time is a part of what is claimed.
pub fn until_within(time: Duration, what: &str, holds: impl FnMut() -> bool) {
    wait(time, holds, || what.to_owned());
}

fn wait(time: Duration, mut holds: impl FnMut() -> bool, told: impl Fn() -> String) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < time, "in vain for {time:?}: {}", told());
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Server {
    /// Waits until something holds of the server, whose log is told if it never does.
    fn until(&self, what: &str, holds: impl FnMut() -> bool) {
        wait(LONG, holds, || format!("{what}\n{}", self.log()));
    }

    /// Waits until the server has printed some words.
    pub fn until_logged(&self, words: &str) {
        self.until(words, || self.log().contains(words));
    }

    /// Waits until a number of the metrics page is at least so large.
    pub fn until_metric(&self, name: &str, least: f64) {
        self.until(&format!("{name} is at least {least}"), || self.metric(name) >= least);
    }

    /// Waits until so many segments are there.
    pub fn until_segments(&self, count: usize) {
        self.until_metric("tidegate_store_segments", count as f64);
    }

    /// Waits until all events are in segments.
    pub fn until_flushed(&self) {
        self.until("all events are in segments", || self.metric("tidegate_store_unflushed_bytes") <= 0.0);
    }

    /// Waits until the server is ready.
    pub fn until_ready(&self) {
        self.until("the server is ready", || self.call("GET", "/ready", &[], b"").status == 200);
    }
}
