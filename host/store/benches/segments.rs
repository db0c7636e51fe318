//! What the number of segments costs: the start, memory, and queries, before and after compaction.
//!
//! ```text
//! cargo bench -p tidegate-store --bench segments -- [EVENTS] [SEGMENTS]...
//! cargo bench -p tidegate-store --bench segments -- sources [SOURCES]...
//! cargo bench -p tidegate-store --bench segments -- shape plain|keys|wide|flip
//! ```
//!
//! `EVENTS` (1,000,000 unless told) in as many segments as each of the other numbers says (10, 100, 1,000, 10,000). The
//! folders are not durable, because syncs would take most of the time that it takes to make them. With `sources`, as many
//! sources of a hundred events each instead (10, 2,000). With `shape`, 50,000 events of a shape: `keys` has 20 keys in
//! each that no other event has, a million in all; `wide` 500 of 10,000; `flip` one key with another type in each.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a benchmark may panic")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::{cast, ident};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext, lit};
use serde_json::{Value, json};
use tidegate_store::{Store, StoreOptions};

// The one of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const START: i64 = 1_700_000_000_000_000;
const PROJECTS: i64 = 50;
const RUNS: usize = 7;
/// A query of so many segments takes up to a minute: it runs three times.
const MANY_SEGMENTS: u64 = 50_000;

fn event(i: i64) -> Value {
    // One project has about a third of all events.
    let project = if i % 3 == 0 { 0 } else { (i * 7_919) % PROJECTS };
    json!({
        "id": format!("{:032x}", (i as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)),
        "timestamp": START + i * 100_000,
        "project": format!("project{project:02}"),
        "event_message": format!("GET | {} | 10.0.{}.{} | https://project{project:02}.example.com/rest/v1/items?id=eq.{i}", 200 + i % 5, i % 251, i % 13),
        "metadata": {"request": {"method": "GET", "path": format!("/rest/v1/items{}", i % 40)}, "response": {"status_code": 200 + i % 5, "origin_time": i % 997}},
    })
}

/// A line of `/proc/self/status` in MB.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let found = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    found.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

fn frame(context: &SessionContext, store: &Store) -> DataFrame {
    context.read_table(store.table("s").unwrap()).unwrap()
}

/// The median time of a query, with the planning.
async fn time(context: &SessionContext, store: &Store, query: impl Fn(DataFrame) -> DataFrame) -> Duration {
    let runs = if store.stats().segments < MANY_SEGMENTS { RUNS } else { 3 };
    let mut times = Vec::new();
    for _ in 0..runs {
        let began = Instant::now();
        query(frame(context, store)).collect().await.unwrap();
        times.push(began.elapsed());
    }
    times.sort_unstable();
    times.get(runs / 2).copied().unwrap()
}

fn newest(frame: DataFrame) -> DataFrame {
    frame.sort(vec![ident("timestamp").sort(false, false)]).unwrap().limit(0, Some(100)).unwrap()
}

async fn row(name: &str, dir: &std::path::Path, options: &StoreOptions) -> Arc<Store> {
    let began = Instant::now();
    let store = Store::open(dir, options.clone()).unwrap();
    let start = began.elapsed();
    let config =
        SessionConfig::new().with_target_partitions(2).set_bool("datafusion.execution.parquet.pushdown_filters", true);
    let context = SessionContext::new_with_config(config);
    let project = |frame: DataFrame| frame.filter(ident("project").eq(lit("project07"))).unwrap();
    let of_project = time(&context, &store, |frame| newest(project(frame))).await;
    let of_all = time(&context, &store, newest).await;
    let text = time(&context, &store, |frame| {
        frame.filter(ident("event_message").like(lit("%items?id=eq.99%"))).unwrap().select_columns(&["id"]).unwrap()
    })
    .await;
    let time_of = |event: i64| cast(lit(START + event * 100_000), DataType::Timestamp(TimeUnit::Microsecond, None));
    let range = time(&context, &store, |frame| {
        let from = ident("timestamp").gt_eq(time_of(12_000));
        let range = frame.filter(from.and(ident("timestamp").lt(time_of(12_100)))).unwrap();
        range.select_columns(&["id", "event_message"]).unwrap()
    })
    .await;
    let id = event(12_345)["id"].as_str().unwrap().to_owned();
    let by_id = time(&context, &store, |frame| frame.filter(ident("id").eq(lit(id.clone()))).unwrap()).await;
    let stats = store.stats();
    println!(
        "| {name} | {} | {:.0} | {:.0} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
        stats.segments,
        stats.segment_bytes as f64 / 1e6,
        start.as_secs_f64() * 1e3,
        memory("VmRSS:"),
        of_project.as_secs_f64() * 1e3,
        of_all.as_secs_f64() * 1e3,
        by_id.as_secs_f64() * 1e3,
        text.as_secs_f64() * 1e3,
        range.as_secs_f64() * 1e3,
    );
    store
}

/// An event of a shape, with twenty values beside those of every event.
fn shaped(shape: &str, i: i64) -> Value {
    let mut event = event(i);
    let (count, name): (i64, fn(i64, i64) -> String) = match shape {
        "keys" => (20, |i, k| format!("k{}", i * 20 + k)),
        "wide" => (500, |i, k| format!("k{}", (i * 500 + k) % 10_000)),
        "flip" => (1, |_, _| "v".to_owned()),
        _ => (20, |_, k| format!("k{k}")),
    };
    for k in 0..count {
        event["metadata"][name(i, k)] = match (shape, i % 6) {
            ("flip", 0) => json!(i),
            ("flip", 1) => json!(format!("text {i}")),
            ("flip", 2) => json!(i % 4 == 0),
            ("flip", 3) => json!([i, "x"]),
            ("flip", 4) => json!({"deep": {"n": i}}),
            ("flip", _) => json!(i as f64 + 0.5),
            _ => json!(i * k),
        };
    }
    event
}

