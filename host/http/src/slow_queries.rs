//! The slowest queries of the last hour, with their text and their cost, for operators.
//!
//! They are held in memory and begin anew with the process: at most [`MOST`] of them, with at most [`LONGEST`] bytes of
//! text and 64 KiB of what workers did each. Only private tokens see them, because the text of a query may name whatever its caller looked for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::Value;
use tidegate_service::StatementReport;
use tidegate_service::execution::{AdhocQuery, QueryRequest, RunRecord};

use crate::shown::{Id, Time};

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
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SlowQuery {
    arrived_at: Time,
    /// Until the answer was complete.
    #[serde(rename = "milliseconds", serialize_with = "milliseconds")]
    #[schemars(with = "f64", range(min = 0))]
    taken: Duration,
    endpoint: QueriedEndpoint,
    status: u16,
    /// The token's id.
    token: Option<String>,
    cache: Option<&'static str>,
    /// Null for the saved query.
    #[schemars(extend("enum" = ["sql", "lql", null]))]
    language: Option<&'static str>,
    /// The ad-hoc query, its first 2000 bytes.
    text: Option<String>,
    text_is_cut: bool,
    statements: u64,
    /// Rows of sources that were looked at; those that statistics leave out are not.
    rows_read: u64,
    /// Bytes of segments.
    bytes_read: u64,
    /// The most bytes that one statement held at a time.
    memory: u64,
    /// Parts of its statements that were given to workers.
    tasks: u64,
    /// How often such a part ran elsewhere because a worker failed.
    moves: u64,
    /// Where the scans of its statements ran, of the first ones, up to 64 KiB; empty on a server without workers.
    #[serde(serialize_with = "reports")]
    #[schemars(with = "Vec<StatementReport>")]
    workers: Vec<Arc<str>>,
}

/// The endpoint of a query.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
struct QueriedEndpoint {
    id: Id,
    name: String,
}

fn milliseconds<S: Serializer>(taken: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((taken.as_secs_f64() * 1e4).round() / 10.0)
}

/// What ran on workers, which is held as JSON.
fn reports<S: Serializer>(workers: &[Arc<str>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(workers.iter().map(|report| serde_json::from_str::<Value>(report).unwrap_or_default()))
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
        let QueryRequest { endpoint, .. } = query.request.as_ref();
        let made = || SlowQuery {
            arrived_at: Time(query.arrived),
            taken,
            endpoint: QueriedEndpoint { id: Id(endpoint.id), name: endpoint.manifest.name.to_string() },
            status: ended.status,
            token: ended.token.map(str::to_owned),
            cache: ended.cache,
            language,
            text: text.map(|text| text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default().to_owned()),
            text_is_cut: text.is_some_and(|text| text.len() > LONGEST),
            statements: cost.statements,
            rows_read: cost.rows_read,
            bytes_read: cost.bytes_read,
            memory: cost.memory,
            tasks: cost.tasks,
            moves: cost.moves,
            workers: query.record.workers(),
        };
        self.take(query.arrived, taken, made);
    }

    /// Takes in what `make` makes, if it took longer than the fastest of those that are held.
    fn take(&self, arrived: i64, taken: Duration, make: impl FnOnce() -> SlowQuery) {
        let mut slowest = self.slowest.lock().unwrap_or_else(PoisonError::into_inner);
        slowest.retain(|one| one.arrived_at.0 > arrived.saturating_sub(HELD_FOR));
        if slowest.len() >= MOST {
            let fastest = slowest.iter().enumerate().min_by_key(|(_, one)| one.taken).map(|(at, one)| (at, one.taken));
            match fastest {
                Some((at, least)) if least < taken => drop(slowest.swap_remove(at)),
                _ => return,
            }
        }
        slowest.push(make());
    }

    /// The queries of the hour before `now` (microseconds since 1970), the slowest first.
    pub(crate) fn shown(&self, now: i64) -> Vec<SlowQuery> {
        let mut slowest = self.slowest.lock().unwrap_or_else(PoisonError::into_inner);
        slowest.retain(|one| one.arrived_at.0 > now.saturating_sub(HELD_FOR));
        let mut known = slowest.clone();
        drop(slowest);
        known.sort_by_key(|one| std::cmp::Reverse(one.taken));
        known
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn query(arrived: i64, milliseconds: u64) -> SlowQuery {
        SlowQuery {
            arrived_at: Time(arrived),
            taken: Duration::from_millis(milliseconds),
            endpoint: QueriedEndpoint { id: Id(Uuid::nil()), name: "a".to_owned() },
            status: 200,
            token: None,
            cache: None,
            language: None,
            text: None,
            text_is_cut: false,
            statements: 0,
            rows_read: 0,
            bytes_read: 0,
            memory: 0,
            tasks: 0,
            moves: 0,
            workers: Vec::new(),
        }
    }

    #[test]
    fn the_slowest_of_the_hour_are_held() {
        let all = SlowQueries::default();
        let take = |one: SlowQuery| all.take(one.arrived_at.0, one.taken, || one.clone());
        for n in 1..=150 {
            take(query(1_000, n));
        }
        take(query(2_000, 3));
        let times = |now| -> Vec<f64> {
            let shown = all.shown(now).into_iter().filter_map(|one| serde_json::to_value(one).ok());
            shown.filter_map(|one| one.pointer("/milliseconds")?.as_f64()).collect()
        };
        assert_eq!(times(3_000), (51..=150).rev().map(f64::from).collect::<Vec<_>>());
        // An hour later, one that would not have been among them.
        take(query(1_001 + HELD_FOR, 7));
        assert_eq!(times(1_001 + HELD_FOR), [7.0]);
        assert!(times(2_000 + 2 * HELD_FOR).is_empty());
    }
}
