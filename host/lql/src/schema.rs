//! Names and types of fields, as far as the caller knows them, for checking a query against a source and for choosing
//! literals that fit the columns of a granted table.

use std::collections::BTreeMap;

use crate::name::steps;

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldType {
    /// Text.
    String,
    /// A 64-bit integer.
    Integer,
    /// A 64-bit floating-point number.
    Float,
    /// True or false.
    Boolean,
    /// A point in time.
    Datetime,
    /// A record. Queries name its fields, never the record itself.
    Record,
    /// Any other type, such as bytes: compared as the SQL engine compares it.
    Other,
}

impl FieldType {
    /// The name in a schema, for instance `integer`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::Boolean => "boolean",
            Self::Datetime => "datetime",
            Self::Record => "map",
            Self::Other => "other",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::String, Self::Integer, Self::Float, Self::Boolean, Self::Datetime, Self::Record]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// A field of a [`Schema`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Field {
    pub(crate) kind: FieldType,
    pub(crate) list: bool,
}

/// The fields of a source or a table by path, for instance `metadata.request.method`. Names are as [`crate::quoted`] has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schema {
    fields: BTreeMap<String, Field>,
    /// Whether these are all columns. Records may have more fields than these.
    whole: bool,
}

impl Schema {
    /// A schema without fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares that the table has no other columns than those added. Fields of records may be missing.
    pub fn set_whole(&mut self) {
        self.whole = true;
    }

    /// Adds a field with one value.
    pub fn insert(&mut self, path: impl Into<String>, kind: FieldType) {
        self.fields.insert(path.into(), Field { kind, list: false });
    }

    /// Adds a field with a list of values.
    pub fn insert_list(&mut self, path: impl Into<String>, element: FieldType) {
        self.fields.insert(path.into(), Field { kind: element, list: true });
    }

    /// Adds a field by the name of its type: `string`, `integer`, `float`, `boolean`, `datetime`, `map`, or `list:` and
    /// one of them. For another name nothing is added and false is returned.
    pub fn insert_named(&mut self, path: impl Into<String>, name: &str) -> bool {
        let (list, name) = match name.strip_prefix("list:") {
            Some(element) => (true, element),
            None => (false, name),
        };
        let kind = FieldType::named(name);
        if let Some(kind) = kind {
            self.fields.insert(path.into(), Field { kind, list });
        }
        kind.is_some()
    }

    pub(crate) fn get(&self, path: &str) -> Option<Field> {
        self.fields.get(path).copied()
    }

    /// The field with this name, as SQL resolves it: exactly, else case-insensitively.
    pub(crate) fn find(&self, path: &str) -> Option<Field> {
        let without_case = || self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(path)).map(|(_, f)| *f);
        self.get(path).or_else(without_case)
    }

    /// Whether the table certainly lacks this column.
    pub(crate) fn lacks(&self, column: &str) -> bool {
        self.whole && self.find(column).is_none()
    }

    /// The names of the columns.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str).filter(|path| steps(path).nth(1).is_none())
    }

    /// The field that is meant by a path without backticks that leads to none, if there is one whose names have dots.
    pub(crate) fn with_dots_in_names(&self, path: &str) -> Option<&str> {
        let is_meant = |known: &&String| known.contains('`') && known.replace('`', "").eq_ignore_ascii_case(path);
        if self.find(path).is_some() { None } else { self.fields.keys().find(is_meant).map(String::as_str) }
    }

    /// The name of the type of a field, for instance `list:string`.
    pub(crate) fn type_name(&self, path: &str) -> Option<String> {
        let field = self.get(path)?;
        Some(format!("{}{}", if field.list { "list:" } else { "" }, field.kind.name()))
    }

    /// The field whose name is most similar to `path`, if one is similar.
    pub(crate) fn nearest(&self, path: &str) -> Option<&str> {
        const FIELDS: usize = 2000;
        nearest(path, self.fields.keys().take(FIELDS).map(String::as_str))
    }
}

/// The name most similar to `wanted`: few edits away, or equal except for case.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    let wanted: Vec<char> = wanted.chars().take(LONGEST + 1).flat_map(char::to_lowercase).collect();
    if wanted.is_empty() || wanted.len() > LONGEST {
        return None;
    }
    let most = wanted.len().div_ceil(4);
    names
        .filter(|name| name.len() <= LONGEST && name.len().abs_diff(wanted.len()) <= most)
        .map(|name| (distance(&wanted, name), name))
        .filter(|(edits, _)| *edits <= most)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name)
}

/// Levenshtein's edit distance, row by row.
fn distance(wanted: &[char], name: &str) -> usize {
    let mut row: Vec<usize> = (0..=wanted.len()).collect();
    for (i, c) in name.chars().flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, &w) in row.iter_mut().skip(1).zip(wanted) {
            let next = (diagonal + usize::from(w != c)).min(*cell + 1).min(left + 1);
            diagonal = *cell;
            *cell = next;
            left = next;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        let chars = |s: &str| s.chars().collect::<Vec<_>>();
        assert_eq!(distance(&chars("kitten"), "sitting"), 3);
        assert_eq!(distance(&chars("same"), "SAME"), 0);
        assert_eq!(distance(&chars("ab"), ""), 2);
    }

    #[test]
    fn the_nearest_name_is_near() {
        let names = ["metadata.status", "metadata.level", "id"];
        assert_eq!(nearest("metadata.staus", names.into_iter()), Some("metadata.status"));
        assert_eq!(nearest("wholly_other", names.into_iter()), None);
        assert_eq!(nearest("", names.into_iter()), None);
    }

    #[test]
    fn types_have_names() {
        let mut schema = Schema::new();
        assert!(schema.insert_named("tags", "list:string"));
        assert!(!schema.insert_named("x", "list:list:string"));
        assert!(!schema.insert_named("x", "text"));
        assert_eq!(schema.type_name("tags").as_deref(), Some("list:string"));
    }
}
