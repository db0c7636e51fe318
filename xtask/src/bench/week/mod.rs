//! `cargo xtask bench week`: a week of operation in minutes, to see whether memory, files and answers stay as they are.
//!
//! Records of seven days, with quiet nights, come in at the pace of a shortened day, while a log viewer asks. Segments
//! are small and merged early, so that a minute has as many of them as hours have otherwise. Each day has a backup, and
//! ends with SIGKILL and a start on the same folder. The edge records are kept for two of these days, the other sources
//! up to a size. Age counts from arrival and is set in days, so that the shortened ages are written into the catalog,
//! between the end of a process and the next start. Samples go into a CSV file and a plot.

mod plot;
mod viewer;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::generator::{EDGE, Form, Generator, Plan, START};
use super::http::Connection;
use super::tidegate::{memory, metric, save, send};
use super::{empty, release};
use crate::service::{PRIVATE, Service};
use crate::{Outcome, built, root, say};
use viewer::Viewer;

pub(crate) const HELP: &str = "\
cargo xtask bench week [OPTION...]

  --day N           seconds that stand for a day (90)
  --records N       edge records of the week, beside those of the other sources (400000)
  --bin PATH        the service; else cargo build --release -p tidegate

Leaves docs/contributing/measurements/week.csv and week.svg.";

const DAYS: u32 = 7;
/// Samples of a day.
const SAMPLES: u32 = 12;
/// How often records are sent.
const TICK: Duration = Duration::from_millis(200);
/// Days for which edge records are kept.
const KEPT: u32 = 2;
/// Bytes of the files of each other source.
const BYTES: u64 = 2 << 20;
const DAY: i64 = 86_400_000_000;

/// The values of one moment, in the order of [`COLUMNS`].
type Sample = [f64; 8];

const COLUMNS: [&str; 8] = ["day", "resident MB", "files", "MB on disk", "segments", "p50 ms", "p99 ms", "events sent"];

pub(crate) fn command(mut arguments: impl Iterator<Item = String>) -> Outcome {
    let (mut day, mut records, mut binary) = (90_u64, 400_000_u64, None);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| HELP.to_owned())?;
        let number = || value.parse().ok().filter(|number| *number > 0).ok_or_else(|| HELP.to_owned());
        match name.as_str() {
            "--day" => day = number()?,
            "--records" => records = number()?,
            "--bin" => binary = Some(PathBuf::from(&value)),
            _ => return Err(HELP.to_owned()),
        }
    }
    let folder = built()?.join("bench/week");
    let samples =
        Week { day: Duration::from_secs(day), records, binary: release(binary.as_ref())?, folder: folder.clone() }
            .run();
    let _ = std::fs::remove_dir_all(&folder);
    let samples = samples?;
    let docs = root().join("docs/contributing/measurements");
    let mut csv = format!("{}\n", COLUMNS.join(","));
    for sample in &samples {
        let _ = writeln!(csv, "{}", sample.map(|value| format!("{value:.2}")).join(","));
    }
    for (name, text) in [("week.csv", csv), ("week.svg", plot::svg(&samples, &COLUMNS))] {
        let file = docs.join(name);
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    println!("\n{}", days(&samples));
    Ok(())
}

/// A table with the largest values of each day.
fn days(samples: &[Sample]) -> String {
    let mut table = format!("| {} |\n|---:|---:|---:|---:|---:|---:|---:|---:|\n", COLUMNS.join(" | "));
    for day in 0..DAYS {
        let mut most = [0.0_f64; 8];
        for sample in samples.iter().filter(|sample| sample.first().is_some_and(|at| at.ceil() as u32 == day + 1)) {
            most.iter_mut().zip(sample).for_each(|(most, value)| *most = most.max(*value));
        }
        let _ = writeln!(table, "| {} |", most.map(|value| format!("{value:.0}")).join(" | "));
    }
    table
}

struct Week {
    day: Duration,
    records: u64,
    binary: PathBuf,
    folder: PathBuf,
}

