//! How long planning takes: from the text of a log viewer's query to a plan that can run, over the
//! tables of `logs.all` in a store. `cargo bench -p tidegate-sql --bench planning`
//!
//! With `-- --parts` it also prints what each part of planning takes of each query.
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tidegate_model::{Arguments, Failure, Value};
use tidegate_sql::{Binding, Engine, EngineOptions, SavedQuery, Sources, StoredTable};
use tidegate_store::{Store, StoreOptions};

// The one of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 200;
const NOW: i64 = 1_763_633_702_000_000;

/// Each source has two segments and a batch in memory.
struct Logs(Arc<Store>);

impl Sources for Logs {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(self.0.table(name).ok().map(StoredTable::whole))
    }
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

const SOURCES: [&str; 14] = [
    "cloudflare.logs.prod",
    "postgres.logs",
    "deno-relay-logs",
    "deno-subhosting-events",
    "gotrue.logs.prod",
    "realtime.logs.prod",
    "storage.logs.prod.2",
    "postgREST.logs.prod",
    "pgbouncer.logs.prod",
    "supavisor.logs.prod",
    "gotrue.audit.logs.prod",
    "pg_upgrade.logs.prod",
    "etl.replication.logs.prod",
    "multigres.logs.prod",
];

/// A record as gateways and services write them: some fifty leaves.
fn record(number: i64) -> Json {
    let texts = |names: &[&str]| {
        names.iter().map(|name| ((*name).to_owned(), json!("x"))).collect::<serde_json::Map<String, Json>>()
    };
    let headers = texts(&[
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
    ]);
    let cf = texts(&["asOrganization", "city", "country", "continent", "region", "timezone", "colo", "tlsVersion"]);
    let mut request = texts(&["method", "path", "search", "url", "host", "protocol", "port"]);
    request.insert("headers".to_owned(), json!(headers));
    request.insert("cf".to_owned(), json!(cf));
    let answered = texts(&["cf_cache_status", "cf_ray", "content_type", "date", "server", "sb_gateway_version"]);
    let response = json!({"status_code": 200, "origin_time": 7, "headers": answered});
    let mut metadata = texts(&["project", "project_ref", "level", "msg", "path", "status", "error", "host", "method"]);
    metadata.insert("request".to_owned(), json!(request));
    metadata.insert("response".to_owned(), response);
    let parsed = texts(&["error_severity", "query", "detail", "hint", "user_name", "application_name"]);
    metadata.insert("parsed".to_owned(), json!(parsed));
    json!({"id": number.to_string(), "timestamp": NOW - number * 1_000_000, "project": "default",
        "event_message": "GET | 200", "metadata": metadata})
}

/// What a page of a log viewer sends, and what reports ask.
const QUERIES: [(&str, &str); 8] = [
    ("newest", "SELECT id, timestamp, event_message FROM edge_logs ORDER BY timestamp DESC LIMIT 100"),
    ("by id", "SELECT id, timestamp, event_message FROM edge_logs WHERE id = 'a'"),
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
        "slowest paths",
        "SELECT request.path AS path, request.method AS method, COUNT(*) AS count, AVG(response.origin_time) AS mean,
         APPROX_QUANTILES(response.origin_time, 100)[OFFSET(95)] AS p95
         FROM edge_logs AS f CROSS JOIN UNNEST(f.metadata) AS m CROSS JOIN UNNEST(m.request) AS request
         CROSS JOIN UNNEST(m.response) AS response CROSS JOIN UNNEST(request.headers) AS headers
         WHERE REGEXP_CONTAINS(request.path, '/rest/v1') GROUP BY path, method ORDER BY mean DESC LIMIT 10",
    ),
    (
        "four tables in one list",
        "WITH edge AS (SELECT id, timestamp, 'edge' AS kind, CAST(r.status_code AS STRING) AS status FROM edge_logs
           CROSS JOIN UNNEST(metadata) AS m LEFT JOIN UNNEST(m.response) AS r),
         pg AS (SELECT id, timestamp, 'postgres' AS kind, p.error_severity AS status FROM postgres_logs
           CROSS JOIN UNNEST(metadata) AS m LEFT JOIN UNNEST(m.parsed) AS p),
         auth AS (SELECT id, timestamp, 'auth' AS kind, m.status AS status FROM auth_logs CROSS JOIN UNNEST(metadata) AS m),
         fn AS (SELECT id, timestamp, 'function' AS kind, m.level AS status FROM function_logs CROSS JOIN UNNEST(metadata) AS m)
         SELECT * FROM (SELECT * FROM edge UNION ALL SELECT * FROM pg UNION ALL SELECT * FROM auth UNION ALL SELECT * FROM fn)
         WHERE timestamp > '2025-11-20T09:00:00Z' ORDER BY timestamp DESC, id DESC LIMIT 50",
    ),
    (
        "four facets of four tables",
        "WITH edge AS (SELECT id, timestamp, 'edge' AS kind, CAST(r.status_code AS STRING) AS status, q.method, q.path FROM edge_logs
           CROSS JOIN UNNEST(metadata) AS m LEFT JOIN UNNEST(m.response) AS r LEFT JOIN UNNEST(m.request) AS q),
         pg AS (SELECT id, timestamp, 'postgres' AS kind, p.error_severity AS status, '' AS method, '' AS path FROM postgres_logs
           CROSS JOIN UNNEST(metadata) AS m LEFT JOIN UNNEST(m.parsed) AS p),
         auth AS (SELECT id, timestamp, 'auth' AS kind, m.status AS status, m.method, m.path FROM auth_logs CROSS JOIN UNNEST(metadata) AS m),
         fn AS (SELECT id, timestamp, 'function' AS kind, m.level AS status, '' AS method, '' AS path FROM function_logs
           CROSS JOIN UNNEST(metadata) AS m),
         logs AS (SELECT * FROM (SELECT * FROM edge UNION ALL SELECT * FROM pg UNION ALL SELECT * FROM auth UNION ALL SELECT * FROM fn)
           WHERE timestamp > '2025-11-20T09:00:00Z')
         SELECT 'total' AS facet, NULL AS value, COUNT(*) AS count FROM logs
         UNION ALL SELECT 'kind', kind, COUNT(*) FROM logs GROUP BY kind
         UNION ALL SELECT 'status', status, COUNT(*) FROM logs WHERE status IS NOT NULL GROUP BY status
         UNION ALL SELECT 'method', method, COUNT(*) FROM logs WHERE method IS NOT NULL GROUP BY method",
    ),
];

