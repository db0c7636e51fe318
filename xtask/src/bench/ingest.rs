//! `cargo xtask bench ingest`: how many events a second the service makes durable, and what that costs it.
//!
//! Connections send requests of edge records, each the next one when the last is answered, as fast as they are answered
//! or at a pace. The bodies are made before the clock starts and sent again and again, so that the client takes little of
//! the processors that the service runs on. The report is a table in Markdown.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::generator::{EDGE, Form, Generator, Plan, SOURCES};
use super::http::{Connection, encoded};
use super::options::State;
use super::tidegate::Tidegate;
use super::{empty, release};
use crate::service::PRIVATE;
use crate::{Outcome, built, say};

pub(crate) const HELP: &str = "\
cargo xtask bench ingest [OPTION...]

  --connections N   that send at once (4)
  --events N        of a request (500)
  --seconds N       of sending (20)
  --most N          events, after which sending ends early
  --rate N          events a second of all connections; as fast as they are answered unless told
  --seed N          of the records (1)
  --threads N       of the service (2)
  --bin PATH        the service; else cargo build --release -p tidegate";

/// Bodies that a connection sends in turn.
const BODIES: usize = 16;
/// The pause after a refusal for want of room.
const PAUSE: Duration = Duration::from_millis(20);
/// How often an event is sent that a query then looks for.
const PROBE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Options {
    connections: u64,
    events: u64,
    seconds: u64,
    most: Option<u64>,
    rate: Option<u64>,
    seed: u64,
    threads: usize,
    binary: Option<PathBuf>,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            connections: 4,
            events: 500,
            seconds: 20,
            most: None,
            rate: None,
            seed: 1,
            threads: 2,
            binary: None,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} wants a value\n\n{HELP}"))?;
            let number = || {
                let read = value.parse::<u64>().ok().filter(|number| *number > 0);
                read.ok_or_else(|| format!("{name} wants a number, not {value}"))
            };
            match name.as_str() {
                "--connections" => options.connections = number()?,
                "--events" => options.events = number()?,
                "--seconds" => options.seconds = number()?,
                "--most" => options.most = Some(number()?),
                "--rate" => options.rate = Some(number()?),
                "--seed" => options.seed = number()?,
                "--threads" => options.threads = number()? as usize,
                "--bin" => options.binary = Some(PathBuf::from(&value)),
                _ => return Err(format!("{name} is not understood\n\n{HELP}")),
            }
        }
        Ok(options)
    }
}

/// What one connection did.
#[derive(Debug, Default)]
struct Sent {
    events: u64,
    bytes: u64,
    /// Requests that were told that there is no room.
    refused: u64,
    /// Of each request, from when it was due to its answer.
    times: Vec<Duration>,
}

pub(crate) fn command(mut arguments: std::iter::Peekable<impl Iterator<Item = String>>) -> Outcome {
    if arguments.peek().is_some_and(|first| first == "--help" || first == "-h") {
        println!("{HELP}");
        return Ok(());
    }
    let options = Options::read(arguments)?;
    let folder = built()?.join("bench");
    let binary = release(options.binary.as_ref())?;
    empty(&folder.join("ingest"))?;
    let report = Tidegate::start(&binary, &folder.join("ingest"), options.threads, State::Busy, &[])
        .and_then(|mut tidegate| measure(&options, &mut tidegate));
    let _ = std::fs::remove_dir_all(folder.join("ingest"));
    println!("\n{}", report?);
    Ok(())
}

