//! `cargo xtask bench ingest` measures how events come in ([`ingest`]), `cargo xtask bench busy` what questions take
//! meanwhile ([`busy`]), `cargo xtask bench week` whether a week changes anything ([`week`]), `cargo xtask bench follow` what
//! followed queries cost ([`follow`]), `cargo xtask bench workers` what a remote stage costs ([`workers`]).
//!
//! `cargo xtask bench peers`: the same questions to Tidegate and to other stores, over the same records.
//!
//! Records are made from a seed and go to Tidegate through its ingest interface, nested as senders write them; to the
//! peers as CSV in the layout that suits each of them best. Then every question is asked of all, and the answers are
//! compared; only where all agree, times are taken, the systems in turn. The report is a table in Markdown.

mod answer;
mod busy;
mod follow;
mod generator;
mod http;
mod ingest;
mod options;
mod peer;
mod postgres;
mod questions;
mod report;
mod sender;
mod tidegate;
mod week;
mod workers;

use std::fmt::Write as _;
use std::fs::{create_dir_all, remove_dir_all};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use answer::{Answer, compare};
use generator::{EDGE, END, Form, Generator, OUTPUT, Plan};
use options::{HELP, Options, State};
use peer::Peer;
use questions::{Parameters, Question};
use report::{Cost, Line, Times};
use sender::Sender;
use tidegate::{Merging, Tidegate};

use crate::{Outcome, built, cargo, python, root, run, say};

/// Records in one file for the peers.
const FILE: u64 = 500_000;
const DAY: i64 = 86_400_000_000;

pub(crate) fn command(mut arguments: impl Iterator<Item = String>) -> Outcome {
    if cfg!(debug_assertions) {
        // It makes records: unoptimised, it would be slower than what takes them in.
        let again = ["run", "--quiet", "--release", "--locked", "--package", "xtask", "--", "bench"];
        return run(cargo(&root()).args(again).args(arguments));
    }
    let what = arguments.next();
    let mut arguments = arguments.peekable();
    match what.as_deref() {
        Some("peers") => {}
        Some("busy") => return busy::command(arguments),
        Some("ingest") => return ingest::command(arguments),
        Some("follow") => return follow::command(arguments),
        Some("week") => return week::command(arguments),
        Some("workers") => return workers::command(arguments),
        _ => {
            let all = [HELP, busy::HELP, ingest::HELP, week::HELP, follow::HELP, workers::HELP];
            return Err(all.join("\n\n"));
        }
    }
    if arguments.peek().is_some_and(|first| first == "--help" || first == "-h") {
        println!("{HELP}");
        return Ok(());
    }
    let options = Options::read(arguments)?;
    let folder = built()?.join("bench");
    let done = race(&options, &folder);
    // The data is large; the report stays.
    for name in ["tidegate", "duckdb", "chdb", "postgres", "rows"] {
        let _ = remove_dir_all(folder.join(name));
    }
    done
}

