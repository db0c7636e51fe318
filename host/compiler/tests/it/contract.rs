//! The contract may grow and must not break: what authors built against a released version keeps
//! running. `tests/compat/` has the contract of every release; this compares the present one with them.
//!
//! To release a version: copy `wit/endpoint.wit` to `tests/compat/VERSION/` with components built for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};
use tidegate_compiler::{WIT, World, code_of, is_generated, is_generated_code};
use wit_component::{WitPrinter, semver_check};
use wit_parser::{PackageId, Resolve};

/// Parses a contract beside others; its version and its id.
fn parse(resolve: &mut Resolve, text: &str) -> (String, PackageId) {
    let package = resolve.push_source("endpoint.wit", text).unwrap();
    (resolve.packages[package].name.version.as_ref().unwrap().to_string(), package)
}

/// What a contract says, without its comments.
fn meaning(text: &str) -> String {
    let mut resolve = Resolve::default();
    let (_, package) = parse(&mut resolve, text);
    let mut printer = WitPrinter::default();
    printer.emit_docs(false).print(&resolve, package, &[]).unwrap();
    printer.output.into()
}

/// The part of a version within which nothing may break: `0.1` of 0.1.7, `2` of 2.3.0.
fn track(version: &str) -> &str {
    let parts = if version.starts_with("0.") { 2 } else { 1 };
    let end = version.match_indices('.').nth(parts - 1).map_or(version.len(), |(at, _)| at);
    &version[..end]
}

/// Whether a contract may stand beside a released one.
fn judge(released: &str, present: &str) -> Result<(), String> {
    let mut resolve = Resolve::default();
    let (old_version, old) = parse(&mut resolve, released);
    let new_version = parse(&mut Resolve::default(), present).0;
    if old_version == new_version {
        let same = meaning(released) == meaning(present);
        return if same { Ok(()) } else { Err(format!("{new_version} is released: a change needs a new version")) };
    }
    if track(&old_version) != track(&new_version) {
        return Ok(());
    }
    let (_, new) = parse(&mut resolve, present);
    for world in [World::Endpoint, World::EndpointAdhoc] {
        let world = world.name();
        let [old, new] = [old, new].map(|package| resolve.select_world(&[package], Some(world)).unwrap());
        semver_check(resolve.clone(), old, new).map_err(|error| {
            format!("{new_version} breaks what was built for {old_version}, world {world}: {error:#}")
        })?;
    }
    Ok(())
}

fn released() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compat");
    let versions = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let contract = |path: std::path::PathBuf| {
        let version = path.file_name().unwrap().to_str().unwrap().to_owned();
        (version, fs::read_to_string(path.join("endpoint.wit")).unwrap())
    };
    versions.map(contract).collect()
}

/// Whoever upgrades finds saved queries as saved queries, though this build may generate other code.
#[test]
fn saved_queries_of_all_releases_are_known_as_such() {
    let compat = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compat");
    for version in released().into_keys() {
        let read = |name: &str| fs::read(compat.join(&version).join(name)).unwrap();
        let digest: [u8; 32] = Sha256::digest(code_of(&read("sql.wasm")).unwrap()).into();
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(is_generated_code(&digest), "add {hex} of {version} to RELEASED");
        assert!(
            is_generated(&read("sql.wasm")) && !is_generated(&read("rust.wasm")) && !is_generated(&read("adhoc.wasm"))
        );
    }
    assert!(!is_generated_code(&[0; 32]));
}

#[test]
fn the_contract_breaks_no_release() {
    let released = released();
    assert!(!released.is_empty());
    for (version, contract) in released {
        assert_eq!(parse(&mut Resolve::default(), &contract).0, version, "the folder is called as its version");
        judge(&contract, WIT).unwrap();
    }
}

/// The present contract with one change, under another version.
fn changed(version: &str, from: &str, to: &str) -> String {
    assert_eq!(WIT.matches(from).count(), 1, "{from}");
    WIT.replace(from, to).replace("package tidegate:endpoint@0.1.0;", &format!("package tidegate:endpoint@{version};"))
}

#[test]
fn a_change_needs_a_version_and_comments_do_not() {
    let function = "scalar: func() -> result<value, failure>;";
    let more = format!("{function} count: func() -> u64;");
    assert!(judge(WIT, &changed("0.1.0", function, &more)).unwrap_err().contains("a change needs a new version"));
    judge(WIT, &changed("0.1.0", "/// Rows in the host.", "/// Rows.")).unwrap();
}

#[test]
fn within_a_track_the_contract_only_grows() {
    let function = "scalar: func() -> result<value, failure>;";
    let more = format!("{function} count: func() -> u64;");
    let export = "handle: func(request: borrow<request>) -> result<response, problem>;";
    let exports = format!("{export} describe: func() -> string;");
    for (from, to) in [(function, more.as_str()), ("    import log;\n", "    import log;\n    import adhoc;\n")] {
        judge(WIT, &changed("0.1.1", from, to)).unwrap();
    }
    for (from, to) in [
        (function, ""),
        ("import log;", ""),
        ("enum level { debug, info, warn, error }", "enum level { debug, info, warn, error, fatal }"),
        ("        retryable: bool,\n", "        retryable: bool,\n        hint: string,\n"),
        ("limit: static func(input: result-set, rows: u32)", "limit: static func(input: result-set, rows: u64)"),
        (export, exports.as_str()),
    ] {
        let refusal = judge(WIT, &changed("0.1.1", from, to)).unwrap_err();
        assert!(refusal.contains("breaks what was built for 0.1.0"), "{from} -> {to}: {refusal}");
        // On another track everything may change.
        judge(WIT, &changed("0.2.0", from, to)).unwrap();
    }
}
