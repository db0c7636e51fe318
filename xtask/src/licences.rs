//! `cargo xtask lint --only licences`: under which licences, and from where, everything comes that is used.
//!
//! The rules stand in `deny.toml`, which is a file of cargo-deny, so that who has that tool can use it. It is
//! two hundred crates to compile on every fresh machine, and what is looked at here is a small part of it: licences
//! are read by the crate that it uses for them, the rest is a list of names.

use std::collections::{BTreeMap, BTreeSet};

use spdx::{Expression, Licensee};
use toml::{Table, Value};

use crate::parts::{Part, packages};
use crate::{Outcome, guests, root};

const FILE: &str = "deny.toml";
/// How cargo begins the names of registries.
const REGISTRY: &str = "registry+";

/// Checks what the host and the guests use.
pub(crate) fn check() -> Outcome {
    let path = root().join(FILE);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let rules = Rules::read(&text).map_err(|error| format!("{FILE}: {error}"))?;
    let platforms: Vec<&str> = rules.platforms.iter().map(String::as_str).collect();
    let mut parts = packages(&root(), &platforms)?;
    parts.extend(packages(&guests::folder(), &platforms)?);
    let own = |part: &Part| part.folder.starts_with(root());
    let found = rules.findings(&parts, own);
    if found.is_empty() { Ok(()) } else { Err(format!("{FILE} does not allow:\n  {}", found.join("\n  "))) }
}

/// The registry that most parts come from; all others have to.
fn registry(parts: &[Part]) -> Option<&str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for source in parts.iter().filter_map(|part| part.source.as_deref()).filter(|source| source.starts_with(REGISTRY)) {
        *counts.entry(source).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, parts)| *parts).map(|(source, _)| source)
}

/// What is allowed.
#[derive(Debug, Default)]
struct Rules {
    platforms: Vec<String>,
    licences: Vec<Licensee>,
    /// Licences of one crate only.
    exceptions: Vec<(String, Vec<Licensee>)>,
    /// Crates that are not wanted, and why.
    banned: Vec<(String, String)>,
}

impl Rules {
    /// Reads the file. What is not understood is refused: a rule that is not looked at would hold nothing.
    fn read(text: &str) -> Result<Self, String> {
        let file: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let mut rules = Self::default();
        for (section, settings) in &file {
            let settings = settings.as_table().ok_or_else(|| format!("{section} is a section"))?;
            for (name, value) in settings {
                let wrong = |why: String| format!("[{section}] {name}: {why}");
                rules.set(section, name, value).map_err(wrong)?;
            }
        }
        if rules.platforms.is_empty() || rules.licences.is_empty() {
            return Err("[graph] targets and [licenses] allow must be there".to_owned());
        }
        Ok(rules)
    }

    fn set(&mut self, section: &str, name: &str, value: &Value) -> Result<(), String> {
        match (section, name) {
            ("graph", "targets") => self.platforms = texts(value)?,
            ("graph", "all-features") if value.as_bool() == Some(true) => {}
            ("licenses", "allow") => self.licences = licensees(value)?,
            ("licenses", "exceptions") => {
                for exception in value.as_array().ok_or("a list")? {
                    let allow = exception.get("allow").ok_or("an exception has allow")?;
                    self.exceptions.push((text(exception, "crate")?, licensees(allow)?));
                }
            }
            ("bans", "deny") => {
                for ban in value.as_array().ok_or("a list")? {
                    self.banned.push((text(ban, "crate")?, text(ban, "reason")?));
                }
            }
            ("bans", "multiple-versions") if value.as_str() == Some("allow") => {}
            ("sources", "unknown-registry" | "unknown-git") if value.as_str() == Some("deny") => {}
            _ => return Err(format!("{value} is not understood here")),
        }
        Ok(())
    }

    /// What is not allowed, and what is allowed and not needed, in words. `own` says which parts are the project's.
    fn findings(&self, parts: &[Part], own: impl Fn(&Part) -> bool) -> Vec<String> {
        let mut found = BTreeSet::new();
        let mut used = vec![false; self.licences.len()];
        let registry = registry(parts);
        for part in parts {
            let Part { name, version, .. } = part;
            let mut tell = |what: String| found.insert(format!("{name} {version} {what}"));
            if let Some((_, reason)) = self.banned.iter().find(|(banned, _)| banned == name) {
                tell(format!("is banned: {reason}"));
            }
            match &part.source {
                Some(source) if Some(source.as_str()) == registry => {}
                None if own(part) => {}
                Some(source) => _ = tell(format!("comes from {source}, which is not the registry of all others")),
                None => _ = tell(format!("comes from {}, a folder outside of the project", part.folder.display())),
            }
            let Some(licence) = &part.licence else {
                tell("does not name its licence".to_owned());
                continue;
            };
            let expression = match Expression::parse(licence) {
                Ok(expression) => expression,
                Err(error) => {
                    tell(format!("has a licence that cannot be read, {licence:?}: {}", error.reason));
                    continue;
                }
            };
            for (licensee, used) in self.licences.iter().zip(&mut used) {
                *used |= expression.requirements().any(|wanted| licensee.satisfies(&wanted.req));
            }
            let except = self.exceptions.iter().filter(|(of, _)| of == name).flat_map(|(_, allowed)| allowed);
            let allowed: Vec<&Licensee> = self.licences.iter().chain(except).collect();
            if !expression.evaluate(|wanted| allowed.iter().any(|licensee| licensee.satisfies(wanted))) {
                tell(format!("has the licence {licence}"));
            }
        }
        for (licensee, _) in self.licences.iter().zip(used).filter(|(_, used)| !used) {
            found.insert(format!("(the licence {licensee} is allowed, and nothing has it: leave it out)"));
        }
        for (name, _) in self.exceptions.iter().filter(|(name, _)| parts.iter().all(|part| part.name != *name)) {
            found.insert(format!("(there is an exception for {name}, which is not used: leave it out)"));
        }
        found.into_iter().collect()
    }
}

