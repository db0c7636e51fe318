//! The service under measurement: a fresh folder, loaded through its ingest interface, asked over HTTP as users ask it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::answer::{Answer, rows};
use super::generator::{Form, Generator, Plan, SOURCES};
use super::http::{Connection, encoded};
use super::options::State;
use super::questions::Request;
use crate::root;
use crate::service::{PRIVATE, Service};

/// A request with events is sent at this size; the service takes 16 MiB at most.
const BODY: usize = 8 << 20;
/// How long what is in memory may take to be in segments: a source with few events waits a minute.
const FLUSH: Duration = Duration::from_secs(180);
/// How long the background may take to merge segments.
const MERGE: Duration = Duration::from_secs(3600);
/// Merging has ended if nothing was merged for so long.
const QUIET: Duration = Duration::from_secs(4);
/// Ticks of the processor time in /proc, a second: the same on all Linux systems of today.
const TICKS: f64 = 100.0;

/// The running service with a connection for questions.
pub(crate) struct Tidegate {
    service: Service,
    connection: Connection,
    /// Of the question that was asked last.
    pub(crate) read: Read,
}

/// What the statements of a question read of segments.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Read {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

impl Read {
    /// Adds what `x-tidegate-cost` says of a request.
    fn add(&mut self, cost: &str) {
        let said = |name: &str| {
            let value = cost.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse::<u64>().ok()).unwrap_or_default()
        };
        self.rows += said("rows-read");
        self.bytes += said("bytes-read");
    }
}

/// What loading took.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    /// From the first request to the last answer.
    pub(crate) seconds: f64,
    /// Processor time of the service in that.
    pub(crate) processor: f64,
}

/// What merging took, after the load.
#[derive(Debug)]
pub(crate) struct Merging {
    pub(crate) seconds: f64,
    /// Processor time of the service in that.
    pub(crate) processor: f64,
    /// Merges since the start.
    pub(crate) merges: f64,
    /// Events that they wrote.
    pub(crate) events: f64,
    /// Segments that are there now, of all sources.
    pub(crate) segments: f64,
}

