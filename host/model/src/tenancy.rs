//! Whose rows are whose: what a source says of its rows, and which of them a reader may read.
//!
//! A source declares its tenant keys: a name, and the field of an event that holds the tenant. A token that pins such a
//! name reads of the source only the rows that have exactly that value there. Both sides meet in
//! [`SourceTenancy::policy`], and nowhere else.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most keys of a source.
const MOST_KEYS: usize = 16;
/// The longest name of a key or a field, in bytes.
const LONGEST_NAME: usize = 128;
/// The most fields of a path.
const LONGEST_PATH: usize = 16;
/// The word for a source whose rows are for all tenants.
const SHARED: &str = "shared";

/// A field of an event: the keys of its records and its own, written as `metadata.project`. A name with other signs than
/// letters, digits, `_`, `-`, `/` and `@` stands in backquotes: ``metadata.`service.name` ``.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyPath(Vec<String>);

impl KeyPath {
    /// The names, from the outermost; there is at least one.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "_-/@".contains(c)
}

impl FromStr for KeyPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("'{text}' is no path to a field: {what}; write it as metadata.project");
        let (mut names, mut rest) = (Vec::new(), text);
        loop {
            let (name, after) = match rest.strip_prefix('`') {
                Some(quoted) => quoted.split_once('`').ok_or_else(|| wrong("a backquote is not closed"))?,
                None => rest.split_at(rest.find(|c| !is_plain(c)).unwrap_or(rest.len())),
            };
            match name.len() {
                0 => return Err(wrong("a name is missing")),
                1..=LONGEST_NAME => names.push(name.to_owned()),
                _ => return Err(wrong("a name is longer than 128 bytes")),
            }
            if after.is_empty() {
                break;
            }
            rest = after.strip_prefix('.').ok_or_else(|| wrong("a name with other signs stands in backquotes"))?;
        }
        if names.len() > LONGEST_PATH {
            return Err(wrong("it has more than 16 names"));
        }
        Ok(Self(names))
    }
}

impl TryFrom<String> for KeyPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<KeyPath> for String {
    fn from(path: KeyPath) -> Self {
        path.to_string()
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, name) in self.0.iter().enumerate() {
            if nth > 0 {
                f.write_str(".")?;
            }
            if name.chars().all(is_plain) { f.write_str(name)? } else { write!(f, "`{name}`")? }
        }
        Ok(())
    }
}

/// A float that stands at the path of a tenant key, as the text of a tenant: its JSON text, and a whole one as the integer
/// that it may have been. `None` for what is no number of JSON.
pub fn tenant_number(float: f64) -> Option<String> {
    /// From here on floats may stand for several whole numbers.
    const MOST_WHOLE: f64 = 9_007_199_254_740_992.0;
    if float.fract() != 0.0 || float.abs() >= MOST_WHOLE {
        return serde_json::Number::from_f64(float).map(|number| number.to_string());
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
    let number = float as i64;
    Some(number.to_string())
}

/// What a source says of its rows: `"shared"`, or its tenant keys as `{"project": "metadata.project"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "TenancyText", into = "TenancyText")]
#[schemars(inline)]
pub enum SourceTenancy {
    /// All tenants may read all rows.
    Shared,
    /// The tenant keys, at least one: each with the field that holds its value.
    Keyed(BTreeMap<String, KeyPath>),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum TenancyText {
    Word(String),
    Keys(BTreeMap<String, String>),
}

impl TryFrom<TenancyText> for SourceTenancy {
    type Error = String;

    fn try_from(text: TenancyText) -> Result<Self, String> {
        let keys = match text {
            TenancyText::Word(word) if word == SHARED => return Ok(Self::Shared),
            TenancyText::Word(word) => {
                return Err(format!("tenant is \"shared\" or an object of keys and paths, and not \"{word}\""));
            }
            TenancyText::Keys(keys) => keys,
        };
        if keys.is_empty() || keys.len() > MOST_KEYS {
            return Err(format!("a source has 1 to {MOST_KEYS} tenant keys; there are {}", keys.len()));
        }
        let key = |(name, path): (String, String)| {
            let is_name = !name.is_empty()
                && name.len() <= LONGEST_NAME
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_name {
                return Err(format!("'{name}' is no name of a tenant key: it has letters, digits and _"));
            }
            Ok((name, path.parse()?))
        };
        Ok(Self::Keyed(keys.into_iter().map(key).collect::<Result<_, String>>()?))
    }
}

impl From<SourceTenancy> for TenancyText {
    fn from(tenancy: SourceTenancy) -> Self {
        match tenancy {
            SourceTenancy::Shared => Self::Word(SHARED.to_owned()),
            SourceTenancy::Keyed(keys) => {
                Self::Keys(keys.into_iter().map(|(name, path)| (name, path.to_string())).collect())
            }
        }
    }
}

impl fmt::Display for SourceTenancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared => f.write_str(SHARED),
            Self::Keyed(keys) => {
                let keys: Vec<String> = keys.iter().map(|(name, path)| format!("{name}={path}")).collect();
                f.write_str(&keys.join(" "))
            }
        }
    }
}

/// For whom rows are read. There is no default: who reads for all says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// For somebody who may read the rows of all tenants.
    All,
    /// For a token that pins these names to these values; at least one.
    Tenant(BTreeMap<String, String>),
}

static NO_PINS: BTreeMap<String, String> = BTreeMap::new();

