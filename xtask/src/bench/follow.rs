//! `cargo xtask bench follow`: what followed queries cost while events come in at a pace, and how long a row takes from
//! its event's sending to its follower.
//!
//! Each event carries the time of its sending in its text. One of `rare` events passes one of the filters, each filter
//! as many as the others. A run without followers comes first, so that what they cost is a difference of one run.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, sleep, spawn};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::http::{Connection, encoded};
use super::ingest::times;
use super::tidegate::{memory, metric};
use super::{empty, release};
use crate::service::{PRIVATE, Service};
use crate::{Outcome, built, say};

pub(crate) const HELP: &str = "\
cargo xtask bench follow [OPTION...]

  --followers N     (500)
  --filters N       different queries among them (50)
  --rate N          events a second (10000)
  --rare N          one of so many events passes a filter (10)
  --seconds N       of sending (20)
  --bin PATH        the service; else cargo build --release -p tidegate";

/// Events of a request, and connections that send.
const EVENTS: u64 = 200;
const CONNECTIONS: u64 = 4;
/// Ticks of the processor time in /proc, a second.
const TICKS: f64 = 100.0;
/// How long the last rows may take.
const LAST: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
struct Options {
    followers: u64,
    filters: u64,
    rate: u64,
    rare: u64,
    seconds: u64,
    binary: Option<PathBuf>,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { followers: 500, filters: 50, rate: 10_000, rare: 10, seconds: 20, binary: None };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} wants a value\n\n{HELP}"))?;
            let number = || value.parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(|| format!("{name} is a number"));
            match name.as_str() {
                "--followers" => options.followers = number()?,
                "--filters" => options.filters = number()?,
                "--rate" => options.rate = number()?,
                "--rare" => options.rare = number()?,
                "--seconds" => options.seconds = number()?,
                "--bin" => options.binary = Some(value.into()),
                _ => return Err(format!("there is no {name}\n\n{HELP}")),
            }
        }
        Ok(options)
    }
}

pub(crate) fn command(arguments: impl Iterator<Item = String>) -> Outcome {
    let options = Options::read(arguments)?;
    let folder = built()?.join("bench/follow");
    empty(&folder)?;
    let mut command = Command::new(release(options.binary.as_ref())?);
    command.env("TIDEGATE_FOLLOW_FOLLOWERS_OF_TOKEN", "100000").env("TIDEGATE_FOLLOW_FOLLOWERS", "100000");
    command.env("TIDEGATE_SERVER_CONNECTIONS_WITHOUT_TOKEN", "0");
    let service = Service::of(command, &folder)?;
    say("sending without followers");
    let alone = send(&service, &options)?;
    say("sending with followers");
    let followers = (0..options.followers).map(|n| follow(&service, n % options.filters));
    let followers = followers.collect::<Result<Vec<_>, _>>()?;
    let with = send(&service, &options)?;
    sleep(LAST);
    let mut connection = Connection::open(&service.url, PRIVATE)?;
    let looks = metric(&mut connection, "tidegate_follow_looks_total")?;
    let missed = metric(&mut connection, "tidegate_follow_rows_missed_total")?;
    let resident = memory(&service, "VmHWM:");
    drop(service);
    let mut taken = Vec::new();
    for follower in followers {
        taken.extend(follower.join().map_err(|_| "a follower failed")?);
    }
    let Options { followers, filters, rate, rare, seconds, .. } = options;
    let mut report = format!(
        "{followers} followers of {filters} filters, {rate} events a second for {seconds} s, one of {rare} passes a filter\n\n\
         | What | Figure |\n|---|---:|\n"
    );
    let mut line = |what: &str, figure: String| {
        let _ = writeln!(report, "| {what} | {figure} |");
    };
    let of_second = |ticks: f64| ticks / TICKS / seconds as f64;
    line("processor time of the service, a second, without followers", format!("{:.2} s", of_second(alone.ticks)));
    line("the same with them", format!("{:.2} s", of_second(with.ticks)));
    line("events acknowledged a second", format!("{:.0}, then {:.0}", alone.rate(), with.rate()));
    line("rows that followers got", format!("{} ({:.0} a second)", taken.len(), taken.len() as f64 / seconds as f64));
    line("from the sending of an event to its follower", times(&mut taken));
    line("rows missed", format!("{missed:.0}"));
    line("runs of a query over new rows, a second", format!("{:.0}", looks / seconds as f64));
    line("resident memory at most", format!("{:.0} MB", resident as f64 / 1e6));
    println!("{report}");
    empty(&folder)
}

fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// What sending took.
struct Load {
    events: u64,
    seconds: f64,
    ticks: f64,
}

impl Load {
    fn rate(&self) -> f64 {
        self.events as f64 / self.seconds
    }
}

/// Sends events at the pace of the options.
fn send(service: &Service, options: &Options) -> Result<Load, String> {
    let (began, before) = (Instant::now(), ticks(service));
    let ended = Arc::new(AtomicBool::new(false));
    let mut senders: Vec<JoinHandle<Result<u64, String>>> = Vec::new();
    for number in 0..CONNECTIONS {
        let mut connection = Connection::open(&service.url, PRIVATE)?;
        let (options, ended) = (options.clone(), Arc::clone(&ended));
        senders.push(spawn(move || {
            let pace = Duration::from_secs_f64((EVENTS * CONNECTIONS) as f64 / options.rate as f64);
            let (mut due, mut sent) = (Instant::now(), number * 7);
            let first = sent;
            while !ended.load(Ordering::Relaxed) {
                due += pace;
                sleep(due.saturating_duration_since(Instant::now()));
                let mut body = String::with_capacity(EVENTS as usize * 400);
                for n in sent..sent + EVENTS {
                    let filter =
                        if n % options.rare == 0 { format!("f{}x", n / options.rare % options.filters) } else { "none".to_owned() };
                    let _ = writeln!(
                        body,
                        "{{\"project\":\"p1\",\"event_message\":\"GET /rest/v1/orders {filter} sent={}\",\"metadata\":{{\"request\":{{\
                         \"method\":\"GET\",\"path\":\"/rest/v1/orders\",\"host\":\"p1.example.test\",\"cf\":{{\"country\":\"NL\",\"asn\":{}}}}},\
                         \"response\":{{\"status_code\":{},\"origin_time\":{}}}}}}}",
                        micros(),
                        n % 1000,
                        200 + n % 5 * 100,
                        n % 977,
                    );
                }
                let answer = connection.post("/api/logs?source_name=cloudflare.logs.prod", "application/x-ndjson", body.as_bytes())?;
                answer.good()?;
                sent += EVENTS;
            }
            Ok(sent - first)
        }));
    }
    sleep(Duration::from_secs(options.seconds));
    ended.store(true, Ordering::Relaxed);
    let mut events = 0;
    for sender in senders {
        events += sender.join().map_err(|_| "a connection failed")??;
    }
    Ok(Load { events, seconds: began.elapsed().as_secs_f64(), ticks: ticks(service) - before })
}

fn ticks(service: &Service) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", service.process())).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum()
}

/// Follows a filter until the service ends. Returns how long each row took.
fn follow(service: &Service, filter: u64) -> Result<JoinHandle<Vec<Duration>>, String> {
    let told = |error: std::io::Error| format!("following: {error}");
    let sql = format!("SELECT event_message FROM edge_logs WHERE event_message LIKE '% f{filter}x %'");
    let host = service.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).map_err(told)?;
    let path = format!("/api/endpoints/query/logs.all?project=p1&follow_rows=0&sql={}", encoded(&sql));
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nX-API-KEY: {PRIVATE}\r\nAccept: text/event-stream\r\n\r\n")
        .map_err(told)?;
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    while !line.starts_with("event: live") {
        line.clear();
        if lines.read_line(&mut line).map_err(told)? == 0 {
            return Err("a follower was refused".to_owned());
        }
    }
    let read = move || {
        let mut taken = Vec::new();
        loop {
            line.clear();
            if !matches!(lines.read_line(&mut line), Ok(1..)) {
                return taken;
            }
            let sent = line.rsplit_once("sent=").and_then(|(_, rest)| rest.split('"').next()?.parse::<u64>().ok());
            if let Some(sent) = sent {
                taken.push(Duration::from_micros(micros().saturating_sub(sent)));
            }
        }
    };
    Builder::new().stack_size(256 << 10).spawn(read).map_err(told)
}
