//! What a statement costs beside its work whose segments workers read, in processor time: what `docs/contributing/measurements/cluster.md` reports.
//!
//!     cargo run --release -p tidegate-cluster --example gather_cost -- FOLDER 30000 100000 300000 1000000
//!
//! For each number of records, a folder in FOLDER is filled with so many edge records of `cargo xtask bench` if it is not
//! there. Each question is run whole, and with 1, 2 and 4 workers of this process, in turn.
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

use std::path::Path;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result as EngineResult;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use futures::TryStreamExt;
use generator::{EDGE, END, Form, Generator, SOURCES};
use tidegate_cluster::stages::{LocalStageWorkers, StageCarrier, StageOptions};
use tidegate_cluster::{LocalLeaves, StatementReport, decode, encode, held_segments};
use tidegate_model::{Arguments, Failure, Value};
use tidegate_sql::{Binding, Carried, Carrier, Engine, EngineOptions, SavedQuery, Sources, StoredTable};
use tidegate_store::{Store, StoreOptions};

const WORKERS: [usize; 3] = [1, 2, 4];
/// Each figure is the median of so many rounds.
const ROUNDS: usize = 9;
/// Processor time of a round, about, in milliseconds: small statements run several times.
const ROUND: f64 = 150.0;

/// The questions: those of the benchmark of this name, over the table of the project, or of all projects.
const QUESTIONS: [(&str, bool, &str); 5] = [
    ("newest", true, include_str!("../../../xtask/bench/questions/newest/tidegate.sql")),
    ("status-histogram", false, include_str!("../../../xtask/bench/questions/status-histogram/tidegate.sql")),
    ("rare-expression", true, include_str!("../../../xtask/bench/questions/rare-expression/tidegate.sql")),
    ("errors-by-path", true, include_str!("../../../xtask/bench/questions/errors-by-path/tidegate.sql")),
    ("top-agents", false, include_str!("../../../xtask/bench/questions/top-agents/tidegate.sql")),
];
const ALL_PROJECTS: &str = "WITH edge_logs AS (SELECT * FROM `cloudflare.logs.prod`) SELECT id FROM edge_logs";

struct Stored(Arc<Store>);

impl Sources for Stored {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(self.0.table(name).ok().map(StoredTable::whole))
    }
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A plan, and what it was to run with.
type Planned = (Arc<dyn ExecutionPlan>, Arc<TaskContext>);

/// Keeps the last plan that passes.
#[derive(Debug, Default)]
struct Kept(Mutex<Option<Planned>>);

impl Carrier for Kept {
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> EngineResult<Carried> {
        let context = TaskContext::default().with_session_config(task.session_config().clone());
        *self.0.lock().unwrap() = Some((Arc::clone(&plan), Arc::new(context.with_runtime(task.runtime_env()))));
        Ok(plan.into())
    }
}

