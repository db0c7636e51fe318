//! What statements cost that run in stages, in processor time of the process that has the most of it: what
//! `docs/contributing/measurements/cluster.md` reports.
//!
//!     cargo run --release -p tidegate-cluster --example stage_cost -- FOLDER 1000000
//!
//! For each number of records, a folder in FOLDER is filled with so many edge records of `cargo xtask bench` if it is not
//! there. Each statement runs whole, and in stages on 1, 4 and 16 workers of this process, in turn. Each worker has a thread
//! of its own, whose processor time is its own.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a measurement may end with a panic, and prints"
)]

#[expect(dead_code, reason = "shared with the benchmarks, which use more of it")]
#[path = "../../../xtask/src/bench/generator/mod.rs"]
mod generator;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::RecordBatch;
use futures::TryStreamExt;
use generator::{EDGE, END, Form, Generator, SOURCES};
use tidegate_cluster::StatementReport;
use tidegate_cluster::stages::{LocalStageWorkers, StageCarrier, StageOptions};
use tidegate_model::{Arguments, Failure};
use tidegate_sql::{Binding, CostCounter, Engine, EngineOptions, SavedQuery, Sources, StoredTable};
use tidegate_store::{Store, StoreOptions};

const WORKERS: [usize; 3] = [1, 4, 16];
/// Each figure is the median of so many rounds.
const ROUNDS: usize = 3;
/// So many segments a folder has, about.
const SEGMENTS: u64 = 64;

const STATEMENTS: [(&str, &str); 6] = [
    (
        "count by hour",
        "SELECT TIMESTAMP_TRUNC(timestamp, HOUR) AS h, COUNT(*) AS n FROM edge_logs GROUP BY h ORDER BY h",
    ),
    ("a million groups", "SELECT id, COUNT(*) AS n FROM edge_logs GROUP BY id ORDER BY n DESC, id LIMIT 10"),
    (
        "join of two large sides",
        "SELECT COUNT(*) AS n, MAX(a.timestamp) AS t FROM edge_logs AS a JOIN (SELECT id, LENGTH(event_message) AS l FROM edge_logs) AS b ON a.id = b.id WHERE b.l > 0",
    ),
    (
        "window by key",
        "SELECT COUNT(*) AS n, SUM(r) AS s FROM (SELECT ROW_NUMBER() OVER (PARTITION BY SUBSTR(id, 1, 4) ORDER BY timestamp, id) AS r FROM edge_logs) AS x",
    ),
    ("distinct rows", "SELECT COUNT(*) AS n FROM (SELECT DISTINCT id, event_message FROM edge_logs) AS x"),
    ("COUNT(DISTINCT)", "SELECT COUNT(DISTINCT id) AS n FROM edge_logs"),
];
const TABLE: &str = "WITH edge_logs AS (SELECT * FROM `cloudflare.logs.prod`) SELECT id FROM edge_logs";

struct Stored(Arc<Store>);

impl Sources for Stored {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(self.0.table(name).ok().map(StoredTable::whole))
    }
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Processor time of each process, in milliseconds: threads of one name are a worker, all others the coordinator.
fn processors() -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let read = |name: &str| std::fs::read_to_string(thread.path().join(name)).ok();
        let (Some(name), Some(line)) = (read("comm"), read("schedstat")) else { continue };
        let Some(time) = line.split_whitespace().next().and_then(|time| time.parse::<f64>().ok()) else { continue };
        let name = if name.starts_with("worker-") { name.trim().to_owned() } else { String::new() };
        *all.entry(name).or_default() += time / 1e6;
    }
    all
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Fills a folder with segments of about one size.
async fn filled(folder: &Path, records: u64) -> Arc<Store> {
    let fresh = !folder.exists();
    let options = StoreOptions { manual_flush: true, ..StoreOptions::default() };
    let store = Store::open(folder, options).unwrap();
    for source in SOURCES {
        store.ensure_source(source).unwrap();
    }
    if fresh {
        let plan = generator::Plan { records, seed: 1, form: Form::Lines, later: false };
        let mut generator = Generator::new(plan);
        let (mut more, mut taken) = (true, 0);
        while more {
            more = generator.step();
            let part = &mut generator.parts[EDGE];
            if part.records == 1000 || !more {
                let lines = part.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                let events = lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect();
                taken += part.records;
                store.ingest(SOURCES[EDGE], events).await.unwrap();
                if taken >= records / SEGMENTS {
                    taken = 0;
                    store.flush().await.unwrap();
                }
                // The records of other sources are not measured.
                generator.parts = Default::default();
            }
        }
        store.flush().await.unwrap();
    }
    store
}

