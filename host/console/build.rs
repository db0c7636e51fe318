//! Builds the console with Node.js into the target folder, and lists its files for the crate to embed.
//!
//! Nothing is written into the source tree, which may be read-only. Packages come from the lock file (`npm ci`). Without
//! Node.js, or with `TIDEGATE_CONSOLE=off`, the list is empty; with `TIDEGATE_CONSOLE=required`, that is an error.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// What the build of the console reads.
const INPUTS: [&str; 8] = [
    ".npmrc",
    "index.html",
    "openapi.json",
    "package-lock.json",
    "package.json",
    "src",
    "tsconfig.json",
    "vite.config.ts",
];

fn main() -> Result<(), Box<dyn Error>> {
    let from = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../console");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", from.join(input).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TIDEGATE_CONSOLE");
    let wanted = env::var("TIDEGATE_CONSOLE").unwrap_or_default();
    if wanted == "off" {
        return list(&out, None);
    }
    let missing = match prepare(&from, &out) {
        Ok(folder) => {
            // Packages are there, so what fails now is the console itself: a type that does not fit the interface, say.
            run(npm(&folder).args(["run", "--silent", "build"]))?;
            return list(&out, Some(&folder.join("dist")));
        }
        Err(missing) => missing,
    };
    if wanted == "required" {
        return Err(missing.into());
    }
    // A warning is one line.
    let missing: String = missing.lines().collect::<Vec<_>>().join(" | ").chars().take(400).collect();
    println!("cargo::warning=the console is left out of this build: {missing}");
    list(&out, None)
}

/// Copies the sources of the console into the target folder and installs its packages there.
fn prepare(from: &Path, out: &Path) -> Result<PathBuf, String> {
    let node = Command::new("node").arg("--version").output().map_err(|_| "Node.js is not installed".to_owned())?;
    let version = String::from_utf8_lossy(&node.stdout).trim().to_owned();
    if !is_new_enough(&version) {
        return Err(format!("Node.js is {version}; 20.19, 22.12 or newer is needed"));
    }
    let folder = out.join("console");
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let lock = fs::read(from.join("package-lock.json")).map_err(told)?;
    let is_installed = fs::read(folder.join("installed.json")).is_ok_and(|installed| installed == lock);
    fs::create_dir_all(&folder).map_err(told)?;
    let _ = fs::remove_dir_all(folder.join("src"));
    for input in INPUTS {
        copy(&from.join(input), &folder.join(input)).map_err(told)?;
    }
    if !is_installed {
        let mut install = npm(&folder);
        install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"]);
        // Without a network, a build shall not wait for minutes.
        install.args(["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000"]);
        run(&mut install).map_err(|error| format!("its packages cannot be installed ({error})"))?;
        fs::write(folder.join("installed.json"), lock).map_err(told)?;
    }
    Ok(folder)
}

/// Whether a version of Node.js, such as `v20.19.2`, is one that the tools of the console run on.
fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (22, 12) || (version.0 == 20 && version >= (20, 19))
}

fn npm(folder: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(folder);
    npm
}

/// Runs a command, and returns the end of what it said if it fails.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("npm: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.len().saturating_sub(30);
    Err(format!("npm ended with {}:\n{}", output.status, lines.get(last..).unwrap_or_default().join("\n")))
}

/// Copies a file, or a folder with all that is in it. The copies can be written, whatever the originals are.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return fs::write(to, fs::read(from)?);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Writes the list of files as an expression of Rust. `built` has the page, and its assets with their compressed twins.
fn list(out: &Path, built: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let mut names = Vec::new();
    if let Some(built) = built {
        names.extend(["index.html", "licenses.md"].map(|name| built.join(name)));
        for entry in fs::read_dir(built.join("assets"))? {
            names.push(entry?.path());
        }
    }
    names.retain(|path| path.extension().is_none_or(|extension| extension != "gz" && extension != "br"));
    names.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    let mut text = "&[\n".to_owned();
    for path in names {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let content_type = match path.extension().and_then(|extension| extension.to_str()) {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("md") => "text/markdown; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "application/octet-stream",
        };
        let twin = |extension: &str| format!("{}.{extension}", path.display());
        let (gzip, brotli) = (twin("gz"), twin("br"));
        text.push_str(&format!(
            "    File {{ name: {name:?}, content_type: {content_type:?}, gzip: include_bytes!({gzip:?}), brotli: include_bytes!({brotli:?}) }},\n"
        ));
    }
    text.push(']');
    fs::write(out.join("files.rs"), text)?;
    Ok(())
}
