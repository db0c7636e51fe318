//! `cargo xtask bench workers`: what a question takes where a worker process reads the segments, and where the server does.
//!
//! Two servers on equal folders are asked in turn, one of them with workers on the same machine that get every scan,
//! however small. So the difference is what a remote stage costs; what workers save where they are other machines, it cannot show.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::answer::compare;
use super::generator::{Form, Plan};
use super::http::Connection;
use super::options::State;
use super::questions::{Question, questions};
use super::report::Times;
use super::tidegate::{Tidegate, metric};
use super::{empty, parameters, release};
use crate::service::PRIVATE;
use crate::{Outcome, built, root, say};

pub(crate) const HELP: &str = "\
cargo xtask bench workers [OPTION...]

  --bin PATH        the service; else cargo build --release -p tidegate
  --records A,B     edge records; a table for each number (30000,300000,1000000)
  --workers N       worker processes (1)
  --runs N          of each question and server (31)
  --questions A,B   folders of xtask/bench/questions (status-histogram,top-agents,newest,errors-by-path,rare-expression)
  --seed N          of the records (1)
  --threads N       of the servers (2)";

/// How long workers may take until the server uses them.
const START: Duration = Duration::from_secs(30);

struct Options {
    binary: Option<PathBuf>,
    records: Vec<u64>,
    workers: u64,
    runs: u64,
    questions: Vec<String>,
    seed: u64,
    threads: usize,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let names =
            |list: &str| list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let mut options = Self {
            binary: None,
            records: vec![30_000, 300_000, 1_000_000],
            workers: 1,
            runs: 31,
            questions: names("status-histogram,top-agents,newest,errors-by-path,rare-expression"),
            seed: 1,
            threads: 2,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} wants a value\n\n{HELP}"))?;
            let number = |value: &str| {
                let read = value.trim().parse::<u64>().ok().filter(|number| *number > 0);
                read.ok_or_else(|| format!("{name} wants a number, not {value}"))
            };
            match name.as_str() {
                "--bin" => options.binary = Some(PathBuf::from(&value)),
                "--records" => options.records = value.split(',').map(number).collect::<Result<_, _>>()?,
                "--workers" => options.workers = number(&value)?,
                "--runs" => options.runs = number(&value)?,
                "--questions" => options.questions = names(&value),
                "--seed" => options.seed = number(&value)?,
                "--threads" => options.threads = number(&value)? as usize,
                _ => return Err(format!("{name} is not understood\n\n{HELP}")),
            }
        }
        Ok(options)
    }
}

pub(crate) fn command(mut arguments: std::iter::Peekable<impl Iterator<Item = String>>) -> Outcome {
    if arguments.peek().is_some_and(|first| first == "--help" || first == "-h") {
        println!("{HELP}");
        return Ok(());
    }
    let options = Options::read(arguments)?;
    let binary = release(options.binary.as_ref())?;
    let folder = built()?.join("bench/workers");
    let mut report = String::new();
    for records in &options.records {
        empty(&folder)?;
        let table = measure(&options, &binary, *records, &folder);
        let _ = std::fs::remove_dir_all(&folder);
        report.push_str(&table?);
    }
    println!("\n{report}");
    Ok(())
}

/// A worker process; it ends with this value.
struct WorkerProcess {
    process: Child,
    address: String,
}