/// What a run took: the process that had the most processor time, the coordinator, all of them.
struct Cost {
    slowest: f64,
    coordinator: f64,
    all: f64,
    rows: Vec<String>,
    memory: u64,
}

async fn run(engine: &Engine, sources: &Stored, saved: &SavedQuery, sql: &str) -> Cost {
    let arguments = Arguments::default();
    let before = processors();
    let binding = Binding::new(sources, &arguments, END);
    let plan = engine.plan(sql, binding.granted(saved)).unwrap();
    let counter = Arc::new(CostCounter::default());
    let stream = engine.run(plan, Some(1_001)).await.unwrap().counted_in(Arc::clone(&counter));
    let batches: Vec<RecordBatch> = stream.try_collect().await.unwrap();
    let after = processors();
    let took: BTreeMap<&String, f64> =
        after.iter().map(|(name, time)| (name, time - before.get(name).copied().unwrap_or_default())).collect();
    let coordinator = took.iter().find(|(name, _)| name.is_empty()).map_or(0.0, |(_, time)| *time);
    let rows = batches.iter().map(|batch| format!("{:?}", batch.columns())).collect();
    Cost {
        slowest: took.values().copied().fold(0.0, f64::max),
        coordinator,
        all: took.values().sum(),
        rows,
        memory: counter.cost().memory,
    }
}

async fn measure(records: u64, folder: &Path) {
    let store = filled(&folder.join(records.to_string()), records).await;
    let sources = Stored(Arc::clone(&store));
    let options = EngineOptions {
        partitions: 2,
        statement_memory: 8 << 30,
        total_memory: 16 << 30,
        narrow: tidegate_store::narrowed,
        placed: tidegate_store::placed,
        counted: tidegate_store::counted,
        ..EngineOptions::default()
    };
    let whole = Engine::new(&options).unwrap();
    let last = Arc::new(Mutex::new(String::new()));
    let saved = SavedQuery::parse(TABLE).unwrap();
    for (name, sql) in STATEMENTS {
        let mut of_whole = Vec::new();
        let mut rows = Vec::new();
        let mut memory = 0;
        for _ in 0..ROUNDS {
            let cost = run(&whole, &sources, &saved, sql).await;
            of_whole.push(cost.all);
            (rows, memory) = (cost.rows, cost.memory);
        }
        let of_whole = median(of_whole);
        println!("| {name} | whole | {of_whole:.0} | | | {:.1} |", memory as f64 / 1e6);
        for count in WORKERS {
            let workers = Arc::new(LocalStageWorkers::new(count, &options).unwrap());
            let told = Arc::clone(&last);
            let carrier =
                StageCarrier::new(Arc::new(workers), StageOptions::ALL).telling(move |report: &StatementReport| {
                    let stages = report.exchange.as_ref().map_or(2, |exchange| exchange.stages);
                    *told.lock().unwrap() = format!("{stages} stages");
                });
            let engine = Engine::new(&options).unwrap().with_carrier(Arc::new(carrier));
            let (mut slowest, mut coordinator, mut all) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let cost = run(&engine, &sources, &saved, sql).await;
                if cost.rows != rows {
                    println!("another answer: {:?} instead of {rows:?}", cost.rows);
                }
                memory = cost.memory;
                slowest.push(cost.slowest);
                coordinator.push(cost.coordinator);
                all.push(cost.all);
            }
            let (slowest, coordinator, all) = (median(slowest), median(coordinator), median(all));
            println!(
                "| {name} | {count} | {slowest:.0} ({:.2}) | {coordinator:.0} ({:.2}) | {all:.0} ({:.2}) | {:.1} | {}",
                slowest / of_whole,
                coordinator / of_whole,
                all / of_whole,
                memory as f64 / 1e6,
                last.lock().unwrap()
            );
        }
    }
    store.close().await.unwrap();
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder");
    println!("| Statement | workers | slowest process, ms | coordinator | all | coordinator's memory, MB |");
    println!("|---|---:|---:|---:|---:|---:|");
    for records in arguments {
        measure(records.parse().expect("a number"), Path::new(&folder)).await;
    }
}