/// What a hostile shape costs: while it comes, as segments, merged, and for queries that do not ask for it.
async fn shape(shape: &str, options: &StoreOptions) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options.clone()).unwrap();
    store.create_source("s").unwrap();
    let (mut ingested, mut flushed, mut longest) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for call in 0..500_i64 {
        let events = (call * 100..call * 100 + 100).map(|i| shaped(shape, i)).collect();
        let began = Instant::now();
        store.ingest("s", events).await.unwrap();
        ingested += began.elapsed();
        if call % 50 == 49 {
            let began = Instant::now();
            store.flush().await.unwrap();
            (flushed, longest) = (flushed + began.elapsed(), longest.max(began.elapsed()));
        }
    }
    let (before, stats) = (memory("VmHWM:"), store.stats());
    let began = Instant::now();
    store.compact().await.unwrap();
    let merged = began.elapsed();
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    let first = time(&context, &store, newest).await;
    let text = time(&context, &store, |frame| {
        frame.filter(ident("event_message").like(lit("%items?id=eq.99%"))).unwrap().select_columns(&["id"]).unwrap()
    })
    .await;
    let after = store.stats();
    println!(
        "| shape | ingest s | 10 flushes s | longest s | MB | peak MB | merge s | segments | MB | peak MB | newest 100 ms | text ms | overflowing |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    println!(
        "| {shape} | {:.1} | {:.1} | {:.2} | {:.0} | {before} | {:.1} | {} | {:.0} | {} | {:.1} | {:.1} | {} |",
        ingested.as_secs_f64(),
        flushed.as_secs_f64(),
        longest.as_secs_f64(),
        stats.segment_bytes as f64 / 1e6,
        merged.as_secs_f64(),
        after.segments,
        after.segment_bytes as f64 / 1e6,
        memory("VmHWM:"),
        first.as_secs_f64() * 1e3,
        text.as_secs_f64() * 1e3,
        after.overflowing_sources,
    );
}

/// Many sources: a call and a segment each, and the start on them.
async fn sources(counts: Vec<i64>, options: &StoreOptions) {
    println!(
        "| sources | made in s | one flush of all, s | start ms | resident MB | newest 100 of one, ms | retention of all, ms |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    for count in counts {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), options.clone()).unwrap();
        let began = Instant::now();
        for source in 0..count {
            let name = format!("s{source}");
            store.create_source(&name).unwrap();
            store.ingest(&name, (0..100).map(event).collect()).await.unwrap();
        }
        let made = began.elapsed();
        let began = Instant::now();
        store.flush().await.unwrap();
        let flushed = began.elapsed();
        drop(store);
        let began = Instant::now();
        let store = Store::open(dir.path(), options.clone()).unwrap();
        let start = began.elapsed();
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
        let mut times = Vec::new();
        for run in 0..RUNS {
            let began = Instant::now();
            let table = store.table(&format!("s{}", run as i64 % count)).unwrap();
            newest(context.read_table(table).unwrap()).collect().await.unwrap();
            times.push(began.elapsed());
        }
        times.sort_unstable();
        let began = Instant::now();
        store.apply_retention().await.unwrap();
        let retained = began.elapsed();
        println!(
            "| {count} | {:.1} | {:.1} | {:.0} | {} | {:.1} | {:.1} |",
            made.as_secs_f64(),
            flushed.as_secs_f64(),
            start.as_secs_f64() * 1e3,
            memory("VmRSS:"),
            times[RUNS / 2].as_secs_f64() * 1e3,
            retained.as_secs_f64() * 1e3,
        );
    }
}

#[tokio::main]
async fn main() {
    let options = StoreOptions { manual_flush: true, durable: false, ..StoreOptions::default() };
    if std::env::args().any(|text| text == "sources") {
        let counts: Vec<i64> = std::env::args().filter_map(|text| text.parse().ok()).collect();
        return sources(if counts.is_empty() { vec![10, 2_000] } else { counts }, &options).await;
    }
    if let Some(name) = std::env::args().skip_while(|text| text != "shape").nth(1) {
        return shape(&name, &options).await;
    }
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<i64>().ok());
    let events = numbers.next().unwrap_or(1_000_000);
    let mut counts: Vec<i64> = numbers.collect();
    if counts.is_empty() {
        counts = vec![10, 100, 1_000, 10_000];
    }
    println!("{events} events. Times in milliseconds, medians of {RUNS}.\n");
    println!(
        "| | segments | MB | start | resident MB | newest 100 of a project | newest 100 | by id | text in all | a range of 100 events |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for count in counts {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), options.clone()).unwrap();
        store.create_source("s").unwrap();
        for segment in 0..count {
            let range = segment * events / count..(segment + 1) * events / count;
            store.ingest("s", range.map(event).collect()).await.unwrap();
            store.flush().await.unwrap();
        }
        drop(store);
        let store = row("as flushed", dir.path(), &options).await;
        let began = Instant::now();
        store.compact().await.unwrap();
        let took = began.elapsed();
        drop(store);
        drop(row(&format!("merged in {:.1} s", took.as_secs_f64()), dir.path(), &options).await);
    }
}
