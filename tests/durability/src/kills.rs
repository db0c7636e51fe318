//! The served binary, killed at any moment while clients write to it.
//!
//! After each kill a copy of the folder is checked, and the server starts on the folder itself. If power cuts are asked
//! for, the server is recorded, and its record is cut as those of workloads are.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tidegate_tests::{PRIVATE, PUBLIC, Server};

use crate::{
    chance::Chance,
    check::{self, Checker, Depth, Found},
    cuts::{cut_all, marks_of},
    image,
    known::{Known, START, STEADY},
    process, record,
    workload::Marks,
};

/// How often the server is killed, and how.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) binary: PathBuf,
    pub(crate) kills: u64,
    pub(crate) seed: u64,
    /// Kills on one folder.
    pub(crate) each: u64,
    /// Power cuts of the record of each server; with 0 it is not recorded.
    pub(crate) cuts: u64,
    pub(crate) jobs: usize,
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Default)]
struct Totals {
    kills: AtomicU64,
    cuts: AtomicU64,
    stored: AtomicU64,
}

/// Kills as often as asked for; returns the report.
pub(crate) fn run(options: &Options) -> Result<String, String> {
    fs::create_dir_all(&options.folder).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let (totals, next, failures) = (Totals::default(), AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while totals.kills.load(Ordering::Relaxed) < options.kills {
                    let seed = options.seed + next.fetch_add(1, Ordering::Relaxed) * options.each;
                    if let Err(error) = on_one_folder(options, seed, &totals) {
                        println!("{error}");
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(error);
                    }
                    println!("{} kills in {} s", totals.kills.load(Ordering::Relaxed), began.elapsed().as_secs());
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    let report = format!(
        "{} kills, {} requests stored, {} power cuts, seeds from {} on, {} s, {} failures",
        totals.kills.load(Ordering::Relaxed),
        totals.stored.load(Ordering::Relaxed),
        totals.cuts.load(Ordering::Relaxed),
        options.seed,
        began.elapsed().as_secs(),
        failures.len(),
    );
    if failures.is_empty() { Ok(report) } else { Err(format!("{}\n{report}", failures.join("\n"))) }
}

fn on_one_folder(options: &Options, first: u64, totals: &Totals) -> Result<(), String> {
    let io = |error: std::io::Error| error.to_string();
    let checker = Checker::new()?;
    let folder = options.folder.join(format!("{first}"));
    let (disk, record) = (folder.join("disk"), folder.join("record"));
    fs::create_dir_all(&disk).map_err(io)?;
    let mut found = Found::default();
    for seed in first..first + options.each {
        if totals.kills.load(Ordering::Relaxed) >= options.kills {
            break;
        }
        let failed = |error: String| format!("{} after the kill with seed {seed}: {error}", folder.display());
        let before = if options.cuts > 0 { image::entries(&disk).map_err(io)? } else { Vec::new() };
        fs::write(&record, [before, marks_of(&found), record::mark(START)].concat()).map_err(io)?;
        serve_and_kill(options, &disk, &record, seed)?;
        totals.kills.fetch_add(1, Ordering::Relaxed);
        let events = record::read(&record).map_err(io)?;
        let stored = |event: &&record::Event| matches!(event, record::Event::Mark(mark) if mark.starts_with("stored"));
        let known = Known::at(&events, events.len()).map_err(failed)?;
        totals.stored.fetch_add(
            (events.iter().filter(stored).count()
                - found.sources.values().map(|requests| requests.len()).sum::<usize>()) as u64,
            Ordering::Relaxed,
        );
        let copy = folder.join("copy");
        let _ = fs::remove_dir_all(&copy);
        image::write(&image::read(&disk).map_err(io)?, &copy).map_err(io)?;
        let now = checker.check(&copy, &known, Depth::Once).map_err(failed)?;
        if options.cuts > 0 {
            let seeds: Vec<u64> = (seed * options.cuts..(seed + 1) * options.cuts).collect();
            cut_all(&folder, &events, &seeds, &checker, &totals.cuts)?;
        }
        found = now;
    }
    fs::remove_dir_all(&folder).map_err(io)
}

/// Starts the server, lets clients write to it, and kills it.
fn serve_and_kill(options: &Options, disk: &Path, record: &Path, seed: u64) -> Result<(), String> {
    let mut chance = Chance::new(seed);
    let mut command = Command::new(&options.binary);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(disk.join("data"));
    command.env("TIDEGATE_INGEST_FLUSH_ROWS", (20 + chance.below(60)).to_string());
    command.env("TIDEGATE_INGEST_FLUSH_INTERVAL", "50 ms");
    command.env("TIDEGATE_LOG", "warn,tidegate_http=info,tidegate=info");
    if options.cuts > 0 {
        command
            .env("LD_PRELOAD", process::recorder()?)
            .env("TIDEGATE_RECORDER_ROOT", disk)
            .env("TIDEGATE_RECORDER_FILE", record);
    }
    let marks = Marks::append_to(record)?;
    marks.mark("others");
    let pause = Duration::from_micros(chance.below(400_000) as u64);
    if chance.below(5) == 0 {
        // In the middle of its start.
        let tokens = [("TIDEGATE_PRIVATE_ACCESS_TOKEN", PRIVATE), ("TIDEGATE_PUBLIC_ACCESS_TOKEN", PUBLIC)];
        command.envs(tokens).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        std::thread::sleep(pause);
        let killed = child.kill().and_then(|()| child.wait());
        return killed.map(drop).map_err(|error| error.to_string());
    }
    let server = Server::spawn(command, disk.with_extension("log"), true);
    let stop = AtomicBool::new(false);
    let sent = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for client in 0..3 {
            let (server, stop, sent, marks) = (&server, &stop, &sent, &marks);
            scope.spawn(move || {
                let mut chance = Chance::new(seed.wrapping_mul(31).wrapping_add(client));
                let client = Client { server, marks, sent, seed };
                while !stop.load(Ordering::Relaxed) {
                    if client.act(&mut chance).is_none() {
                        // The server is not open yet, or gone.
                        std::thread::sleep(Duration::from_millis(3));
                    }
                }
            });
        }
        std::thread::sleep(pause);
        server.kill_now();
        stop.store(true, Ordering::Relaxed);
    });
    Ok(())
}