fn text(of: &Value, name: &str) -> Result<String, String> {
    let text = of.get(name).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| format!("{of} has no {name}"))
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    let texts = value.as_array().ok_or("a list of texts")?.iter().map(|text| text.as_str().map(str::to_owned));
    texts.collect::<Option<_>>().ok_or_else(|| "a list of texts".to_owned())
}

fn licensees(value: &Value) -> Result<Vec<Licensee>, String> {
    let read =
        |text: String| Licensee::parse(&text).map_err(|error| format!("{text:?} is no licence: {}", error.reason));
    texts(value)?.into_iter().map(read).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    const RULES: &str = r#"
        [graph]
        targets = ["a-platform"]
        [licenses]
        allow = ["Apache-2.0", "MIT"]
        exceptions = [{ allow = ["CC0-1.0"], crate = "free" }]
        [bans]
        multiple-versions = "allow"
        deny = [{ crate = "openssl-sys", reason = "one library for encryption is enough" }]
        [sources]
        unknown-git = "deny"
    "#;

    fn part(name: &str, licence: &str) -> Part {
        let licence = (!licence.is_empty()).then(|| licence.to_owned());
        let (name, version) = (name.to_owned(), "1.0.0".to_owned());
        Part {
            name,
            version,
            licence,
            source: Some(format!("{REGISTRY}https://registry.example/index")),
            ..Part::default()
        }
    }

    fn findings(more: &[Part]) -> Vec<String> {
        let needed = [part("own", "Apache-2.0"), part("m", "MIT"), part("free", "CC0-1.0")];
        Rules::read(RULES).unwrap().findings(&[&needed, more].concat(), |part| part.name == "own")
    }

    #[test]
    fn what_is_allowed_passes() {
        assert_eq!(findings(&[part("a", "MIT OR GPL-3.0-only"), part("b", "(MIT OR Zlib) AND Apache-2.0")]), [""; 0]);
        let folder = Part { source: None, ..part("own", "MIT") };
        assert_eq!(findings(&[folder]), [""; 0]);
    }

    #[test]
    fn what_is_not_allowed_is_told() {
        let elsewhere = |source: Option<&str>| Part { source: source.map(str::to_owned), ..part("a", "MIT") };
        for (part, words) in [
            (part("a", "GPL-3.0-only"), "a 1.0.0 has the licence GPL-3.0-only"),
            (part("a", "MIT AND CC0-1.0"), "a 1.0.0 has the licence"),
            (part("a", "Apache-2.0 WITH LLVM-exception"), "a 1.0.0 has the licence"),
            (part("a", ""), "does not name its licence"),
            (part("a", "as you like"), "cannot be read"),
            (part("openssl-sys", "MIT"), "is banned: one library"),
            (elsewhere(Some("git+https://example.test/a")), "comes from git+https://example.test/a"),
            (elsewhere(None), "a folder outside"),
        ] {
            let found = findings(std::slice::from_ref(&part));
            assert!(found.len() == 1 && found.iter().all(|found| found.contains(words)), "{words}: {found:?}");
        }
    }

    #[test]
    fn what_nothing_needs_is_told() {
        let rules = Rules::read(RULES).unwrap();
        let found = rules.findings(&[part("m", "MIT")], |_| false);
        assert!(found.iter().any(|found| found.contains("Apache-2.0 is allowed, and nothing has it")), "{found:?}");
        assert!(found.iter().any(|found| found.contains("exception for free")), "{found:?}");
    }

    #[test]
    fn rules_that_are_not_understood_are_refused() {
        for (from, to) in [
            ("\"MIT\"", "\"MIT-like\""),
            ("allow = [\"Apache-2.0\", \"MIT\"]", ""),
            ("unknown-git = \"deny\"", "unknown-git = \"allow\""),
            ("unknown-git", "unknown-gits"),
            ("[bans]", "[ban]"),
            ("crate = \"free\"", ""),
            ("reason", "because"),
        ] {
            assert!(Rules::read(&RULES.replace(from, to)).is_err(), "{from} -> {to}");
        }
    }
}