impl Week {
    fn run(&self) -> Result<Vec<Sample>, String> {
        empty(&self.folder)?;
        let plan = Plan { records: self.records, seed: 1, form: Form::Lines, later: false };
        let mut generator = Generator::new(plan);
        let project = generator.projects().first().cloned().unwrap_or_default();
        let mut service = Some(self.start()?);
        let mut connection = self.connect(service.as_ref())?;
        save(&mut connection)?;
        let viewer = Viewer::start(&project);
        viewer.point(service.as_ref().map(|service| service.url.clone()));
        let began = Instant::now();
        let (mut samples, mut sent, mut more) = (Vec::new(), 0_u64, true);
        let (mut next_sample, mut next_day, mut next_backup) = (1, 1, 1);
        while more {
            // Where the week is now, in days.
            let at = began.elapsed().as_secs_f64() / self.day.as_secs_f64();
            while more && generator.time() < START + (at * DAY as f64) as i64 {
                more = generator.step();
            }
            viewer.at(generator.time(), generator.id().0);
            for place in 0..generator.parts.len() {
                let Some(part) = generator.parts.get_mut(place).filter(|part| part.records > 0) else { continue };
                let part = std::mem::take(part);
                send(&mut connection, place, part.records, &part.bytes)?;
                sent += if place == EDGE { part.records } else { 0 };
            }
            if at * f64::from(SAMPLES) >= f64::from(next_sample) {
                next_sample += 1;
                let running = service.as_ref().ok_or("there is no service")?;
                samples.push(self.sample(at, running, &mut connection, &viewer, sent)?);
            }
            if at >= f64::from(next_backup) - 0.5 {
                next_backup += 1;
                self.backup()?;
            }
            if at >= f64::from(next_day) && next_day < DAYS {
                next_day += 1;
                viewer.point(None);
                drop((connection, service.take()));
                self.set_retention()?;
                service = Some(self.start()?);
                connection = self.connect(service.as_ref())?;
                viewer.point(service.as_ref().map(|service| service.url.clone()));
            }
            sleep(TICK);
        }
        viewer.end()?;
        drop(service);
        self.tool(&["verify", "--data-dir"], &self.folder.join("data"), &[])?;
        Ok(samples)
    }

    fn start(&self) -> Result<Service, String> {
        let mut command = Command::new(&self.binary);
        for (name, value) in [
            ("CACHE_MEMORY", "0"),
            ("INGEST_FLUSH_ROWS", "1000"),
            ("INGEST_FLUSH_INTERVAL", "300 ms"),
            ("COMPACTION_ROWS", "50000"),
        ] {
            command.env(format!("TIDEGATE_{name}"), value);
        }
        Service::on(command, &self.folder)
    }

    fn connect(&self, service: Option<&Service>) -> Result<Connection, String> {
        Connection::open(&service.ok_or("there is no service")?.url, PRIVATE)
    }

    /// Runs a command of the program.
    fn tool(&self, before: &[&str], data: &Path, after: &[&str]) -> Result<(), String> {
        let out = Command::new(&self.binary).args(before).arg(data).args(after).output();
        let out = out.map_err(|error| format!("{before:?}: {error}"))?;
        let told =
            || format!("{before:?}: {}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        if out.status.success() { Ok(()) } else { Err(told()) }
    }

    fn backup(&self) -> Result<(), String> {
        let copy = self.folder.join("backup");
        let began = Instant::now();
        self.tool(&["backup", "--data-dir"], &self.folder.join("data"), &["--to", &copy.to_string_lossy()])?;
        say(&format!("backup in {:.2} s", began.elapsed().as_secs_f64()));
        std::fs::remove_dir_all(&copy).map_err(|error| format!("{}: {error}", copy.display()))
    }

    /// Two of the shortened days for edge records, a size for the rest. The routes know whole days only.
    fn set_retention(&self) -> Outcome {
        let script = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\n\
             edge = \"name = 'cloudflare.logs.prod'\"\n\
             c.execute(f'UPDATE sources SET retention_seconds = ? WHERE {edge}', (int(sys.argv[2]),))\n\
             c.execute(f'UPDATE sources SET retention_bytes = ? WHERE NOT {edge}', (int(sys.argv[3]),))\n\
             c.commit()\n";
        let catalog = self.folder.join("data/catalog.sqlite");
        let age = (self.day * KEPT).as_secs().to_string();
        let done = Command::new("python3").args(["-c", script]).arg(catalog).args([age, BYTES.to_string()]).status();
        match done {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("the retention could not be set: {other:?}")),
        }
    }

    fn sample(
        &self,
        at: f64,
        service: &Service,
        connection: &mut Connection,
        viewer: &Viewer,
        sent: u64,
    ) -> Result<Sample, String> {
        let (files, bytes) = folder_size(&self.folder.join("data"));
        let [p50, p99] = viewer.times();
        let resident = memory(service, "VmRSS:") as f64 / 1e6;
        let segments = metric(connection, "tidegate_store_segments")?;
        Ok([at, resident, files as f64, bytes as f64 / 1e6, segments, p50, p99, sent as f64])
    }
}

/// Files below a folder and their bytes. What disappears meanwhile is not counted.
fn folder_size(folder: &Path) -> (u64, u64) {
    let mut size = (0, 0);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(found) if found.is_dir() => {
                let (files, bytes) = folder_size(&entry.path());
                size = (size.0 + files, size.1 + bytes);
            }
            Ok(found) => size = (size.0 + 1, size.1 + found.len()),
            Err(_) => {}
        }
    }
    size
}
