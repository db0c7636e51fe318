//! `cargo xtask bench busy`: what a question takes while events come in, and what of that is computing, waiting for a
//! processor, or neither.
//!
//! Several binaries are measured in one run, in turn, because the machine is rarely idle: a ratio of one run tells more
//! than a time. The kernel says of each thread how long it ran and how long it was ready without running
//! (`/proc/PID/task/*/schedstat`); the threads that compute for requests have a name of their own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::generator::{Form, Generator, Plan};
use super::options::State;
use super::questions::{Question, questions};
use super::sender::Sender;
use super::tidegate::Tidegate;
use super::{empty, parameters, release};
use crate::{Outcome, built, root, say};

pub(crate) const HELP: &str = "\
cargo xtask bench busy [OPTION...]

  --bin PATH        a binary; may be given several times; else cargo build --release -p tidegate
  --records N       edge records that are loaded before (300000)
  --rounds N        in which each binary is asked for some time (3)
  --seconds N       of asking in a round (10)
  --questions A,B   folders of xtask/bench/questions (newest,by-id,log-page,errors-by-path,status-histogram)
  --seed N          of the records (1)
  --threads N       of the service (2)

10,000 events a second come in. The question `live` is `newest` for a project of the events that come in.";

/// The pause after an answer.
const PAUSE: Duration = Duration::from_millis(40);
/// Events come in for so long before the first question of a round.
const LEAD: Duration = Duration::from_secs(2);
/// The threads on which requests compute, as the kernel shortens their name.
const COMPUTE: &str = "tidegate-comput";

struct Options {
    binaries: Vec<PathBuf>,
    records: u64,
    rounds: u64,
    seconds: u64,
    questions: Vec<String>,
    seed: u64,
    threads: usize,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            binaries: Vec::new(),
            records: 300_000,
            rounds: 3,
            seconds: 10,
            questions: ["newest", "by-id", "log-page", "errors-by-path", "status-histogram"]
                .map(str::to_owned)
                .to_vec(),
            seed: 1,
            threads: 2,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} wants a value\n\n{HELP}"))?;
            let number = || {
                let read = value.parse::<u64>().ok().filter(|number| *number > 0);
                read.ok_or_else(|| format!("{name} wants a number, not {value}"))
            };
            match name.as_str() {
                "--bin" => options.binaries.push(PathBuf::from(&value)),
                "--records" => options.records = number()?,
                "--rounds" => options.rounds = number()?,
                "--seconds" => options.seconds = number()?,
                "--seed" => options.seed = number()?,
                "--threads" => options.threads = number()? as usize,
                "--questions" => {
                    options.questions =
                        value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
                }
                _ => return Err(format!("{name} is not understood\n\n{HELP}")),
            }
        }
        Ok(options)
    }
}

/// What one question took: on the clock, of processors, and ready without one.
#[derive(Debug, Clone, Copy)]
struct Taken {
    clock: f64,
    ran: f64,
    waited: f64,
}

struct Measured {
    tidegate: Tidegate,
    name: String,
    /// By question, at rest and while events come in.
    rest: BTreeMap<String, Vec<Taken>>,
    busy: BTreeMap<String, Vec<Taken>>,
    /// Milliseconds of processors by the name of the threads, and of the clock, while events came in.
    threads: BTreeMap<String, f64>,
    clock: f64,
    memory: u64,
    /// Senders of all rounds: events and their rate.
    sent: Vec<(u64, f64)>,
}

