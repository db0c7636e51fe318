//! Rounds of faults: while many statements run, workers are killed or stopped, and their connections are cut or held up.
//! Each answer is right or says that it is none, and nothing is left behind.
//!
//! What happens in a round depends on its seed, which is printed; when it happens among the statements, also on the
//! machine. The long form, of as many rounds as wanted:
//!
//! `TIDEGATE_KILL_ROUNDS=200 TIDEGATE_KILL_SEED=7 cargo test -p tidegate-tests --test it cluster_kills -- --ignored --nocapture`

pub(crate) mod proxy;
mod questions;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidegate_tests::{Chance, Server, folder, serve, until};

use crate::cluster::{LONG, fill, signal, worker};
use proxy::Proxy;
use questions::{Outcome, Question};

const PARTS: usize = 8;
const ROWS: usize = 2_000;
const WORKERS: usize = 3;

fn milliseconds(chance: &mut Chance, from: usize, to: usize) -> Duration {
    Duration::from_millis((from + chance.below(to - from)) as u64)
}

/// What is done to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// SIGKILL; it is started again.
    Kill,
    /// SIGSTOP, and SIGCONT later.
    Stop,
    /// Its connections end.
    Cut,
    /// Nothing passes its connections for a time, and then all does.
    HoldUp,
}

/// A worker and its way to it.
struct Seat {
    worker: Server,
    proxy: Proxy,
}

/// A server with workers, each behind a proxy, and what it is asked.
struct Stage {
    server: Server,
    seats: Vec<Seat>,
    questions: Vec<Question>,
    folder: TempDir,
}

fn server(folder: &TempDir, workers: &str) -> Server {
    let mut command = serve(folder.path().join("data"));
    command.envs([
        ("TIDEGATE_CLUSTER_WORKERS", workers),
        ("TIDEGATE_CLUSTER_LEAST_BYTES", "0"),
        ("TIDEGATE_CLUSTER_LEAST_EXCHANGED_ROWS", "0"),
        ("TIDEGATE_CACHE_MEMORY", "0"),
        ("TIDEGATE_INGEST_FLUSH_ROWS", &ROWS.to_string()),
        // What is in memory stays there, and nothing is refused because others are asked.
        ("TIDEGATE_INGEST_FLUSH_INTERVAL", "24 h"),
        ("TIDEGATE_COMPACTION_FAN_IN", "1000"),
        ("TIDEGATE_ADMISSION_CONCURRENCY", "400"),
        ("TIDEGATE_ADMISSION_WAIT", "1 min"),
        ("TIDEGATE_LIMITS_TOTAL_MEMORY", "8 GiB"),
        ("TIDEGATE_LIMITS_REQUEST_TIME", "1 min"),
    ]);
    Server::spawn(command, folder.path().join("data.log"), true)
}

fn start_worker(folder: &TempDir) -> Server {
    worker(folder, "127.0.0.1:0", &["--tasks", "1000"])
}

impl Stage {
    fn start() -> Self {
        let folder = folder();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        let alone = server(&folder, "");
        fill(&alone, PARTS, ROWS, true);
        let questions = Question::all(&alone);
        alone.kill_now();
        drop(alone);
        let seats: Vec<_> = (0..WORKERS)
            .map(|_| {
                let worker = start_worker(&folder);
                let proxy = Proxy::start(worker.address());
                Seat { worker, proxy }
            })
            .collect();
        let addresses: Vec<_> = seats.iter().map(|seat| seat.proxy.address.as_str()).collect();
        let server = server(&folder, &addresses.join(","));
        let stage = Self { server, seats, questions, folder };
        stage.recovered();
        assert!(stage.server.metric("tidegate_store_unflushed_bytes") > 0.0, "no rows are in memory");
        stage
    }

    /// Waits until all workers are used, and neither they nor the server have anything left of statements.
    fn recovered(&self) {
        let began = Instant::now();
        loop {
            let ready = self.server.call("GET", "/ready", &[], b"").body;
            let used = ready["workers"].as_array().unwrap().iter().filter(|worker| worker["used"] == true).count();
            let (running, held) = (&ready["running"], self.held());
            if used == WORKERS && running == 0 && held.iter().all(|held| *held == (0.0, 0.0)) {
                return;
            }
            assert!(began.elapsed() < LONG, "{ready}; tasks and bytes of workers: {held:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Tasks and their memory, of each worker.
    fn held(&self) -> Vec<(f64, f64)> {
        let metric = |seat: &Seat, name| seat.worker.metric(name);
        let of = |seat| (metric(seat, "tidegate_worker_tasks"), metric(seat, "tidegate_worker_memory_bytes"));
        self.seats.iter().map(of).collect()
    }

    /// The open files of the server.
    fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.server.process())).unwrap().count()
    }

