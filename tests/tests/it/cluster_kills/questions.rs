//! What is asked while workers fail, with the answers of a server without workers.

use serde_json::Value;
use tidegate_tests::{PRIVATE, Server, query_string};

/// A question and its answer.
pub(crate) struct Question {
    /// What it is, for reports.
    pub(crate) kind: &'static str,
    path: String,
    order: Order,
    /// Its rows; those of a question without a total order are sorted.
    expected: Vec<String>,
}

/// Which order rows have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Total,
    None,
    /// A total one, in an answer that is sent while it is computed.
    Streamed,
}

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// The expected rows.
    Right,
    /// A status that says that there is no answer, with a code.
    Refused,
    /// An answer that began and then said that it is not whole.
    BrokenOff,
}

fn statements() -> Vec<(&'static str, Order, String)> {
    let mut all = Vec::new();
    let mut add = |kind, order, sql: String| all.push((kind, order, sql));
    for limit in [20, 300, 1_000] {
        let newest =
            format!("select id, timestamp, event_message from edge_logs order by timestamp desc limit {limit}");
        add("newest", Order::Total, newest.clone());
        add("newest, streamed", Order::Streamed, newest);
    }
    for path in 0..7 {
        let condition = format!("event_message like '%/path/{path}?%'");
        add(
            "histogram",
            Order::Total,
            format!(
                "select timestamp_trunc(timestamp, minute) as at, count(*) as c from edge_logs where {condition} group by at order by at"
            ),
        );
        add(
            "groups by text",
            Order::None,
            format!(
                "select substr(event_message, 1, 9) as s, r.status_code as status, count(*) as c, min(id) as least, avg(r.origin_time) as t from edge_logs as e cross join unnest(e.metadata) as m cross join unnest(m.response) as r where {condition} group by s, status"
            ),
        );
        add(
            "join",
            Order::Total,
            format!(
                "select a.id, b.event_message as other from edge_logs as a join edge_logs as b on a.id = b.id where a.event_message like '%/path/{path}?n=1%' order by a.id limit 200"
            ),
        );
        add(
            "rows, streamed",
            Order::Streamed,
            format!("select id, event_message, metadata from edge_logs where {condition} order by timestamp desc"),
        );
        add(
            "distinct",
            Order::None,
            format!(
                "select distinct q.path as path, r.status_code as status from edge_logs as e cross join unnest(e.metadata) as m cross join unnest(m.request) as q cross join unnest(m.response) as r where mod(r.origin_time, 7) = {path}"
            ),
        );
    }
    for row in 0..20 {
        add(
            "by id",
            Order::Total,
            format!("select id, timestamp, event_message, metadata from edge_logs where id = '{:08}'", row * 795 + 1),
        );
    }
    all
}

impl Question {
    /// The questions with the answers of this server.
    pub(crate) fn all(server: &Server) -> Vec<Self> {
        let mut all: Vec<Self> = statements()
            .into_iter()
            .map(|(kind, order, sql)| {
                let format = if order == Order::Streamed { "ndjson" } else { "json" };
                let query = query_string(&[("project", "p1"), ("sql", &sql), ("format", format)]);
                Self { kind, path: format!("/api/endpoints/query/logs.all?{query}"), order, expected: Vec::new() }
            })
            .collect();
        // Their window has the same rows for a week.
        let counts = format!(
            "/api/endpoints/query/usage.api-counts?{}",
            query_string(&[("interval", "daily"), ("project", ".")])
        );
        all.push(Self { kind: "api-counts", path: counts, order: Order::Total, expected: Vec::new() });
        for question in &mut all {
            let (status, body) = question.fetch(server).unwrap();
            let rows = (status == 200).then(|| question.rows(&body)).flatten();
            question.expected = rows.unwrap_or_else(|| panic!("{status}: {}", String::from_utf8_lossy(&body)));
            assert!(!question.expected.is_empty(), "{}", question.path);
        }
        all
    }

    fn fetch(&self, server: &Server) -> Result<(u16, Vec<u8>), String> {
        server.try_fetch("GET", &self.path, &[("x-api-key", PRIVATE)], b"").map(|raw| (raw.status, raw.body))
    }

    /// The rows of a body that is whole; `None` if it is another one.
    fn rows(&self, body: &[u8]) -> Option<Vec<String>> {
        let mut rows: Vec<String> = if self.order == Order::Streamed {
            std::str::from_utf8(body).ok()?.lines().map(str::to_owned).collect()
        } else {
            let body: Value = serde_json::from_slice(body).ok()?;
            body["result"].as_array()?.iter().map(ToString::to_string).collect()
        };
        if self.order == Order::None {
            rows.sort();
        }
        Some(rows)
    }

    /// Asks it.
    ///
    /// # Errors
    /// What is neither the right answer nor says that it is none.
    pub(crate) fn ask(&self, server: &Server) -> Result<Outcome, String> {
        let told = |what: String| format!("{}: {what}\n{}", self.kind, self.path);
        let (status, body) = match self.fetch(server) {
            Ok(answer) => answer,
            // The transfer breaks off, which the client sees.
            Err(_) if self.order == Order::Streamed => return Ok(Outcome::BrokenOff),
            Err(error) => return Err(told(error)),
        };
        let text = || String::from_utf8_lossy(&body).chars().take(2_000).collect::<String>();
        match status {
            200 => match self.rows(&body) {
                Some(rows) if rows == self.expected => Ok(Outcome::Right),
                Some(rows) => Err(told(format!("{} rows instead of {}: {}", rows.len(), self.expected.len(), text()))),
                None => Err(told(text())),
            },
            503 => {
                let body: Value = serde_json::from_slice(&body).map_err(|error| told(error.to_string()))?;
                let (code, message) = (&body["error"]["code"], &body["error"]["message"]);
                let is_clear =
                    code == "data_unavailable" && message.as_str().is_some_and(|text| text.contains("worker"));
                if is_clear { Ok(Outcome::Refused) } else { Err(told(body.to_string())) }
            }
            status => Err(told(format!("{status}: {}", text()))),
        }
    }
}
