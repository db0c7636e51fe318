//! Sample logs: what the demonstration and the benchmarks look at.
//!
//! All nine sources in the shapes of the real services, both as a log shipper posts them (plain
//! objects, few fields) and as the hosted platform stores them (arrays of one record, many
//! fields). The same seed gives the same logs; everything in them is invented.

mod edge;
mod services;

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// The projects that logs belong to; most belong to the first.
const PROJECTS: [&str; 3] = ["default", "acme", "globex"];
const HOUR: i64 = 3_600_000_000;

/// The random choices of one stream of samples.
pub(crate) struct Choice {
    random: StdRng,
}

impl Choice {
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.random.random_range(0..limit.max(1))
    }

    /// True in `percent` of the cases.
    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn of<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        items.get(self.below(u32::try_from(items.len()).unwrap_or(1)) as usize).copied()
    }

    /// One of some texts.
    pub(crate) fn text(&mut self, items: &[&'static str]) -> &'static str {
        self.of(items).unwrap_or_default()
    }

    pub(crate) fn uuid(&mut self) -> String {
        uuid::Builder::from_random_bytes(self.random.random()).into_uuid().to_string()
    }

    pub(crate) fn hex(&mut self, digits: usize) -> String {
        (0..digits).map(|_| char::from_digit(self.below(16), 16).unwrap_or('0')).collect()
    }
}

/// One event to make.
pub(crate) struct Event {
    /// Microseconds.
    pub(crate) time: i64,
    pub(crate) project: &'static str,
    /// In the few fields of a shipper, instead of the many of the platform.
    pub(crate) shipped: bool,
}

impl Event {
    /// The event's time as ISO text.
    pub(crate) fn iso(&self) -> String {
        let instant = chrono::DateTime::from_timestamp_micros(self.time).unwrap_or_default();
        instant.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
    }
}

/// The nine sources, by their physical names.
pub(crate) fn source_names() -> [&'static str; 9] {
    [
        "cloudflare.logs.prod",
        "postgres.logs",
        "deno-relay-logs",
        "deno-subhosting-events",
        "gotrue.logs.prod",
        "realtime.logs.prod",
        "storage.logs.prod.2",
        "postgREST.logs.prod",
        "pgbouncer.logs.prod",
    ]
}

/// `count` events of a source up to `now` (microseconds): half of them in the last hour, the rest
/// over `span` in a daily wave. No events for a source that is none of the nine.
pub(crate) fn events(source: &str, count: usize, now: i64, span: Duration, seed: u64) -> impl Iterator<Item = Value> {
    let make: Option<fn(&mut Choice, &Event) -> Value> = match source {
        "cloudflare.logs.prod" => Some(edge::request),
        "postgres.logs" => Some(services::postgres),
        "deno-relay-logs" => Some(services::function_edge),
        "deno-subhosting-events" => Some(services::function),
        "gotrue.logs.prod" => Some(services::auth),
        "realtime.logs.prod" => Some(services::realtime),
        "storage.logs.prod.2" => Some(services::storage),
        "postgREST.logs.prod" => Some(services::postgrest),
        "pgbouncer.logs.prod" => Some(services::pgbouncer),
        _ => None,
    };
    // Sources differ though they share a seed.
    let salt = source.bytes().fold(0_u64, |salt, byte| salt.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut choice = Choice { random: StdRng::seed_from_u64(seed ^ salt) };
    let span = i64::try_from(span.as_micros()).unwrap_or(i64::MAX).max(1);
    let count = if make.is_some() { count } else { 0 };
    let mut last = now;
    (0..count).map(move |i| {
        let event = Event {
            time: time(&mut choice, now, span, i, &mut last),
            project: if choice.chance(70) { "default" } else { choice.text(&PROJECTS) },
            shipped: choice.chance(35),
        };
        let mut value = make.map_or(Value::Null, |make| make(&mut choice, &event));
        if let Value::Object(object) = &mut value {
            // Shippers send texts, the platform integers; both must be taken.
            let time = if event.shipped { json!(event.iso()) } else { json!(event.time) };
            object.insert("timestamp".to_owned(), time);
            if !event.shipped {
                object.insert("id".to_owned(), json!(choice.uuid()));
            }
        }
        value
    })
}

fn time(choice: &mut Choice, now: i64, span: i64, i: usize, last: &mut i64) -> i64 {
    // A few events fall on the same microsecond: paging by time meets ties.
    if i > 0 && choice.chance(2) {
        return *last;
    }
    let back = if i.is_multiple_of(2) {
        choice.random.random_range(0..HOUR.min(span))
    } else {
        let back = choice.random.random_range(0..span);
        // Nights are quiet: what falls between midnight and five may move to the evening.
        let hour = (now - back).rem_euclid(24 * HOUR) / HOUR;
        if hour < 5 && choice.chance(70) { (back - 17 * HOUR).rem_euclid(span) } else { back }
    };
    *last = now - back;
    *last
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    const NOW: i64 = 1_770_000_000_000_000;
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

    fn sample(source: &str, seed: u64) -> Vec<Value> {
        events(source, 300, NOW, WEEK, seed).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_logs() {
        for source in source_names() {
            assert_eq!(sample(source, 1), sample(source, 1));
            assert_ne!(sample(source, 1), sample(source, 2));
        }
        assert!(sample("no.such.source", 1).is_empty());
    }

    #[test]
    fn every_source_has_both_flavours_within_the_span() {
        for source in source_names() {
            let events = sample(source, 7);
            assert_eq!(events.len(), 300);
            let (mut arrays, mut objects) = (0, 0);
            for event in &events {
                match &event["metadata"] {
                    Value::Array(_) => arrays += 1,
                    Value::Object(_) => objects += 1,
                    other => assert_eq!(other, &Value::Null),
                }
                let micros = match &event["timestamp"] {
                    Value::String(text) => chrono::DateTime::parse_from_rfc3339(text).unwrap().timestamp_micros(),
                    number => number.as_i64().unwrap(),
                };
                assert!((NOW - i64::try_from(WEEK.as_micros()).unwrap()..=NOW).contains(&micros));
                assert!(event["event_message"].is_string());
            }
            assert!(arrays > 50 && objects > 50, "{source}: {arrays} {objects}");
        }
    }
}
