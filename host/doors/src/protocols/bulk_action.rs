//! What a request of Elasticsearch's interface wants done: its path, and the lines of actions in a bulk request.

use crate::elements::object;
use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::bulk_answer::PREFIX;

/// What a path names.
#[derive(Debug, PartialEq)]
pub(super) enum Target {
    /// Many documents, with the index of those that name none.
    Bulk(Option<String>),
    /// One document, which is the body.
    Document { action: &'static str, index: String, id: Option<String> },
}

/// What the path of a request names.
pub(super) fn target(path: &str) -> Target {
    let path = path.strip_prefix(PREFIX).unwrap_or(path);
    let mut parts =
        path.split('/').filter(|part| !part.is_empty()).map(|part| percent_decode_str(part).decode_utf8_lossy());
    let (index, kind, id) = (parts.next(), parts.next(), parts.next().map(Cow::into_owned));
    match (index, kind.as_deref()) {
        (Some(index), Some("_doc")) => {
            let action = if id.is_some() { "index" } else { "create" };
            Target::Document { action, index: index.into_owned(), id }
        }
        (Some(index), Some("_create")) => Target::Document { action: "create", index: index.into_owned(), id },
        (index, Some(_)) => Target::Bulk(index.map(Cow::into_owned)),
        _ => Target::Bulk(None),
    }
}

/// What a line wants done with a document.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Action<'a> {
    #[serde(borrow, rename = "_index", default)]
    pub(super) index: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "_id", default)]
    id: Option<&'a RawValue>,
}

impl Action<'_> {
    /// The id, if it is a text or a number.
    pub(super) fn id(&self) -> Option<String> {
        let id = self.id?.get();
        match id.bytes().next()? {
            b'"' => serde_json::from_str(id).ok().filter(|id: &String| !id.is_empty()),
            b'-' | b'0'..=b'9' => Some(id.to_owned()),
            _ => None,
        }
    }
}

const ACTIONS: [&str; 4] = ["index", "create", "update", "delete"];

/// The action of a line. Other keys beside it are passed over: clients keep notes of their own there.
pub(super) struct Line<'a>(pub(super) &'static str, pub(super) Action<'a>);

impl<'de> Deserialize<'de> for Line<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Line<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one action")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut keys: A) -> Result<Line<'de>, A::Error> {
        let mut found = None;
        while let Some(key) = keys.next_key::<Cow<'_, str>>()? {
            match ACTIONS.into_iter().find(|name| *name == key) {
                Some(_) if found.is_some() => return Err(A::Error::custom("a second action")),
                Some(name) => {
                    found = Some(Line(
                        name,
                        keys.next_value::<Option<&RawValue>>()?
                            .map_or_else(|| Ok(Action::default()), |action| object(action.get()))
                            .map_err(A::Error::custom)?,
                    ))
                }
                None => drop(keys.next_value::<IgnoredAny>()?),
            }
        }
        found.ok_or_else(|| A::Error::custom("no action"))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_index_stands_in_the_path() {
        let bulk = |index: &str| Target::Bulk(Some(index.to_owned()));
        assert_eq!([target("/_bulk"), target("/elasticsearch/_bulk")], [Target::Bulk(None), Target::Bulk(None)]);
        assert_eq!(target("/logs-a.b-default/_bulk"), bulk("logs-a.b-default"));
        assert_eq!(target("/elasticsearch/a%20b/_bulk"), bulk("a b"));
        let document =
            |action, id: Option<&str>| Target::Document { action, index: "a".to_owned(), id: id.map(str::to_owned) };
        assert_eq!(target("/a/_doc"), document("create", None));
        assert_eq!(target("/a/_doc/"), document("create", None));
        assert_eq!(target("/elasticsearch/a/_doc/7%2F8"), document("index", Some("7/8")));
        assert_eq!(target("/a/_create/7"), document("create", Some("7")));
    }

    #[test]
    fn other_keys_beside_the_action_are_passed_over() {
        let read =
            |line: &str| serde_json::from_str::<Line<'_>>(line).ok().map(|Line(name, action)| (name, action.id()));
        for line in [
            r#"{"index": {"_id": "7", "routing": [1]}, "attempts": 0}"#,
            r#"{"attempts": {"a": [{}]}, "\u0069ndex": {"_id": "7"}}"#,
        ] {
            assert_eq!(read(line), Some(("index", Some("7".to_owned()))), "{line}");
        }
        assert_eq!(read(r#"{"create": null, "x": 1}"#), Some(("create", None)));
        for bad in [
            "{}",
            "[]",
            r#"{"attempts": 0}"#,
            r#"{"index": {}, "create": {}}"#,
            r#"{"index": {}, "index": {}}"#,
            r#"{"index": 5}"#,
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
        let id = |id: &str| serde_json::from_str::<Action<'_>>(&format!("{{\"_id\": {id}}}")).unwrap().id();
        assert_eq!([id("-7"), id("\"a\\u0062\"")], [Some("-7".to_owned()), Some("ab".to_owned())]);
        assert_eq!([id("null"), id("\"\""), id("{}"), id("[1]"), id("true")], [const { None }; 5]);
    }
}
