//! Folders as authors write them.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tidegate_compiler::Folder;
use tidegate_model::{Format, Kind};

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// The error of reading the folder, with its place in the file system left out.
fn refusal(files: &[(&str, &str)]) -> String {
    let folder = folder(files);
    let error = Folder::read(folder.path()).unwrap_err().to_string();
    let prefix = format!("{}{}", folder.path().display(), std::path::MAIN_SEPARATOR);
    error.replace(&prefix, "")
}

const TOML: &str = r#"
name = "logs.all"
description = "Newest logs"

[[parameters]]
name = "project"
required = true

[[parameters]]
name = "iso_timestamp_start"
format = "timestamp"

[settings]
max_limit = 100
sandboxable = true
"#;

#[test]
fn a_folder_becomes_a_manifest() {
    let folder = folder(&[
        ("endpoint.toml", TOML),
        ("query.sql", "SELECT 1"),
        ("statements/by-day.sql", "SELECT 2"),
        ("statements/readme.md", "not a statement"),
        ("tests/b.json", "{}"),
        ("tests/a.json", "{}"),
    ]);
    let read = Folder::read(folder.path()).unwrap();
    assert_eq!(read.manifest.name.as_str(), "logs.all");
    assert_eq!(read.manifest.query, "SELECT 1");
    assert_eq!(read.manifest.statements["by-day"], "SELECT 2");
    assert_eq!(read.manifest.parameters[0].kind, Kind::Text);
    assert_eq!(read.manifest.parameters[1].format, Some(Format::Timestamp));
    assert_eq!(read.manifest.settings.max_limit, 100);
    assert!(!read.has_code);
    let names: Vec<_> = read.tests.iter().filter_map(|path| Path::file_name(path)).collect();
    assert_eq!(names, ["a.json", "b.json"]);
}

#[test]
fn an_unknown_key_is_refused_with_its_line() {
    let toml = "name = \"a\"\n\n[settings]\nmax_rows = 5\n";
    let refusal = refusal(&[("endpoint.toml", toml), ("query.sql", "SELECT 1")]);
    assert!(refusal.starts_with("endpoint.toml:4:1: unknown field `max_rows`"), "{refusal}");
    assert!(refusal.contains("max_limit"), "{refusal}");
}

#[test]
fn what_is_missing_or_out_of_range_is_named_with_its_file() {
    assert!(refusal(&[("query.sql", "SELECT 1")]).starts_with("endpoint.toml: "));
    assert!(refusal(&[("endpoint.toml", "name = \"a\"")]).starts_with("query.sql: "));
    assert_eq!(refusal(&[("endpoint.toml", "name = \"a\""), ("query.sql", " \n")]), "query.sql: the query is empty");
    assert_eq!(
        refusal(&[("endpoint.toml", "name = \"a\"\nsettings.max_limit = 0"), ("query.sql", "SELECT 1")]),
        "endpoint.toml: max_limit is 0; allowed are 1 to 10000"
    );
    let default =
        refusal(&[("endpoint.toml", "name = \"a\""), ("query.sql", "SELECT 1"), ("statements/default.sql", "")]);
    assert!(default.contains("not 'default'"), "{default}");
}

#[test]
fn a_folder_becomes_its_component_and_code_must_be_built_first() {
    let sql = folder(&[("endpoint.toml", TOML), ("query.sql", "SELECT 1")]);
    let read = Folder::read(sql.path()).unwrap();
    let component = read.component(None).unwrap();
    assert_eq!(tidegate_compiler::inspect(&component).unwrap().manifest, read.manifest);
    let code = folder(&[("endpoint.toml", TOML), ("query.sql", "SELECT 1"), ("Cargo.toml", "")]);
    let read = Folder::read(code.path()).unwrap();
    assert!(read.component(None).unwrap_err().to_string().contains("cargo build"));
    assert_eq!(read.component(Some(&component)).unwrap(), component);
}
