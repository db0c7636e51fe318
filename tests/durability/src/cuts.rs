//! Simulated power cuts: workloads are recorded, and the record is cut at many places.
//!
//! A generation is one process. It starts on an empty folder, or on what a cut left of the generation before, so that
//! recovery is recorded and cut too. Its folder has the record and `disk`, the folder that it wrote to. The record
//! begins with what was there at the start. So it is enough to make each cut again from its seed.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::{
    chance::Chance,
    check::{Checker, Depth, Found},
    disk::Disk,
    image::{self, Image},
    known::{Known, START},
    process::{self, REFUSED},
    record::{self, Event},
};

/// How many cuts are made, and how.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) cuts: u64,
    pub(crate) seed: u64,
    /// Cuts of one generation.
    pub(crate) each: u64,
    /// Generations on one folder.
    pub(crate) generations: u64,
    pub(crate) jobs: usize,
    /// Where folders are made; those of failures stay.
    pub(crate) folder: PathBuf,
}

/// Counts over all generations.
#[derive(Debug, Default)]
struct Totals {
    cuts: AtomicU64,
    generations: AtomicU64,
    operations: AtomicU64,
    failures: Mutex<Vec<String>>,
}

/// Makes all cuts; returns the report.
pub(crate) fn run(options: &Options) -> Result<String, String> {
    fs::create_dir_all(&options.folder).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let (totals, next) = (Totals::default(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while totals.cuts.load(Ordering::Relaxed) < options.cuts {
                    let chain = next.fetch_add(1, Ordering::Relaxed);
                    if let Err(error) = run_chain(options, chain, &totals) {
                        totals.failures.lock().unwrap_or_else(PoisonError::into_inner).push(error);
                    }
                    if chain.is_multiple_of(10) {
                        println!("{} cuts in {} s", totals.cuts.load(Ordering::Relaxed), began.elapsed().as_secs());
                    }
                }
            });
        }
    });
    let failures = totals.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    let report = format!(
        "{} cuts of {} generations, {} file operations recorded, seeds from {} on, {} s, {} failures",
        totals.cuts.load(Ordering::Relaxed),
        totals.generations.load(Ordering::Relaxed),
        totals.operations.load(Ordering::Relaxed),
        options.seed,
        began.elapsed().as_secs(),
        failures.len(),
    );
    if failures.is_empty() { Ok(report) } else { Err(format!("{}\n{report}", failures.join("\n"))) }
}

