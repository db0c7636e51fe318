//! The list of the service's parts that machines read (SBOM), as CycloneDX 1.6 in JSON.
//!
//! Who runs the service asks it which parts have known faults. It tells what is linked in, with the digest
//! of each package; tools that only build are not in it.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::parts::Part;

/// The list; the first part is the program itself. `time` is when it was made, as RFC 3339.
pub(crate) fn document(parts: &[Part], time: &str) -> Value {
    let components: Vec<Value> = parts.iter().skip(1).map(component).collect();
    let dependencies: Vec<Value> = parts
        .iter()
        .map(|part| {
            let uses: Vec<String> = part.uses.iter().filter_map(|used| parts.get(*used)).map(reference).collect();
            json!({"ref": reference(part), "dependsOn": uses})
        })
        .collect();
    let mut program = parts.first().map(component).unwrap_or_default();
    if let Some(kind) = program.get_mut("type") {
        *kind = json!("application");
    }
    let about = json!({"timestamp": time, "component": program});
    let serial = serial(&json!([about, components, dependencies]).to_string());
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": serial,
        "version": 1,
        "metadata": about,
        "components": components,
        "dependencies": dependencies,
    })
}

fn component(part: &Part) -> Value {
    let mut told = Map::new();
    told.insert("type".to_owned(), json!("library"));
    told.insert("bom-ref".to_owned(), json!(reference(part)));
    told.insert("name".to_owned(), json!(part.name));
    told.insert("version".to_owned(), json!(part.version));
    if let Some(checksum) = &part.checksum {
        told.insert("hashes".to_owned(), json!([{"alg": "SHA-256", "content": checksum}]));
    }
    if let Some(licence) = &part.licence {
        told.insert("licenses".to_owned(), json!([{"expression": licence}]));
    }
    if part.source.is_some() {
        told.insert("purl".to_owned(), json!(reference(part)));
    }
    if let Some(repository) = &part.repository {
        told.insert("externalReferences".to_owned(), json!([{"type": "vcs", "url": repository}]));
    }
    Value::Object(told)
}

/// How a part is called: its address among packages, if it is one.
fn reference(part: &Part) -> String {
    let Part { name, version, .. } = part;
    match part.source {
        Some(_) => format!("pkg:cargo/{name}@{}", version.replace('+', "%2B")),
        None => format!("{name}@{version}"),
    }
}