pub(crate) fn command(mut arguments: std::iter::Peekable<impl Iterator<Item = String>>) -> Outcome {
    if arguments.peek().is_some_and(|first| first == "--help" || first == "-h") {
        println!("{HELP}");
        return Ok(());
    }
    let mut options = Options::read(arguments)?;
    if options.binaries.is_empty() {
        options.binaries.push(release(None)?);
    }
    let folder = built()?.join("bench/busy");
    empty(&folder)?;
    let report = measure(&options, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    println!("\n{}", report?);
    Ok(())
}

fn measure(options: &Options, folder: &std::path::Path) -> Result<String, String> {
    let plan = Plan { records: options.records, seed: options.seed, form: Form::Lines, later: false };
    let folders = root().join("xtask/bench/questions");
    let mut asked = questions(&folders, &options.questions, &parameters(plan))?;
    let later = Generator::new(Plan { later: true, ..plan }).projects().first().cloned().unwrap_or_default();
    for mut live in questions(&folders, &["newest".to_owned()], &vec![("project", later)])? {
        live.name = "live".to_owned();
        asked.push(live);
    }
    let mut all = Vec::new();
    for (number, binary) in options.binaries.iter().enumerate() {
        say(&format!("loading {}", binary.display()));
        let binary = release(Some(binary))?;
        let mut tidegate =
            Tidegate::start(&binary, &folder.join(number.to_string()), options.threads, State::Busy, &[])?;
        tidegate.load(plan)?;
        tidegate.settle()?;
        tidegate.compacted()?;
        let (name, clock, memory) = (format!("binary {}", number + 1), 0.0, 0);
        let (rest, busy, threads, sent) = Default::default();
        all.push(Measured { tidegate, name, rest, busy, threads, clock, memory, sent });
    }
    for round in 0..options.rounds {
        for one in &mut all {
            say(&format!("round {}, {}", round + 1, one.name));
            one.tidegate.reconnect()?;
            for question in asked.iter().cycle().take(asked.len() * 5) {
                let taken = one.ask(question)?;
                one.rest.entry(question.name.clone()).or_default().push(taken);
            }
            let mut sender = Sender::start(one.tidegate.url(), options.seed + round)?;
            sender.during(|| one.round(&asked, options.seconds))?;
            one.sent.push(sender.end()?);
            one.tidegate.settle()?;
            one.tidegate.compacted()?;
        }
    }
    Ok(report(options, &asked, &all))
}

impl Measured {
    fn ask(&mut self, question: &Question) -> Result<Taken, String> {
        let before = self.tidegate.scheduled();
        let (clock, _) = self.tidegate.ask(&question.requests)?;
        let after = self.tidegate.scheduled();
        let of = |all: &BTreeMap<String, (f64, f64)>| all.get(COMPUTE).copied().unwrap_or_default();
        let ((ran, waited), (had, ready)) = (of(&after), of(&before));
        Ok(Taken { clock: clock.as_secs_f64() * 1e3, ran: ran - had, waited: waited - ready })
    }

    fn round(&mut self, asked: &[Question], seconds: u64) -> Outcome {
        std::thread::sleep(LEAD);
        let (began, before) = (Instant::now(), self.tidegate.scheduled());
        while began.elapsed() < Duration::from_secs(seconds) {
            for question in asked {
                let taken = self.ask(question)?;
                self.busy.entry(question.name.clone()).or_default().push(taken);
                std::thread::sleep(PAUSE);
            }
        }
        for (name, (ran, _)) in self.tidegate.scheduled() {
            let had = before.get(&name).map_or(0.0, |(ran, _)| *ran);
            *self.threads.entry(name).or_default() += ran - had;
        }
        self.clock += began.elapsed().as_secs_f64() * 1e3;
        self.memory = self.memory.max(self.tidegate.memory("VmRSS:"));
        Ok(())
    }
}

fn median(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let place = (values.len().saturating_sub(1) as f64 * share).round() as usize;
    values.get(place).copied().unwrap_or_default()
}

fn report(options: &Options, asked: &[Question], all: &[Measured]) -> String {
    let mut out = format!(
        "{} edge records loaded, seed {}; then 10,000 events a second. Milliseconds: medians of the clock, of processors, \
         and ready without one; the ninth tenth of the clock.\n\n\
         | Question | Binary | at rest | processors | busy | p90 | processors | ready | asked |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|\n",
        options.records, options.seed
    );
    for question in asked {
        for one in all {
            let figures = |of: &BTreeMap<String, Vec<Taken>>, what: fn(&Taken) -> f64, share| {
                median(of.get(&question.name).into_iter().flatten().map(what).collect(), share)
            };
            let _ = writeln!(
                out,
                "| `{}` | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {} |",
                question.name,
                one.name,
                figures(&one.rest, |taken| taken.clock, 0.5),
                figures(&one.rest, |taken| taken.ran, 0.5),
                figures(&one.busy, |taken| taken.clock, 0.5),
                figures(&one.busy, |taken| taken.clock, 0.9),
                figures(&one.busy, |taken| taken.ran, 0.5),
                figures(&one.busy, |taken| taken.waited, 0.5),
                one.busy.get(&question.name).map_or(0, Vec::len),
            );
        }
    }
    for one in all {
        let share = |ran: &f64| 100.0 * ran / one.clock.max(1.0);
        let threads: Vec<String> = one
            .threads
            .iter()
            .filter(|(_, ran)| share(ran) >= 0.5)
            .map(|(name, ran)| format!("{name} {:.0}", share(ran)))
            .collect();
        let rates: Vec<String> = one.sent.iter().map(|(_, rate)| format!("{rate:.0}")).collect();
        let _ = writeln!(
            out,
            "\n- {}: percent of a processor while events came in: {}; {} MB resident at most at the end of a round; events a \
             second: {}.",
            one.name,
            threads.join(", "),
            one.memory >> 20,
            rates.join(", ")
        );
    }
    out
}
