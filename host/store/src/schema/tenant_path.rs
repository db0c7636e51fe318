//! The field by whose values rows lie together: that of the tenants of a source.
//!
//! A source that declares tenant keys has the field of the first of them, in the order of their names; all others have
//! `project`. The declaration may change. So segments and batches say by which path they were made, and what they say of
//! their tenants is used only for conditions on that path.

use serde::{Deserialize, Serialize};
use tidegate_model::SourceTenancy;

use crate::{field_names::PROJECT, schema::json_pointer::push_pointer};

/// The names that lead to the field, from the outermost: at least one. The serialized form, a JSON array, is in catalogs and
/// footers and must stay readable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub(crate) struct TenantPath(Vec<String>);

impl Default for TenantPath {
    fn default() -> Self {
        TenantPath(vec![PROJECT.to_owned()])
    }
}

impl TryFrom<Vec<String>> for TenantPath {
    type Error = &'static str;

    fn try_from(names: Vec<String>) -> Result<Self, Self::Error> {
        if names.is_empty() { Err("the path of the tenants has no names") } else { Ok(TenantPath(names)) }
    }
}

impl From<TenantPath> for Vec<String> {
    fn from(TenantPath(names): TenantPath) -> Self {
        names
    }
}

impl TenantPath {
    /// Of a source that says this of its rows.
    pub(crate) fn of(tenancy: Option<&SourceTenancy>) -> TenantPath {
        match tenancy {
            Some(SourceTenancy::Keyed(keys)) => {
                keys.values().next().map_or_else(TenantPath::default, |path| TenantPath(path.names().to_vec()))
            }
            Some(SourceTenancy::Shared) | None => TenantPath::default(),
        }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.0
    }

    /// The names of the column and of the fields below it.
    pub(crate) fn split(&self) -> (&str, impl Iterator<Item = &str>) {
        let mut names = self.0.iter().map(String::as_str);
        (names.next().unwrap_or_default(), names)
    }

    /// Whether this is the path of what does not say by which path it was made.
    pub(crate) fn is_default(&self) -> bool {
        matches!(self.0.as_slice(), [name] if name == PROJECT)
    }

    /// Whether a column and fields below it spell the path.
    pub(crate) fn is(&self, column: &str, fields: &[&str]) -> bool {
        matches!(self.0.split_first(), Some((first, rest)) if first == column && rest.iter().eq(fields.iter().copied()))
    }

    /// The path in the overflow of an event.
    pub(crate) fn pointer(&self) -> String {
        let mut pointer = String::new();
        self.0.iter().for_each(|name| push_pointer(&mut pointer, name));
        pointer
    }

    /// For a footer and a catalog; `None` for the default.
    pub(crate) fn to_text(&self) -> Option<String> {
        (!self.is_default()).then(|| serde_json::Value::from(self.0.clone()).to_string())
    }

    /// Of a footer or a catalog.
    pub(crate) fn of_text(text: Option<&str>) -> Result<TenantPath, serde_json::Error> {
        text.map_or_else(|| Ok(TenantPath::default()), serde_json::from_str)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_decides() {
        let of = |json: &str| TenantPath::of(Some(&serde_json::from_str(json).unwrap()));
        assert!(TenantPath::of(None).is_default() && of("\"shared\"").is_default());
        assert!(of(r#"{"project": "project"}"#).is_default());
        let nested = of(r#"{"team": "t", "project": "metadata.`a.b/c`"}"#);
        assert_eq!(nested.names(), ["metadata", "a.b/c"]);
        assert_eq!(nested.pointer(), "/metadata/a.b~1c");
        assert!(nested.is("metadata", &["a.b/c"]));
        assert!(!nested.is("metadata", &[]) && !nested.is("metadata", &["a.b/c", "d"]) && !nested.is("a", &["a.b/c"]));
    }

    #[test]
    fn texts_are_read_as_they_were_written() {
        for names in [vec!["project"], vec!["metadata", "a.b`\"c"]] {
            let path = TenantPath::try_from(names.into_iter().map(str::to_owned).collect::<Vec<_>>()).unwrap();
            assert_eq!(TenantPath::of_text(path.to_text().as_deref()).unwrap(), path);
        }
        assert_eq!(TenantPath::default().to_text(), None);
        assert!(TenantPath::of_text(Some("[]")).is_err() && TenantPath::of_text(Some("metadata")).is_err());
    }
}
