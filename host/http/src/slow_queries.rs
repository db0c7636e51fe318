//! The slowest queries of the last hour, with their text and their cost, for operators.
//!
//! They are held in memory and begin anew with the process: at most [`MOST`] of them, with at most [`LONGEST`] bytes of
//! text and 64 KiB of what workers did each. Only private tokens see them, because the text of a query may name whatever its caller looked for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_service::execution::{AdhocQuery, QueryRequest, RunRecord};
use tidegate_sql::StatementCost;
use uuid::Uuid;

/// How many queries are held.
const MOST: usize = 100;
/// How long they are held, in microseconds.
const HELD_FOR: i64 = 3_600_000_000;
/// The most bytes of a query's text that are held.
const LONGEST: usize = 2_000;

/// What is noted about a query while it runs.
#[derive(Debug)]
pub(crate) struct NotedQuery {
    pub(crate) request: Arc<QueryRequest>,
    pub(crate) record: Arc<RunRecord>,
    /// When it arrived, in microseconds since 1970.
    pub(crate) arrived: i64,
    /// How long it took until its answer was complete in memory; none while it runs, and for answers that are
    /// sent while their rows are read.
    pub(crate) answered: Option<Duration>,
}

/// A query whose answer is complete.
#[derive(Debug, Clone)]
pub(crate) struct SlowQuery {
    arrived: i64,
    taken: Duration,
    endpoint: Uuid,
    name: String,
    status: u16,
    token: Option<String>,
    cache: Option<&'static str>,
    language: Option<&'static str>,
    text: Option<String>,
    /// Whether `text` is only the beginning.
    cut: bool,
    cost: StatementCost,
    /// What of its statements ran on workers, as JSON objects.
    workers: Vec<Arc<str>>,
}

/// What the request log knows about the end of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended<'a> {
    pub(crate) taken: Duration,
    pub(crate) status: u16,
    pub(crate) token: Option<&'a str>,
    pub(crate) cache: Option<&'static str>,
}

/// The slowest queries.
#[derive(Debug, Default)]
pub(crate) struct SlowQueries {
    slowest: Mutex<Vec<SlowQuery>>,
}

impl SlowQueries {
    /// Takes a query in, if it is among the slowest. Answers that were read from the cache are not: nothing ran.
    pub(crate) fn add(&self, query: &NotedQuery, ended: Ended<'_>) {
        let cost = query.record.cost();
        if cost.statements == 0 && query.record.report().is_none() {
            return;
        }
        let taken = query.answered.unwrap_or(ended.taken);
        let (language, text) = match &query.request.adhoc {
            Some(AdhocQuery::Sql(text)) => (Some("sql"), Some(text)),
            Some(AdhocQuery::Lql(text)) => (Some("lql"), Some(text)),
            None => (None, None),
        };
        let made = || SlowQuery {
            arrived: query.arrived,
            taken,
            endpoint: query.request.endpoint.id,
            name: query.request.endpoint.manifest.name.to_string(),
            status: ended.status,
            token: ended.token.map(str::to_owned),
            cache: ended.cache,
            language,
            text: text.map(|text| text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default().to_owned()),
            cut: text.is_some_and(|text| text.len() > LONGEST),
            cost,
            workers: query.record.workers(),
        };
        self.take(query.arrived, taken, made);
    }

    /// Takes in what `make` makes, if it took longer than the fastest of those that are held.
    fn take(&self, arrived: i64, taken: Duration, make: impl FnOnce() -> SlowQuery) {
        let mut slowest = self.slowest.lock().unwrap_or_else(PoisonError::into_inner);
        slowest.retain(|one| one.arrived > arrived.saturating_sub(HELD_FOR));
        if slowest.len() >= MOST {
            let fastest = slowest.iter().enumerate().min_by_key(|(_, one)| one.taken).map(|(at, one)| (at, one.taken));
            match fastest {
                Some((at, least)) if least < taken => drop(slowest.swap_remove(at)),
                _ => return,
            }
        }
        slowest.push(make());
    }

    /// The queries of the hour before `now` (microseconds since 1970) as JSON, the slowest first. `time` writes a time.
    pub(crate) fn shown(&self, now: i64, time: impl Fn(i64) -> Value) -> Vec<Value> {
        let mut slowest = self.slowest.lock().unwrap_or_else(PoisonError::into_inner);
        slowest.retain(|one| one.arrived > now.saturating_sub(HELD_FOR));
        let mut known = slowest.clone();
        drop(slowest);
        known.sort_by_key(|one| std::cmp::Reverse(one.taken));
        let shown = known.into_iter().map(|one| {
            let workers = one.workers.iter().map(|report| serde_json::from_str(report).unwrap_or_default());
            json!({
                "arrived_at": time(one.arrived),
                "milliseconds": (one.taken.as_secs_f64() * 1e4).round() / 10.0,
                "endpoint": {"id": one.endpoint.to_string(), "name": one.name},
                "status": one.status,
                "token": one.token,
                "cache": one.cache,
                "language": one.language,
                "text": one.text,
                "text_is_cut": one.cut,
                "statements": one.cost.statements,
                "rows_read": one.cost.rows_read,
                "bytes_read": one.cost.bytes_read,
                "memory": one.cost.memory,
                "tasks": one.cost.tasks,
                "moves": one.cost.moves,
                "workers": workers.collect::<Vec<Value>>(),
            })
        });
        shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(arrived: i64, milliseconds: u64) -> SlowQuery {
        SlowQuery {
            arrived,
            taken: Duration::from_millis(milliseconds),
            endpoint: Uuid::nil(),
            name: "a".to_owned(),
            status: 200,
            token: None,
            cache: None,
            language: None,
            text: None,
            cut: false,
            cost: StatementCost::default(),
            workers: Vec::new(),
        }
    }

    #[test]
    fn the_slowest_of_the_hour_are_held() {
        let all = SlowQueries::default();
        let take = |one: SlowQuery| all.take(one.arrived, one.taken, || one.clone());
        for n in 1..=150 {
            take(query(1_000, n));
        }
        take(query(2_000, 3));
        let times = |now| -> Vec<f64> {
            let shown = all.shown(now, Value::from);
            shown.iter().filter_map(|one| one.pointer("/milliseconds")?.as_f64()).collect()
        };
        assert_eq!(times(3_000), (51..=150).rev().map(f64::from).collect::<Vec<_>>());
        // An hour later, one that would not have been among them.
        take(query(1_001 + HELD_FOR, 7));
        assert_eq!(times(1_001 + HELD_FOR), [7.0]);
        assert!(times(2_000 + 2 * HELD_FOR).is_empty());
    }
}
