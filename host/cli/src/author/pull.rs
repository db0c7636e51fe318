//! `tidegate pull`: what a server has, as a folder. What is written can be pushed again and is then
//! the same component, byte for byte.
//!
//! The folder is made from the component alone: the manifest inside it is what was declared, and
//! nothing that a server adds to it.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use tidegate_compiler::{
    Build, COMPONENT_FILE, Folder, Source, build_of, endpoint_toml, inspect, is_generated, is_statement_name,
};
use tidegate_model::Manifest;

use crate::client::{Client, ServerArguments, endpoint_path};
use crate::outcome::Outcome;

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
    // How its code is built is the folder's own: no component has it, and without it the folder's
    // sources would count no more.
    let build = build_of(&folder)?;
    let files = files(&manifest, build, (!is_sql).then_some(&component))?;
    write(&folder, &files, arguments.force)?;
    println!("{}: {} in {}", manifest.name, if is_sql { "SQL" } else { "a component" }, folder.display());
    for (name, _) in &files {
        println!("  {}", name.display());
    }
    let (pulled, what) = match is_sql {
        true => (Source::Sql, "the query"),
        false => (Source::Component(folder.join(COMPONENT_FILE)), COMPONENT_FILE),
    };
    if Folder::read(&folder)?.source != pulled {
        println!("  note: the folder has sources, which are built in place of {what}");
    }
    Ok(())
}

type File = (PathBuf, Vec<u8>);

/// The files of an endpoint: text, and the component where that is more than the text.
fn files(manifest: &Manifest, build: Option<Build>, component: Option<&Vec<u8>>) -> Result<Vec<File>, Box<dyn Error>> {
    let mut files = vec![
        ("endpoint.toml".into(), endpoint_toml(manifest, build)?.into_bytes()),
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
    // New files are there in full before an old one is touched.
    let mut written = Vec::new();
    for (name, bytes) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(of(parent.to_owned()))?;
        }
        let new = beside(&path);
        fs::write(&new, bytes).map_err(of(new.clone()))?;
        written.push((new, path));
    }
    // Before the new ones have their names: where case does not count, one may have another spelling.
    in_the_way.retain(|old| written.iter().all(|(_, path)| path != old));
    for path in in_the_way {
        fs::remove_file(&path).map_err(of(path))?;
    }
    for (new, path) in written {
        fs::rename(new, &path).map_err(of(path))?;
    }
    Ok(())
}

/// Where a file is written before it takes the place of another: `NAME.new`, which is part of no endpoint.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".new");
    path.with_file_name(name)
}
