//! The guest endpoints: built as their authors do, in each way that authors have, then packed, taken through the gate, and
//! tried with their own cases.
//!
//! The endpoints are the folders that have an `endpoint.toml`; a new one is found by itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{GUEST_TARGET, Outcome, cargo, root, run, say};

/// The endpoint in JavaScript, and the one in Rust that it is the same as.
const JAVASCRIPT: &str = "edge-methods-js";
const ALSO_WITH_COMPONENT: &str = "edge-methods";

/// Builds, and tries each endpoint with a `tidegate` that is built for it.
pub(crate) fn command() -> Outcome {
    build()?;
    tests()?;
    say("building tidegate");
    // With the features of the whole workspace, as `cargo xtask test` builds it: alone, the query engine would be compiled again.
    run(cargo(&root()).args(["build", "--workspace", "--locked", "--bin", "tidegate"]))?;
    cases()?;
    crate::workflow::workflow()
}

/// Builds the guests: all in Rust with cargo, one of them also with cargo component, and one in JavaScript.
pub(crate) fn build() -> Outcome {
    let folder = folder();
    say("building the guests with cargo");
    run(cargo(&folder).args(["build", "--release", "--locked", "--target", GUEST_TARGET]))?;
    say("building edge-methods with cargo component");
    run(cargo(&folder.join(ALSO_WITH_COMPONENT))
        .args(["component", "build", "--release", "--locked", "--target", GUEST_TARGET])
        .env("CARGO_TARGET_DIR", folder.join("target/component")))?;
    let built = built();
    std::fs::create_dir_all(&built).map_err(|error| format!("{}: {error}", built.display()))?;
    for (from, to) in [
        (module(&folder.join("target"), "edge-methods"), "edge-methods.cargo.wasm"),
        (module(&folder.join("target/component"), "edge-methods"), "edge-methods.component.wasm"),
        (module(&folder.join("target"), "hostile"), "hostile.wasm"),
        (module(&folder.join("target"), "incident-context"), "incident-context.wasm"),
    ] {
        std::fs::copy(&from, built.join(to)).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    if npm() {
        say("building edge-methods-js with npm (the first time, this downloads a JavaScript engine)");
        let folder = folder.join(JAVASCRIPT);
        // Not `npm ci`: it wants the lock file to have the optional packages of every platform, which not every
        // registry has.
        run(Command::new("npm").args(["install", "--no-save", "--no-audit", "--no-fund"]).current_dir(&folder))?;
        run(Command::new("npm").args(["run", "build"]).current_dir(&folder))?;
    }
    Ok(())
}

/// The tests of the SDK, every snippet of its documentation, and those of the endpoints' own logic: natively.
pub(crate) fn tests() -> Outcome {
    say("running the tests of the SDK and of the endpoints in Rust");
    // What the hostile guest does can only be done in WebAssembly.
    run(cargo(&folder()).args(["test", "--workspace", "--exclude", "hostile", "--locked"]))?;
    run(cargo(&folder()).args(["test", "--locked", "-p", "tidegate-sdk", "--features", "adhoc"]))
}

/// Checks, packs and tries each endpoint, with the `tidegate` that is there.
pub(crate) fn cases() -> Outcome {
    let tidegate = crate::built()?.join("tidegate");
    let folder = folder();
    let mut endpoints = Vec::new();
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.join("endpoint.toml").is_file() {
            endpoints.push(path);
        }
    }
    endpoints.sort();
    for endpoint in &endpoints {
        let name = endpoint.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        run(Command::new(&tidegate).arg("check").arg(endpoint))?;
        for module in modules(endpoint, name) {
            attempt(&tidegate, endpoint, name, module.as_deref())?;
        }
    }
    Ok(())
}

/// What was built of an endpoint: nothing where its query is all of it.
fn modules(endpoint: &Path, name: &str) -> Vec<Option<PathBuf>> {
    let target = folder().join("target");
    if name == JAVASCRIPT {
        if npm() {
            return vec![Some(endpoint.join("dist/endpoint.wasm"))];
        }
        say("npm is not there: the endpoint in JavaScript is left out");
        return Vec::new();
    }
    if !endpoint.join("Cargo.toml").is_file() {
        return vec![None];
    }
    let mut modules = vec![Some(module(&target, name))];
    if name == ALSO_WITH_COMPONENT {
        modules.push(Some(module(&target.join("component"), name)));
    }
    modules
}

/// Packs one, which takes it through the gate, and runs its cases if it has some.
fn attempt(tidegate: &Path, endpoint: &Path, name: &str, module: Option<&Path>) -> Outcome {
    let with_module = |command: &str| {
        let mut tidegate = Command::new(tidegate);
        tidegate.arg(command).arg(endpoint);
        if let Some(module) = module {
            tidegate.arg("--module").arg(module);
        }
        tidegate
    };
    run(with_module("build").arg("-o").arg(built().join(format!("{name}.packed.wasm"))))?;
    if endpoint.join("tests").is_dir() {
        run(&mut with_module("test"))?;
    }
    Ok(())
}

/// The module that cargo makes of an endpoint.
fn module(target: &Path, name: &str) -> PathBuf {
    target.join(GUEST_TARGET).join("release").join(format!("{}.wasm", name.replace('-', "_")))
}

fn npm() -> bool {
    Command::new("npm").arg("--version").output().is_ok_and(|out| out.status.success())
}

/// The workspace of the guests.
pub(crate) fn folder() -> PathBuf {
    root().join("guest-endpoints")
}

/// Where the built guests are collected.
pub(crate) fn built() -> PathBuf {
    folder().join("target/built")
}
