//! Measures the engine and the store on edge records, without HTTP: what `docs/contributing/measurements/queries.md`
//! reports.
//!
//!     cargo run --release -p tidegate-http --example measure -- 1000000 FOLDER
//!
//! A folder that is not there is filled with so many records of 50 projects over 7 days first; a
//! second run measures the folder as it is. Add `explain` to see the physical plans.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a measurement may end with a panic")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use futures::TryStreamExt;
use serde_json::{Value as Json, json};
use tidegate_model::{Arguments, Failure, Value};
use tidegate_sql::{Binding, Engine, EngineOptions, Plan, SavedQuery, Sources, StoredTable};
use tidegate_store::{Store, StoreOptions};

const EDGE: &str = "cloudflare.logs.prod";
const OTHERS: [&str; 8] = [
    "postgres.logs",
    "deno-relay-logs",
    "deno-subhosting-events",
    "gotrue.logs.prod",
    "realtime.logs.prod",
    "storage.logs.prod.2",
    "postgREST.logs.prod",
    "pgbouncer.logs.prod",
];
const WEEK: i64 = 7 * 86_400 * 1_000_000;
const RUNS: u32 = 9;

struct Stored(Arc<Store>);

impl Sources for Stored {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(self.0.table(name).ok().map(StoredTable::whole))
    }
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A small generator of its own: fast, and the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
    fn of<'t>(&mut self, items: &[&'t str]) -> &'t str {
        items[self.below(items.len() as u64) as usize]
    }
}

fn record(random: &mut Random, timestamp: i64) -> Json {
    let project = format!("project{:02}", random.below(50));
    let path = random.of(&[
        "/rest/v1/todos",
        "/rest/v1/orders",
        "/auth/v1/token",
        "/storage/v1/object/a.png",
        "/realtime/v1/websocket",
    ]);
    let method = random.of(&["GET", "POST", "PATCH"]);
    let status = [200, 200, 200, 201, 304, 404, 500, 502][random.below(8) as usize];
    let url = format!("https://{project}.example.test{path}?id=eq.{}", random.below(1_000));
    json!({
        "project": project, "timestamp": timestamp,
        "event_message": format!("{method} | {status} | 203.0.113.9 | 9a1b2c3d4e5f6a7b | {url} | ShopApp/3.1"),
        "metadata": [{
            "request_id": format!("{:016x}", random.below(u64::MAX)), "load_balancer_redirect_identifier": "primary",
            "request": [{
                "method": method, "protocol": "https:", "host": format!("{project}.example.test"), "path": path, "search": format!("?id=eq.{}", random.below(1_000)), "url": url,
                "headers": [{"user_agent": "ShopApp/3.1", "cf_connecting_ip": format!("203.0.113.{}", random.below(256)), "cf_ipcountry": random.of(&["PT", "DE", "US"]), "x_client_info": "supabase-js/2.45.0", "accept": "*/*", "content_length": random.below(4_000).to_string()}],
                "cf": [{"asn": 64_500, "asOrganization": "Example Carrier", "city": "Porto", "country": "PT", "continent": "EU", "colo": "OPO", "latitude": "41.15", "longitude": "-8.62", "httpProtocol": "HTTP/2", "clientTcpRtt": random.below(90), "botManagement": [{"score": random.below(99), "verifiedBot": false}]}],
            }],
            "response": [{"status_code": status, "origin_time": random.below(2_000), "headers": [{"content_type": "application/json", "cf_cache_status": random.of(&["HIT", "MISS", "DYNAMIC"]), "content_length": random.below(9_000)}]}],
        }],
    })
}

