//! `cargo xtask dist`: the service as others install it, one archive with all that belongs to it.
//!
//! The program is stripped and linked as a whole (the profile `dist`). The same sources make the same
//! archive: entries have one order, one owner, and the time of the last commit.

use std::path::Path;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use crate::{Outcome, cargo, notices, output, parts, root, run, say, sbom};

const PROFILE: &str = "dist";
/// What stands in the archive as it stands in the project.
const FILES: [(&str, &str); 5] = [
    ("LICENSE", "LICENSE"),
    ("packaging/tidegate.service", "tidegate.service"),
    ("packaging/tidegate.toml", "tidegate.toml"),
    ("packaging/prometheus-alerts.yml", "prometheus-alerts.yml"),
    ("packaging/grafana-dashboard.json", "grafana-dashboard.json"),
];

/// `dist [--profile NAME]`
pub(crate) fn command(arguments: impl Iterator<Item = String>) -> Outcome {
    let arguments: Vec<String> = arguments.collect();
    let profile = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => PROFILE,
        ["--profile", name] => name,
        _ => return Err("cargo xtask dist [--profile NAME]".to_owned()),
    };
    let platform = platform()?;
    say("collecting the parts and their licences");
    let parts = parts::of_service(&platform)?;
    let version = parts.first().map(|part| part.version.clone()).unwrap_or_default();
    let seconds = time()?;
    let time = i64::try_from(seconds).ok().and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0));
    let time = time.ok_or_else(|| format!("{seconds} is no time"))?.to_rfc3339();
    let list = serde_json::to_vec_pretty(&sbom::document(&parts, &time)).map_err(|error| error.to_string())?;
    let notices = notices::notices(&parts)?;
    say(&format!("building the service with the profile {profile} (dist links it as a whole, which takes long)"));
    // What is packaged has the console, unless the caller leaves it out.
    let console = std::env::var("TIDEGATE_CONSOLE").unwrap_or_else(|_| "required".to_owned());
    let mut build = cargo(&root());
    build.args(["build", "--locked", "-p", "tidegate", "--profile", profile]).env("TIDEGATE_CONSOLE", &console);
    run(&mut build)?;
    let target = crate::built()?.parent().map(Path::to_owned).unwrap_or_default();
    // The profile `dev` is the one whose folder has another name.
    let program = target.join(if profile == "dev" { "debug" } else { profile }).join("tidegate");
    let mut items = vec![
        Item { name: "tidegate", mode: 0o755, bytes: read(&program)? },
        Item { name: "tidegate.cdx.json", mode: 0o644, bytes: list.clone() },
        Item { name: "THIRD-PARTY-LICENSES.txt", mode: 0o644, bytes: notices.into_bytes() },
    ];
    if console != "off" {
        let folder = target.join(if profile == "dev" { "debug" } else { profile });
        items.push(Item { name: "CONSOLE-LICENSES.md", mode: 0o644, bytes: console_licences(&folder)? });
    }
    for (from, name) in FILES {
        items.push(Item { name, mode: 0o644, bytes: read(&root().join(from))? });
    }
    if let Ok(bytes) = read(&sysroot()?.join("share/doc/rust/COPYRIGHT-library.html")) {
        items.push(Item { name: "COPYRIGHT-rust-library.html", mode: 0o644, bytes });
    }
    let name = format!("tidegate-{version}-{platform}");
    let archive = archive(&name, items, seconds).map_err(|error| format!("the archive cannot be made: {error}"))?;
    let folder = target.join("packages");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let digest: String = Sha256::digest(&archive).iter().map(|byte| format!("{byte:02x}")).collect();
    write(&folder.join(format!("{name}.cdx.json")), &list)?;
    write(&folder.join(format!("{name}.tar.gz.sha256")), format!("{digest}  {name}.tar.gz\n").as_bytes())?;
    write(&folder.join(format!("{name}.tar.gz")), &archive)
}

