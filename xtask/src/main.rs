//! The project's own commands, so that a machine with cargo alone can run them all.
//!
//! `cargo xtask test` is what the README and CI call: it installs what is missing, says what it
//! is doing, builds the guests and everything else once, runs every test, real clients, tries the service
//! against its own description, and the fuzz targets briefly. At the end it says how long each step took.

mod audience;
mod bench;
mod clients;
mod conformance;
mod console;
mod dist;
mod evaluator;
mod fuzz;
mod guests;
mod layers;
mod licences;
mod links;
mod notices;
mod parts;
mod python;
mod sbom;
mod service;
mod steps;
mod test_program;
mod workflow;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use crate::steps::Step;

/// The target of guests.
const GUEST_TARGET: &str = "wasm32-unknown-unknown";
/// The version of cargo-component that the guests are known to build with.
const CARGO_COMPONENT: &str = "0.21.1";

const HELP: &str = "\
cargo xtask COMMAND

  test [--only STEP[,STEP]] [--except STEP[,STEP]]
           install what is missing, build everything, run all tests, real clients, the conformance tests,
           and each fuzz target for half a minute; test --help lists the steps
  clients  send logs with real clients (OpenTelemetry for Python and JavaScript, pino) and query them, with JWTs of oidc-provider too
  guests   build the guest endpoints, with cargo, with cargo component and with npm; run the tests of the SDK; pack
           each endpoint, take it through the gate and run its cases
  workflow run the commands of the workflow file for authors on a new endpoint, against a service
  fuzz TARGET [SECONDS]
           feed a fuzz target (sql, lql, upload, doors, syslog, plans, claims) with what it makes up, for a minute or as long as told
  console  try the console of the service in a real browser
  console-pictures
           make pictures of every page of the console, at two widths, dark and light, below the target folder
  conformance [ARGUMENT...]
           try the running service against its own OpenAPI document, with tools in Python; arguments are
           handed to schemathesis
  evaluator [ARGUMENT...]
           compare answers of the dialect with those of the reference evaluator of GoogleSQL: the examples of
           docs/dialect.md and random statements; --random COUNT, --seed SEED, --number NUMBER, files of statements
  lint [--only STEP[,STEP]] [--except STEP[,STEP]]
           formatting and clippy, warnings denied, of host and guests; licences, bans and sources of all
           dependencies (deny.toml); no import circles between files; no links of documents that lead nowhere;
           lint --help lists the steps
  bench peers [--records N] [--questions A,B] [--state fresh|busy] [--bin PATH] [OPTION...]
           load generated records into the service and into DuckDB, chDB and PostgreSQL, ask all of them the same
           questions, compare the answers, and report the times; bench peers --help lists the options
  bench ingest [--connections N] [--events N] [--seconds N] [--rate N] [--bin PATH] [OPTION...]
           send generated records to the service and report events a second, what they cost, and how long they take
  bench busy|follow|week|workers [OPTION...]
           what questions take while events come in, what followed queries cost, whether a week changes anything, what a
           remote stage costs; each with --help
  dist [--profile NAME]
           build the service for others to install, with the profile dist unless told: an archive with the
           configuration, the systemd unit, the licences of what is linked in, and a list of its parts (SBOM)";

type Outcome = Result<(), String>;

