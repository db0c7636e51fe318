//! `cargo xtask console`: the console of the built service, in a real browser.
//!
//! The tests stand in `console/tests`. Their packages are installed below the target folder; the browser is the
//! operating system's package `chromium`. Where one of them cannot be had, the step is left out, aloud.

use std::fs::{copy, create_dir_all};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::service::{PRIVATE, Service, build};
use crate::{Outcome, built, python, root, run, say};

/// Where Debian and others put the browser.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Builds the service and tests its console.
pub(crate) fn command() -> Outcome {
    build()?;
    console()
}

/// Tests the console of the service that is built.
pub(crate) fn console() -> Outcome {
    let Some((browser, scripts)) = ready()? else { return Ok(()) };
    let service = Service::start(&built()?.join("console"))?;
    let tested = run(Command::new("node")
        .args(["--test", "--test-reporter=spec"])
        .arg(scripts.join("console.test.mjs"))
        .env("CHROMIUM", browser)
        .env("TIDEGATE_URL", &service.url)
        .env("TIDEGATE_PRIVATE_ACCESS_TOKEN", PRIVATE)
        .env("NO_PROXY", "127.0.0.1"));
    tested.map_err(|error| format!("{error}\nthe service said:\n{}", service.said()))
}

/// Makes pictures of every page, at two widths and in both themes, below the target folder.
pub(crate) fn pictures() -> Outcome {
    build()?;
    let Some((browser, scripts)) = ready()? else { return Ok(()) };
    let to = built()?.join("console-pictures");
    create_dir_all(&to).map_err(|error| format!("{}: {error}", to.display()))?;
    run(Command::new("node")
        .arg(scripts.join("pictures.mjs"))
        .arg(&to)
        .env("CHROMIUM", browser)
        .env("TIDEGATE_BIN", built()?.join("tidegate"))
        .env("NO_PROXY", "127.0.0.1"))?;
    say(&format!("the pictures are in {}", to.display()));
    Ok(())
}

/// The browser, and the folder of the scripts with their packages. None where something is missing that cannot be
/// installed.
fn ready() -> Result<Option<(PathBuf, PathBuf)>, String> {
    let answers = |program: &str| {
        let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    if !answers("node") || !answers("npm") {
        say("Node.js is not installed; the browser tests of the console are left out");
        return Ok(None);
    }
    let installed = || BROWSERS.into_iter().find(|name| answers(name)).map(PathBuf::from);
    let browser = match installed() {
        Some(browser) => Some(browser),
        None => match python::apt(&["chromium"]) {
            Ok(()) => installed(),
            Err(error) => {
                say(&format!("{error}; the browser tests of the console are left out"));
                return Ok(None);
            }
        },
    };
    let Some(browser) = browser.and_then(|name| located(&name)) else {
        say("no browser was found after its installation; the browser tests of the console are left out");
        return Ok(None);
    };
    Ok(Some((browser, scripts()?)))
}

/// The path of a program in the search path.
fn located(name: &Path) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Copies the scripts below the target folder and installs their packages from the lock file.
fn scripts() -> Result<PathBuf, String> {
    let from = root().join("console/tests");
    let to = built()?.join("node/console");
    let told = |error: std::io::Error| format!("{}: {error}", to.display());
    create_dir_all(&to).map_err(told)?;
    let lock = std::fs::read(from.join("package-lock.json")).map_err(told)?;
    let is_installed = std::fs::read(to.join("installed.json")).is_ok_and(|installed| installed == lock);
    for name in [".npmrc", "package.json", "package-lock.json", "browser.mjs", "console.test.mjs", "pictures.mjs"] {
        copy(from.join(name), to.join(name)).map_err(told)?;
    }
    if !is_installed {
        say("installing packages of Node.js: playwright-core and axe-core");
        run(Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(&to))?;
        std::fs::write(to.join("installed.json"), lock).map_err(told)?;
    }
    Ok(to)
}