/// The licences of the packages in the console's files, as the newest build of the console left them.
fn console_licences(folder: &Path) -> Result<Vec<u8>, String> {
    let builds = folder.join("build");
    let told = |error: std::io::Error| format!("{}: {error}", builds.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&builds).map_err(told)? {
        let path = entry.map_err(told)?.path().join("out/console/dist/licenses.md");
        if let Ok(changed) = path.metadata().and_then(|known| known.modified()) {
            found.push((changed, path));
        }
    }
    let (_, newest) = found.into_iter().max().ok_or_else(|| "the console left no list of its licences".to_owned())?;
    read(&newest)
}

/// A file of the archive.
#[derive(Debug, Clone)]
struct Item {
    name: &'static str,
    mode: u32,
    bytes: Vec<u8>,
}

/// The items in one folder, by name, as a tar archive packed with gzip.
fn archive(folder: &str, mut items: Vec<Item>, seconds: u64) -> std::io::Result<Vec<u8>> {
    items.sort_by_key(|item| item.name);
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
    for Item { name, mode, bytes } in items {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(u64::try_from(bytes.len()).map_err(std::io::Error::other)?);
        header.set_mode(mode);
        header.set_mtime(seconds);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, format!("{folder}/{name}"), bytes.as_slice())?;
    }
    archive.into_inner()?.finish()
}

/// The platform that this machine builds for.
fn platform() -> Result<String, String> {
    let told = output(Command::new("rustc").arg("-vV"))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| format!("rustc does not say what it builds for:\n{told}"))
}

/// Where Rust lies.
fn sysroot() -> Result<std::path::PathBuf, String> {
    Ok(output(Command::new("rustc").args(["--print", "sysroot"]))?.trim().into())
}

/// The time of the sources in seconds since 1970: what `SOURCE_DATE_EPOCH` says, or the last commit's.
fn time() -> Result<u64, String> {
    let told =
        match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(told) => told,
            Err(_) => output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root())).map_err(
                |error| format!("{error}; without git, SOURCE_DATE_EPOCH must be set to the seconds since 1970"),
            )?,
        };
    told.trim().parse().map_err(|_| format!("{told:?} is no number of seconds"))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Outcome {
    std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    say(&format!(
        "{}: {:.1} MB",
        path.display(),
        f64::from(u32::try_from(bytes.len() / 1_000).unwrap_or(u32::MAX)) / 1_000.0
    ));
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn the_archive_has_everything_once_and_is_the_same_each_time() {
        let item = |name, mode, text: &str| Item { name, mode, bytes: text.as_bytes().to_vec() };
        let items = vec![item("tidegate", 0o755, "the program"), item("LICENSE", 0o644, "the licence")];
        let made = archive("tidegate-1", items.clone(), 1_769_860_800).unwrap();
        assert_eq!(made, archive("tidegate-1", items.into_iter().rev().collect(), 1_769_860_800).unwrap());
        let mut found = Vec::new();
        for entry in tar::Archive::new(GzDecoder::new(made.as_slice())).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let header = entry.header();
            assert_eq!((header.mtime().unwrap(), header.uid().unwrap()), (1_769_860_800, 0));
            found.push((entry.path().unwrap().display().to_string(), header.mode().unwrap(), text));
        }
        let entry = |path: &str, mode, text: &str| (path.to_owned(), mode, text.to_owned());
        assert_eq!(
            found,
            [entry("tidegate-1/LICENSE", 0o644, "the licence"), entry("tidegate-1/tidegate", 0o755, "the program")]
        );
    }

    #[test]
    fn what_is_packaged_is_there() {
        for (from, _) in FILES {
            assert!(!read(&root().join(from)).unwrap().is_empty(), "{from}");
        }
        let licence = String::from_utf8(read(&root().join("LICENSE")).unwrap()).unwrap();
        assert!(licence.contains("Apache License") && licence.contains("END OF TERMS AND CONDITIONS"));
    }
}
