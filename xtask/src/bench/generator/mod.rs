//! Records to load, from a seed: the same seed and count make the same bytes on every machine, so that reports of
//! different days speak of the same records.
//!
//! A project has one record of three, the others share the rest by Zipf's law, over seven days with quiet nights. Each
//! request through the gateway makes one edge record, and those of the services behind it with the same request id. The
//! times of edge records are all different: "the newest 100" has one answer only.

mod dice;
pub(crate) mod edge;
mod moment;
pub(crate) mod services;
#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests;
pub(crate) mod text;
mod words;

use dice::Dice;
use moment::{Moment, Product, World};

/// Where the records go, under the names that the service knows the sources by.
pub(crate) const SOURCES: [&str; 9] = [
    "cloudflare.logs.prod",
    "postgres.logs",
    "deno-relay-logs",
    "deno-subhosting-events",
    "gotrue.logs.prod",
    "realtime.logs.prod",
    "storage.logs.prod.2",
    "postgREST.logs.prod",
    "pgbouncer.logs.prod",
];
/// The positions of the sources that the peers have too.
pub(crate) const EDGE: usize = 0;
pub(crate) const OUTPUT: usize = 3;
const HOUR: i64 = 3_600_000_000;
const HOURS: i64 = 7 * 24;
/// When the seven days end: 2026-01-31T12:00:00Z, in microseconds. No clock of the machine has a part in the records.
pub(crate) const END: i64 = 1_769_860_800_000_000;
pub(crate) const START: i64 = END - HOURS * HOUR;
/// How busy each hour of the day is.
const WAVE: [u64; 24] = [3, 2, 2, 2, 2, 3, 4, 6, 8, 9, 9, 9, 10, 9, 9, 9, 9, 10, 13, 14, 14, 12, 8, 5];

/// What is made of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON lines of all sources.
    Lines,
    /// CSV rows of the sources that the peers have: what the questions read as columns, and the metadata as JSON.
    Rows,
    /// CSV rows of the same sources: id, time, project, message, and the metadata as JSON.
    Documents,
}

/// The bytes of one source that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: u64,
}

/// Where and what is generated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Edge records.
    pub(crate) records: u64,
    pub(crate) seed: u64,
    pub(crate) form: Form,
    /// Whether these records come in while questions are asked: after the seven days, of projects of their own, so
    /// that no answer about an older project changes; edge records only.
    pub(crate) later: bool,
}

/// The records of a plan, oldest first.
#[derive(Debug)]
pub(crate) struct Generator {
    plan: Plan,
    world: World,
    dice: Dice,
    moment: Moment,
    scratch: Vec<u8>,
    clock: Clock,
    pub(crate) parts: [Part; 9],
}

impl Generator {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            world: World::new(plan.seed, if plan.later { "later" } else { "" }),
            dice: Dice::new(plan.seed, u64::from(plan.later)),
            moment: Moment::default(),
            scratch: Vec::new(),
            clock: Clock::new(plan.records, if plan.later { END } else { START }),
            parts: Default::default(),
        }
    }

    /// The names of the projects, the largest first.
    pub(crate) fn projects(&self) -> &[String] {
        &self.world.projects
    }

    /// The request that was made last.
    pub(crate) fn id(&self) -> (String, &str) {
        let mut id = Vec::new();
        text::uuid(&mut id, self.moment.id);
        (String::from_utf8_lossy(&id).into_owned(), &self.moment.project)
    }

    /// The time of the request that was made last, in microseconds.
    pub(crate) fn time(&self) -> i64 {
        self.moment.at
    }

    /// Adds the records of the next request to the parts; false after the last one.
    pub(crate) fn step(&mut self) -> bool {
        let Some(at) = self.clock.next(&mut self.dice) else { return false };
        self.moment.draw(at, &self.world, &mut self.dice);
        let moment = &self.moment;
        if self.plan.form != Form::Lines {
            let (scratch, flat) = (&mut self.scratch, self.plan.form == Form::Rows);
            put(&mut self.parts, EDGE, |out| edge::row(out, scratch, moment, flat));
            if moment.product == Product::Functions {
                for number in 0..services::printed(moment) {
                    put(&mut self.parts, OUTPUT, |out| services::output_row(out, scratch, moment, number, flat));
                }
            }
            return true;
        }
        put(&mut self.parts, EDGE, |out| edge::line(out, moment));
        if self.plan.later {
            return true;
        }
        match moment.product {
            Product::Rest if moment.bits >> 60 < 5 => put(&mut self.parts, 1, |out| services::postgres(out, moment)),
            Product::Functions => {
                put(&mut self.parts, 2, |out| services::invocation(out, moment));
                for number in 0..services::printed(moment) {
                    put(&mut self.parts, OUTPUT, |out| services::output(out, moment, number));
                }
            }
            Product::Auth => put(&mut self.parts, 4, |out| services::auth(out, moment)),
            Product::Realtime => put(&mut self.parts, 5, |out| services::realtime(out, moment)),
            Product::Storage => put(&mut self.parts, 6, |out| services::storage(out, moment)),
            Product::Rest | Product::Graphql => {}
        }
        match moment.bits >> 10 & 63 {
            0 => put(&mut self.parts, 7, |out| services::postgrest(out, moment)),
            1 | 2 => put(&mut self.parts, 8, |out| services::pooler(out, moment)),
            _ => {}
        }
        true
    }
}

fn put(parts: &mut [Part; 9], place: usize, write: impl FnOnce(&mut Vec<u8>)) {
    if let Some(part) = parts.get_mut(place) {
        write(&mut part.bytes);
        part.records += 1;
    }
}

/// Times in growing order: each hour has its share of the records, evenly spread within it but for a jitter.
#[derive(Debug)]
struct Clock {
    records: u64,
    made: u64,
    start: i64,
    hour: i64,
    /// The numbers of the first record of this hour and of the next one.
    from: u64,
    to: u64,
    weight: u64,
}

impl Clock {
    fn new(records: u64, start: i64) -> Self {
        Self { records, made: 0, start, hour: -1, from: 0, to: 0, weight: 0 }
    }

    fn next(&mut self, dice: &mut Dice) -> Option<i64> {
        if self.made >= self.records {
            return None;
        }
        while self.made >= self.to {
            self.hour += 1;
            let time = (self.start / HOUR + self.hour).rem_euclid(24);
            self.weight += WAVE.get(time as usize).copied().unwrap_or(1);
            // Seven whole days have the whole wave seven times.
            let all = u128::from(7 * WAVE.iter().sum::<u64>());
            self.from = self.to;
            self.to = (u128::from(self.records) * u128::from(self.weight)).div_ceil(all) as u64;
        }
        // Neighbours are at least a tenth of their mean distance apart, so no two have the same microsecond.
        let place = (self.made - self.from) as f64 + 0.9 * dice.share();
        let within = place / (self.to - self.from) as f64 * HOUR as f64;
        self.made += 1;
        Some(self.start + self.hour * HOUR + within as i64)
    }
}
