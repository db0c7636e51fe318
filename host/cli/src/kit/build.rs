//! `tidegate build`: from a folder to a component, for all commands that need one.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;
use tidegate_compiler::{Folder, inspect};

use crate::serve::Outcome;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The endpoint's folder
    folder: PathBuf,
    /// The module or component that cargo built, for an endpoint with code
    #[arg(long)]
    module: Option<PathBuf>,
    /// Where to write the component
    #[arg(long, short)]
    output: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folder = Folder::read(&arguments.folder)?;
    let component = built(&folder, arguments.module.as_deref())?;
    let inspection = inspect(&component)?;
    std::fs::write(&arguments.output, &component)
        .map_err(|error| format!("{}: {error}", arguments.output.display()))?;
    println!(
        "{}: {} bytes, world {}, imports {}",
        inspection.manifest.name,
        component.len(),
        inspection.world.name(),
        inspection.imports.join(", ")
    );
    Ok(())
}

/// The component of a folder, manifest included, as a server takes it: generated from its SQL, or
/// packed from what its code was built to. `module` is taken for what was built already.
///
/// # Errors
/// What an author can mend: nothing was built, or nothing that can become an endpoint.
pub(crate) fn built(folder: &Folder, module: Option<&Path>) -> Result<Vec<u8>, Box<dyn Error>> {
    if folder.has_code && module.is_none() {
        return Err(format!(
            "{} has code: build it with cargo build --release --target wasm32-unknown-unknown and name the result with --module",
            folder.path.display()
        )
        .into());
    }
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let built = module.map(read).transpose()?;
    let component = folder.component(built.as_deref())?;
    inspect(&component)?;
    Ok(component)
}