impl Audience {
    /// The audience of a token that pins these; without any, all rows are its own.
    pub fn of_pins(pins: BTreeMap<String, String>) -> Self {
        if pins.is_empty() { Self::All } else { Self::Tenant(pins) }
    }

    /// The names that are pinned, with their values.
    pub fn pins(&self) -> &BTreeMap<String, String> {
        match self {
            Self::All => &NO_PINS,
            Self::Tenant(pins) => pins,
        }
    }
}

/// Which rows of a source may be read: those that have each of these values at its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowPolicy {
    /// The paths with their values; at least one.
    pub values: Vec<(KeyPath, String)>,
}

impl fmt::Display for RowPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self.values.iter().map(|(path, value)| format!("{path} = '{value}'")).collect();
        f.write_str(&values.join(" AND "))
    }
}

/// Why a source gives no rows to an audience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotOfTenant {
    /// The source does not say whose its rows are.
    Undeclared,
    /// The source has none of the pinned names as a key.
    NoKey,
    /// The source has another of the pinned names as a key, and not this one, which is a key of other sources.
    LacksKey(String),
}

impl SourceTenancy {
    /// Which rows of a source an audience may read; `None` for all of them. `is_key` tells whether any source has a name
    /// as its key: a pinned name that no source has is a parameter, and says nothing about rows.
    ///
    /// # Errors
    /// The source cannot tell which rows are those of the audience.
    pub fn policy(
        own: Option<&Self>,
        audience: &Audience,
        is_key: impl Fn(&str) -> bool,
    ) -> Result<Option<RowPolicy>, NotOfTenant> {
        let Audience::Tenant(pins) = audience else { return Ok(None) };
        let keys = match own {
            None => return Err(NotOfTenant::Undeclared),
            Some(Self::Shared) => return Ok(None),
            Some(Self::Keyed(keys)) => keys,
        };
        let held = pins.iter().filter_map(|(name, value)| Some((keys.get(name)?.clone(), value.clone())));
        let values: Vec<_> = held.collect();
        if values.is_empty() {
            return Err(NotOfTenant::NoKey);
        }
        match pins.keys().find(|name| !keys.contains_key(*name) && is_key(name)) {
            Some(name) => Err(NotOfTenant::LacksKey(name.clone())),
            None => Ok(Some(RowPolicy { values })),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn tenancy(json: &str) -> Result<SourceTenancy, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    fn pins(pins: &[(&str, &str)]) -> Audience {
        Audience::Tenant(pins.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn paths_are_read_as_they_are_written() {
        for (text, names) in [
            ("project", vec!["project"]),
            ("metadata.project_ref", vec!["metadata", "project_ref"]),
            ("metadata.`service.name`.x", vec!["metadata", "service.name", "x"]),
            ("a-b/c@d", vec!["a-b/c@d"]),
        ] {
            let path: KeyPath = text.parse().unwrap();
            assert_eq!(path.names(), names, "{text}");
            assert_eq!(path.to_string(), text);
        }
        let long = "a.".repeat(16) + "a";
        for text in ["", ".", "a.", ".a", "a..b", "a b", "`a", "``", "a`b`", "`a`b", "a[0]", &"x".repeat(129), &long] {
            assert!(text.parse::<KeyPath>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_declaration_is_one_word_or_keys() {
        assert_eq!(tenancy("\"shared\"").unwrap(), SourceTenancy::Shared);
        let keyed = tenancy(r#"{"project": "metadata.project", "team": "team"}"#).unwrap();
        assert_eq!(keyed.to_string(), "project=metadata.project team=team");
        assert_eq!(serde_json::to_string(&keyed).unwrap(), r#"{"project":"metadata.project","team":"team"}"#);
        for json in
            ["\"all\"", "{}", "[]", "1", "null", r#"{"a b": "x"}"#, r#"{"": "x"}"#, r#"{"a": ""}"#, r#"{"a": 1}"#]
        {
            assert!(tenancy(json).is_err(), "{json}");
        }
    }

    #[test]
    fn what_a_source_does_not_know_is_refused() {
        let keyed = tenancy(r#"{"project": "p"}"#).unwrap();
        let policy = |own: Option<&SourceTenancy>, audience: &Audience| {
            SourceTenancy::policy(own, audience, |name| ["project", "team"].contains(&name))
        };
        let of_abc = Some(RowPolicy { values: vec![("p".parse().unwrap(), "abc".to_owned())] });
        assert_eq!(policy(Some(&keyed), &Audience::All), Ok(None));
        assert_eq!(policy(None, &Audience::All), Ok(None));
        assert_eq!(policy(Some(&SourceTenancy::Shared), &pins(&[("project", "abc")])), Ok(None));
        assert_eq!(policy(Some(&keyed), &pins(&[("project", "abc")])), Ok(of_abc.clone()));
        // No source has such a key: it is a parameter.
        assert_eq!(policy(Some(&keyed), &pins(&[("project", "abc"), ("interval", "daily")])), Ok(of_abc));
        assert_eq!(policy(None, &pins(&[("project", "abc")])), Err(NotOfTenant::Undeclared));
        // A name that is misspelt closes, and does not open.
        assert_eq!(policy(Some(&keyed), &pins(&[("projct", "abc")])), Err(NotOfTenant::NoKey));
        assert_eq!(policy(Some(&keyed), &pins(&[("team", "t1")])), Err(NotOfTenant::NoKey));
        let both = pins(&[("project", "abc"), ("team", "t1")]);
        assert_eq!(policy(Some(&keyed), &both), Err(NotOfTenant::LacksKey("team".to_owned())));
    }
}
