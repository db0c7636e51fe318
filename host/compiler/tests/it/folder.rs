//! Folders as authors write them.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tidegate_compiler::{Build, Folder, Source, build_of, compile_sql, endpoint_toml, is_generated, manifest_of_texts};
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

#[test]
fn what_a_component_is_made_of_is_told_by_the_files() {
    let source = |files: &[(&str, &str)]| {
        let mut all = vec![("query.sql", "SELECT 1")];
        all.extend_from_slice(files);
        if !files.iter().any(|(name, _)| *name == "endpoint.toml") {
            all.push(("endpoint.toml", TOML));
        }
        let folder = folder(&all);
        let read = Folder::read(folder.path()).unwrap();
        assert_eq!(read.has_code, read.source != Source::Sql);
        (read.source, folder)
    };
    assert_eq!(source(&[]).0, Source::Sql);
    assert_eq!(source(&[("Cargo.toml", ""), ("component.wasm", "")]).0, Source::Cargo, "sources win");
    let (pulled, folder) = source(&[("component.wasm", "")]);
    assert_eq!(pulled, Source::Component(folder.path().join("component.wasm")));
    let build = "name = \"a\"\n[build]\ncommand = [\"npm\", \"run\", \"build\"]\nmodule = \"dist/a.wasm\"\n";
    let command = ["npm", "run", "build"].map(str::to_owned).to_vec();
    let expected = Source::Command(Build { command, module: "dist/a.wasm".into() });
    assert_eq!(source(&[("endpoint.toml", build), ("Cargo.toml", "")]).0, expected);
}

#[test]
fn a_build_leads_into_its_folder_and_nowhere_else() {
    for module in ["../a.wasm", "/a.wasm", "dist/../../a.wasm", ""] {
        let toml = format!("name = \"a\"\n[build]\nmodule = \"{module}\"\n");
        let refusal = refusal(&[("endpoint.toml", &toml), ("query.sql", "SELECT 1")]);
        assert!(refusal.contains("a path in the folder"), "{module}: {refusal}");
    }
    let unknown = refusal(&[("endpoint.toml", "name = \"a\"\n[build]\nmodul = \"x\""), ("query.sql", "SELECT 1")]);
    assert!(unknown.contains("modul"), "{unknown}");
}

#[test]
fn a_build_is_read_alone_and_written_with_another_manifest() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(build_of(folder.path()).unwrap(), None, "there is nothing yet");
    let build = Build { command: vec!["npm".into(), "run".into(), "build".into()], module: "dist/a.wasm".into() };
    let text = endpoint_toml(&crate::manifest(), Some(build.clone())).unwrap();
    std::fs::write(folder.path().join("endpoint.toml"), text).unwrap();
    assert_eq!(build_of(folder.path()).unwrap(), Some(build), "without a query beside it");
    std::fs::write(folder.path().join("endpoint.toml"), "nam = 1").unwrap();
    assert!(build_of(folder.path()).is_err());
}

#[test]
fn the_toml_of_a_manifest_gives_the_same_manifest() {
    let manifest = crate::manifest();
    let text = endpoint_toml(&manifest, None).unwrap();
    assert_eq!(manifest_of_texts(&text, &manifest.query).unwrap(), manifest);
    assert!(text.contains("max_limit = 1000"), "complete, defaults too: {text}");
    let own = manifest_of_texts(TOML, "SELECT 1").unwrap();
    assert_eq!(manifest_of_texts(&endpoint_toml(&own, None).unwrap(), "SELECT 1").unwrap(), own);
    let component = compile_sql(&own).unwrap();
    assert!(is_generated(&component));
    let other = [&component[..], b"\0\x02\x01x"].concat();
    assert!(!is_generated(&other) && !is_generated(b"") && !is_generated(&component[..100]));
}