    /// One round: what came of its statements, by kind, and the faults.
    fn round(&mut self, seed: u64) -> (BTreeMap<(&'static str, Outcome), usize>, Vec<Fault>) {
        let mut chance = Chance::new(seed);
        let asked: Vec<usize> = (0..30 + chance.below(71)).map(|_| chance.below(self.questions.len())).collect();
        let first = chance.below(WORKERS);
        let mut faulty = vec![first];
        if chance.below(2) == 1 {
            faulty.push((first + 1) % WORKERS);
        }
        let faults: Vec<_> =
            faulty.iter().map(|_| [Fault::Kill, Fault::Stop, Fault::Cut, Fault::HoldUp][chance.below(4)]).collect();
        let moments: Vec<_> = faulty
            .iter()
            .map(|_| (milliseconds(&mut chance, 0, 1_500), milliseconds(&mut chance, 50, 5_000)))
            .collect();
        let Self { server, seats, questions, folder } = self;
        let mut outcomes = BTreeMap::new();
        let mut wrong = Vec::new();
        std::thread::scope(|scope| {
            let (server, questions) = (&*server, &*questions);
            let askers: Vec<_> =
                asked.iter().map(|at| (&questions[*at], scope.spawn(move || questions[*at].ask(server)))).collect();
            let mut at_work: Vec<_> = Vec::new();
            for (place, seat) in seats.iter_mut().enumerate() {
                let Some(at) = faulty.iter().position(|faulty| *faulty == place) else { continue };
                let (fault, (wait, lasts), folder) = (faults[at], moments[at], &*folder);
                at_work.push(scope.spawn(move || {
                    std::thread::sleep(wait);
                    seat.suffer(fault, lasts, folder);
                }));
            }
            at_work.into_iter().for_each(|thread| thread.join().unwrap());
            for (question, asker) in askers {
                match asker.join().unwrap() {
                    Ok(outcome) => *outcomes.entry((question.kind, outcome)).or_default() += 1,
                    Err(error) => wrong.push(error),
                }
            }
        });
        assert!(wrong.is_empty(), "seed {seed}, faults {faults:?} at {moments:?}:\n{}", wrong.join("\n\n"));
        self.recovered();
        (outcomes, faults)
    }

    /// Rounds by seeds from `seed` on, and then the server dies among statements.
    fn rounds(mut self, rounds: u64, seed: u64) {
        let (mut all, mut suffered) = (BTreeMap::<_, usize>::new(), BTreeMap::<_, usize>::new());
        let mut files = 0;
        for round in 0..rounds {
            let (outcomes, faults) = self.round(seed.wrapping_add(round));
            eprintln!("seed {}: {faults:?}, {outcomes:?}", seed.wrapping_add(round));
            for ((_, outcome), count) in outcomes {
                *all.entry(outcome).or_default() += count;
            }
            faults.into_iter().for_each(|fault| *suffered.entry(fault).or_default() += 1);
            if round == 1 {
                files = self.open_files();
            }
        }
        let tasks = self.tasks();
        eprintln!("{rounds} rounds, seeds from {seed} on: {all:?}, faults {suffered:?}, tasks {tasks:?}");
        assert!(all.get(&Outcome::Right) > all.get(&Outcome::Refused), "{all:?}");
        // Of few rounds, the faults may all come too late.
        assert!(tasks["done"] > 0.0 && (rounds < 20 || tasks["gone"] > 0.0), "faults met no tasks: {tasks:?}");
        // Connections of this test are among them.
        let now = self.open_files();
        assert!(rounds < 2 || now <= files + 120, "{now} open files, {files} after two rounds");
        self.server_dies();
    }

    /// How many tasks ended how.
    fn tasks(&self) -> BTreeMap<&'static str, f64> {
        let page = self.server.text("/metrics");
        let lines: Vec<_> = page.lines().filter(|line| line.starts_with("tidegate_cluster_tasks_total{")).collect();
        let of = |outcome| {
            let mark = format!("outcome=\"{outcome}\"}} ");
            lines.iter().filter_map(|line| line.split(&mark).nth(1)?.parse::<f64>().ok()).sum()
        };
        ["done", "left", "failed", "gone", "busy", "nonsense", "damaged"]
            .into_iter()
            .map(|outcome| (outcome, of(outcome)))
            .collect()
    }

    fn server_dies(self) {
        let Self { server, questions, .. } = &self;
        std::thread::scope(|scope| {
            for question in questions {
                scope.spawn(move || question.ask(server));
            }
            until("a task is started", || self.held().iter().any(|held| held.0 != 0.0));
            server.kill_now();
        });
        until("workers hold nothing", || self.held().iter().all(|held| *held == (0.0, 0.0)));
    }
}

impl Seat {
    fn suffer(&mut self, fault: Fault, lasts: Duration, folder: &TempDir) {
        match fault {
            Fault::Kill => {
                self.worker.kill_now();
                std::thread::sleep(lasts / 4);
                self.worker = start_worker(folder);
                self.proxy.lead_to(self.worker.address());
            }
            Fault::Stop => {
                signal(&self.worker, "-STOP");
                std::thread::sleep(lasts);
                signal(&self.worker, "-CONT");
            }
            Fault::Cut => self.proxy.cut(),
            Fault::HoldUp => {
                self.proxy.hold_up(true);
                std::thread::sleep(lasts);
                self.proxy.hold_up(false);
            }
        }
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn some_seed() -> u64 {
    let now = u64::try_from(tidegate_tests::now()).unwrap();
    from_environment("TIDEGATE_KILL_SEED").unwrap_or(now / 1_000)
}

#[test]
fn answers_are_right_or_none_while_workers_fail() {
    let seed = some_seed();
    eprintln!("TIDEGATE_KILL_SEED={seed}");
    Stage::start().rounds(4, seed);
}

#[test]
#[ignore = "takes half an hour"]
fn answers_are_right_or_none_while_workers_fail_for_long() {
    let (rounds, seed) = (from_environment("TIDEGATE_KILL_ROUNDS").unwrap_or(200), some_seed());
    eprintln!("TIDEGATE_KILL_ROUNDS={rounds} TIDEGATE_KILL_SEED={seed}");
    Stage::start().rounds(rounds, seed);
}
