//! How endpoints were called in the last hour: counts and times, for whoever runs or writes them.
//!
//! They are not metrics: the page of metrics needs no token and names no endpoints. They are held in memory and begin anew with
//! the process. An endpoint that was called takes at most 2.5 KiB, for an hour also one that is deleted.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::shown::Id;

/// How long one slot counts.
const SLOT: Duration = Duration::from_secs(300);
/// How many slots make the hour.
const SLOTS: u64 = 12;
/// How many steps of time are told apart.
const STEPS: usize = 40;
/// The upper bound of the first step, in milliseconds.
const FIRST: f64 = 0.5;
/// How much longer each step is than the one before. The last one ends at a minute.
const RATIO: f64 = 1.35;

/// A call whose answer is complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) endpoint: Uuid,
    pub(crate) status: u16,
    /// The result of the cache lookup, if there was one.
    pub(crate) cache: Option<&'static str>,
    pub(crate) taken: Duration,
}

/// The calls of all endpoints.
#[derive(Debug)]
pub(crate) struct CallStatistics {
    since: Instant,
    endpoints: Mutex<HashMap<Uuid, VecDeque<Slot>>>,
}

/// How an endpoint was called.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EndpointStatistics {
    id: Id,
    name: String,
    #[serde(flatten)]
    counts: Counts,
    /// Null without a call.
    #[schemars(range(min = 0))]
    p50_milliseconds: Option<f64>,
    /// Null without a call.
    #[schemars(range(min = 0))]
    p95_milliseconds: Option<f64>,
}

/// How many calls there were, by what came of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
struct Counts {
    calls: u32,
    /// Those with a status from 400 to 499.
    refused: u32,
    /// Those with a status of 500 and above.
    failed: u32,
    /// Calls that could be answered from the cache.
    cache_lookups: u32,
    /// Those that were.
    cache_hits: u32,
}

impl Counts {
    fn add(&mut self, other: Self) {
        let Self { calls, refused, failed, cache_lookups, cache_hits } = other;
        self.calls = self.calls.saturating_add(calls);
        self.refused = self.refused.saturating_add(refused);
        self.failed = self.failed.saturating_add(failed);
        self.cache_lookups = self.cache_lookups.saturating_add(cache_lookups);
        self.cache_hits = self.cache_hits.saturating_add(cache_hits);
    }
}

/// The calls of five minutes.
#[derive(Debug, Clone)]
struct Slot {
    /// Its number since the start.
    number: u64,
    counts: Counts,
    steps: [u32; STEPS],
}

impl Slot {
    fn new(number: u64) -> Self {
        Self { number, counts: Counts::default(), steps: [0; STEPS] }
    }

    fn add(&mut self, call: Call) {
        self.counts.add(Counts {
            calls: 1,
            refused: u32::from((400..500).contains(&call.status)),
            failed: u32::from(call.status >= 500),
            cache_lookups: u32::from(call.cache.is_some()),
            cache_hits: u32::from(matches!(call.cache, Some("hit" | "stale"))),
        });
        if let Some(step) = self.steps.get_mut(step_of(call.taken)) {
            *step = step.saturating_add(1);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.counts.add(other.counts);
        for (own, other) in self.steps.iter_mut().zip(other.steps) {
            *own = own.saturating_add(other);
        }
    }

    /// The time in milliseconds within which this share of the calls was answered, to the end of its step.
    fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = (f64::from(self.counts.calls) * share).ceil();
        let mut bound = FIRST;
        let mut so_far = 0.0;
        for step in self.steps {
            so_far += f64::from(step);
            if so_far >= wanted && so_far > 0.0 {
                return Some((bound * 10.0).round() / 10.0);
            }
            bound *= RATIO;
        }
        None
    }
}

/// The step of a time. Whatever is longer than the last one counts there.
fn step_of(taken: Duration) -> usize {
    let milliseconds = taken.as_secs_f64() * 1e3;
    let mut bound = FIRST;
    for step in 0..STEPS {
        if milliseconds <= bound {
            return step;
        }
        bound *= RATIO;
    }
    STEPS - 1
}