fn main() -> ExitCode {
    // Asked before anything is built; see there.
    let _ = this();
    if fuzz::is_compiler() {
        return fuzz::compile();
    }
    if std::env::args_os().nth(1).is_some_and(|command| command == test_program::NAME) {
        return test_program::run(std::env::args_os().skip(2));
    }
    let command = std::env::args().nth(1);
    let began = Instant::now();
    let done = match command.as_deref() {
        Some("test") => steps::command("test", &TEST, std::env::args().skip(2)),
        Some("guests") => tools().and_then(|()| guests::command()),
        Some("workflow") => tools().and_then(|()| service::build()).and_then(|()| workflow::workflow()),
        Some("clients") => clients::command(),
        Some("fuzz") => fuzz::command(std::env::args().skip(2)),
        Some("console") => console::command(),
        Some("console-pictures") => console::pictures(),
        Some("conformance") => conformance::command(std::env::args().skip(2)),
        Some("evaluator") => evaluator::command(std::env::args().skip(2)),
        Some("lint") => steps::command("lint", &LINT, std::env::args().skip(2)),
        Some("bench") => bench::command(std::env::args().skip(2)),
        Some("dist") => dist::command(std::env::args().skip(2)),
        _ => {
            println!("{HELP}");
            return if matches!(command.as_deref(), None | Some("--help" | "-h" | "help")) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            };
        }
    };
    match done {
        Ok(()) => {
            say(&format!("done in {} s", began.elapsed().as_secs()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What `cargo xtask test` does.
const TEST: [Step; 14] = [
    Step { name: "tools", what: "install what is missing: the guests' target and tools", after: &[], run: tools },
    Step { name: "guests", what: "build the guest endpoints", after: &["tools"], run: guests::build },
    Step { name: "sdk", what: "the tests of the SDK and of the endpoints in Rust", after: &[], run: guests::tests },
    Step { name: "build", what: "build the host: the first time, this takes some minutes", after: &[], run: build },
    Step { name: "tests", what: "all tests of the host", after: &["guests", "build"], run: tests },
    Step { name: "runtime", what: "the runtime's tests of the built guests", after: &["guests"], run: runtime },
    Step { name: "cases", what: "the cases of every endpoint", after: &["guests", "build"], run: guests::cases },
    Step {
        name: "workflow",
        what: "the workflow file for authors",
        after: &["tools", "build"],
        run: workflow::workflow,
    },
    Step { name: "clients", what: "real clients", after: &["build"], run: clients::clients },
    Step {
        name: "editor",
        what: "what the console makes of queries, without a browser",
        after: &[],
        run: console::texts,
    },
    Step { name: "console", what: "the console in a real browser", after: &["build"], run: console::console },
    Step {
        name: "conformance",
        what: "the service against its own OpenAPI document",
        after: &["build"],
        run: || conformance::conformance(std::iter::empty()),
    },
    Step {
        name: "evaluator",
        what: "the dialect against the reference evaluator of GoogleSQL",
        after: &["build"],
        run: || evaluator::evaluator(std::iter::empty()),
    },
    Step { name: "fuzz", what: "each fuzz target for half a minute", after: &[], run: fuzz::briefly },
];

/// What `cargo xtask lint` does.
const LINT: [Step; 8] = [
    Step { name: "format", what: "the formatting of host and guests", after: &[], run: format },
    Step { name: "licences", what: "licences, bans and sources of all dependencies", after: &[], run: licences::check },
    Step {
        name: "layers",
        what: "no import circles between the files and folders of a crate",
        after: &[],
        run: layers::check,
    },
    Step { name: "audience", what: "who reads the rows of all tenants", after: &[], run: audience::check },
    Step { name: "links", what: "no links between documents that lead nowhere", after: &[], run: links::check },
    Step { name: "clippy", what: "clippy on the host", after: &[], run: clippy },
    Step { name: "guests", what: "clippy on the guests", after: &[], run: clippy_guests },
    Step { name: "book", what: "the book of the SDK", after: &[], run: book },
];

fn build() -> Outcome {
    run(cargo(&root()).args(["build", "--workspace", "--all-targets", "--locked"]))
}

fn tests() -> Outcome {
    // The black-box tests find the built guests here. Who reads of one failure reads of all.
    run(cargo(&root())
        .args(["--config", &test_program::setting()?, "test", "--workspace", "--locked", "--no-fail-fast"])
        .env("TIDEGATE_GUESTS", guests::built()))
}

fn runtime() -> Outcome {
    // Ignored where the guests are not built. The same packages as before, so that nothing is compiled anew.
    let guest = |name: &str| guests::built().join(name).display().to_string();
    run(cargo(&root())
        .args(["test", "--workspace", "--locked", "--test", "it", "guests::", "--", "--ignored"])
        .env(
            "TIDEGATE_EDGE_METHODS",
            [guest("edge-methods.cargo.wasm"), guest("edge-methods.component.wasm")].join(":"),
        )
        .env("TIDEGATE_HOSTILE", guest("hostile.wasm")))
}

fn format() -> Outcome {
    run(cargo(&root()).args(["fmt", "--all", "--check"]))?;
    run(cargo(&guests::folder()).args(["fmt", "--all", "--check"]))
}

fn clippy() -> Outcome {
    run(cargo(&root()).args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
}

fn clippy_guests() -> Outcome {
    let guests = guests::folder();
    target()?;
    run(cargo(&guests).args(["clippy", "--release", "--locked", "--target", GUEST_TARGET, "--", "-D", "warnings"]))?;
    run(cargo(&guests).args([
        "clippy",
        "--workspace",
        "--exclude",
        "hostile",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))
}

fn book() -> Outcome {
    run(cargo(&guests::folder())
        .args(["doc", "--no-deps", "--locked", "-p", "tidegate-sdk", "--features", "adhoc"])
        .env("RUSTDOCFLAGS", "-D warnings"))
}

/// Installs what the guests need.
fn tools() -> Outcome {
    target()?;
    let there = Command::new("cargo").args(["component", "--version"]).output().is_ok_and(|out| out.status.success());
    test_programs();
    if !there {
        say(&format!("installing cargo-component {CARGO_COMPONENT} (once, some minutes)"));
        // Not optimised: it builds small components, and takes less than half of the time to compile.
        run(unwrapped(Command::new("cargo"))
            .args(["install", "cargo-component", "--version", CARGO_COMPONENT, "--locked", "--debug"])
            .env("CARGO_PROFILE_DEV_DEBUG", "false"))?;
    }
    Ok(())
}

/// Programs that some tests of the host use, each with an argument with which it does nothing, and its package. Such a test is
/// left out, aloud, where its program cannot be had.
const TEST_PROGRAMS: [(&str, &str, &str); 4] = [
    // Plays slow clients.
    ("slowhttptest", "-h", "slowhttptest"),
    // Lets syncs fail.
    ("strace", "--version", "strace"),
    // Lets writes fail.
    ("prlimit", "--version", "util-linux"),
    // Sends a journal.
    ("/usr/lib/systemd/systemd-journal-upload", "--version", "systemd-journal-remote"),
];

fn test_programs() {
    for (program, argument, package) in TEST_PROGRAMS {
        if Command::new(program).arg(argument).output().is_err()
            && let Err(error) = python::apt(&[package])
        {
            say(&format!("{error}; the tests with {program} are left out"));
        }
    }
}

fn target() -> Outcome {
    let installed = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let there =
        installed.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).lines().any(|line| line == GUEST_TARGET));
    if there {
        return Ok(());
    }
    say(&format!("installing the target {GUEST_TARGET}"));
    run(Command::new("rustup").args(["target", "add", GUEST_TARGET]))
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The path of this program. A build of everything may put another program of the same name there, and the system then
/// calls the path of this one deleted; the other one does the same.
fn this() -> Result<PathBuf, String> {
    static THIS: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    THIS.get_or_init(|| std::env::current_exe().map_err(|error| error.to_string())).clone()
}

/// Where cargo leaves programs, this one among them.
fn built() -> Result<PathBuf, String> {
    let this = this()?;
    this.parent().map(PathBuf::from).ok_or_else(|| format!("{} lies nowhere", this.display()))
}

/// Cargo, as if it were called by hand. It told this program of its own package in the environment, and build
/// scripts that look there (ring's) would compile anew, with all that uses them, each time that calls by hand and
/// from here take turns.
fn cargo(folder: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(folder);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    if folder != root() { unwrapped(command) } else { command }
}

/// Without the compiler that CI puts in the place of the usual one for the crates of this workspace (clippy, `.ci/run`): those of
/// others have warnings of their own.
fn unwrapped(mut command: Command) -> Command {
    command.env_remove("RUSTC_WORKSPACE_WRAPPER");
    command
}

fn say(what: &str) {
    println!("xtask: {what}");
}

/// What a command writes to standard output.
fn output(command: &mut Command) -> Result<String, String> {
    let out = command.stderr(Stdio::inherit()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if !out.status.success() {
        return Err(format!("{command:?} ended with {}", out.status));
    }
    String::from_utf8(out.stdout).map_err(|error| format!("{command:?}: {error}"))
}

fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_called_as_if_by_hand() {
        // Cargo tells tests of their package too.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && std::env::var_os("CARGO_PKG_NAME").is_some());
        let command = cargo(&root());
        let removed =
            |command: &Command, name: &str| command.get_envs().any(|(known, value)| known == name && value.is_none());
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR"] {
            assert!(removed(&command, name), "{name}");
        }
        let wrapper = "RUSTC_WORKSPACE_WRAPPER";
        assert!(!removed(&command, wrapper) && removed(&cargo(&guests::folder()), wrapper));
    }
}
