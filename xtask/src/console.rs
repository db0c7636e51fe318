//! `cargo xtask console`: the console of the built service, in a real browser.
//!
//! The tests stand in `console/tests`. Their packages are installed below the target folder; the browser is the
//! operating system's package `chromium`. Where one of them cannot be had, the step is left out, aloud. Those that need no
//! browser, such as those of the editor's completion, need no service either and are a step of their own.

use std::fs::{copy, create_dir_all};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::service::{PRIVATE, Service, build};
use crate::{Outcome, built, python, root, run, say};

/// Where Debian and others put the browser.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Builds the service and tests its console.
pub(crate) fn command() -> Outcome {
    build()?;
    texts()?;
    console()
}

/// Tests the console of the service that is built.
pub(crate) fn console() -> Outcome {
    let Some((browser, scripts)) = ready()? else { return Ok(()) };
    let service = Service::start(&built()?.join("console"))?;
    if !is_built(&service.url)? {
        say("the service was built without the console; its browser tests are left out");
        return Ok(());
    }
    let tested = run(Command::new("node")
        .args(["--test", "--test-reporter=spec"])
        .arg(scripts.join("console.test.mjs"))
        .env("CHROMIUM", browser)
        .env("TIDEGATE_URL", &service.url)
        .env("TIDEGATE_PRIVATE_ACCESS_TOKEN", PRIVATE)
        .env("NO_PROXY", "127.0.0.1"));
    tested.map_err(|error| format!("{error}\nthe service said:\n{}", service.said()))
}

/// Whether the service has the console: a build without Node.js has not.
fn is_built(url: &str) -> Result<bool, String> {
    let address = url.trim_start_matches("http://");
    let told = |error: std::io::Error| format!("{url}/console: {error}");
    let mut stream = TcpStream::connect(address).map_err(told)?;
    let request = format!("GET /console HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(told)?;
    let mut page = String::new();
    stream.read_to_string(&mut page).map_err(told)?;
    Ok(page.contains("/console/assets/"))
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
    if !has_node() {
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

/// Whether a program is installed.
fn answers(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Whether Node.js is installed. Says so if not.
fn has_node() -> bool {
    let has = answers("node") && answers("npm");
    if !has {
        say("Node.js is not installed; the tests of the console are left out");
    }
    has
}

/// The path of a program in the search path.
fn located(name: &Path) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The scripts with a browser, below the target folder, with their packages.
fn scripts() -> Result<PathBuf, String> {
    let names = [".npmrc", "package.json", "package-lock.json", "browser.mjs", "console.test.mjs", "pictures.mjs"];
    installed(&root().join("console/tests"), &built()?.join("node/console"), &names)
}

/// Tests the console without a browser: texts of queries, completion, late answers.
pub(crate) fn texts() -> Outcome {
    if !has_node() {
        return Ok(());
    }
    let names = [".npmrc", "package.json", "package-lock.json", "src", "tests"];
    let folder = installed(&root().join("console"), &built()?.join("node/console-source"), &names)?;
    run(Command::new("node").args(["--test", "--test-reporter=spec", "tests/query.test.mjs"]).current_dir(folder))
}

/// Copies files and folders of a package of Node.js, and installs the packages that it uses from its lock file.
fn installed(from: &Path, to: &Path, names: &[&str]) -> Result<PathBuf, String> {
    let told = |error: std::io::Error| format!("{}: {error}", to.display());
    create_dir_all(to).map_err(told)?;
    let lock = std::fs::read(from.join("package-lock.json")).map_err(told)?;
    let is_installed = std::fs::read(to.join("installed.json")).is_ok_and(|installed| installed == lock);
    for name in names {
        copy_all(&from.join(name), &to.join(name)).map_err(told)?;
    }
    if !is_installed {
        say(&format!("installing packages of Node.js for {}", from.display()));
        run(Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(to))?;
        std::fs::write(to.join("installed.json"), lock).map_err(told)?;
    }
    Ok(to.to_owned())
}

/// Copies a file, or a folder without its packages.
fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return copy(from, to).map(|_| ());
    }
    create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let name = entry?.file_name();
        if name != "node_modules" {
            copy_all(&from.join(&name), &to.join(&name))?;
        }
    }
    Ok(())
}
