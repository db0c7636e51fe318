//! Sample logs of the nine sources. With them, both endpoints give answers before real logs are shipped, and a
//! benchmark has as many events as it needs.
//!
//! Half of the events are in the last hour. The others follow a daily wave over the time before. Two flavours are
//! mixed, as in practice. Hosted events are complete, with every object in a one-element array. Events from self-hosted
//! shippers are sparse and plain, and always of the project `default`. The same seed, count and time give the same
//! events. Event `i` of every source describes about the same [`Moment`]. So with equal counts the requests of the
//! gateway match the logs of the service: same time, project, address, request id and status.

/// A JSON object with the fields in their order. `json!` would copy every text once more.
macro_rules! record {
    ($($key:literal: $value:expr),* $(,)?) => {{
        let keys: &[&str] = &[$($key),*];
        let mut fields = serde_json::Map::with_capacity(keys.len());
        $(fields.insert($key.to_owned(), serde_json::Value::from($value));)*
        serde_json::Value::Object(fields)
    }};
}

mod auth;
mod clock;
mod dice;
mod edge;
mod functions;
mod moment;
mod postgres;
mod services;
#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests;
mod words;

use std::time::Duration;

use serde_json::Value;

use clock::{Clock, Spread};
use dice::Dice;
use moment::Moment;

/// Creates the event of a moment.
type Maker = fn(&mut Dice, &Moment, &mut Clock) -> Value;

const MAKERS: [(&str, Maker); 9] = [
    ("cloudflare.logs.prod", edge::event),
    ("postgres.logs", postgres::event),
    ("deno-relay-logs", functions::invocation),
    ("deno-subhosting-events", functions::output),
    ("gotrue.logs.prod", auth::event),
    ("realtime.logs.prod", services::realtime),
    ("storage.logs.prod.2", services::storage),
    ("postgREST.logs.prod", services::postgrest),
    ("pgbouncer.logs.prod", services::pgbouncer),
];

/// The names of the sources that have samples, as they are stored.
pub(crate) fn source_names() -> [&'static str; 9] {
    MAKERS.map(|(name, _)| name)
}

/// `count` events of the source, oldest first, in the `span` that ends at `now` (microseconds since 1970). An unknown
/// source has no events.
pub(crate) fn events(
    source: &str,
    count: usize,
    now: i64,
    span: Duration,
    seed: u64,
) -> impl Iterator<Item = Value> + use<> {
    let place = MAKERS.iter().position(|(name, _)| *name == source);
    let maker = place.and_then(|place| MAKERS.get(place)).map(|(_, maker)| *maker);
    maker.into_iter().flat_map(move |maker| Samples {
        maker,
        next: 0,
        count,
        seed,
        // The random numbers for this source alone. The data of moments has generators of its own.
        dice: Dice::new(seed, u64::MAX - place.map_or(0, |place| place as u64)),
        spread: Spread::new(count, now, span),
        clock: Clock::default(),
    })
}

/// An iterator over the events of one source.
#[derive(Debug)]
pub(crate) struct Samples {
    maker: Maker,
    next: usize,
    count: usize,
    seed: u64,
    dice: Dice,
    spread: Spread,
    clock: Clock,
}

impl Iterator for Samples {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        if self.next == self.count {
            return None;
        }
        let moment = Moment::new(self.seed, self.next, &mut self.spread);
        self.next += 1;
        Some((self.maker)(&mut self.dice, &moment, &mut self.clock))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.count - self.next;
        (left, Some(left))
    }
}

/// An object in the hosted flavour: the only element of an array.
fn wrap(value: Value) -> Value {
    Value::Array(vec![value])
}

/// Sets a top-level field that only some events have.
fn set(event: &mut Value, key: &str, value: impl Into<Value>) {
    if let Value::Object(fields) = event {
        fields.insert(key.to_owned(), value.into());
    }
}