async fn fill(store: &Arc<Store>, count: usize, now: i64) {
    let mut random = Random(88_172_645_463_325_252);
    let step = WEEK / count as i64;
    let (mut made, mut stored) = (Duration::ZERO, Duration::ZERO);
    let mut first = 0;
    while first < count {
        // Made apart from storing, so that storing is measured alone; sixteen calls at once.
        let began = Instant::now();
        let calls: Vec<Vec<Json>> = (0..16)
            .map(|call| {
                let from = first + call * 1_000;
                (from..(from + 1_000).min(count)).map(|i| record(&mut random, now - WEEK + i as i64 * step)).collect()
            })
            .collect();
        made += began.elapsed();
        let began = Instant::now();
        let calls: Vec<_> = calls
            .into_iter()
            .map(|events| {
                let store = Arc::clone(store);
                tokio::spawn(async move { store.ingest(EDGE, events).await.unwrap() })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        stored += began.elapsed();
        first += 16_000;
    }
    let rate = count as f64 / stored.as_secs_f64();
    println!("ingest of {count} records, durable: {stored:.2?}, {rate:.0} a second (made in {made:.2?})");
    let began = Instant::now();
    store.flush().await.unwrap();
    println!("flush of what was left in memory: {:.2?}", began.elapsed());
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().unwrap().parse().unwrap();
    let folder = arguments.next().unwrap();
    let explain = arguments.next().is_some();
    let fresh = !Path::new(&folder).exists();
    let store = Store::open(Path::new(&folder), StoreOptions::default()).unwrap();
    for name in OTHERS.into_iter().chain([EDGE]) {
        store.ensure_source(name).unwrap();
    }
    let now = chrono::Utc::now().timestamp_micros();
    if fresh {
        fill(&store, count, now).await;
    }
    let engine = Engine::new(&EngineOptions::default()).unwrap();
    let sources = Stored(Arc::clone(&store));
    let logs_all = SavedQuery::parse(include_str!("../../../guest-endpoints/logs.all/query.sql")).unwrap();
    let api_counts = SavedQuery::parse(include_str!("../../../guest-endpoints/usage.api-counts/query.sql")).unwrap();
    let with = |pairs: &[(&str, &str)]| -> Arguments {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), Value::Text((*text).to_owned()))).collect()
    };
    let one = with(&[("project", "project07")]);
    let counts = |interval: &str, project: &str| {
        let arguments = with(&[("interval", interval), ("project", project)]);
        engine.plan_saved(&api_counts, Binding::new(&sources, &arguments, now)).unwrap()
    };
    let binding = Binding::new(&sources, &one, now);
    let adhoc = |sql: &str| engine.plan(sql, binding.granted(&logs_all)).unwrap();
    let whole = |sql: &str| engine.plan(sql, binding).unwrap();
    type Job<'j> = (&'static str, Box<dyn Fn() -> Plan + 'j>);
    let jobs: Vec<Job<'_>> = vec![
        ("logs.all, newest 100 of one project", Box::new(|| engine.plan_saved(&logs_all, binding).unwrap())),
        ("usage.api-counts, daily, one project", Box::new(|| counts("daily", "project07"))),
        ("usage.api-counts, daily, every request", Box::new(|| counts("daily", "."))),
        ("usage.api-counts, minutely, every request", Box::new(|| counts("minutely", "."))),
        (
            "ad-hoc: nested filter and group, every record",
            Box::new(|| {
                whole(
                    "SELECT r.status_code, COUNT(*) AS c FROM `cloudflare.logs.prod` CROSS JOIN UNNEST(metadata) AS m
                     CROSS JOIN UNNEST(m.request) AS q CROSS JOIN UNNEST(m.response) AS r
                     WHERE q.method = 'POST' AND r.status_code >= 400 GROUP BY 1",
                )
            }),
        ),
        (
            "ad-hoc: newest 100 with status 502, one project",
            Box::new(|| {
                adhoc(
                    "SELECT id, timestamp, event_message, r.status_code FROM edge_logs CROSS JOIN UNNEST(metadata) AS m
                     CROSS JOIN UNNEST(m.response) AS r WHERE r.status_code = 502 ORDER BY timestamp DESC LIMIT 100",
                )
            }),
        ),
        (
            "ad-hoc: one record by id",
            Box::new(|| {
                adhoc("SELECT id, timestamp, event_message, metadata FROM edge_logs WHERE id = 'none' LIMIT 1")
            }),
        ),
    ];
    for (name, job) in &jobs {
        if explain {
            println!("-- {name}\n{}", engine.explain(&job()).await.unwrap());
        }
        let (mut best, mut sum, mut resolving, mut rows) = (Duration::MAX, Duration::ZERO, Duration::ZERO, 0);
        for _ in 0..RUNS {
            let began = Instant::now();
            let plan = job();
            resolving += began.elapsed();
            let stream = engine.run(plan, Some(1_001)).await.unwrap();
            let batches: Vec<RecordBatch> = stream.try_collect().await.unwrap();
            let took = began.elapsed();
            rows = batches.iter().map(RecordBatch::num_rows).sum();
            best = best.min(took);
            sum += took;
        }
        println!(
            "{name:50} best {best:8.2?}  mean {:8.2?}  of it resolving {:8.2?}  {rows} rows",
            sum / RUNS,
            resolving / RUNS
        );
    }
    store.close().await.unwrap();
}
