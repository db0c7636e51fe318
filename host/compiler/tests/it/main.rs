//! The compiler from the outside: what is made passes the gate, and what must not pass is refused
//! with a reason that an author can act on.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]

mod contract;
mod folder;
mod gate;

use tidegate_compiler::{compile_adhoc, compile_sql, inspect, manifest_of, pack};
use tidegate_model::{EndpointName, Manifest, Parameter};

/// A manifest with a bit of everything.
fn manifest() -> Manifest {
    let mut manifest =
        Manifest::new(EndpointName::try_from("usage.api-counts".to_owned()).unwrap(), "WITH t AS (SELECT 1) SELECT 1");
    manifest.parameters.push(Parameter { name: "project".into(), required: true, ..Parameter::default() });
    manifest.settings.cache_duration_seconds = 900;
    manifest
}

#[test]
fn a_sql_endpoint_becomes_a_small_component_that_passes_the_gate() {
    let component = compile_sql(&manifest()).unwrap();
    assert!(component.len() < 5000, "{} bytes", component.len());
    let inspection = inspect(&component).unwrap();
    assert_eq!(inspection.manifest, manifest());
    assert_eq!(inspection.world.name(), "endpoint");
    assert_eq!(inspection.initial_memory, 65_536);
    assert!(inspection.imports.iter().all(|name| name.starts_with("tidegate:endpoint/")));
    assert!(!inspection.imports.iter().any(|name| name.contains("adhoc")));
}

#[test]
fn compiling_is_deterministic_and_the_digest_covers_the_manifest() {
    let (one, two) = (compile_sql(&manifest()).unwrap(), compile_sql(&manifest()).unwrap());
    assert_eq!(one, two);
    let mut changed = manifest();
    changed.settings.max_limit = 7;
    let other = compile_sql(&changed).unwrap();
    assert_ne!(inspect(&one).unwrap().digest, inspect(&other).unwrap().digest);
}

#[test]
fn packing_twice_changes_nothing_and_another_manifest_replaces_the_first() {
    let component = compile_sql(&manifest()).unwrap();
    assert_eq!(pack(&component, &manifest()).unwrap(), component);
    let mut changed = manifest();
    changed.description = "counts".to_owned();
    let repacked = pack(&component, &changed).unwrap();
    assert_eq!(manifest_of(&repacked).unwrap(), changed);
    assert_eq!(pack(&repacked, &manifest()).unwrap(), component);
}

#[test]
fn the_adhoc_component_needs_the_wider_world() {
    let component = pack(&compile_adhoc().unwrap(), &manifest()).unwrap();
    assert_eq!(inspect(&component).unwrap().world.name(), "endpoint-adhoc");
}

#[test]
fn a_manifest_that_breaks_its_rules_is_not_compiled() {
    let mut bad = manifest();
    bad.query = "  ".to_owned();
    assert_eq!(compile_sql(&bad).unwrap_err().to_string(), "the query is empty");
}