fn measure(options: &Options, tidegate: &mut Tidegate) -> Result<String, String> {
    say("making the records");
    let (ended, all) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let bodies: Vec<Vec<Vec<u8>>> = (0..options.connections).map(|number| bodies(options, number)).collect();
    let connections =
        bodies.iter().map(|_| Connection::open(tidegate.url(), PRIVATE)).collect::<Result<Vec<_>, _>>()?;
    // The first query of a process plans with cold caches; it is not of this measurement.
    let mut probe = Probe::new(tidegate.url())?;
    probe.once()?;

    say("sending");
    let (began, before) = (Instant::now(), tidegate.processor());
    let senders: Vec<JoinHandle<Result<Sent, String>>> = connections
        .into_iter()
        .zip(bodies)
        .zip(0..)
        .map(|((connection, bodies), number)| {
            let (ended, all, options) = (Arc::clone(&ended), Arc::clone(&all), options.clone());
            spawn(move || send(connection, number, &bodies, &options, &ended, &all))
        })
        .collect();
    let mut seen = Vec::new();
    let end = began + Duration::from_secs(options.seconds);
    let mut peak = 0;
    while Instant::now() < end && options.most.is_none_or(|most| all.load(Ordering::Relaxed) < most) {
        seen.extend(probe.once()?);
        peak = peak.max(tidegate.memory("VmRSS:"));
        sleep(PROBE);
        if senders.iter().any(JoinHandle::is_finished) {
            break;
        }
    }
    ended.store(true, Ordering::Relaxed);
    let mut sent = Sent::default();
    for sender in senders {
        let one = sender.join().map_err(|_| "a connection failed")??;
        sent.events += one.events;
        sent.bytes += one.bytes;
        sent.refused += one.refused;
        sent.times.extend(one.times);
    }
    let seconds = began.elapsed().as_secs_f64();
    let sending = tidegate.processor() - before;
    let right_after = tidegate.memory("VmRSS:");
    let flushed = tidegate.settle()?;
    let processor = tidegate.processor() - before;
    sleep(Duration::from_secs(5));
    let rested = tidegate.memory("VmRSS:");
    let count = tidegate.count(sent.events + seen.len() as u64 + 1)?;

    let per = |count: u64| count as f64 / seconds;
    let mut report = format!(
        "{} connections, {} events a request of {:.0} bytes each, {:.1} s{}\n\n| What | Figure |\n|---|---:|\n",
        options.connections,
        options.events,
        sent.bytes as f64 / sent.events.max(1) as f64,
        seconds,
        options.rate.map_or(String::new(), |rate| format!(", {rate} events a second asked for")),
    );
    let mut line = |what: &str, figure: String| {
        let _ = writeln!(report, "| {what} | {figure} |");
    };
    line("durable", format!("{:.0} events/s, {:.1} MB/s", per(sent.events), per(sent.bytes) / 1e6));
    let million = |seconds: f64| seconds * 1e6 / sent.events.max(1) as f64;
    line(
        "processor time of the service, a million events",
        format!("{:.2} s while they came, {:.2} s until all were in segments", million(sending), million(processor)),
    );
    line("acknowledged", times(&mut sent.times));
    line("visible to a query, from sending one event", times(&mut seen));
    line("requests told to wait", sent.refused.to_string());
    let mega = |bytes: u64| format!("{:.0} MB", bytes as f64 / 1e6);
    line(
        "resident memory",
        format!(
            "{} at most, {} right after, {} five seconds after the last segment",
            mega(tidegate.memory("VmHWM:").max(peak)),
            mega(right_after),
            mega(rested)
        ),
    );
    line("from the last answer until all were in segments", format!("{:.1} s", flushed.as_secs_f64()));
    line("events read back", count.to_string());
    Ok(report)
}

