//! `tidegate pull`: what a server has, as a folder. What is written can be pushed again and is then
//! the same component, byte for byte.
//!
//! The folder is made from the component alone: the manifest inside it is what was declared, and
//! nothing that a server adds to it.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use tidegate_compiler::{COMPONENT_FILE, Folder, endpoint_toml, inspect, is_generated, is_statement_name};
use tidegate_model::Manifest;

use crate::client::{Client, ServerArguments, endpoint_path};
use crate::serve::Outcome;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The endpoint, by name or id
    name: String,
    /// The version; the current one unless given
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<i64>,
    /// The folder to write; NAME in the current folder unless set
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Overwrite the files of an endpoint that is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    server: ServerArguments,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let client = Client::new(&arguments.server, "a private token")?;
    let path = endpoint_path(&arguments.name);
    let path = match arguments.number {
        Some(number) => format!("{path}/versions/{number}/component"),
        None => format!("{path}/component"),
    };
    let component = client.call("GET", &path, None)?.body;
    let manifest = inspect(&component)?.manifest;
    let folder = match &arguments.folder {
        Some(folder) => folder.clone(),
        None => super::new::folder_of(manifest.name.as_str())?,
    };
    let is_sql = is_generated(&component);
    let files = files(&manifest, (!is_sql).then_some(&component))?;
    write(&folder, &files, arguments.force)?;
    println!("{}: {} in {}", manifest.name, if is_sql { "SQL" } else { "a component" }, folder.display());
    for (name, _) in &files {
        println!("  {}", name.display());
    }
    if !is_sql && Folder::read(&folder)?.source != tidegate_compiler::Source::Component(folder.join(COMPONENT_FILE)) {
        println!("  note: the folder has sources, which are built in place of {COMPONENT_FILE}");
    }
    Ok(())
}

type File = (PathBuf, Vec<u8>);

/// The files of an endpoint: text, and the component where that is more than the text.
fn files(manifest: &Manifest, component: Option<&Vec<u8>>) -> Result<Vec<File>, Box<dyn Error>> {
    let mut files = vec![
        ("endpoint.toml".into(), endpoint_toml(manifest)?.into_bytes()),
        ("query.sql".into(), manifest.query.clone().into_bytes()),
    ];
    for (name, sql) in &manifest.statements {
        // A name becomes a path here.
        if !is_statement_name(name) {
            return Err(format!("the statement {name:?} cannot be a file; the folder is not written").into());
        }
        files.push((Path::new("statements").join(format!("{name}.sql")), sql.clone().into_bytes()));
    }
    if let Some(component) = component {
        files.push((COMPONENT_FILE.into(), component.clone()));
    }
    Ok(files)
}

/// Writes files into a folder. Other statements and an old component are removed with `force`, or
/// they would become part of the endpoint.
fn write(folder: &Path, files: &[File], force: bool) -> Outcome {
    let of = |path: PathBuf| move |error: std::io::Error| format!("{}: {error}", path.display());
    let mut in_the_way: Vec<PathBuf> =
        ["endpoint.toml", "query.sql", COMPONENT_FILE].iter().map(|name| folder.join(name)).collect();
    if let Ok(statements) = fs::read_dir(folder.join("statements")) {
        let paths = statements.filter_map(|entry| Some(entry.ok()?.path()));
        in_the_way.extend(paths.filter(|path| path.extension().is_some_and(|kind| kind == "sql")));
    }
    in_the_way.retain(|path| path.symlink_metadata().is_ok());
    if let Some(first) = in_the_way.first()
        && !force
    {
        return Err(
            format!("{} is there already: give another --folder, or --force to overwrite it", first.display()).into()
        );
    }
    for path in in_the_way {
        fs::remove_file(&path).map_err(of(path))?;
    }
    for (name, bytes) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(of(parent.to_owned()))?;
        }
        fs::write(&path, bytes).map_err(of(path))?;
    }
    Ok(())
}
