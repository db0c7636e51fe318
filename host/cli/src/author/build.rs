//! `tidegate build`: from a folder to a component, for all commands that need one.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;
use tidegate_compiler::{Folder, Inspection, Source, inspect, tools};

use super::toolchain;
use crate::outcome::Outcome;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The endpoint's folder
    folder: PathBuf,
    /// A module or component that was built already
    #[arg(long)]
    module: Option<PathBuf>,
    /// Where to write the component; NAME.wasm in the current folder unless set
    #[arg(long, short)]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folder = Folder::read(&arguments.folder)?;
    let component = built(&folder, arguments.module.as_deref())?;
    let inspection = inspect(&component)?;
    let output = arguments.output.clone().unwrap_or_else(|| format!("{}.wasm", inspection.manifest.name).into());
    std::fs::write(&output, &component).map_err(|error| format!("{}: {error}", output.display()))?;
    print!("{}", described(&inspection, &component));
    println!("  written to {}", output.display());
    Ok(())
}

/// What a component is, a fact a line.
fn described(inspection: &Inspection, component: &[u8]) -> String {
    let Inspection { manifest, world, imports, digest, initial_memory } = inspection;
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let tools: Vec<String> =
        tools(component).iter().map(|tool| format!("{} {}", tool.name, tool.version).trim_end().to_owned()).collect();
    let tools = if tools.is_empty() { "not told".to_owned() } else { tools.join(", ") };
    format!(
        "{}: {} bytes\n  sha256   {digest}\n  world    {}\n  imports  {}\n  memory   {} KiB at the start\n  made by  {tools}\n",
        manifest.name,
        component.len(),
        world.name(),
        imports.join(", "),
        initial_memory >> 10,
    )
}

/// The component of a folder, manifest included, as a server takes it: generated from its SQL, or
/// made of its code by its toolchain. `module` is taken for what was built already. It has passed
/// the half of the gate that needs no engine.
///
/// # Errors
/// What an author can mend: the toolchain fails, or what it made cannot become an endpoint.
pub(crate) fn built(folder: &Folder, module: Option<&Path>) -> Result<Vec<u8>, Box<dyn Error>> {
    let module = match (module, &folder.source) {
        (Some(module), _) => Some(module.to_owned()),
        (None, Source::Sql) => None,
        (None, Source::Cargo) => Some(toolchain::cargo(&folder.path)?),
        (None, Source::Command(build)) => Some(toolchain::command(&folder.path, build)?),
        (None, Source::Component(path)) => Some(path.clone()),
    };
    let Some(module) = module else {
        let component = folder.component(None)?;
        inspect(&component)?;
        return Ok(component);
    };
    let of_module = |error: &dyn std::fmt::Display| format!("{}: {error}", module.display());
    let bytes = std::fs::read(&module).map_err(|error| of_module(&error))?;
    let component = folder.component(Some(&bytes)).map_err(|error| of_module(&error))?;
    inspect(&component).map_err(|error| of_module(&error))?;
    Ok(component)
}
