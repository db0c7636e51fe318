//! `tidegate new`: the folder of an endpoint that builds, tests and runs before anything is changed.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tidegate_model::EndpointName;

use super::sdk;
use crate::outcome::Outcome;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The endpoint's name: letters, digits, '.', '_', '-' and inner blanks
    name: String,
    /// What it is written in
    #[arg(long, value_enum)]
    lang: Language,
    /// The folder to make; NAME in the current folder unless set
    #[arg(long)]
    folder: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Language {
    /// A saved query and nothing else
    Sql,
    /// Code over the rows of saved queries
    Rust,
}

/// The files of a folder in SQL. In all templates `{{name}}` is the endpoint's name and `{{crate}}`
/// the name of a crate made of it.
const SQL: &[(&str, &str)] = &[
    ("endpoint.toml", include_str!("template/sql/endpoint.toml")),
    ("query.sql", include_str!("template/sql/query.sql")),
    ("tests/last-day.json", include_str!("template/sql/last-day.json")),
    ("tests/no-project.json", include_str!("template/no-project.json")),
    ("README.md", include_str!("template/sql/README.md")),
    (".gitignore", include_str!("template/gitignore")),
];

const RUST: &[(&str, &str)] = &[
    ("endpoint.toml", include_str!("template/rust/endpoint.toml")),
    ("query.sql", include_str!("template/rust/query.sql")),
    ("Cargo.toml", include_str!("template/rust/Cargo.toml.in")),
    // What the SDK was tried with; cargo adds the endpoint itself and drops what is not needed.
    ("Cargo.lock", include_str!("../../../../guest-endpoints/Cargo.lock")),
    ("src/lib.rs", include_str!("template/rust/lib.rs")),
    ("tests/sections.json", include_str!("template/rust/sections.json")),
    ("tests/no-project.json", include_str!("template/no-project.json")),
    ("README.md", include_str!("template/rust/README.md")),
    (".gitignore", include_str!("template/gitignore")),
];

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let name = EndpointName::try_from(arguments.name.clone())?;
    let folder = match &arguments.folder {
        Some(folder) => folder.clone(),
        None => folder_of(name.as_str())?,
    };
    let files = files(name.as_str(), arguments.lang);
    if let Some((there, _)) = files.iter().find(|(file, _)| folder.join(file).symlink_metadata().is_ok()) {
        return Err(format!("{} is there already, and nothing is overwritten", folder.join(there).display()).into());
    }
    for (file, text) in &files {
        write_new(&folder.join(file), text)?;
    }
    let shown = folder.display();
    println!(
        "{shown}: an endpoint in {}. What to do next:",
        if arguments.lang == Language::Sql { "SQL" } else { "Rust" }
    );
    println!("  tidegate test {shown}\n  tidegate run {shown} -p project=default\n  tidegate push {shown}");
    Ok(())
}

/// The folder for an endpoint, beside where the command runs.
///
/// # Errors
/// A name that would be a hidden folder or another place.
pub(super) fn folder_of(name: &str) -> Result<PathBuf, Box<dyn Error>> {
    if name.starts_with('.') {
        return Err(format!("{name} is no good name for a folder; name one with --folder").into());
    }
    Ok(PathBuf::from(name))
}

fn files(name: &str, language: Language) -> Vec<(String, String)> {
    let fill = |text: &str| text.replace("{{name}}", name).replace("{{crate}}", &crate_name(name));
    let template = match language {
        Language::Sql => SQL,
        Language::Rust => RUST,
    };
    let mut files: Vec<_> = template.iter().map(|(file, text)| ((*file).to_owned(), fill(text))).collect();
    if language == Language::Rust {
        files.extend(sdk::files().map(|(file, text)| (file, text.to_owned())));
    }
    files
}

/// A name for the crate of an endpoint: one that no word of the language and no other crate has.
fn crate_name(name: &str) -> String {
    let mut words: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    while words.contains("--") {
        words = words.replace("--", "-");
    }
    format!("endpoint-{}", words.trim_matches('-')).trim_end_matches('-').to_owned()
}

/// Writes a file that is not there.
fn write_new(path: &Path, text: &str) -> Outcome {
    let failed = |error| format!("{}: {error}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut file = fs::File::create_new(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use tidegate_compiler::{Folder, Source};

    use super::*;

    #[test]
    fn a_crate_can_have_the_name() {
        for (name, expected) in [
            ("usage.api-counts", "endpoint-usage-api-counts"),
            ("404s", "endpoint-404s"),
            ("a  B", "endpoint-a-b"),
            ("größe", "endpoint-gr-e"),
            ("..", "endpoint"),
        ] {
            assert_eq!(crate_name(name), expected);
        }
        assert!(folder_of("..").is_err() && folder_of(".git").is_err());
    }

    #[test]
    fn both_templates_are_folders_without_a_gap() {
        for (language, source) in [(Language::Sql, Source::Sql), (Language::Rust, Source::Cargo)] {
            let folder = tempfile::tempdir().unwrap();
            for (file, text) in files("slow requests", language) {
                assert!(!text.contains("{{"), "{file}");
                write_new(&folder.path().join(file), &text).unwrap();
            }
            let read = Folder::read(folder.path()).unwrap();
            assert_eq!((read.manifest.name.as_str(), &read.source), ("slow requests", &source));
            assert_eq!(read.tests.len(), 2);
            assert!(write_new(&folder.path().join("query.sql"), "").is_err(), "nothing is overwritten");
        }
    }
}
