//! Whether events survive: power cuts, failing operations and kills, simulated and real.
//!
//! `tests/durability.rs` runs short forms of these commands; `docs/contributing/measurements/durability.md` has the counts of long
//! runs.

#[cfg(target_os = "linux")]
mod chance;
#[cfg(target_os = "linux")]
mod check;
#[cfg(target_os = "linux")]
mod cuts;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod failures;
#[cfg(target_os = "linux")]
mod image;
#[cfg(target_os = "linux")]
mod kills;
#[cfg(target_os = "linux")]
mod known;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod workload;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

/// Power cuts, failing operations and kills.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Records workloads and checks what power cuts leave of them.
    Cuts {
        /// How many cuts.
        #[arg(long, default_value_t = 300)]
        cuts: u64,
        /// The seed of the first cut; each further one has the next number.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Cuts of one process.
        #[arg(long, default_value_t = 100)]
        each: u64,
        /// Processes that follow each other on one folder.
        #[arg(long, default_value_t = 3)]
        generations: u64,
        /// Folders that are worked on at once.
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// An empty folder for the work; what failed stays in it.
        #[arg(long)]
        folder: PathBuf,
    },
    /// Makes one cut again: the folder that a failure named, and its seed.
    Cut {
        folder: PathBuf,
        #[arg(long)]
        seed: u64,
    },
    /// Lets file operations of a workload fail, one after the other, and checks what is there afterwards.
    Failures {
        /// The first operation that fails.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// The last one; the workload ends earlier if it has fewer.
        #[arg(long, default_value_t = 100_000)]
        to: u64,
        /// The distance between two.
        #[arg(long, default_value_t = 1)]
        step: u64,
        /// How many operations in a row fail.
        #[arg(long, default_value_t = 1)]
        run: u64,
        /// EIO, ENOSPC, EDQUOT, short.
        #[arg(long, value_delimiter = ',', default_value = "EIO,ENOSPC,EDQUOT,short")]
        how: Vec<String>,
        /// Which operations are counted, by their tags in a record; all unless told.
        #[arg(long, default_value = "")]
        kinds: String,
        /// The seed of the workload.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Power cuts of each record.
        #[arg(long, default_value_t = 5)]
        cuts: u64,
        #[arg(long, default_value_t = 4)]
        jobs: usize,
        /// An empty folder for the work; what failed stays in it.
        #[arg(long)]
        folder: PathBuf,
    },
    /// Kills the served binary at any moment while clients write to it.
    Kills {
        /// The binary `tidegate`.
        #[arg(long)]
        binary: PathBuf,
        #[arg(long, default_value_t = 100)]
        kills: u64,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Kills on one folder.
        #[arg(long, default_value_t = 20)]
        each: u64,
        /// Power cuts of the record of each server; with 0 it is not recorded.
        #[arg(long, default_value_t = 0)]
        cuts: u64,
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// An empty folder for the work; what failed stays in it.
        #[arg(long)]
        folder: PathBuf,
    },
    /// The process that is recorded.
    #[command(hide = true)]
    Workload {
        root: PathBuf,
        record: PathBuf,
        seed: u64,
        #[arg(long)]
        failing: bool,
    },
}

#[cfg(target_os = "linux")]
fn run(command: Command) -> Result<String, String> {
    match command {
        Command::Cuts { cuts, seed, each, generations, jobs, folder } => {
            cuts::run(&cuts::Options { cuts, seed, each, generations, jobs, folder })
        }
        Command::Cut { folder, seed } => cuts::repeat(&folder, seed).map(|()| "the cut lost nothing".to_owned()),
        Command::Failures { from, to, step, run, how, kinds, seed, cuts, jobs, folder } => {
            failures::run(&failures::Options { from, to, step, run, how, kinds, seed, cuts, jobs, folder })
        }
        Command::Kills { binary, kills, seed, each, cuts, jobs, folder } => {
            kills::run(&kills::Options { binary, kills, seed, each, cuts, jobs, folder })
        }
        Command::Workload { root, record, seed, failing } => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let (requests, steps) = if failing { (5, 6) } else { (8, 7) };
            let options = workload::Options { root, record, seed, requests, steps, failing };
            let done = runtime.map_err(|error| error.to_string())?.block_on(workload::run(options));
            // Without cleaning up, as after a kill; what was closed orderly is closed.
            match done {
                Ok(()) => std::process::exit(0),
                Err(error) => {
                    eprintln!("{error}");
                    std::process::exit(process::REFUSED)
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn run(_: Command) -> Result<String, String> {
    Err("file operations are recorded on Linux only".to_owned())
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