fn race(options: &Options, folder: &Path) -> Outcome {
    let plan = Plan { records: options.records, seed: options.seed, form: Form::Lines, later: false };
    let parameters = parameters(plan);
    let questions = questions::questions(&root().join("xtask/bench/questions"), &options.questions, &parameters)?;
    let binary = release(options.binary.as_ref())?;
    let mut notes = String::new();

    say(&format!("loading Tidegate with {} edge records and those of the other sources", options.records));
    let mut tidegate = Tidegate::start(&binary, &folder.join("tidegate"), options.threads, options.state, &[])?;
    let load = tidegate.load(plan)?;
    let flushed = tidegate.settle()?;
    let _ = writeln!(
        notes,
        "- Tidegate: {} events, {:.0} MB as JSON, in {:.1} s over one connection: {:.0} events/s, {:.1} MB/s; {:.1} s of \
         processor time of the service. All were in segments {:.1} s later (`tidegate_store_unflushed_bytes` was 0). \
         Nothing is kept of answers (`[cache] memory = 0`, endpoints without a cache); {} threads.",
        load.events,
        load.bytes as f64 / 1e6,
        load.seconds,
        load.events as f64 / load.seconds,
        load.bytes as f64 / 1e6 / load.seconds,
        load.processor,
        flushed.as_secs_f64(),
        options.threads,
    );
    if options.state == State::Compacted {
        let Merging { seconds, processor, merges, events, segments } = tidegate.compacted()?;
        let _ = writeln!(
            notes,
            "- The background had merged everything {seconds:.1} s after that, with {processor:.1} s of processor time: \
             {merges} merges since the start wrote {events} events; {segments} segments of all sources are left \
             (`[compaction] percent = 100`)."
        );
    }
    let python = python::environment("bench", &root().join("xtask/bench/peers/requirements.txt"))?;
    let (mut peers, mut servers) = (Vec::new(), Vec::new());
    for name in &options.peers {
        let data = folder.join(name);
        empty(&data)?;
        if name == "postgres" {
            match postgres::Server::start(&data) {
                Ok(server) => servers.push(server),
                Err(error) => {
                    say(&format!("without PostgreSQL: {error}"));
                    let _ = writeln!(notes, "- PostgreSQL is left out: {error}.");
                    continue;
                }
            }
        }
        let mut peer = Peer::start(&python, name, &data, options.threads)?;
        say(&format!("loading {}", peer.version));
        let began = Instant::now();
        fill(&mut peer, plan, &folder.join("rows"))?;
        let _ = writeln!(
            notes,
            "- {}: {}; loaded from CSV in {:.1} s, with sorting and indexes.",
            peer.version,
            peer.settings,
            began.elapsed().as_secs_f64()
        );
        peers.push(peer);
    }

    tidegate.reconnect()?;
    let answers = agree(&questions, &mut tidegate, &mut peers)?;
    let lines = measure(options, &questions, &mut tidegate, &mut peers, &answers, &mut notes)?;
    let systems: Vec<String> =
        std::iter::once("Tidegate".to_owned()).chain(peers.iter().map(|peer| peer.version.clone())).collect();
    let state = match options.state {
        State::Fresh => "loaded and in segments, none of them merged, nothing comes in",
        State::Compacted => "loaded, and segments merged by the background, nothing comes in",
        State::Busy => "10,000 events a second come into Tidegate while it is asked; the peers are at rest",
    };
    let report = format!(
        "{} edge records of 50 projects over 7 days, seed {}; {state}. Milliseconds: the median of {} runs, and the \
         spread; the ratio is the best peer's median by Tidegate's, over 1 where Tidegate is faster.\n\n{}\n{}\n{notes}",
        options.records,
        options.seed,
        options.runs,
        report::table(&systems, &lines),
        report::costs(&lines)
    );
    let file = folder.join("report.md");
    std::fs::write(&file, &report).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("\n{report}");
    say(&format!("the report is in {}", file.display()));
    drop(peers);
    drop(servers);
    Ok(())
}

/// The service to measure: what the options name, or the release build.
fn release(named: Option<&PathBuf>) -> Result<PathBuf, String> {
    let found = match named {
        Some(binary) => binary.clone(),
        None => {
            say("building the service for release");
            run(cargo(&root()).args(["build", "--release", "--locked", "-p", "tidegate"]))?;
            built()?.parent().unwrap_or(Path::new(".")).join("release/tidegate")
        }
    };
    std::fs::canonicalize(&found).map_err(|error| format!("{}: {error}", found.display()))
}

/// What stands for `@name` in the questions. The id is that of a record of the largest project in the middle.
fn parameters(plan: Plan) -> Parameters {
    let mut generator = Generator::new(Plan { form: Form::Documents, ..plan });
    let project = generator.projects().first().cloned().unwrap_or_default();
    let mut id = String::new();
    for number in 0..plan.records {
        generator.step();
        for part in &mut generator.parts {
            part.bytes.clear();
        }
        if number >= plan.records / 2
            && let (found, of) = generator.id()
            && of == project
        {
            id = found;
            break;
        }
    }
    let time = |at: i64| {
        let mut text = Vec::new();
        generator::text::moment(&mut text, at, b' ');
        String::from_utf8_lossy(&text).into_owned()
    };
    vec![("project", project), ("id", id), ("now", time(END)), ("day", time(END - DAY))]
}

