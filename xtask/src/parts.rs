//! What the service is made of: the crates that are linked in, with their licences and sources.
//!
//! `cargo tree` tells which ones those are for this very build (features and platform are resolved by
//! cargo, build tools and macros are not among them); `cargo metadata` tells about each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{cargo, output, root};

/// The crate that is the service.
const SERVICE: &str = "tidegate";

/// A crate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) version: String,
    /// What its author says of it, as SPDX writes it where that can be told.
    pub(crate) licence: Option<String>,
    pub(crate) authors: Vec<String>,
    pub(crate) repository: Option<String>,
    /// Where its sources lie.
    pub(crate) folder: PathBuf,
    /// Where cargo has it from; nothing for a folder.
    pub(crate) source: Option<String>,
    /// The SHA-256 of its package, in hexadecimal.
    pub(crate) checksum: Option<String>,
    /// The parts that it uses, by their place in the list.
    pub(crate) uses: Vec<usize>,
}

/// The parts of the service on a platform: itself first, then the others as its tree names them.
///
/// # Errors
/// Cargo fails, or tells of crates that it does not know.
pub(crate) fn of_service(platform: &str) -> Result<Vec<Part>, String> {
    let tree = output(
        cargo(&root())
            .args(["tree", "--locked", "-p", SERVICE, "-e", "normal,no-proc-macro"])
            .args(["--prefix", "depth", "--format", "|{p}", "--target", platform]),
    )?;
    let mut known = packages(&root(), &[platform])?;
    let lock = root().join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    let checksums = checksums(&lock)?;
    let mut parts = Vec::new();
    for (name, version, uses) in graph(&tree)? {
        let place = known.iter().position(|part| part.name == name && part.version == version);
        let mut part = known.swap_remove(place.ok_or_else(|| format!("cargo metadata has no {name} {version}"))?);
        part.checksum = checksums.get(&(name, version)).cloned();
        part.uses = uses;
        parts.push(part);
    }
    Ok(parts)
}

/// The packages that a workspace uses on some platforms, for whatever: tests and tools too.
///
/// # Errors
/// Cargo fails, or what it says is not understood.
pub(crate) fn packages(workspace: &Path, platforms: &[&str]) -> Result<Vec<Part>, String> {
    let mut command = cargo(workspace);
    command.args(["metadata", "--locked", "--all-features", "--format-version", "1"]);
    for platform in platforms {
        command.args(["--filter-platform", platform]);
    }
    let metadata: Value =
        serde_json::from_str(&output(&mut command)?).map_err(|error| format!("{command:?}: {error}"))?;
    let packages = metadata.get("packages").and_then(Value::as_array).ok_or("cargo metadata tells no packages")?;
    packages.iter().map(|package| part(package).ok_or_else(|| format!("not understood: {package}"))).collect()
}

/// What cargo says of a package.
fn part(package: &Value) -> Option<Part> {
    let text = |name: &str| Some(package.get(name)?.as_str()?.to_owned());
    let licence = text("license").map(|text| spdx::Expression::canonicalize(&text).ok().flatten().unwrap_or(text));
    let authors = package.get("authors").and_then(Value::as_array).into_iter().flatten();
    Some(Part {
        name: text("name")?,
        version: text("version")?,
        licence,
        authors: authors.filter_map(|author| Some(author.as_str()?.to_owned())).collect(),
        repository: text("repository"),
        folder: Path::new(&text("manifest_path")?).parent()?.to_owned(),
        source: text("source"),
        checksum: None,
        uses: Vec::new(),
    })
}

/// The crates of a tree whose lines are `DEPTH|NAME vVERSION ...`, each with those that it uses. Cargo shows what
/// a crate uses where it names it first.
fn graph(tree: &str) -> Result<Vec<(String, String, Vec<usize>)>, String> {
    let mut crates: Vec<(String, String, Vec<usize>)> = Vec::new();
    let mut above: Vec<usize> = Vec::new();
    for line in tree.lines().filter(|line| !line.trim().is_empty()) {
        let not_understood = || format!("cargo tree: {line:?} is not understood");
        let (depth, package) = line.split_once('|').ok_or_else(not_understood)?;
        let depth: usize = depth.parse().map_err(|_| not_understood())?;
        let mut words = package.split_whitespace();
        let (name, version) = (words.next(), words.next().and_then(|version| version.strip_prefix('v')));
        let (Some(name), Some(version)) = (name, version) else { return Err(not_understood()) };
        let known = crates.iter().position(|(of, at, _)| of == name && at == version);
        let this = known.unwrap_or_else(|| {
            crates.push((name.to_owned(), version.to_owned(), Vec::new()));
            crates.len() - 1
        });
        above.truncate(depth);
        if above.len() != depth {
            return Err(not_understood());
        }
        if let Some((_, _, uses)) = above.last().and_then(|user| crates.get_mut(*user))
            && !uses.contains(&this)
        {
            uses.push(this);
        }
        above.push(this);
    }
    Ok(crates)
}

/// The digests of packages in a lock file, by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>, String> {
    let lock: toml::Table = lock.parse().map_err(|error| format!("Cargo.lock: {error}"))?;
    let packages = lock.get("package").and_then(toml::Value::as_array).ok_or("Cargo.lock has no packages")?;
    let checksum = |package: &toml::Value| {
        let text = |name: &str| Some(package.get(name)?.as_str()?.to_owned());
        Some(((text("name")?, text("version")?), text("checksum")?))
    };
    Ok(packages.iter().filter_map(checksum).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_tree_becomes_a_graph_in_which_each_crate_is_once() {
        let tree = "0|a v1.0.0 (/here)\n1|b v2.0.0+x\n2|c v0.1.0\n1|c v0.1.0\n1|c v0.2.0\n2|b v2.0.0+x (*)\n";
        let owned = |name: &str, version: &str, uses: &[usize]| (name.to_owned(), version.to_owned(), uses.to_vec());
        assert_eq!(
            graph(tree).unwrap(),
            [
                owned("a", "1.0.0", &[1, 2, 3]),
                owned("b", "2.0.0+x", &[2]),
                owned("c", "0.1.0", &[]),
                owned("c", "0.2.0", &[1])
            ]
        );
        for wrong in ["a v1", "x|a v1", "0|a", "0|a 1.0", "0|a v1\n2|b v1"] {
            assert!(graph(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn digests_are_read_from_a_lock_file() {
        let lock = "version = 4\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"00ff\"\n\
                    [[package]]\nname = \"own\"\nversion = \"0.1.0\"\n";
        let found = checksums(lock).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(("a".to_owned(), "1.0.0".to_owned()), "00ff".to_owned())]);
        assert!(checksums("no lock").is_err() && checksums("version = 4").is_err());
    }
}
