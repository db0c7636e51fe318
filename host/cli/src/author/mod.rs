//! The commands for authors of endpoints, which work on the folder of an endpoint: make, check, build, run and test it,
//! and exchange it with a server. There is a file for each command.

pub(crate) mod build;
mod case;
mod check;
mod cost;
mod expect;
mod guest_log;
mod json_diff;
mod new;
mod pack;
mod pack_file;
pub(crate) mod packs;
mod pull;
mod push;
mod rollback;
mod run;
mod sdk;
mod test;
mod toolchain;
mod update;
mod versions;

use clap::{Args, Subcommand};
use std::path::PathBuf;

use crate::outcome::Outcome;

/// The commands for authors, beside the others in the binary's help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make the folder of a new endpoint, which builds, tests and runs at once
    New(new::Arguments),
    /// Check an endpoint folder and everything in it that can be known without logs
    Check(check::Arguments),
    /// Build an endpoint folder into a component
    Build(build::Arguments),
    /// Ask an endpoint once, over sample logs or given ones
    Run(run::Arguments),
    /// Run the cases of endpoint folders: tests/*.json with logs, parameters and the expected answer
    Test(test::Arguments),
    /// Build an endpoint folder and save it on a server, as a new version
    Push(push::Arguments),
    /// Write the folder of an endpoint that a server has
    Pull(pull::Arguments),
    /// List the versions of an endpoint
    Versions(versions::Arguments),
    /// Make an earlier version of an endpoint the newest
    Rollback(rollback::Arguments),
    /// Put endpoints that belong together on a server
    #[command(subcommand)]
    Pack(pack::Command),
    /// Write the SDK of this program into the folder of an endpoint in Rust, new or in place of another
    Sdk(FolderArguments),
}

#[derive(Debug, Args)]
pub(crate) struct FolderArguments {
    /// The endpoint's folder
    pub(crate) folder: PathBuf,
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::New(arguments) => new::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Build(arguments) => build::run(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Test(arguments) => test::run(arguments),
        Command::Push(arguments) => push::run(arguments),
        Command::Pull(arguments) => pull::run(arguments),
        Command::Versions(arguments) => versions::run(arguments),
        Command::Rollback(arguments) => rollback::run(arguments),
        Command::Pack(command) => pack::run(command),
        Command::Sdk(arguments) => sdk::run(arguments),
    }
}