impl Tidegate {
    /// Starts it without kept answers, with further settings of its environment, and with the endpoints that the questions
    /// are asked of.
    ///
    /// # Errors
    /// Where it does not start or refuses an endpoint.
    pub(crate) fn start(
        binary: &Path,
        folder: &Path,
        threads: usize,
        state: State,
        settings: &[(&str, String)],
    ) -> Result<Self, String> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = if processors > threads {
            let mut command = Command::new("taskset");
            command.arg("-c").arg(format!("0-{}", threads.saturating_sub(1))).arg(binary);
            command
        } else {
            Command::new(binary)
        };
        // No answer is kept, and slow questions show their time instead of failing.
        command.env("TIDEGATE_CACHE_MEMORY", "0").env("TIDEGATE_LIMITS_REQUEST_TIME", "5 min");
        command.envs(settings.iter().map(|(name, value)| (name, value)));
        match state {
            // So many small segments are never there.
            State::Fresh => command.env("TIDEGATE_COMPACTION_FAN_IN", "1000"),
            State::Compacted => command.env("TIDEGATE_COMPACTION_PERCENT", "100"),
            State::Busy => &mut command,
        };
        let service = Service::of(command, folder)?;
        let connection = Connection::open(&service.url, PRIVATE)?;
        let mut tidegate = Self { service, connection, read: Read::default() };
        save(&mut tidegate.connection)?;
        Ok(tidegate)
    }

    pub(crate) fn url(&self) -> &str {
        &self.service.url
    }

    /// Loads the records of a plan over one connection. They are made on a thread of their own, so that the service
    /// does not wait for them.
    ///
    /// # Errors
    /// What the service refuses.
    pub(crate) fn load(&mut self, plan: Plan) -> Result<Load, String> {
        let (sender, receiver) = sync_channel::<(usize, u64, Vec<u8>)>(2);
        let maker = std::thread::spawn(move || {
            let mut generator = Generator::new(Plan { form: Form::Lines, ..plan });
            let mut more = true;
            while more {
                more = generator.step();
                for (place, part) in generator.parts.iter_mut().enumerate() {
                    if part.bytes.len() >= BODY || (!more && part.records > 0) {
                        let bytes = std::mem::replace(&mut part.bytes, Vec::with_capacity(BODY + (1 << 16)));
                        if sender.send((place, std::mem::take(&mut part.records), bytes)).is_err() {
                            return;
                        }
                    }
                }
            }
        });
        let (began, before) = (Instant::now(), self.processor());
        let mut load = Load::default();
        for (place, records, bytes) in receiver {
            send(&mut self.connection, place, records, &bytes)?;
            load.events += records;
            load.bytes += bytes.len() as u64;
        }
        maker.join().map_err(|_| "the generator failed")?;
        (load.seconds, load.processor) = (began.elapsed().as_secs_f64(), self.processor() - before);
        Ok(load)
    }

    /// A figure of the memory of the service, in bytes, as /proc names it: `VmRSS:` now, `VmHWM:` at most so far.
    pub(crate) fn memory(&self, name: &str) -> u64 {
        memory(&self.service, name)
    }

    /// Counts the edge records.
    ///
    /// # Errors
    /// Where there are not so many.
    pub(crate) fn count(&mut self, expected: u64) -> Result<u64, String> {
        let sql = "SELECT COUNT(*) AS n FROM edge_logs".to_owned();
        let request = Request { endpoint: "bench.tables".to_owned(), parameters: vec![("sql".to_owned(), sql)] };
        let (_, answer) = self.ask(&[request])?;
        match answer.iter().flatten().flatten().next().and_then(Value::as_u64) {
            Some(count) if count == expected => Ok(count),
            other => Err(format!("{expected} events were acknowledged, {other:?} are read back")),
        }
    }

    /// Processor time of the service so far, in seconds.
    pub(crate) fn processor(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.service.process())).unwrap_or_default();
        // The name, the second field, may have blanks in it.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS
    }

    /// Processor time of all threads of the service so far.
    pub(crate) fn ran(&self) -> Duration {
        Duration::from_secs_f64(self.scheduled().values().map(|(ran, _)| ran).sum::<f64>() / 1e3)
    }

    /// By the name of the threads: the milliseconds that they ran, and those that they were ready without a processor.
    pub(crate) fn scheduled(&self) -> BTreeMap<String, (f64, f64)> {
        let mut all = BTreeMap::<String, (f64, f64)>::new();
        let tasks = format!("/proc/{}/task", self.service.process());
        for task in std::fs::read_dir(tasks).into_iter().flatten().filter_map(Result::ok) {
            let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let times = read("schedstat");
            let mut times =
                times.split_whitespace().filter_map(|nanos| nanos.parse::<f64>().ok()).map(|nanos| nanos / 1e6);
            let (ran, waited) = all.entry(read("comm").trim().to_owned()).or_default();
            *ran += times.next().unwrap_or_default();
            *waited += times.next().unwrap_or_default();
        }
        all
    }

    /// Opens the connection for questions again: the service closes one that was idle while the peers were loaded.
    ///
    /// # Errors
    /// Where the service does not listen.
    pub(crate) fn reconnect(&mut self) -> Result<(), String> {
        self.connection = Connection::open(&self.service.url, PRIVATE)?;
        Ok(())
    }

    /// A metric of the service.
    ///
    /// # Errors
    /// Where there is none of this name.
    pub(crate) fn metric(&mut self, name: &str) -> Result<f64, String> {
        metric(&mut self.connection, name)
    }

    /// Waits until no event is in memory only.
    ///
    /// # Errors
    /// Where that takes too long.
    pub(crate) fn settle(&mut self) -> Result<Duration, String> {
        let began = Instant::now();
        loop {
            let waiting = self.metric("tidegate_store_unflushed_bytes")?;
            if waiting == 0.0 {
                return Ok(began.elapsed());
            }
            if began.elapsed() > FLUSH {
                return Err(format!("{waiting} bytes are still not in segments after {} s", FLUSH.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(250));
        }
    }

    /// Waits until the background has nothing to merge.
    ///
    /// # Errors
    /// Where that takes too long.
    pub(crate) fn compacted(&mut self) -> Result<Merging, String> {
        let (began, processor) = (Instant::now(), self.processor());
        let (mut quiet, mut merges, mut last) = (Instant::now(), -1.0, (Duration::ZERO, 0.0));
        while quiet.elapsed() < QUIET {
            let now = self.metric("tidegate_store_merges_total")?;
            if now > merges || self.metric("tidegate_store_segments_merging")? > 0.0 {
                (quiet, merges, last) = (Instant::now(), now, (began.elapsed(), self.processor() - processor));
            }
            if began.elapsed() > MERGE {
                return Err(format!("segments are still merged after {} s", MERGE.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(Merging {
            seconds: last.0.as_secs_f64(),
            processor: last.1,
            merges,
            events: self.metric("tidegate_store_events_merged_total")?,
            segments: self.metric("tidegate_store_segments")?,
        })
    }

    /// Asks; the time is from the request to the last byte of the answer.
    ///
    /// # Errors
    /// What the service says.
    pub(crate) fn ask(&mut self, requests: &[Request]) -> Result<(Duration, Answer), String> {
        let (mut time, mut answer) = (Duration::ZERO, Answer::new());
        self.read = Read::default();
        for request in requests {
            let parameters: Vec<String> =
                request.parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
            let path = format!("/api/endpoints/query/{}?{}", request.endpoint, parameters.join("&"));
            let began = Instant::now();
            let got = self.connection.get(&path)?;
            time += began.elapsed();
            self.read.add(&got.cost);
            let body = got.good().map_err(|error| format!("{request:?}: {error}"))?;
            let body: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            answer.push(rows(body.get("result").ok_or("an answer without a result")?)?);
        }
        Ok((time, answer))
    }
}

/// Saves the endpoints: the tables of all projects; and `usage.api-counts` with a given time in the place of the
/// clock, so that its answers can be compared.
///
/// # Errors
/// What the service refuses.
pub(crate) fn save(connection: &mut Connection) -> Result<(), String> {
    let file = root().join("guest-endpoints/usage.api-counts/query.sql");
    let counts = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    for (name, query) in [
        (
            "bench.tables",
            "WITH edge_logs AS (SELECT * FROM `cloudflare.logs.prod`) SELECT id FROM edge_logs LIMIT 1".to_owned(),
        ),
        ("bench.api-counts", counts.replace("CURRENT_TIMESTAMP()", "CAST(@now AS TIMESTAMP)")),
    ] {
        let endpoint = json!({
            "name": name, "query": query, "max_limit": 10_000, "cache_duration_seconds": 0, "sandboxable": true,
        });
        let answer = connection.post("/api/endpoints", "application/json", endpoint.to_string().as_bytes())?;
        answer.good().map_err(|error| format!("the endpoint {name}: {error}"))?;
    }
    Ok(())
}

/// A figure of the memory of a service, in bytes, as /proc names it.
pub(crate) fn memory(service: &Service, name: &str) -> u64 {
    memory_of(service.process(), name)
}

/// The same of any process.
pub(crate) fn memory_of(process: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or_default() << 10
}

/// A metric of a service.
///
/// # Errors
/// Where there is none of this name.
pub(crate) fn metric(connection: &mut Connection, name: &str) -> Result<f64, String> {
    let metrics = connection.get("/metrics")?.good()?;
    let metrics = String::from_utf8_lossy(&metrics);
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).ok_or_else(|| format!("there is no metric {name}"))
}

/// Sends lines of a source.
///
/// # Errors
/// What is refused, of a single event too.
pub(crate) fn send(connection: &mut Connection, place: usize, records: u64, lines: &[u8]) -> Result<(), String> {
    let source = SOURCES.get(place).copied().unwrap_or_default();
    let path = format!("/api/logs?source_name={source}");
    let answer = connection.post(&path, "application/x-ndjson", lines)?.good()?;
    let answer: Value = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
    if answer.get("accepted").and_then(Value::as_u64) == Some(records) {
        return Ok(());
    }
    Err(format!("of {records} events for {source}: {answer}"))
}
