//! Names the build by its sources: a server gives plans only to workers that were built of the same ones.
//!
//! The name is the version and a digest of what plans depend on: the sources and settings of the host's crates, and the
//! versions of all others. It needs no Git, and is the same on each machine and for each target. It is made here, in the
//! crate that all others lie below, because a change of any source builds what depends on it again.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use sha2::{Digest, Sha256};

/// What is read of each crate. Tests and examples are in no program.
const OF_A_CRATE: [&str; 3] = ["Cargo.toml", "build.rs", "src"];
/// What is read of the workspace, which names all crates.
const OF_ALL: [&str; 2] = ["Cargo.toml", "Cargo.lock"];
/// Half of a digest tells builds apart.
const SHOWN: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let mut inputs: Vec<PathBuf> = OF_ALL.map(|name| root.join(name)).into();
    for folder in fs::read_dir(root.join("host"))? {
        let folder = folder?.path();
        inputs.extend(OF_A_CRATE.map(|name| folder.join(name)).into_iter().filter(|path| path.exists()));
    }
    let mut files = Vec::new();
    for input in inputs {
        println!("cargo::rerun-if-changed={}", input.display());
        collect(&input, &mut files)?;
    }
    // Folders list their files in any order.
    let mut named = Vec::new();
    for file in files {
        let parts = file.strip_prefix(&root)?.iter().map(|part| part.to_string_lossy().into_owned());
        named.push((parts.collect::<Vec<_>>().join("/"), file));
    }
    named.sort();
    let mut digest = Sha256::new();
    for (name, file) in named {
        let bytes = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        // With its length, so that no two lists of files are the same bytes.
        digest.update(format!("{} {name}\n{} ", name.len(), bytes.len()));
        digest.update(&bytes);
    }
    let digest: String = digest.finalize().iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=TIDEGATE_BUILD={}+{digest}", env::var("CARGO_PKG_VERSION")?);
    Ok(())
}

/// The files below a path.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}
