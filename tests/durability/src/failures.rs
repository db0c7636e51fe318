//! File operations that fail: the n-th of a workload, for each n.
//!
//! After each failure the workload must go on, or refuse to start with a message, and what it told must hold: in the
//! folder as it is, and after power cuts of the record, in which nothing counts as synced that a failed sync covered.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::{
    check::{Checker, Depth},
    cuts::{cut_all, record_generation},
    known::Known,
    record::Event,
};

/// Which operations fail, and how.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) step: u64,
    pub(crate) run: u64,
    pub(crate) how: Vec<String>,
    pub(crate) kinds: String,
    pub(crate) seed: u64,
    pub(crate) cuts: u64,
    pub(crate) jobs: usize,
    pub(crate) folder: PathBuf,
}

/// The number of an error on all platforms of Linux that Rust has as a host.
fn error_number(name: &str) -> Result<&'static str, String> {
    match name {
        "EIO" => Ok("5"),
        "ENOSPC" => Ok("28"),
        "EDQUOT" => Ok("122"),
        "short" => Ok("short"),
        other => Err(format!("{other} is no failure")),
    }
}

/// Runs all; returns the report.
pub(crate) fn run(options: &Options) -> Result<String, String> {
    fs::create_dir_all(&options.folder).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let mut reports = Vec::new();
    let mut failures = Vec::new();
    for how in &options.how {
        let number = error_number(how)?;
        let (next, tried, failed_starts, cuts) =
            (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let (done, found) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..options.jobs.max(1) {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let at = options.from + next.fetch_add(1, Ordering::Relaxed) * options.step;
                        if at > options.to {
                            break;
                        }
                        match one(options, how, number, at, &cuts) {
                            Ok(Outcome::Beyond) => done.store(true, Ordering::Relaxed),
                            Ok(outcome) => {
                                tried.fetch_add(1, Ordering::Relaxed);
                                failed_starts.fetch_add(u64::from(outcome == Outcome::Refused), Ordering::Relaxed);
                            }
                            Err(error) => {
                                println!("{how} at {at}: {error}");
                                tried.fetch_add(1, Ordering::Relaxed);
                                let text = format!("{how} at {at}: {error}");
                                found.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                            }
                        }
                    }
                });
            }
        });
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        reports.push(format!(
            "{how}: {} operations failed in turn, {} of the starts refused, {} power cuts, {} failures",
            tried.load(Ordering::Relaxed),
            failed_starts.load(Ordering::Relaxed),
            cuts.load(Ordering::Relaxed),
            found.len(),
        ));
        failures.extend(found);
    }
    let report = format!("{}\n{} s", reports.join("\n"), began.elapsed().as_secs());
    if failures.is_empty() { Ok(report) } else { Err(format!("{}\n{report}", failures.join("\n"))) }
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    WentOn,
    /// The store did not open, and said why.
    Refused,
    /// The workload has fewer operations.
    Beyond,
}

fn one(options: &Options, how: &str, number: &str, at: u64, cuts: &AtomicU64) -> Result<Outcome, String> {
    let folder = options.folder.join(format!("{how}-{at}"));
    let fail = format!("{at}..{}:{number}:{}", at + options.run, options.kinds);
    let events = record_generation(&folder, None, options.seed, Some(&fail))?;
    let operations = events.iter().filter(|event| {
        let tag = match event {
            Event::Open { .. } => 'o',
            Event::Write { .. } => 'w',
            Event::Cut { .. } => 't',
            Event::SyncBegin { .. } => 's',
            Event::Rename { .. } => 'r',
            Event::Unlink(_) => 'u',
            Event::MakeFolder { .. } => 'm',
            Event::RemoveFolder(_) => 'd',
            // A failed sync has a begin too.
            Event::Failed | Event::SyncEnd { .. } | Event::Mark(_) => return false,
        };
        options.kinds.is_empty() || options.kinds.contains(tag)
    });
    let beyond = (operations.count() as u64) + options.run < at;
    let checker = Checker::new()?;
    let whole = Known::at(&events, events.len())?;
    let seeds: Vec<u64> = (0..options.cuts).map(|cut| options.seed + at * 1_000 + cut).collect();
    cut_all(&folder, &events, &seeds, &checker, cuts)?;
    // Last, because it changes the folder.
    checker
        .check(&folder.join("disk"), &whole, Depth::Twice)
        .map_err(|error| format!("{}: after the process: {error}", folder.display()))?;
    // Then the next start was the one that went on.
    let starts = events.iter().filter(|event| matches!(event, Event::Mark(mark) if mark == "create-begin r")).count();
    let refused = starts > 2;
    fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    Ok(match (beyond, refused) {
        (true, _) => Outcome::Beyond,
        (_, true) => Outcome::Refused,
        _ => Outcome::WentOn,
    })
}
