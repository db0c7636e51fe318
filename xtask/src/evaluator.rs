//! `cargo xtask evaluator`: does the dialect answer what the reference evaluator of GoogleSQL answers?
//!
//! The evaluator is a Python package; the comparison and its random statements stand in `tests/evaluator`. Where the
//! package cannot be had, the step is left out, aloud.

use std::process::Command;

use crate::service::{PRIVATE, Service, build};
use crate::{Outcome, built, python, root, run, say};

/// `evaluator [ARGUMENT...]`: builds the service and compares; the arguments are those of `compare.py`.
pub(crate) fn command(arguments: impl Iterator<Item = String>) -> Outcome {
    build()?;
    evaluator(arguments)
}

/// Compares the service that is built.
pub(crate) fn evaluator(arguments: impl Iterator<Item = String>) -> Outcome {
    let folder = root().join("tests/evaluator");
    let python = match python::environment("evaluator", &folder.join("requirements.txt")) {
        Ok(python) => python,
        Err(error) => {
            say(&format!("{error}; the comparison with the reference evaluator is left out"));
            return Ok(());
        }
    };
    let service = Service::start(&built()?.join("evaluator"))?;
    say("comparing answers with those of the reference evaluator");
    run(Command::new(python).arg(folder.join("compare.py")).args([service.url.as_str(), PRIVATE]).args(arguments))
}