pub(super) fn times(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: f64| {
        let place = (times.len().saturating_sub(1) as f64 * share).round() as usize;
        times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    format!("p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms of {}", at(0.5), at(0.99), at(1.0), times.len())
}

/// The bodies of one connection.
fn bodies(options: &Options, number: u64) -> Vec<Vec<u8>> {
    let plan =
        Plan { records: options.events * BODIES as u64, seed: options.seed + number, form: Form::Lines, later: true };
    let mut generator = Generator::new(plan);
    let mut bodies = Vec::with_capacity(BODIES);
    for _ in 0..BODIES {
        for _ in 0..options.events {
            generator.step();
        }
        let part = generator.parts.get_mut(EDGE).map(std::mem::take).unwrap_or_default();
        bodies.push(part.bytes);
    }
    bodies
}

fn send(
    mut connection: Connection,
    number: u32,
    bodies: &[Vec<u8>],
    options: &Options,
    ended: &AtomicBool,
    all: &AtomicU64,
) -> Result<Sent, String> {
    let path = format!("/api/logs?source_name={}", SOURCES.get(EDGE).copied().unwrap_or_default());
    let pace = options
        .rate
        .map(|rate| Duration::from_secs_f64(options.events as f64 * options.connections as f64 / rate as f64));
    let mut sent = Sent::default();
    let mut due = Instant::now();
    // Senders with a pace do not send at the same moment, as senders that know nothing of each other do not.
    if let (Some(pace), Ok(all)) = (pace, u32::try_from(options.connections)) {
        due += pace * number / all.max(1);
    }
    for body in bodies.iter().cycle() {
        if let Some(pace) = pace {
            due += pace;
            sleep(due.saturating_duration_since(Instant::now()));
        } else {
            due = Instant::now();
        }
        loop {
            if ended.load(Ordering::Relaxed) {
                return Ok(sent);
            }
            let answer = connection.post(&path, "application/x-ndjson", body)?;
            if !matches!(answer.status, 429 | 503) {
                let answer: Value = serde_json::from_slice(&answer.good()?).map_err(|error| error.to_string())?;
                if answer.get("accepted").and_then(Value::as_u64) != Some(options.events) {
                    return Err(format!("of {} events: {answer}", options.events));
                }
                break;
            }
            sent.refused += 1;
            sleep(PAUSE);
        }
        sent.times.push(due.elapsed());
        sent.events += options.events;
        sent.bytes += body.len() as u64;
        all.fetch_add(options.events, Ordering::Relaxed);
    }
    Ok(sent)
}

/// Sends single events and asks for them.
struct Probe {
    connection: Connection,
    number: u64,
}

impl Probe {
    fn new(url: &str) -> Result<Self, String> {
        Ok(Self { connection: Connection::open(url, PRIVATE)?, number: 0 })
    }

    /// How long one event takes from the request with it to an answer that shows it; none if there was no room for it.
    fn once(&mut self) -> Result<Option<Duration>, String> {
        self.number += 1;
        let id = format!("probe-{}", self.number);
        let event = json!({"id": id, "timestamp": "2026-02-09T00:00:00Z", "event_message": "a probe"}).to_string();
        let path = format!("/api/logs?source_name={}", SOURCES.get(EDGE).copied().unwrap_or_default());
        let began = Instant::now();
        let answer = self.connection.post(&path, "application/json", event.as_bytes())?;
        if matches!(answer.status, 429 | 503) {
            self.number -= 1;
            return Ok(None);
        }
        answer.good()?;
        let sql = format!("SELECT id FROM edge_logs WHERE timestamp > '2026-02-08' AND id = '{id}'");
        let path = format!("/api/endpoints/query/bench.tables?sql={}", encoded(&sql));
        loop {
            let body = self.connection.get(&path)?.good()?;
            if String::from_utf8_lossy(&body).contains(&id) {
                return Ok(Some(began.elapsed()));
            }
            if began.elapsed() > Duration::from_secs(10) {
                return Err(format!("{id} is not seen: {}", String::from_utf8_lossy(&body)));
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read = |text: &str| Options::read(text.split_whitespace().map(str::to_owned));
        let options = read("--connections 2 --events 10 --rate 100 --most 600000").unwrap();
        assert_eq!(
            (options.connections, options.events, options.rate, options.most),
            (2, 10, Some(100), Some(600_000))
        );
        for wrong in ["--rate none", "--rate", "--seconds 0", "--fast 1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bodies_have_the_events_that_were_asked_for() {
        let options = Options::read(["--events", "3"].map(str::to_owned).into_iter()).unwrap();
        let bodies = bodies(&options, 0);
        let lines = |body: &Vec<u8>| body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        assert!(bodies.len() == BODIES && bodies.iter().all(|body| lines(body) == 3));
    }
}
