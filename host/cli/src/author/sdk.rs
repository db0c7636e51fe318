//! The SDK for Rust, inside this program: no registry has it, and the one in a folder must fit the
//! program that packs and tests it.

use std::fs;

use super::FolderArguments;
use crate::outcome::Outcome;

/// Its files, by their path in the crate.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../../../guest-endpoints/sdk/Cargo.toml")),
    ("README.md", include_str!("../../../../guest-endpoints/sdk/README.md")),
    ("src/batch.rs", include_str!("../../../../guest-endpoints/sdk/src/batch.rs")),
    ("src/contract.rs", include_str!("../../../../guest-endpoints/sdk/src/contract.rs")),
    ("src/json.rs", include_str!("../../../../guest-endpoints/sdk/src/json.rs")),
    ("src/lib.rs", include_str!("../../../../guest-endpoints/sdk/src/lib.rs")),
    ("src/log.rs", include_str!("../../../../guest-endpoints/sdk/src/log.rs")),
    ("src/problem.rs", include_str!("../../../../guest-endpoints/sdk/src/problem.rs")),
    ("src/request.rs", include_str!("../../../../guest-endpoints/sdk/src/request.rs")),
    ("src/response.rs", include_str!("../../../../guest-endpoints/sdk/src/response.rs")),
    ("src/rows.rs", include_str!("../../../../guest-endpoints/sdk/src/rows.rs")),
    ("src/statement.rs", include_str!("../../../../guest-endpoints/sdk/src/statement.rs")),
    ("src/table.rs", include_str!("../../../../guest-endpoints/sdk/src/table.rs")),
    ("src/timestamp.rs", include_str!("../../../../guest-endpoints/sdk/src/timestamp.rs")),
    ("src/value.rs", include_str!("../../../../guest-endpoints/sdk/src/value.rs")),
    ("wit/endpoint.wit", tidegate_compiler::WIT),
];

/// Where it lies in the folder of an endpoint.
const FOLDER: &str = "sdk";

pub(super) fn run(arguments: &FolderArguments) -> Outcome {
    let folder = &arguments.folder;
    if !folder.join("Cargo.toml").is_file() {
        return Err(format!("{} has no Cargo.toml: the SDK is for endpoints in Rust", folder.display()).into());
    }
    let own = folder.join(FOLDER).join("Cargo.toml");
    if fs::read_to_string(&own).is_ok_and(|text| !text.contains("name = \"tidegate-sdk\"")) {
        return Err(format!("{} is another crate; it is left as it is", own.display()).into());
    }
    for (name, text) in files() {
        let path = folder.join(&name);
        let failed = |error| format!("{}: {error}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&path, text).map_err(failed)?;
    }
    println!("{}: the SDK of tidegate {}", folder.join(FOLDER).display(), env!("CARGO_PKG_VERSION"));
    Ok(())
}

/// The files of the SDK, by their path in the folder of an endpoint.
pub(super) fn files() -> impl Iterator<Item = (String, &'static str)> {
    FILES.iter().map(|(name, text)| (format!("{FOLDER}/{name}"), *text))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn add(folder: &Path, prefix: &str, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
            if path.is_dir() {
                add(&path, &format!("{name}/"), names);
            } else {
                names.insert(name);
            }
        }
    }

    #[test]
    fn no_file_of_the_crate_is_left_out() {
        let mut there = BTreeSet::new();
        add(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-endpoints/sdk"), "", &mut there);
        assert_eq!(there, FILES.iter().map(|(name, _)| (*name).to_owned()).collect());
    }
}
