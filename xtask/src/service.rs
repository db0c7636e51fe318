//! The built service, run for tools that are not tests of cargo's.

use std::ffi::OsString;
use std::fs::{File, create_dir_all, remove_dir_all};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Outcome, built, cargo, root, run, say};

/// The tokens of the service.
pub(crate) const PRIVATE: &str = "private-token-of-the-project-s-tools";
pub(crate) const PUBLIC: &str = "public-token-of-the-project-s-tools";
/// How long it may take to listen.
const START: Duration = Duration::from_secs(60);

/// Builds it.
pub(crate) fn build() -> Outcome {
    say("building the service");
    // All packages are named, so that the dependencies have the features that every build gives them.
    run(cargo(&root()).args(["build", "--workspace", "--locked", "--bin", "tidegate"]))
}

/// A running service; it ends with this value.
pub(crate) struct Service {
    process: Child,
    pub(crate) url: String,
    log: PathBuf,
}

impl Service {
    /// Starts the service that is built on a fresh folder and a free port.
    pub(crate) fn start(folder: &Path) -> Result<Self, String> {
        Self::of(Command::new(built()?.join("tidegate")), folder)
    }

    /// Starts the service as a command runs its program, with the settings in that command's environment, on a fresh
    /// folder and a free port.
    pub(crate) fn of(command: Command, folder: &Path) -> Result<Self, String> {
        if folder.exists() {
            remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        Self::on(command, folder)
    }

    /// The same on a folder that may have been served before.
    pub(crate) fn on(mut command: Command, folder: &Path) -> Result<Self, String> {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        create_dir_all(folder).map_err(told)?;
        let log = folder.join("service.log");
        let file = File::create(&log).map_err(told)?;
        let set: Vec<OsString> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if (text.starts_with("TIDEGATE_") || text.starts_with("LOGFLARE_")) && !set.contains(&name) {
                command.env_remove(&name);
            }
        }
        let process = command
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.join("data"))
            .env("TIDEGATE_PRIVATE_ACCESS_TOKEN", PRIVATE)
            .env("TIDEGATE_PUBLIC_ACCESS_TOKEN", PUBLIC)
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(told)?)
            .stderr(file)
            .spawn()
            .map_err(|error| format!("the service does not start: {error}"))?;
        let mut service = Self { process, url: String::new(), log };
        let began = Instant::now();
        while service.url.is_empty() {
            let said = service.said();
            // A line is read when it is whole: half an address would be another one.
            let whole = said.rsplit_once('\n').map_or("", |(lines, _)| lines);
            if let Some(address) = whole.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next()) {
                service.url = format!("http://{address}");
            } else if began.elapsed() > START || service.process.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Err(format!("the service does not listen:\n{said}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(service)
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    /// What the service wrote so far.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
