//! `cargo xtask fuzz`: libFuzzer with the stable compiler and cargo alone.
//!
//! libFuzzer learns from which code a text reaches. The compiler instruments code for it by plain
//! flags, but flags for all crates would compile the query engine once more and slow it down. So
//! cargo is told to call this program in place of the compiler for the workspace's own crates
//! (`RUSTC_WORKSPACE_WRAPPER`), and it adds the flags for the crates under test. Cargo keeps what a
//! wrapper compiled apart, so that other builds are not disturbed, and uses the same dependencies.

use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;

use crate::{Outcome, built, cargo, root, run, say, this};

/// Set for the calls that come from cargo.
const WRAPPER: &str = "TIDEGATE_FUZZ_COMPILER";
const TARGETS: [&str; 7] = ["sql", "lql", "upload", "doors", "syslog", "plans", "claims"];
/// The crates whose code is to be explored.
const INSTRUMENTED: [&str; 15] = [
    "tidegate_cluster",
    "tidegate_sql",
    "tidegate_lql",
    "tidegate_compiler",
    "tidegate_doors",
    "tidegate_service",
    "tidegate_model",
    "tidegate_fuzz",
    "sql",
    "lql",
    "upload",
    "doors",
    "syslog",
    "plans",
    "claims",
];
const FLAGS: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
];
/// Seconds of a run that nobody told a time, and of the run after the tests.
const SECONDS: u64 = 60;
const BRIEF_SECONDS: u64 = 30;

pub(crate) fn is_compiler() -> bool {
    std::env::var_os(WRAPPER).is_some()
}

/// Calls the compiler that cargo names, with more flags where it compiles a crate under test.
pub(crate) fn compile() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(compiler) = arguments.next() else { return ExitCode::FAILURE };
    let arguments: Vec<_> = arguments.collect();
    let mut after_name = arguments.iter().skip_while(|argument| *argument != "--crate-name").skip(1);
    let name = after_name.next().and_then(|name| name.to_str()).unwrap_or_default();
    let mut command = Command::new(compiler);
    command.args(&arguments);
    if INSTRUMENTED.contains(&name) {
        command.args(FLAGS);
    }
    match command.status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("xtask: {command:?}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// `fuzz TARGET [SECONDS]`
pub(crate) fn command(mut arguments: impl Iterator<Item = String>) -> Outcome {
    let target = arguments.next().unwrap_or_default();
    if !TARGETS.contains(&target.as_str()) {
        return Err(format!("there is no fuzz target {target:?}; there are {}", TARGETS.join(", ")));
    }
    let seconds = match arguments.next() {
        None => SECONDS,
        Some(text) => text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?,
    };
    build()?;
    say(&format!("fuzzing {target} for {seconds} s"));
    run(&mut exploration(&target, seconds)?)
}

/// Each target for a short time: enough to see that it works and finds no new failure near the corpus.
/// It is no part of the tests proper, so a machine without a C++ compiler is told and let go.
pub(crate) fn briefly() -> Outcome {
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    if !Command::new(&compiler).arg("--version").output().is_ok_and(|out| out.status.success()) {
        say(&format!("the fuzz targets are left out: libFuzzer needs a C++ compiler, {}", compiler.display()));
        return Ok(());
    }
    build()?;
    // Each runs on one processor. What they print would be mixed, so it is shown when one has ended.
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    let next = Mutex::new(TARGETS.iter());
    let lane = || {
        let next = || next.lock().ok()?.next();
        std::iter::from_fn(next).try_for_each(|target| {
            let mut command = exploration(target, BRIEF_SECONDS)?;
            let out = command.stderr(Stdio::piped()).output().map_err(|error| format!("{command:?}: {error}"))?;
            say(&format!("fuzzed {target} for {BRIEF_SECONDS} s\n{}", String::from_utf8_lossy(&out.stderr)));
            if out.status.success() { Ok(()) } else { Err(format!("{command:?} ended with {}", out.status)) }
        })
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        let ended = lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|_| Err("fuzzing panicked".to_owned())));
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

fn build() -> Outcome {
    say("building the fuzz targets");
    let this = this()?;
    // All packages are named, so that the dependencies have the features that every build gives them.
    run(cargo(&root())
        .args(["build", "--workspace", "--locked", "--features", "tidegate-fuzz/libfuzzer"])
        .args(TARGETS.iter().flat_map(|target| ["--bin", target]))
        .env("RUSTC_WORKSPACE_WRAPPER", this)
        .env(WRAPPER, "1"))
}

/// The longest input: a text of a few lines, a component of a few functions, a plan of a few operators.
fn longest(target: &str) -> usize {
    if target == "upload" || target == "plans" { 16 << 10 } else { 2 << 10 }
}

/// The command that runs a target. What it finds on the way is kept in the target folder; a text that breaks a promise
/// is left there too, and its path is printed.
fn exploration(target: &str, seconds: u64) -> Result<Command, String> {
    let fuzz = root().join("fuzz");
    let built = built()?;
    let work = built.join("fuzz").join(target);
    let found = work.join("corpus");
    std::fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
    let mut command = Command::new(built.join(target));
    command
        .arg(&found)
        .arg(fuzz.join("corpus").join(target))
        .arg(format!("-dict={}", fuzz.join(format!("{target}.dict")).display()))
        .arg(format!("-artifact_prefix={}/", work.display()))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={}", longest(target)))
        .args(["-timeout=30", "-rss_limit_mb=4096", "-print_final_stats=1", "-verbosity=1"])
        .env("RUST_BACKTRACE", "1");
    Ok(command)
}
