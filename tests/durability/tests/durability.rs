//! Short forms of the runs that `docs/contributing/measurements/durability.md` reports. What they do is in `src/`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

use std::process::Command;

/// Runs a command in a fresh folder, in memory where that is possible. The folder of a failure stays.
fn run(arguments: &[&str]) {
    let memory = std::path::Path::new("/dev/shm");
    let builder = tempfile::Builder::new();
    let folder = if memory.is_dir() { builder.tempdir_in(memory) } else { builder.tempdir() };
    let folder = folder.unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_tidegate-durability"))
        .args(arguments)
        .arg("--folder")
        .arg(folder.path())
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&out.stdout);
    println!("{report}");
    if !out.status.success() {
        let kept = folder.keep();
        assert!(out.status.success(), "see {}: {}{report}", kept.display(), String::from_utf8_lossy(&out.stderr));
    }
}

#[test]
fn power_cuts_lose_nothing() {
    run(&["cuts", "--cuts", "300", "--each", "60", "--seed", "20260101"]);
}

#[test]
fn operations_that_fail_lose_nothing() {
    run(&["failures", "--how", "EIO,ENOSPC,EDQUOT,short", "--from", "17", "--to", "300", "--step", "61"]);
}

/// A sync that failed once is not believed when it succeeds later.
#[test]
fn syncs_that_fail_lose_nothing() {
    run(&["failures", "--how", "EIO", "--kinds", "s", "--from", "3", "--to", "80", "--step", "11", "--cuts", "20"]);
}
