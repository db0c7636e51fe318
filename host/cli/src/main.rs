//! The binary `tidegate`: the service and its tools.

mod access;
mod alert;
mod allocator;
mod author;
mod backup;
mod client;
mod commands;
mod compile;
mod config;
mod damage;
mod demo;
mod explain;
mod import;
mod issuer;
mod outcome;
mod recover;
mod retention;
mod runtime;
mod sample;
mod serve;
mod signals;
mod slow_queries;
mod source;
mod tail;
mod token;
mod worker;

use std::error::Error;
use std::process::{ExitCode, exit};
use std::{io, panic};

use clap::{Parser, Subcommand};

/// Saved SQL over logs as safe HTTP endpoints.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service
    #[command(after_long_help = config::help())]
    Serve(serve::Arguments),
    /// Run the service on a fresh folder with sample logs, and print requests to try
    Demo(demo::Arguments),
    /// Run parts of statements for servers
    Worker(worker::Arguments),
    /// Copy a data folder, also while a server runs in it
    Backup(backup::BackupArguments),
    /// Make a data folder of a copy
    Restore(backup::RestoreArguments),
    /// Tell what retention waits for, and say that it may go on
    Retention(retention::Arguments),
    /// Read everything in a data folder that no server has open, and list what is damaged
    Verify(damage::VerifyArguments),
    /// Set aside what is damaged in a data folder that no server has open, and take back what is whole
    Repair(damage::RepairArguments),
    /// Show the newest rows of an endpoint's table, and then each new one
    Tail(tail::Arguments),
    /// Send files of events to a running server: one JSON object a line
    Import(import::Arguments),
    #[command(flatten)]
    Author(author::Command),
    /// Compile a component for the server that starts this
    #[command(hide = true)]
    CompileComponent(compile::Arguments),
    /// The alerts of an endpoint on a server: their state, their test, their secret
    #[command(subcommand)]
    Alert(alert::Command),
    /// List the slowest queries of the last hour on a server, with what they cost and what workers did
    SlowQueries(slow_queries::Arguments),
    /// Show what a query would read on a server, and what of it workers would do, without running it
    Explain(explain::Arguments),
    /// Make, list and revoke access tokens
    Token(token::Arguments),
    /// Refuse tokens of issuers on a server before they end
    Issuer(issuer::Arguments),
    /// Show which rows and columns of which sources a token reads on a server, or who reads a source
    Access(access::Arguments),
    /// List the sources of a server, and say whose their rows are
    Source(source::Arguments),
    /// Work with the log query language
    #[command(subcommand)]
    Lql(commands::Lql),
    /// Mask personal data in JSON values: one a line from standard input to standard output
    Redact,
}

/// The exit code of a command whose reader is gone, as the shell has it for other programs: 128 and the number of SIGPIPE.
const READER_GONE: i32 = 141;

/// Ends the process without a word where the reader of its output is gone (`tidegate check F | head -1`). Printing panics then.
fn end_with_reader() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>().map(String::as_str).unwrap_or_default();
        if text.starts_with("failed printing to std") && text.contains("Broken pipe") {
            exit(READER_GONE);
        }
        usual(panic);
    }));
}

/// Whether an error comes of a reader of the output that is gone.
fn is_reader_gone(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn main() -> ExitCode {
    allocator::configure();
    let command = Cli::parse().command;
    // A server goes on without a reader of its log.
    if !matches!(command, Command::Serve(_) | Command::Worker(_)) {
        end_with_reader();
    }
    let done = match command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Worker(arguments) => worker::run(arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Backup(arguments) => backup::backup(&arguments),
        Command::Restore(arguments) => backup::restore(&arguments),
        Command::Retention(arguments) => retention::run(&arguments),
        Command::Verify(arguments) => damage::verify(&arguments),
        Command::Repair(arguments) => damage::repair(&arguments),
        Command::Tail(arguments) => tail::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Author(command) => author::run(&command),
        Command::CompileComponent(arguments) => compile::run(&arguments),
        Command::Alert(command) => alert::run(&command),
        Command::SlowQueries(arguments) => slow_queries::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Token(arguments) => token::run(&arguments),
        Command::Issuer(arguments) => issuer::run(&arguments),
        Command::Access(arguments) => access::run(&arguments),
        Command::Source(arguments) => source::run(&arguments),
        Command::Lql(command) => commands::lql(&command),
        Command::Redact => commands::redact(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_reader_gone(&*error) => exit(READER_GONE),
        Err(error) => {
            // The error may quote a component or a server, so control characters are removed.
            eprintln!("tidegate: {}", client::plain(&error.to_string(), 100_000));
            ExitCode::FAILURE
        }
    }
}