impl CallStatistics {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), endpoints: Mutex::default() }
    }

    pub(crate) fn add(&self, call: Call) {
        self.add_in(self.slot(), call);
    }

    fn slot(&self) -> u64 {
        self.since.elapsed().as_secs() / SLOT.as_secs()
    }

    fn add_in(&self, number: u64, call: Call) {
        let mut all = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == all.capacity() && !all.contains_key(&call.endpoint) {
            // Before more room is taken: those that were not called any more, deleted ones among them.
            all.retain(|_, slots| slots.back().is_some_and(|slot| slot.number + SLOTS > number));
        }
        let slots = all.entry(call.endpoint).or_default();
        while slots.front().is_some_and(|slot| slot.number + SLOTS <= number) {
            slots.pop_front();
        }
        match slots.back_mut().filter(|slot| slot.number == number) {
            Some(slot) => slot.add(call),
            None => {
                let mut slot = Slot::new(number);
                slot.add(call);
                slots.push_back(slot);
            }
        }
    }

    /// The calls of the last hour of these endpoints, as they are shown. The others are forgotten: they are deleted.
    pub(crate) fn of(&self, endpoints: &[(Uuid, String)]) -> Vec<EndpointStatistics> {
        self.of_slot(self.slot(), endpoints)
    }

    fn of_slot(&self, number: u64, endpoints: &[(Uuid, String)]) -> Vec<EndpointStatistics> {
        let mut all = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|id, slots| {
            slots.retain(|slot| slot.number + SLOTS > number);
            !slots.is_empty() && endpoints.iter().any(|(known, _)| known == id)
        });
        let described = endpoints.iter().map(|(id, name)| {
            let mut sum = Slot::new(number);
            all.get(id).into_iter().flatten().for_each(|slot| sum.merge(slot));
            EndpointStatistics {
                id: Id(*id),
                name: name.clone(),
                counts: sum.counts,
                p50_milliseconds: sum.quantile(0.5),
                p95_milliseconds: sum.quantile(0.95),
            }
        });
        described.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(endpoint: Uuid, status: u16, milliseconds: u64, cache: Option<&'static str>) -> Call {
        Call { endpoint, status, cache, taken: Duration::from_millis(milliseconds) }
    }

    #[test]
    fn calls_count_for_an_hour() {
        let (id, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let all = CallStatistics::new();
        for n in 0..100 {
            all.add_in(0, call(id, if n < 3 { 404 } else { 200 }, if n < 90 { 10 } else { 1_000 }, Some("miss")));
        }
        all.add_in(3, call(id, 503, 5, Some("hit")));
        all.add_in(3, call(other, 200, 70_000, None));
        let names = [(id, "a".to_owned()), (other, "b".to_owned())];
        let [first, second] = &all.of_slot(3, &names)[..] else { unreachable!("there are two") };
        let counts = Counts { calls: 101, refused: 3, failed: 1, cache_lookups: 101, cache_hits: 1 };
        assert_eq!(first.counts, counts);
        let time = |milliseconds: Option<f64>| milliseconds.unwrap_or_default();
        assert!((10.0..14.0).contains(&time(first.p50_milliseconds)), "{first:?}");
        assert!((1_000.0..1_400.0).contains(&time(first.p95_milliseconds)), "{first:?}");
        assert!(time(second.p95_milliseconds) > 30_000.0, "{second:?}");
        // An hour after the first ones, only the later one counts; after one more, none.
        assert_eq!(all.of_slot(12, &names).first().map(|one| one.counts.calls), Some(1));
        assert_eq!(all.of_slot(15, &names).first().map(|one| one.p95_milliseconds), Some(None));
        assert!(all.endpoints.lock().is_ok_and(|all| all.is_empty()), "nothing is held for them");
    }

    #[test]
    fn deleted_endpoints_are_forgotten() {
        let all = CallStatistics::new();
        all.add(call(Uuid::from_u128(1), 200, 1, None));
        assert!(all.of(&[]).is_empty());
        assert!(all.endpoints.lock().is_ok_and(|all| all.is_empty()));
    }
}
