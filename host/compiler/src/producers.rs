//! Which tools made a component. Two generations of tools that do not fit each other are a common
//! reason for a build that fails strangely, so an author is told both.

use std::collections::BTreeSet;

use wasmparser::{KnownCustom, Parser, Payload};

/// A tool that had a part in a component.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tool {
    /// Its name, such as `rustc` or `wit-component`.
    pub name: String,
    /// Its version, as it tells it; may be empty.
    pub version: String,
}

/// The longest list that is read: the section is written by whoever built the component.
const MOST: usize = 32;

/// The tools that a module or component names as its makers, by name; those that can be read.
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
