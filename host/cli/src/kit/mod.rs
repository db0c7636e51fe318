//! The kit for authors of endpoints: what is done with a folder, before a server has it and to get
//! it there. A file for each command.

pub(crate) mod build;
mod case;
mod check;
mod cost;
mod guest_log;
mod layout;
mod run;
mod test;
mod update;

use clap::{Args, Subcommand};
use std::path::PathBuf;

use crate::serve::Outcome;

/// The commands of the kit, beside the others in the binary's help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check an endpoint folder and everything in it that can be known without logs
    Check(FolderArguments),
    /// Build an endpoint folder into a component
    Build(build::Arguments),
    /// Ask an endpoint once, over sample logs or given ones
    Run(run::Arguments),
    /// Run the cases of endpoint folders: tests/*.json with logs, parameters and the expected answer
    Test(test::Arguments),
}

#[derive(Debug, Args)]
pub(crate) struct FolderArguments {
    /// The endpoint's folder
    pub(crate) folder: PathBuf,
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Check(arguments) => check::run(arguments),
        Command::Build(arguments) => build::run(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Test(arguments) => test::run(arguments),
    }
}