/// Processor time that the threads of this process have had, in milliseconds.
fn processors() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let nanoseconds = threads.flatten().filter_map(|thread| {
        let line = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() as f64 / 1e6
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Processor time of one call, in milliseconds: the median of rounds.
fn measured(mut work: impl FnMut()) -> f64 {
    let times = 50;
    median(
        (0..ROUNDS)
            .map(|_| {
                let before = processors();
                (0..times).for_each(|_| work());
                (processors() - before) / f64::from(times)
            })
            .collect(),
    )
}

/// Fills a folder; its largest project comes from the generator.
async fn filled(folder: &Path, records: u64) -> Arc<Store> {
    let fresh = !folder.exists();
    let store = Store::open(folder, StoreOptions::default()).unwrap();
    for source in SOURCES {
        store.ensure_source(source).unwrap();
    }
    if fresh {
        let plan = generator::Plan { records, seed: 1, form: Form::Lines, later: false };
        let mut generator = Generator::new(plan);
        let mut more = true;
        while more {
            more = generator.step();
            let part = &mut generator.parts[EDGE];
            if part.records == 1000 || !more {
                let lines = part.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                let events = lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect();
                store.ingest(SOURCES[EDGE], events).await.unwrap();
                // The records of other sources are not measured.
                generator.parts = Default::default();
            }
        }
        store.flush().await.unwrap();
        store.compact().await.unwrap();
    }
    store
}

/// A question, and the engines that it is asked.
struct Question<'q> {
    sql: &'q str,
    sources: &'q Stored,
    saved: &'q SavedQuery,
    arguments: &'q Arguments,
}

impl Question<'_> {
    async fn asked(&self, engine: &Engine) -> usize {
        let binding = Binding::new(self.sources, self.arguments, END);
        let plan = engine.plan(self.sql, binding.granted(self.saved)).unwrap();
        let batches: Vec<RecordBatch> = engine.run(plan, Some(1_001)).await.unwrap().try_collect().await.unwrap();
        batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Processor time of one run, in milliseconds.
    async fn cost(&self, engine: &Engine, times: usize) -> f64 {
        let before = processors();
        for _ in 0..times {
            self.asked(engine).await;
        }
        (processors() - before) / times as f64
    }
}

async fn measure(records: u64, folder: &Path) {
    let store = filled(&folder.join(records.to_string()), records).await;
    let sources = Stored(Arc::clone(&store));
    let options = EngineOptions {
        partitions: 2,
        narrow: tidegate_store::narrowed,
        placed: tidegate_store::placed,
        counted: tidegate_store::counted,
        ..EngineOptions::default()
    };
    let whole = Engine::new(&options).unwrap();
    let kept = Arc::new(Kept::default());
    let keeping = Engine::new(&options).unwrap().with_carrier(Arc::clone(&kept) as _);
    let last = Arc::new(Mutex::new((0, 0, 0)));
    let engines = WORKERS.map(|count| {
        let last = Arc::clone(&last);
        let told = move |report: &StatementReport| {
            let tasks = || report.leaves.iter().flat_map(|leaf| &leaf.tasks);
            *last.lock().unwrap() =
                (tasks().count(), tasks().map(|task| task.rows).sum(), tasks().map(|task| task.bytes).sum());
        };
        let workers = Arc::new(LocalStageWorkers::new(count, &options).unwrap());
        let carrier = StageCarrier::new(Arc::new(workers), StageOptions::GATHERED).telling(told);
        Engine::new(&options).unwrap().with_carrier(Arc::new(carrier))
    });
    let project = Generator::new(generator::Plan { records: 1, seed: 1, form: Form::Lines, later: false });
    let project = project.projects()[0].clone();
    let arguments = Arguments::from([("project".to_owned(), Value::Text(project))]);
    let logs_all = SavedQuery::parse(include_str!("../../../guest-endpoints/logs.all/query.sql")).unwrap();
    let all_projects = SavedQuery::parse(ALL_PROJECTS).unwrap();
    for (name, of_project, sql) in QUESTIONS {
        let saved = if of_project { &logs_all } else { &all_projects };
        let question = Question { sql, sources: &sources, saved, arguments: &arguments };
        let rows = question.asked(&whole).await;
        let times = (ROUND / question.cost(&whole, 3).await).ceil() as usize;
        let (mut of_whole, mut of_workers) = (Vec::new(), vec![Vec::new(); engines.len()]);
        let mut planned = Vec::new();
        for engine in &engines {
            assert_eq!(question.asked(engine).await, rows);
            planned.push(*last.lock().unwrap());
        }
        for _ in 0..ROUNDS {
            of_whole.push(question.cost(&whole, times).await);
            for (engine, costs) in engines.iter().zip(&mut of_workers) {
                costs.push(question.cost(engine, times).await);
            }
        }
        let whole = median(of_whole);
        let added: Vec<String> = of_workers
            .into_iter()
            .zip(&planned)
            .map(|(costs, (tasks, ..))| format!("{:+.2} ({tasks})", median(costs) - whole))
            .collect();
        question.asked(&keeping).await;
        let (plan, context) = kept.0.lock().unwrap().take().unwrap();
        let encoding_options = context.session_config().options();
        let mut leaves = LocalLeaves::default();
        let encoded = encode(&plan, encoding_options, Some(&mut leaves)).unwrap();
        let held = held_segments(&plan);
        let encoding = measured(|| drop(encode(&plan, encoding_options, Some(&mut LocalLeaves::default()))));
        let decoding = measured(|| drop(decode(&encoded.bytes, &held, &context, &leaves)));
        let (_, read_rows, read_bytes) = planned[0];
        println!(
            "| {name} | {records} | {read_rows} | {:.1} | {whole:.2} | {} | {:.2} | {:.2} | {} |",
            read_bytes as f64 / 1e6,
            added.join(" | "),
            encoding,
            decoding,
            encoded.bytes.len(),
        );
    }
    store.close().await.unwrap();
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder");
    println!(
        "| Question | records | rows of the scan | its MB | whole, ms | for 1: added (tasks) | for 2 | for 4 \
         | encoding | decoding | bytes |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for records in arguments {
        measure(records.parse().expect("a number"), Path::new(&folder)).await;
    }
}
