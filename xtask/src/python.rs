//! Python programs with packages of their own, in a virtual environment below the target folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{built, run, say};

/// An interpreter with the packages of a requirements file, made once and again when that file changes.
///
/// # Errors
/// What could not be installed.
pub(crate) fn environment(name: &str, requirements: &Path) -> Result<PathBuf, String> {
    let folder = built()?.join("python").join(name);
    let (python, installed) = (folder.join("bin/python"), folder.join("installed.txt"));
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let wanted = read(requirements)?;
    if python.is_file() && read(&installed).is_ok_and(|before| before == wanted) {
        return Ok(python);
    }
    module()?;
    say(&format!("installing Python packages for {name}: {}", String::from_utf8_lossy(&wanted).replace('\n', " ")));
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(requirements))?;
    std::fs::write(&installed, wanted).map_err(|error| format!("{}: {error}", installed.display()))?;
    Ok(python)
}

/// Debian has the module that makes environments in a package of its own.
fn module() -> Result<(), String> {
    let there = Command::new("python3").args(["-c", "import venv, ensurepip"]).output();
    if there.is_ok_and(|out| out.status.success()) {
        return Ok(());
    }
    apt(&["python3", "python3-venv"])
}

/// Installs packages of the operating system.
///
/// # Errors
/// Where that is not possible; the message says what is missing.
pub(crate) fn apt(packages: &[&str]) -> Result<(), String> {
    let packages_text = packages.join(" ");
    let output = |command: &str, arguments: &[&str]| Command::new(command).args(arguments).output();
    let is_root = output("id", &["-u"]).is_ok_and(|out| out.stdout.starts_with(b"0\n"));
    if !is_root || output("apt-get", &["--version"]).is_err() {
        return Err(format!("please install {packages_text}: that needs root and apt here"));
    }
    say(&format!("installing {packages_text} with apt-get"));
    let install = || run(Command::new("apt-get").args(["install", "--yes", "--no-install-recommends"]).args(packages));
    install().or_else(|_| run(Command::new("apt-get").arg("update")).and_then(|()| install()))
}
