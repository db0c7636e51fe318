//! Toolchains of authors: what they built is found, and what they lack is said.

use std::error::Error;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tidegate_compiler::Build;

/// The target of endpoints: the one without a system interface.
const TARGET: &str = "wasm32-unknown-unknown";

/// Builds a folder with cargo and says where its module is. Cargo's own output goes to standard
/// error as it comes.
///
/// # Errors
/// Cargo or the target is missing; the build fails; the package is no library that can be loaded.
pub(super) fn cargo(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    // Before anything is compiled: cargo finds it out only after minutes, when the macros are built.
    if let Some(told) = missing_target(folder) {
        return Err(told.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(&cargo)
        .args(["build", "--release", "--target", TARGET, "--message-format=json-render-diagnostics"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound if folder.is_dir() => {
                "cargo is not there: endpoints in Rust are built with it (https://rustup.rs), or elsewhere and named with --module".into()
            }
            _ => format!("cargo cannot be started in {}: {error}", folder.display()),
        })?;
    let manifest = std::fs::canonicalize(folder.join("Cargo.toml"))?;
    let mut built = None;
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines() {
            built = module_of(&line?, &manifest).or(built);
        }
    }
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("cargo build ended with {status} in {}; its messages are above", folder.display()).into());
    }
    built.ok_or_else(|| {
        format!(
            "{} builds no module: an endpoint is a library of crate-type \"cdylib\"\n  [lib]\n  crate-type = [\"cdylib\"]",
            folder.join("Cargo.toml").display()
        )
        .into()
    })
}

/// The module that a line of cargo's output tells of, if it is that package's.
fn module_of(line: &str, manifest: &Path) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message.get("reason")?.as_str()? != "compiler-artifact" {
        return None;
    }
    let kinds = message.get("target")?.get("kind")?.as_array()?;
    let of_package = Path::new(message.get("manifest_path")?.as_str()?) == manifest;
    if !of_package || !kinds.iter().any(|kind| kind == "cdylib") {
        return None;
    }
    let files = message.get("filenames")?.as_array()?.iter().filter_map(Value::as_str);
    files.map(PathBuf::from).find(|file| file.extension().is_some_and(|kind| kind == "wasm"))
}

/// What to do about the target's standard library, where it is surely not there. The compiler says where
/// it would be, with or without rustup; the folder may choose another toolchain than the one around it.
fn missing_target(folder: &Path) -> Option<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let answer = |program: &OsStr, arguments: &[&str]| {
        let out = Command::new(program).args(arguments).current_dir(folder).stdin(Stdio::null()).output().ok()?;
        let path = PathBuf::from(String::from_utf8_lossy(&out.stdout).trim());
        (out.status.success() && path.is_absolute()).then_some(path)
    };
    let library = answer(&rustc, &["--print", "target-libdir", "--target", TARGET])?;
    if has_core(&library) {
        return None;
    }
    let sysroot = answer(&rustc, &["--print", "sysroot"])?;
    let of_rustup = answer(OsStr::new("rustup"), &["which", "rustc"]).is_some_and(|rustc| rustc.starts_with(&sysroot));
    let toolchain = sysroot.file_name().and_then(OsStr::to_str).filter(|_| of_rustup);
    let way = match toolchain {
        Some(name) => format!("rustup target add --toolchain {name} {TARGET}"),
        None => format!(
            "install the system's package with Rust's standard library for it (libstd-rust-dev-wasm32 in Debian, \
             rust-std-static-{TARGET} in Fedora), or Rust with rustup (https://rustup.rs)"
        ),
    };
    Some(format!(
        "the target {TARGET} is not installed in {}:\n  {way}\nWhat was built elsewhere is named with --module.",
        sysroot.display()
    ))
}

/// Whether a folder has the first part of a standard library.
fn has_core(folder: &Path) -> bool {
    let is_core = |name: &str| name.starts_with("libcore-") && name.ends_with(".rlib");
    std::fs::read_dir(folder)
        .is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name().to_str().is_some_and(is_core)))
}

/// Runs the command of `[build]` and says where its module is.
///
/// # Errors
/// The command is missing or fails; it leaves no module.
pub(super) fn command(folder: &Path, build: &Build) -> Result<PathBuf, Box<dyn Error>> {
    if let Some((program, arguments)) = build.command.split_first() {
        let status = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            // Standard output is this program's.
            .stdout(std::io::stderr())
            .status()
            .map_err(|error| {
                format!("[build] command: {program} cannot be started in {}: {error}", folder.display())
            })?;
        if !status.success() {
            return Err(format!("[build] command: {program} ended with {status}; its messages are above").into());
        }
    }
    let module = folder.join(&build.module);
    if module.is_file() {
        return Ok(module);
    }
    let after = if build.command.is_empty() { "; build it first" } else { " after the command of [build] ran" };
    Err(format!("{} is not there{after}", module.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_of_the_package_is_found_among_the_messages() {
        let line = |reason: &str, kind: &str, manifest: &str, file: &str| {
            format!(
                r#"{{"reason":"{reason}","manifest_path":"{manifest}","target":{{"kind":["{kind}"]}},"filenames":["{file}"]}}"#
            )
        };
        let found = |line: &str| module_of(line, Path::new("/e/Cargo.toml"));
        let own = line("compiler-artifact", "cdylib", "/e/Cargo.toml", "/e/target/e.wasm");
        assert_eq!(found(&own), Some(PathBuf::from("/e/target/e.wasm")));
        for other in [
            line("compiler-artifact", "cdylib", "/e/sdk/Cargo.toml", "/e/target/sdk.wasm"),
            line("compiler-artifact", "lib", "/e/Cargo.toml", "/e/target/e.rlib"),
            line("build-finished", "cdylib", "/e/Cargo.toml", "/e/target/e.wasm"),
            "no json".to_owned(),
        ] {
            assert_eq!(found(&other), None, "{other}");
        }
    }
}
