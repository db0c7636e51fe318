//! This program as cargo's runner of test programs. Black-box tests wait for most of their time (for commits, clocks, processes), so
//! twice as many of them run at once as there are processors. Other tests compute, and run as they do without this.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use crate::{this, unwrapped};

/// The first argument with which cargo calls this program; behind it are the test program and its arguments.
pub(crate) const NAME: &str = "test-program";
/// The package of the black-box tests.
const WAITING: &str = "tidegate-tests";
/// What the harness of tests reads.
const THREADS: &str = "RUST_TEST_THREADS";

/// The argument of cargo that makes this program its runner.
pub(crate) fn setting() -> Result<String, String> {
    Ok(format!("target.'cfg(all())'.runner = [{:?}, {NAME:?}]", this()?))
}

/// Becomes the test program.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(program) = arguments.next() else {
        eprintln!("xtask: {NAME} wants a program");
        return ExitCode::FAILURE;
    };
    // A test may compile what is not of this workspace.
    let mut command = unwrapped(Command::new(&program));
    command.args(arguments);
    let is_waiting = std::env::var_os("CARGO_PKG_NAME").is_some_and(|name| name == WAITING);
    if is_waiting && std::env::var_os(THREADS).is_none() {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        command.env(THREADS, (2 * processors).to_string());
    }
    let error = command.exec();
    eprintln!("xtask: {}: {error}", program.display());
    ExitCode::FAILURE
}