struct Client<'s> {
    server: &'s Server,
    marks: &'s Marks,
    sent: &'s AtomicU64,
    seed: u64,
}

impl Client<'_> {
    /// One request to a source, or the short life of one; `None` if something was not answered well.
    fn act(&self, chance: &mut Chance) -> Option<()> {
        let steady = STEADY.get(chance.below(2)).copied().unwrap_or("a");
        if chance.below(12) > 0 {
            return self.send(steady, 1 + chance.below(9));
        }
        self.create(steady)?;
        let name = format!("gone-{:x}-{}", self.seed, self.sent.fetch_add(1, Ordering::Relaxed));
        let id = self.create(&name)?;
        self.send(&name, 1 + chance.below(5))?;
        self.marks.mark(&format!("delete-begin {name}"));
        let deleted = self.manage("DELETE", &format!("/api/sources/{id}"), b"")?;
        (200..300).contains(&deleted.0).then(|| self.marks.mark(&format!("delete-end {name}")))
    }

    fn manage(&self, method: &str, path: &str, body: &[u8]) -> Option<(u16, Value)> {
        let headers = [("x-api-key", PRIVATE), ("content-type", "application/json")];
        let answer = self.server.try_call(method, path, &headers, body).ok()?;
        Some((answer.status, answer.body))
    }

    /// Makes a source if it is not there; returns its id.
    fn create(&self, name: &str) -> Option<String> {
        self.marks.mark(&format!("create-begin {name}"));
        let (status, body) = self.manage("POST", "/api/sources", json!({"name": name}).to_string().as_bytes())?;
        if status == 201 || status == 422 {
            self.marks.mark(&format!("create-end {name}"));
        }
        Some(body.get("id").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    fn send(&self, source: &str, events: usize) -> Option<()> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        let request = format!("{:x}-{number}", self.seed);
        self.marks.mark(&format!("begin {request} {source} {events}"));
        let events = (0..events).map(|event| {
            let id = format!("{request}.{event}");
            json!({"event_message": check::message(&id), "id": id, "metadata": {"n": number}})
        });
        let body = Value::Array(events.collect()).to_string();
        let headers = [("x-api-key", PUBLIC), ("content-type", "application/json")];
        let path = format!("/api/logs?source_name={source}");
        let answer = self.server.try_call("POST", &path, &headers, body.as_bytes()).ok()?;
        (answer.status == 200).then(|| self.marks.mark(&format!("stored {request}")))
    }
}
