//! `cargo xtask conformance`: does the service do what its OpenAPI document says?
//!
//! The tools that know best are in Python: openapi-spec-validator reads the document, schemathesis
//! makes up requests from it and holds the answers against it. They are installed by name below the
//! target folder, and the service runs on a fresh folder and a free port.

use std::process::Command;

use crate::service::{PRIVATE, Service, build};
use crate::{Outcome, built, python, root, run, say};

/// `conformance [ARGUMENT...]`: builds the service and tries it; the arguments are those of schemathesis.
pub(crate) fn command(arguments: impl Iterator<Item = String>) -> Outcome {
    build()?;
    conformance(arguments)
}

/// Tries the service that is built.
pub(crate) fn conformance(arguments: impl Iterator<Item = String>) -> Outcome {
    let folder = root().join("xtask");
    let python = python::environment("conformance", &folder.join("conformance.txt"))?;
    let place = built()?.join("conformance");
    let service = Service::start(&place)?;
    say("holding the service against its OpenAPI document");
    let tried = run(Command::new(python)
        .arg(folder.join("conformance.py"))
        .args([service.url.as_str(), PRIVATE])
        .args(arguments)
        .env("SCHEMATHESIS_HOOKS", folder.join("conformance_hooks.py"))
        .current_dir(&place));
    tried.map_err(|error| format!("{error}\nthe service said:\n{}", tail(&service.said())))
}

/// The last lines.
fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.lines().rev().take(20).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
