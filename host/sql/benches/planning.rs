//! How long planning takes: from the text of a log viewer's query to a plan that can run, over the
//! tables of `logs.all`. `cargo bench -p tidegate-sql --bench planning`
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{MemTable, TableProvider};
use tidegate_model::{Arguments, Value};
use tidegate_sql::{Binding, Engine, EngineOptions, SavedQuery, Sources};

// The one of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 200;

/// Sources whose records look as gateways and services write them: some fifty leaves.
struct Logs(SchemaRef);

impl Sources for Logs {
    fn table(&self, _: &str) -> Option<Arc<dyn TableProvider>> {
        Some(Arc::new(MemTable::try_new(Arc::clone(&self.0), vec![vec![]]).unwrap()))
    }
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

fn record(fields: Vec<Field>) -> DataType {
    DataType::Struct(fields.into())
}

fn texts(names: &[&str]) -> Vec<Field> {
    names.iter().map(|name| Field::new(*name, DataType::Utf8View, true)).collect()
}

fn schema() -> SchemaRef {
    let with = |mut fields: Vec<Field>, more: Vec<Field>| {
        fields.extend(more);
        fields
    };
    let headers = record(texts(&[
        "user_agent",
        "referer",
        "host",
        "accept",
        "cf_ray",
        "cf_connecting_ip",
        "cf_ipcountry",
        "x_client_info",
        "x_forwarded_for",
        "x_real_ip",
        "content_type",
        "content_length",
        "accept_encoding",
    ]));
    let cf =
        record(texts(&["asOrganization", "city", "country", "continent", "region", "timezone", "colo", "tlsVersion"]));
    let request = record(with(
        texts(&["method", "path", "search", "url", "host", "protocol", "port"]),
        vec![Field::new("headers", headers, true), Field::new("cf", cf, true)],
    ));
    let response_headers =
        record(texts(&["cf_cache_status", "cf_ray", "content_type", "date", "server", "sb_gateway_version"]));
    let response = record(vec![
        Field::new("status_code", DataType::Int64, true),
        Field::new("origin_time", DataType::Int64, true),
        Field::new("headers", response_headers, true),
    ]);
    let metadata = record(with(
        texts(&["project", "project_ref", "level", "msg", "path", "status", "error", "host", "method"]),
        vec![
            Field::new("request", request, true),
            Field::new("response", response, true),
            Field::new(
                "parsed",
                record(texts(&["error_severity", "query", "detail", "hint", "user_name", "application_name"])),
                true,
            ),
        ],
    ));
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8View, true),
        Field::new("timestamp", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("event_message", DataType::Utf8View, true),
        Field::new("project", DataType::Utf8View, true),
        Field::new("metadata", metadata, true),
    ]))
}

/// The three queries that a page of a log viewer sends, and two from reports.
const QUERIES: [(&str, &str); 5] = [
    (
        "list, filtered",
        "SELECT id, e.timestamp, event_message, request.method, request.path, request.search, response.status_code
         FROM edge_logs AS e CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.request) AS request
         CROSS JOIN UNNEST(m.response) AS response
         WHERE (response.status_code BETWEEN 500 AND 599 OR response.status_code = 429) AND request.method IN ('GET', 'POST')
         AND REGEXP_CONTAINS(event_message, 'auth|rest') ORDER BY timestamp DESC LIMIT 100",
    ),
    (
        "histogram",
        "SELECT TIMESTAMP_TRUNC(t.timestamp, MINUTE) AS timestamp, COUNT(CASE WHEN response.status_code < 400 THEN 1 END) AS ok_count,
         COUNT(CASE WHEN response.status_code >= 500 THEN 1 END) AS error_count,
         COUNT(CASE WHEN response.status_code BETWEEN 400 AND 499 THEN 1 END) AS warning_count
         FROM edge_logs AS t CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.request) AS request
         CROSS JOIN UNNEST(m.response) AS response WHERE t.timestamp > '2025-11-20T09:00:00.000Z'
         GROUP BY timestamp ORDER BY timestamp ASC",
    ),
    (
        "count",
        "SELECT COUNT(*) AS count FROM postgres_logs AS t CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.parsed) AS parsed
         WHERE parsed.error_severity IN ('ERROR', 'FATAL', 'PANIC')",
    ),
    (
        "report: slowest paths",
        "SELECT request.path AS path, request.method AS method, COUNT(*) AS count, AVG(response.origin_time) AS mean,
         APPROX_QUANTILES(response.origin_time, 100)[OFFSET(95)] AS p95
         FROM edge_logs AS f CROSS JOIN UNNEST(f.metadata) AS m CROSS JOIN UNNEST(m.request) AS request
         CROSS JOIN UNNEST(m.response) AS response CROSS JOIN UNNEST(request.headers) AS headers
         WHERE REGEXP_CONTAINS(request.path, '/rest/v1') GROUP BY path, method ORDER BY mean DESC LIMIT 10",
    ),
    (
        "all tables in one list",
        "WITH edge AS (SELECT id, timestamp, 'edge' AS kind, CAST(r.status_code AS STRING) AS status FROM edge_logs
           CROSS JOIN UNNEST(metadata) AS m LEFT JOIN UNNEST(m.response) AS r),
         pg AS (SELECT id, timestamp, 'postgres' AS kind, p.error_severity AS status FROM postgres_logs
           CROSS JOIN UNNEST(metadata) AS m LEFT JOIN UNNEST(m.parsed) AS p),
         auth AS (SELECT id, timestamp, 'auth' AS kind, m.status AS status FROM auth_logs CROSS JOIN UNNEST(metadata) AS m),
         fn AS (SELECT id, timestamp, 'function' AS kind, m.level AS status FROM function_logs CROSS JOIN UNNEST(metadata) AS m)
         SELECT * FROM (SELECT * FROM edge UNION ALL SELECT * FROM pg UNION ALL SELECT * FROM auth UNION ALL SELECT * FROM fn)
         WHERE timestamp > '2025-11-20T09:00:00Z' ORDER BY timestamp DESC, id DESC LIMIT 50",
    ),
];

fn main() {
    let engine = Engine::new(&EngineOptions::default()).unwrap();
    let sources = Logs(schema());
    let saved = SavedQuery::parse(include_str!("../../../guest-endpoints/logs.all/query.sql")).unwrap();
    let text = |text: &str| Value::Text(text.to_owned());
    let arguments = Arguments::from([
        ("project".to_owned(), text("default")),
        ("iso_timestamp_start".to_owned(), text("2025-11-20T09:00:00Z")),
        ("iso_timestamp_end".to_owned(), text("")),
    ]);
    let now = 1_763_633_702_000_000;
    let binding = Binding::new(&sources, &arguments, now);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    println!("{:<26} {:>10} {:>10} {:>10}", "", "resolved", "planned", "p99");
    for (name, sql) in QUERIES {
        let (mut resolving, mut planning) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let began = Instant::now();
            let plan = engine.plan(sql, binding.granted(&saved)).unwrap();
            resolving.push(began.elapsed());
            runtime.block_on(engine.explain(&plan)).unwrap();
            planning.push(began.elapsed());
        }
        let at = |times: &mut Vec<Duration>, part: usize| {
            times.sort_unstable();
            times.get(times.len() * part / 100).copied().unwrap_or_default()
        };
        let (resolved, planned, worst) = (at(&mut resolving, 50), at(&mut planning, 50), at(&mut planning, 99));
        println!("{name:<26} {resolved:>10.2?} {planned:>10.2?} {worst:>10.2?}");
    }
}
