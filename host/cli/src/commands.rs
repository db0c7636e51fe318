//! The small commands: endpoint folders, and filters from standard input to standard output.

use std::io::{BufRead, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use tidegate_compiler::{Folder, inspect};

use crate::serve::Outcome;

#[derive(Debug, Args)]
pub(crate) struct FolderArguments {
    /// The endpoint's folder
    folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct BuildArguments {
    /// The endpoint's folder
    folder: PathBuf,
    /// The module or component that cargo built, for an endpoint with code
    #[arg(long)]
    module: Option<PathBuf>,
    /// Where to write the component
    #[arg(long, short)]
    output: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Lql {
    /// Parse queries: one JSON request a line, one JSON answer a line
    Parse {
        /// The only form there is: JSON lines in, JSON lines out
        #[arg(long, required = true)]
        jsonl: bool,
    },
}

pub(crate) fn check(arguments: &FolderArguments) -> Outcome {
    let folder = Folder::read(&arguments.folder)?;
    let saved = tidegate_sql::SavedQuery::parse(&folder.manifest.query)
        .map_err(|failure| format!("{}: {failure}", arguments.folder.join("query.sql").display()))?;
    println!("{}: grants {}", folder.manifest.name, saved.tables().join(", "));
    for name in saved.parameters() {
        if !folder.manifest.parameters.iter().any(|parameter| parameter.name == name) {
            println!("  @{name} is used and not declared: it is an optional text");
        }
    }
    Ok(())
}

pub(crate) fn build(arguments: &BuildArguments) -> Outcome {
    let folder = Folder::read(&arguments.folder)?;
    if folder.has_code && arguments.module.is_none() {
        return Err(format!(
            "{} has code: build it with cargo build --release --target wasm32-unknown-unknown and name the result with --module",
            arguments.folder.display()
        )
        .into());
    }
    let read = |path: &PathBuf| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let built = arguments.module.as_ref().map(read).transpose()?;
    let component = folder.component(built.as_deref())?;
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

pub(crate) fn lql(command: &Lql) -> Outcome {
    let Lql::Parse { .. } = command;
    each_line(|line| Ok(tidegate_lql::parse_line(line)))
}

pub(crate) fn redact() -> Outcome {
    each_line(|line| {
        let mut value = serde_json::from_str(line)?;
        tidegate_server::redact::redact_json(&mut value);
        Ok(serde_json::to_string(&value)?)
    })
}

/// Blank lines are skipped; a line that cannot be taken is told by number.
fn each_line(mut answer: impl FnMut(&str) -> Result<String, Box<dyn std::error::Error>>) -> Outcome {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (i, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let text = answer(&line).map_err(|error| format!("line {}: {error}", i + 1))?;
        writeln!(out, "{text}")?;
    }
    out.flush()?;
    Ok(())
}