/// Some generations, each on what a cut left of the one before.
fn run_chain(options: &Options, chain: u64, totals: &Totals) -> Result<(), String> {
    let checker = Checker::new()?;
    let mut left: Option<(Image, Found)> = None;
    for generation in 0..options.generations {
        if totals.cuts.load(Ordering::Relaxed) >= options.cuts {
            break;
        }
        let seed = options.seed + (chain * options.generations + generation) * options.each;
        let folder = options.folder.join(format!("{seed}"));
        let events = record_generation(&folder, left.take(), seed, None)?;
        totals.operations.fetch_add(events.len() as u64, Ordering::Relaxed);
        totals.generations.fetch_add(1, Ordering::Relaxed);
        let seeds: Vec<u64> = (seed..seed + options.each).collect();
        left = cut_all(&folder, &events, &seeds, &checker, totals)?;
        fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Runs a workload on an image, or on nothing, and reads its record.
pub(crate) fn record_generation(
    folder: &Path,
    start: Option<(Image, Found)>,
    seed: u64,
    fail: Option<&str>,
) -> Result<Vec<Event>, String> {
    let (disk, record) = (folder.join("disk"), folder.join("record"));
    let io = |error: std::io::Error| error.to_string();
    let (image, found) = start.unwrap_or_default();
    image::write(&image, &disk).map_err(io)?;
    let begin = [image::entries(&disk).map_err(io)?, marks_of(&found), record::mark(START)].concat();
    fs::write(&record, begin).map_err(io)?;
    let mut out = process::run(&disk, &record, seed, fail)?;
    if out.status.code() == Some(REFUSED) && fail.is_some() {
        // What the start refused because of must not be believed by the next one.
        out = process::run(&disk, &record, seed + (1 << 40), None)?;
    }
    let events = record::read(&record).map_err(io)?;
    let text = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        return Err(format!("{}: the workload ended with {}: {text}", folder.display(), out.status));
    }
    // The record is complete if what it says is what is there.
    let mut replayed = Disk::new();
    for event in &events {
        replayed.apply(event).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let seen = replayed.seen();
    let there = image::read(&disk).map_err(io)?;
    let paths = seen.keys().chain(there.keys()).filter(|path| !path.ends_with("-shm"));
    match paths.into_iter().find(|path| seen.get(*path) != there.get(*path)) {
        Some(path) => Err(format!("{}: the record does not explain {path}", folder.display())),
        None => Ok(events),
    }
}

/// The marks from which what was found is known again.
pub(crate) fn marks_of(found: &Found) -> Vec<u8> {
    let mut marks = Vec::new();
    for (source, requests) in &found.sources {
        marks.extend([format!("create-begin {source}"), format!("create-end {source}")]);
        for (request, events) in requests {
            marks.extend([format!("begin {request} {source} {events}"), format!("stored {request}")]);
        }
    }
    for (name, value) in found.settings.iter().filter(|(_, value)| !value.is_empty()) {
        marks.push(format!("set-end {name} {value}"));
    }
    marks.iter().flat_map(|text| record::mark(text)).collect()
}

/// Where a cut is, and its choices.
fn place(seed: u64, events: usize) -> (usize, Chance) {
    let mut chance = Chance::new(seed);
    (chance.below(events + 1), chance)
}

/// Makes and checks the cuts of a record. Returns what one of them left, without backups.
pub(crate) fn cut_all(
    folder: &Path,
    events: &[Event],
    seeds: &[u64],
    checker: &Checker,
    totals: &impl Count,
) -> Result<Option<(Image, Found)>, String> {
    let first = events.iter().position(|event| matches!(event, Event::Mark(mark) if mark == START)).unwrap_or(0) + 1;
    let places = seeds.iter().map(|seed| (first + place(*seed, events.len() - first).0, *seed));
    let mut cuts: Vec<(usize, u64)> = places.collect();
    cuts.sort_unstable();
    let mut disk = Disk::new();
    let mut applied = 0;
    let mut left = None;
    for (number, (at, seed)) in cuts.iter().enumerate() {
        while applied < *at {
            if let Some(event) = events.get(applied) {
                disk.apply(event)?;
            }
            applied += 1;
        }
        let mut chance = place(*seed, events.len() - first).1;
        let mut image = disk.cut(&mut chance);
        scatter_shared_memory(&mut image, &mut chance);
        let known = Known::at(events, *at)?;
        let target = folder.join("cut");
        let failed = |error: String| {
            // The check has changed the folder: the state is made again.
            let _ = fs::remove_dir_all(&target);
            let _ = image::write(&image, &target);
            format!("{} --seed {seed}, after {at} operations: {error}", folder.display())
        };
        image::write(&image, &target).map_err(|error| error.to_string())?;
        let depth = if number.is_multiple_of(4) { Depth::Twice } else { Depth::Once };
        let found = checker.check(&target, &known, depth).map_err(failed)?;
        fs::remove_dir_all(&target).map_err(|error| error.to_string())?;
        totals.count();
        if number * 2 >= cuts.len() && left.is_none() {
            image.retain(|path, _| !path.starts_with("backup-"));
            left = Some((image, found));
        }
    }
    Ok(left)
}

/// Counts cuts.
pub(crate) trait Count {
    fn count(&self);
}

impl Count for Totals {
    fn count(&self) {
        self.cuts.fetch_add(1, Ordering::Relaxed);
    }
}

impl Count for AtomicU64 {
    fn count(&self) {
        self.fetch_add(1, Ordering::Relaxed);
    }
}

/// The index of SQLite's log is shared memory, and not durable: after a cut it has anything, or is not there.
fn scatter_shared_memory(image: &mut Image, chance: &mut Chance) {
    let paths: Vec<String> = image.keys().filter(|path| path.ends_with("-shm")).cloned().collect();
    for path in paths {
        if chance.below(2) == 0 {
            image.remove(&path);
        } else if let Some(Some(bytes)) = image.get_mut(&path) {
            bytes.resize(32 << 10, 0);
            chance.fill(bytes);
        }
    }
}

/// Makes one cut of a kept generation again.
pub(crate) fn repeat(folder: &Path, seed: u64) -> Result<(), String> {
    let events = record::read(&folder.join("record")).map_err(|error| error.to_string())?;
    let _ = fs::remove_dir_all(folder.join("cut"));
    cut_all(folder, &events, &[seed], &Checker::new()?, &AtomicU64::new(0)).map(drop)
}