/// Saved queries that are called as they are.
const SAVED: [(&str, &str); 3] = [
    ("usage.api-counts", include_str!("../../../guest-endpoints/usage.api-counts/query.sql")),
    ("auth.metrics", include_str!("../../../guest-endpoints/packs/log-viewer/auth.metrics/query.sql")),
    ("service-health", include_str!("../../../guest-endpoints/packs/log-viewer/service-health/query.sql")),
];

fn main() {
    let with_parts = std::env::args().any(|argument| argument == "--parts");
    let engine = Engine::new(&EngineOptions {
        narrow: tidegate_store::narrowed,
        placed: tidegate_store::placed,
        counted: tidegate_store::counted,
        ..EngineOptions::default()
    })
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { manual_flush: true, durable: false, ..StoreOptions::default() };
    let store = Store::open(folder.path(), options).unwrap();
    runtime.block_on(async {
        for source in SOURCES {
            store.create_source(source).unwrap();
            for part in 0..3 {
                store.ingest(source, (part * 10..part * 10 + 10).map(record).collect()).await.unwrap();
                if part < 2 {
                    store.flush().await.unwrap();
                }
            }
        }
    });
    let sources = Logs(store);
    let grants = SavedQuery::parse(include_str!("../../../guest-endpoints/logs.all/query.sql")).unwrap();
    let text = |text: &str| Value::Text(text.to_owned());
    let arguments = Arguments::from([
        ("project".to_owned(), text("default")),
        ("iso_timestamp_start".to_owned(), text("2025-11-20T09:00:00Z")),
        ("iso_timestamp_end".to_owned(), text("")),
        ("interval".to_owned(), text("daily")),
        ("granularity".to_owned(), text("hour")),
    ]);
    let binding = Binding::new(&sources, &arguments, NOW);
    println!("{:<26} {:>10} {:>10} {:>10} {:>10} {:>10}", "best of", "read", "resolved", "planned", "median", "p99");
    let ours = QUERIES.map(|(name, sql)| (name, sql, None));
    let saved = SAVED.map(|(name, sql)| (name, sql, Some(SavedQuery::parse(sql).unwrap())));
    for (name, sql, saved) in ours.into_iter().chain(saved) {
        let (mut reading, mut resolving, mut planning) = (Vec::new(), Vec::new(), Vec::new());
        let mut parts: Vec<(String, Vec<Duration>)> = Vec::new();
        for _ in 0..RUNS {
            let began = Instant::now();
            // A saved query is read once for all its calls.
            if saved.is_none() {
                drop(SavedQuery::parse(sql).unwrap());
            }
            reading.push(began.elapsed());
            let began = Instant::now();
            let plan = match &saved {
                Some(saved) => engine.plan_saved(saved, binding),
                None => engine.plan(sql, binding.granted(&grants)),
            };
            let plan = plan.unwrap();
            resolving.push(began.elapsed());
            runtime.block_on(engine.explain(&plan)).unwrap();
            planning.push(began.elapsed());
            for (part, took) in runtime.block_on(engine.profile(&plan)).unwrap() {
                match parts.iter_mut().find(|(known, _)| *known == part) {
                    Some((_, all)) => all.push(took),
                    None => parts.push((part, vec![took])),
                }
            }
        }
        let at = |times: &mut Vec<Duration>, part: usize| {
            times.sort_unstable();
            times.get(times.len() * part / 100).copied().unwrap_or_default()
        };
        let (read, resolved, planned) = (at(&mut reading, 1), at(&mut resolving, 1), at(&mut planning, 1));
        let (median, worst) = (at(&mut planning, 50), at(&mut planning, 99));
        println!("{name:<26} {read:>10.2?} {resolved:>10.2?} {planned:>10.2?} {median:>10.2?} {worst:>10.2?}");
        if with_parts {
            for (part, mut times) in parts {
                println!("    {part:<40} {:>10.2?}", at(&mut times, 1));
            }
        }
    }
}
