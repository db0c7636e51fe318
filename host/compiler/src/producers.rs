//! The tools that made a component. Two versions of tools that do not fit each other are a common reason for strange
//! build failures, so an author is told the versions.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use wasmparser::{KnownCustom, Parser, Payload};

/// A tool that took part in making a component.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Tool {
    /// Its name, such as `rustc` or `wit-component`.
    pub name: String,
    /// Its version, as it states it; may be empty.
    pub version: String,
}

/// The most tools that are read: whoever built the component wrote the section.
const MOST: usize = 32;

/// The tools that a module or component lists as its producers, sorted by name. Unreadable entries are ignored.
pub fn tools(bytes: &[u8]) -> Vec<Tool> {
    let mut tools = BTreeSet::new();
    for payload in Parser::new(0).parse_all(bytes) {
        let Ok(payload) = payload else { break };
        let Payload::CustomSection(section) = payload else { continue };
        let KnownCustom::Producers(fields) = section.as_known() else { continue };
        for field in fields.into_iter().flatten() {
            for value in field.values.into_iter().flatten().filter(|_| field.name != "language") {
                if tools.len() < MOST {
                    let plain = |text: &str| text.chars().filter(|c| !c.is_control()).take(80).collect();
                    tools.insert(Tool { name: plain(value.name), version: plain(value.version) });
                }
            }
        }
    }
    tools.into_iter().collect()
}
