//! What a component costs around a query: a fresh instance with its call, alone and under 64 requests
//! at once, and how fast rows come into a guest. `cargo bench -p tidegate-runtime --bench component`
//!
//! Rows are counted by the endpoint `edge-methods`, which `cargo xtask guests` builds; without it that
//! part is left out, aloud. Statements answer at once with rows that are there already, so that
//! nothing of a query engine is measured.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may panic, and prints")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use futures::{StreamExt, stream};
use sha2::{Digest, Sha256};
use tidegate_compiler::{Folder, compile_sql, pack};
use tidegate_model::{Arguments, EndpointName, Failure, Kind, Limits, Manifest, Value};
use tidegate_runtime::{Column, Endpoint, Request, Rows, Runtime, RuntimeOptions, Statement, Statements};

// The one of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CALLS: usize = 20_000;
const CONCURRENT: usize = 64;
const ROWS: usize = 2_000_000;

/// Statements that answer with the same batch again and again.
struct Logs {
    batch: RecordBatch,
    times: usize,
}

impl Logs {
    fn of(batch_rows: usize, rows: usize) -> Arc<Self> {
        let methods: StringArray = (0..batch_rows).map(|n| Some(if n % 3 == 0 { "POST" } else { "GET" })).collect();
        let statuses: Int64Array = (0..batch_rows).map(|n| if n % 10 == 0 { 503 } else { 200 }).collect();
        let schema =
            Schema::new(vec![Field::new("method", DataType::Utf8, true), Field::new("status", DataType::Int64, true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(methods), Arc::new(statuses)]).unwrap();
        Arc::new(Self { batch, times: rows.div_ceil(batch_rows.max(1)) })
    }
}

#[async_trait]
impl Statements for Logs {
    async fn run(&self, _: Statement, _: Vec<(String, Value)>) -> Result<Rows, Failure> {
        let batches = std::iter::repeat_n(self.batch.clone(), self.times).map(Ok);
        Ok(Rows {
            columns: Column::of_statement([("method".into(), Kind::Text, true), ("status".into(), Kind::Int64, true)]),
            batches: stream::iter(batches).boxed(),
            context: Arc::new(()),
            json: Arc::new(|_, _, _| Ok(String::new())),
        })
    }
}

fn limits() -> Limits {
    Limits {
        wall_clock: Duration::from_secs(600),
        cpu: Duration::from_secs(600),
        guest_rows: u64::MAX,
        guest_bytes: usize::MAX,
        host_calls: u64::MAX,
        ..Limits::default()
    }
}

async fn ready(runtime: &Runtime, component: &[u8]) -> Arc<Endpoint> {
    runtime.prepare(component, Sha256::digest(component).into()).await.unwrap()
}

/// The time of each of `calls` requests, one after another: in a task, as in the server. From a thread that
/// is none of the executor's, each statement would wake another thread, and that one this.
async fn calls(runtime: &Arc<Runtime>, endpoint: &Arc<Endpoint>, logs: &Arc<Logs>, calls: usize) -> Vec<Duration> {
    let (runtime, endpoint, logs) = (Arc::clone(runtime), Arc::clone(endpoint), Arc::clone(logs));
    let task = tokio::spawn(async move {
        let mut times = Vec::with_capacity(calls);
        for _ in 0..calls {
            let request = Request { arguments: Arguments::new(), received_at: 0, limits: limits() };
            let began = Instant::now();
            runtime.handle(&endpoint, request, Arc::clone(&logs) as _).await.unwrap();
            times.push(began.elapsed());
        }
        times
    });
    task.await.unwrap()
}

/// Median and 99th percentile.
fn shown(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len().saturating_sub(1) * share / 100).copied().unwrap_or_default();
    format!("median {:.1?}, p99 {:.1?}", at(50), at(99))
}

async fn around_a_query(runtime: &Arc<Runtime>, cores: usize) {
    let name = EndpointName::try_from("bench".to_owned()).unwrap();
    let endpoint = ready(runtime, &compile_sql(&Manifest::new(name, "SELECT 1")).unwrap()).await;
    let logs = Logs::of(1, 1);
    // The pool is warm after this.
    calls(runtime, &endpoint, &logs, CALLS / 10).await;
    println!("instance and call:                    {}", shown(calls(runtime, &endpoint, &logs, CALLS).await));
    let began = Instant::now();
    let all = (0..CONCURRENT).map(|_| calls(runtime, &endpoint, &logs, CALLS / CONCURRENT));
    let times: Vec<Duration> = futures::future::join_all(all).await.into_iter().flatten().collect();
    let (elapsed, count) = (began.elapsed(), u32::try_from(times.len()).unwrap());
    println!("the same, {CONCURRENT} at once on {cores} cores:     {}", shown(times));
    let each = elapsed * u32::try_from(cores).unwrap() / count;
    println!(
        "  of a core's time for each:          {each:.1?}, {:.0} a second",
        f64::from(count) / elapsed.as_secs_f64()
    );
}

async fn rows_into_a_guest(runtime: &Arc<Runtime>) {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-endpoints");
    let built = std::env::var_os("TIDEGATE_GUESTS").map_or(guests.join("target/built"), PathBuf::from);
    let Ok(module) = std::fs::read(built.join("edge-methods.cargo.wasm")) else {
        println!("rows into a guest: left out, no guest is built (cargo xtask guests)");
        return;
    };
    let folder = Folder::read(guests.join("edge-methods")).unwrap();
    let endpoint = ready(runtime, &pack(&module, &folder.manifest).unwrap()).await;
    for batch_rows in [64, 256, 1024, 8192] {
        let logs = Logs::of(batch_rows, ROWS);
        let best = calls(runtime, &endpoint, &logs, 5).await.into_iter().min().unwrap();
        let rate = ROWS as f64 / best.as_secs_f64() / 1e6;
        println!("rows counted by a guest, in batches of {batch_rows:>5}: {rate:.1} million a second");
    }
}

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(cores).enable_all().build().unwrap();
    executor.block_on(async {
        let options = RuntimeOptions { concurrency: CONCURRENT, limits: limits(), ..RuntimeOptions::default() };
        let runtime = Runtime::new(options).unwrap();
        around_a_query(&runtime, cores).await;
        rows_into_a_guest(&runtime).await;
    });
}