/// A number for the list, the same for the same content: a UUID of version 8 out of its digest.
fn serial(content: &str) -> String {
    let digest = Sha256::digest(content.as_bytes());
    let mut hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    hex.replace_range(12..13, "8");
    hex.replace_range(16..17, "a");
    for place in [20, 16, 12, 8] {
        hex.insert(place, '-');
    }
    format!("urn:uuid:{hex}")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::parts;

    /// What the schema of CycloneDX 1.6 wants of the parts of it that are used here; what is wrong otherwise.
    fn wrong(document: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut want = |good: bool, what: String| {
            if !good {
                wrong.push(what);
            }
        };
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        want(text(document, "bomFormat").as_deref() == Some("CycloneDX"), "bomFormat".to_owned());
        want(text(document, "specVersion").as_deref() == Some("1.6"), "specVersion".to_owned());
        want(document["version"].as_u64().is_some_and(|version| version > 0), "version".to_owned());
        let serial = text(document, "serialNumber").unwrap_or_default();
        let groups: Vec<&str> = serial.strip_prefix("urn:uuid:").unwrap_or_default().split('-').collect();
        want(groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]), format!("serialNumber {serial}"));
        let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        want(groups.iter().all(|group| hex(group)), format!("serialNumber {serial}"));
        let time = text(&document["metadata"], "timestamp").unwrap_or_default();
        want(chrono::DateTime::parse_from_rfc3339(&time).is_ok(), format!("timestamp {time}"));
        let listed = document["components"].as_array().into_iter().flatten();
        let mut known = BTreeSet::new();
        for part in listed.chain([&document["metadata"]["component"]]) {
            let name = text(part, "name").unwrap_or_default();
            want(!name.is_empty(), format!("name of {part}"));
            want(matches!(text(part, "type").as_deref(), Some("library" | "application")), format!("type of {name}"));
            let reference = text(part, "bom-ref").unwrap_or_default();
            want(!reference.is_empty() && known.insert(reference), format!("bom-ref of {name}"));
            for hash in part.get("hashes").and_then(Value::as_array).into_iter().flatten() {
                let content = text(hash, "content").unwrap_or_default();
                want(text(hash, "alg").as_deref() == Some("SHA-256"), format!("alg of {name}"));
                want(content.len() == 64 && hex(&content), format!("hash of {name}"));
            }
            let licences = part.get("licenses").and_then(Value::as_array);
            for licence in licences.into_iter().flatten() {
                let expression = text(licence, "expression").unwrap_or_default();
                want(spdx::Expression::parse(&expression).is_ok(), format!("licence of {name}"));
                want(licence.as_object().is_some_and(|licence| licence.len() == 1), format!("licence of {name}"));
            }
            // With an expression, there may be nothing beside it.
            want(licences.is_none_or(|licences| licences.len() == 1), format!("licences of {name}"));
            for reference in part.get("externalReferences").and_then(Value::as_array).into_iter().flatten() {
                want(text(reference, "type").is_some() && text(reference, "url").is_some(), format!("links of {name}"));
            }
        }
        let mut told = BTreeSet::new();
        for dependency in document["dependencies"].as_array().into_iter().flatten() {
            let of = text(dependency, "ref").unwrap_or_default();
            want(known.contains(&of) && told.insert(of.clone()), format!("dependency {of}"));
            let uses = dependency["dependsOn"].as_array().map(Vec::as_slice).unwrap_or_default();
            let distinct: BTreeSet<String> = uses.iter().filter_map(|used| used.as_str().map(str::to_owned)).collect();
            want(distinct.len() == uses.len() && distinct.is_subset(&known), format!("dependencies of {of}"));
        }
        want(told.len() == known.len(), "every part has its dependencies".to_owned());
        wrong
    }

    #[test]
    fn the_list_of_the_service_is_as_the_schema_wants_it() {
        let parts = parts::of_service("x86_64-unknown-linux-gnu").unwrap();
        let list = document(&parts, "2026-01-31T12:00:00+00:00");
        assert_eq!(wrong(&list), [""; 0]);
        assert_eq!(list, document(&parts, "2026-01-31T12:00:00+00:00"), "the same each time");
        assert_ne!(list["serialNumber"], document(&parts, "2026-01-31T12:00:01+00:00")["serialNumber"]);
        let names: Vec<&str> =
            list["components"].as_array().unwrap().iter().filter_map(|part| part["name"].as_str()).collect();
        assert!(["tokio", "rustls", "wasmtime", "libsqlite3-sys"].iter().all(|name| names.contains(name)), "{names:?}");
        // Macros and what only tests use are not linked in.
        assert!(
            ["serde_derive", "clap_derive", "rcgen", "proptest"].iter().all(|name| !names.contains(name)),
            "{names:?}"
        );
        let from_registry = parts.iter().filter(|part| part.source.is_some());
        assert!(from_registry.clone().count() > 100 && from_registry.clone().all(|part| part.checksum.is_some()));
        assert_eq!(list["metadata"]["component"]["name"], json!("tidegate"));
        assert_eq!(list["metadata"]["component"]["type"], json!("application"));
    }

    #[test]
    fn a_version_with_a_plus_is_written_for_an_address() {
        let part = Part {
            name: "z".to_owned(),
            version: "1.0.0+z.2".to_owned(),
            source: Some("registry".to_owned()),
            ..Part::default()
        };
        assert_eq!(component(&part)["purl"], json!("pkg:cargo/z@1.0.0%2Bz.2"));
        assert_eq!(component(&Part { source: None, ..part })["bom-ref"], json!("z@1.0.0+z.2"));
    }
}
