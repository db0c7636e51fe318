//! `cargo xtask conformance`: does the service do what its OpenAPI document says?
//!
//! The tools that know best are in Python: openapi-spec-validator reads the document, schemathesis
//! makes up requests from it and holds the answers against it. They are installed by name into a
//! virtual environment under `target`, and the service runs on a fresh folder and a free port.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Outcome, cargo, root, run, say};

/// The packages, in versions that are known to work together.
const PACKAGES: [&str; 3] = ["openapi-spec-validator==0.9.0", "requests==2.34.2", "schemathesis==4.32.5"];
/// The token of the service under test.
const TOKEN: &str = "private-token-of-the-conformance-tests";
/// How long the service may take to listen.
const START: Duration = Duration::from_secs(60);

/// `conformance [ARGUMENT...]`
pub(crate) fn command(arguments: impl Iterator<Item = String>) -> Outcome {
    let folder = root().join("target/conformance");
    let python = environment(&folder.join("venv"))?;
    say("building the service");
    run(cargo(&root()).args(["build", "--locked"]))?;
    let service = Service::start(&folder)?;
    say("holding the service against its OpenAPI document");
    run(Command::new(python)
        .arg(root().join("xtask/conformance.py"))
        .args([&service.base, TOKEN])
        .args(arguments)
        .current_dir(&folder))
}

/// The Python of a virtual environment that has the packages.
fn environment(folder: &Path) -> Result<PathBuf, String> {
    let python = folder.join("bin/python");
    let installed = folder.join("installed");
    if std::fs::read_to_string(&installed).is_ok_and(|text| text == PACKAGES.join(" ")) {
        return Ok(python);
    }
    // A half-made environment would be taken for a whole one.
    let _ = std::fs::remove_dir_all(folder);
    if !make(folder) {
        say("Python cannot make a virtual environment: installing python3-venv");
        let got = run(Command::new("apt-get").args(["install", "--yes", "--no-install-recommends", "python3-venv"]));
        if got.is_err() || !make(folder) {
            return Err(
                "the conformance tests need Python 3 with venv and pip: install them (on Debian: apt-get install \
                        python3-venv), then run this again"
                    .to_owned(),
            );
        }
    }
    say(&format!("installing {} (once)", PACKAGES.join(", ")));
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES))?;
    std::fs::write(&installed, PACKAGES.join(" ")).map_err(|error| format!("{}: {error}", installed.display()))?;
    Ok(python)
}

fn make(folder: &Path) -> bool {
    Command::new("python3").args(["-m", "venv"]).arg(folder).status().is_ok_and(|status| status.success())
}

/// A running service; ended when it is dropped.
struct Service {
    child: Child,
    base: String,
}

impl Service {
    fn start(folder: &Path) -> Result<Self, String> {
        let data = folder.join("data");
        let _ = std::fs::remove_dir_all(&data);
        let told = folder.join("service.log");
        let log = std::fs::File::create(&told).map_err(|error| format!("{}: {error}", told.display()))?;
        let both = log.try_clone().map_err(|error| error.to_string())?;
        // Cargo puts all programs of the workspace beside each other.
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let child = Command::new(this.with_file_name("tidegate"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&data)
            .env("TIDEGATE_PRIVATE_ACCESS_TOKEN", TOKEN)
            .env_remove("TIDEGATE_LOG")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(both)
            .spawn()
            .map_err(|error| format!("the service does not start: {error}"))?;
        let mut service = Self { child, base: String::new() };
        let began = Instant::now();
        while service.base.is_empty() {
            let text = std::fs::read_to_string(&told).unwrap_or_default();
            // A line is read when it is whole.
            let lines = text.rsplit_once('\n').map(|(lines, _)| lines).unwrap_or_default();
            if let Some(address) = lines.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next()) {
                service.base = format!("http://{address}");
            } else if service.child.try_wait().is_ok_and(|status| status.is_some()) || began.elapsed() > START {
                return Err(format!("the service does not listen:\n{text}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(service)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