impl WorkerProcess {
    fn start(binary: &Path, address: String, store: &Path) -> Result<Self, String> {
        let process = Command::new(binary)
            .args(["worker", "--listen", &address, "--store"])
            .arg(store)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("the worker does not start: {error}"))?;
        Ok(Self { process, address })
    }

    fn resident(&self) -> u64 {
        super::tidegate::memory_of(self.process.id(), "VmRSS:") >> 20
    }

    fn started(&self) -> Result<f64, String> {
        let mut connection = Connection::open(&format!("http://{}", self.address), PRIVATE)?;
        metric(&mut connection, "tidegate_worker_tasks_asked_total{outcome=\"started\"}")
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Addresses on which nothing listens.
fn free_addresses(count: u64) -> Result<Vec<String>, String> {
    // All are held until all are known, so that none comes twice.
    let listeners: Result<Vec<_>, _> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let addresses = listeners.and_then(|all| all.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>());
    let addresses = addresses.map_err(|error| format!("no free port: {error}"))?;
    Ok(addresses.iter().map(ToString::to_string).collect())
}

fn measure(options: &Options, binary: &Path, records: u64, folder: &Path) -> Result<String, String> {
    let plan = Plan { records, seed: options.seed, form: Form::Lines, later: false };
    let asked = questions(&root().join("xtask/bench/questions"), &options.questions, &parameters(plan))?;
    let addresses = free_addresses(options.workers)?;
    let settings =
        [("TIDEGATE_CLUSTER_WORKERS", addresses.join(",")), ("TIDEGATE_CLUSTER_LEAST_BYTES", "0 B".to_owned())];
    let (alone, with) = (folder.join("alone"), folder.join("workers"));
    say(&format!("loading {records} edge records into two servers"));
    let mut servers = [
        Tidegate::start(binary, &alone, options.threads, State::Compacted, &[])?,
        Tidegate::start(binary, &with, options.threads, State::Compacted, &settings)?,
    ];
    for server in &mut servers {
        server.load(plan)?;
        server.settle()?;
        server.compacted()?;
    }
    let workers: Vec<WorkerProcess> = addresses
        .into_iter()
        .map(|address| WorkerProcess::start(binary, address, &with.join("data")))
        .collect::<Result<_, _>>()?;
    let [alone, with] = &mut servers;
    alone.reconnect()?;
    with.reconnect()?;
    until_used(with, &workers)?;
    let idle = resident(&workers);
    let mut out = format!(
        "{records} edge records, {} worker processes, {} requests each. Milliseconds on the clock.\n\n\
         | Question | server alone | with workers | longer |\n|---|---:|---:|---:|\n",
        workers.len(),
        options.runs
    );
    for question in &asked {
        let (whole, remote) = times(question, alone, with, options.runs)?;
        let _ = writeln!(out, "| `{}` | {:.1} | {:.1} | {:.1} |", question.name, whole, remote, remote - whole);
    }
    let tasks: f64 = workers.iter().map(WorkerProcess::started).sum::<Result<f64, _>>()?;
    if tasks < 1.0 {
        return Err("no task was run by a worker".to_owned());
    }
    let _ = writeln!(out, "\nWorkers had {idle} MB resident before, and {} after {tasks} tasks.\n", resident(&workers));
    Ok(out)
}

/// The medians of a question on both servers in milliseconds, asked in turn, the answers compared.
fn times(question: &Question, alone: &mut Tidegate, with: &mut Tidegate, runs: u64) -> Result<(f64, f64), String> {
    say(&question.name);
    let (mut whole, mut remote) = (Times::default(), Times::default());
    for _ in 0..runs {
        let (time, answer) = alone.ask(&question.requests)?;
        whole.add(time);
        let (time, other) = with.ask(&question.requests)?;
        remote.add(time);
        compare(&question.name, ("the server alone", &answer), ("with workers", &other))?;
    }
    let milliseconds = |times: &Times| times.median().unwrap_or_default().as_secs_f64() * 1e3;
    Ok((milliseconds(&whole), milliseconds(&remote)))
}

fn resident(workers: &[WorkerProcess]) -> String {
    workers.iter().map(|worker| worker.resident().to_string()).collect::<Vec<_>>().join(", ")
}

/// Waits until the server uses all workers.
fn until_used(server: &mut Tidegate, workers: &[WorkerProcess]) -> Outcome {
    let began = Instant::now();
    loop {
        let usable: Result<Vec<f64>, String> = workers
            .iter()
            .map(|worker| server.metric(&format!("tidegate_cluster_worker_usable{{worker=\"{}\"}}", worker.address)))
            .collect();
        match usable {
            Ok(usable) if usable.iter().all(|one| *one > 0.0) => return Ok(()),
            _ if began.elapsed() < START => std::thread::sleep(Duration::from_millis(100)),
            found => return Err(format!("the server does not use its workers: {found:?}")),
        }
    }
}
