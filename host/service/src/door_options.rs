//! The options of the doors: the ways in which events come in.

use std::collections::BTreeMap;

/// The options of the doors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoorOptions {
    /// The source for events of requests that name none, by door. Requests at a door without one are refused.
    sources: BTreeMap<&'static str, String>,
    /// The text that Vercel expects in the header `x-vercel-verify` of the answers; empty sends no such header.
    pub vercel_verify: String,
}

impl DoorOptions {
    /// The source for events of requests that name none at a door; empty if there is none.
    pub fn source(&self, door: &str) -> &str {
        self.sources.get(door).map_or("", String::as_str)
    }

    /// The sources that there are, each with its door.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sources.iter().map(|(door, source)| (*door, source.as_str()))
    }

    /// Sets it, unless it is no name of a source. Returns whether it is one, or empty.
    pub(crate) fn set_source(&mut self, door: &'static str, name: &str) -> bool {
        let good = !name.chars().any(char::is_control);
        if good && name.is_empty() {
            self.sources.remove(door);
        } else if good {
            self.sources.insert(door, name.to_owned());
        }
        good
    }
}
