//! Starting a workload in a process of its own, with the recorder in it.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::workload;

/// The exit code of a workload that could not open the store.
pub(crate) const REFUSED: i32 = 3;

/// How long a workload may take before it counts as stuck.
const LONG: Duration = Duration::from_secs(180);

/// The library of the recorder, where cargo leaves it.
pub(crate) fn recorder() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = program.parent().unwrap_or(Path::new("."));
    let name = "libtidegate_recorder.so";
    let places = [folder.join("deps").join(name), folder.join(name)];
    let found = places.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| format!("{name} is not beside {}", program.display()))
}

/// Runs a workload until it ends, and says how.
pub(crate) fn run(root: &Path, record: &Path, seed: u64, fail: Option<&str>) -> Result<Output, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command
        .args(workload::arguments(root, record, seed))
        .env("LD_PRELOAD", recorder()?)
        .env("TIDEGATE_RECORDER_ROOT", root)
        .env("TIDEGATE_RECORDER_FILE", record)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(fail) = fail {
        command.env("TIDEGATE_RECORDER_FAIL", fail).arg("--failing");
    }
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let began = Instant::now();
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if began.elapsed() > LONG {
            let _ = child.kill();
            let out = child.wait_with_output().map_err(|error| error.to_string())?;
            return Err(format!("a workload does not end: {}", String::from_utf8_lossy(&out.stderr)));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().map_err(|error| error.to_string())
}