/// Loads a peer from files that are gone afterwards.
fn fill(peer: &mut Peer, plan: Plan, folder: &Path) -> Outcome {
    empty(folder)?;
    let form = if peer.name == "postgres" { Form::Documents } else { Form::Rows };
    let mut generator = Generator::new(Plan { form, ..plan });
    let mut more = true;
    while more {
        more = generator.step();
        for (place, table) in [(EDGE, "edge"), (OUTPUT, "function_output")] {
            let Some(part) = generator.parts.get_mut(place) else { continue };
            if part.records >= FILE || (!more && part.records > 0) {
                let file = folder.join(format!("{table}.csv"));
                std::fs::write(&file, &part.bytes).map_err(|error| format!("{}: {error}", file.display()))?;
                *part = generator::Part::default();
                peer.load(table, &file)?;
            }
        }
    }
    peer.finish()?;
    remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn empty(folder: &Path) -> Outcome {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        remove_dir_all(folder).map_err(told)?;
    }
    create_dir_all(folder).map_err(told)
}

/// Asks everything once and compares; all that differs is told at once.
fn agree(questions: &[Question], tidegate: &mut Tidegate, peers: &mut [Peer]) -> Result<Vec<Answer>, String> {
    say("comparing the answers");
    let (mut answers, mut wrong) = (Vec::new(), Vec::new());
    for question in questions {
        let name = &question.name;
        let answer = match tidegate.ask(&question.requests) {
            Ok((_, answer)) => answer,
            Err(error) => {
                wrong.push(format!("{name}: Tidegate: {error}"));
                Answer::new()
            }
        };
        for peer in peers.iter_mut() {
            let other = question.statements(&peer.name).and_then(|statements| peer.ask(&statements));
            let told = match &other {
                Ok((_, other)) => compare(name, ("Tidegate", &answer), (&peer.version, other)).err(),
                Err(error) => Some(format!("{name}: {error}")),
            };
            wrong.extend(told);
        }
        if answer.iter().all(Vec::is_empty) {
            say(&format!("{name} has no rows: with more records it may have some"));
        }
        answers.push(answer);
    }
    if wrong.is_empty() { Ok(answers) } else { Err(wrong.join("\n")) }
}

/// Takes the times, the systems in turn.
fn measure(
    options: &Options,
    questions: &[Question],
    tidegate: &mut Tidegate,
    peers: &mut [Peer],
    answers: &[Answer],
    notes: &mut String,
) -> Result<Vec<Line>, String> {
    let mut sender = match options.state {
        State::Busy => Some(Sender::start(tidegate.url(), options.seed)?),
        State::Fresh | State::Compacted => None,
    };
    let mut lines = Vec::new();
    for (question, expected) in questions.iter().zip(answers) {
        say(&question.name);
        let mut times = vec![Times::default(); 1 + peers.len()];
        let mut ran = Times::default();
        let mut take = |place: usize, time: Duration| {
            if let Some(times) = times.get_mut(place) {
                times.add(time);
            }
        };
        for _ in 0..options.runs {
            let before = tidegate.ran();
            let (time, answer) = match &mut sender {
                Some(sender) => sender.during(|| tidegate.ask(&question.requests))?,
                None => tidegate.ask(&question.requests)?,
            };
            // With events coming in, answers about all projects grow.
            if sender.is_none() {
                compare(&question.name, ("Tidegate before", expected), ("Tidegate", &answer))?;
            }
            take(0, time);
            ran.add(tidegate.ran().saturating_sub(before));
            for (place, peer) in peers.iter_mut().enumerate() {
                let (time, answer) = peer.ask(&question.statements(&peer.name)?)?;
                compare(&question.name, ("Tidegate", expected), (&peer.version, &answer))?;
                take(place + 1, time);
            }
        }
        let cost = Cost { ran, rows: tidegate.read.rows, bytes: tidegate.read.bytes };
        lines.push(Line { question: question.name.clone(), about: question.about.clone(), times, cost });
    }
    if let Some(sender) = sender {
        let (sent, rate) = sender.end()?;
        let _ = writeln!(
            notes,
            "- While Tidegate was asked, {sent} more events came in, {rate:.0} a second: its answers about all projects are of \
             these too, those of the peers are not. Its processor times are with those of the events that came in meanwhile."
        );
    }
    Ok(lines)
}
