//! Where a path leads in a table: the records on the way, and the column at its end.

use std::borrow::Cow;

use crate::MAX_DEPTH;
use crate::error::{CHARTS, ErrorKind, LqlError, Position, excerpt};
use crate::name::steps;
use crate::schema::{Field, FieldType, Schema, nearest};

/// A record on the way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop<'p> {
    pub(crate) name: &'p str,
    /// The path up to and including this record.
    pub(crate) path: &'p str,
    /// Whether it is known to be a list, which may have several elements.
    pub(crate) many: bool,
}

/// The end of a path.
#[derive(Debug)]
pub(crate) struct Place<'p> {
    pub(crate) hops: Vec<Hop<'p>>,
    pub(crate) column: &'p str,
    /// The type of the column, if known.
    pub(crate) field: Option<Field>,
}

/// The path that is meant. `m.` before a single character is not short for `metadata.`, because a table may have a
/// column `m`. If the table is known to have no such column, `metadata` is meant.
pub(crate) fn meant<'p>(path: &'p str, columns: Option<&Schema>) -> Cow<'p, str> {
    match path.strip_prefix("m.") {
        Some(rest) if columns.is_some_and(|columns| columns.lacks("m") && !columns.lacks("metadata")) => {
            Cow::Owned(format!("metadata.{rest}"))
        }
        _ => Cow::Borrowed(path),
    }
}

impl<'p> Place<'p> {
    /// Follows a path, as far as the columns are known.
    pub(crate) fn of(path: &'p str, columns: Option<&Schema>, position: Position) -> Result<Self, LqlError> {
        let refuse = |kind, message| Err(LqlError::new(kind, message, position));
        let shown = excerpt(path);
        if steps(path).nth(MAX_DEPTH).is_some() {
            let message = format!("`{shown}` is no path: it has more than {MAX_DEPTH} parts");
            return refuse(ErrorKind::InvalidPath, message);
        }
        if steps(path).any(|(name, _)| name.is_empty()) {
            let message = format!("`{shown}` is no path: there must be a name before, between and after the dots");
            return refuse(ErrorKind::InvalidPath, message);
        }
        let (_, first) = steps(path).next().unwrap_or((path, path));
        if let Some(columns) = columns {
            if columns.lacks(first) {
                return refuse(ErrorKind::FieldNotFound, no_column(first, columns));
            }
            if let Some(meant) = columns.with_dots_in_names(path) {
                let message =
                    format!("`{shown}` is not there; a name with a dot in it stands in backticks: {}", excerpt(meant));
                return refuse(ErrorKind::FieldNotFound, message);
            }
        }
        let mut hops = Vec::new();
        let mut column = path;
        for (name, so_far) in steps(path) {
            if so_far.len() == path.len() {
                column = name;
                break;
            }
            let known = columns.and_then(|columns| columns.find(so_far));
            if let Some(Field { kind, .. }) = known
                && !matches!(kind, FieldType::Record | FieldType::Other)
            {
                let (record, kind) = (excerpt(so_far), kind.name());
                let message = format!("`{shown}` leads nowhere: `{record}` holds values of type {kind}, not records");
                return refuse(ErrorKind::FieldNotFound, message);
            }
            let many = known.is_some_and(|field| field.list);
            hops.push(Hop { name, path: so_far, many });
        }
        let field = columns.and_then(|columns| columns.find(path));
        Ok(Self { hops, column, field })
    }
}

fn no_column(name: &str, columns: &Schema) -> String {
    const SHOWN: usize = 30;
    if matches!(name, "c" | "chart") {
        return format!("the table has no column `{name}`. {CHARTS}");
    }
    let near = nearest(name, columns.columns()).map(|near| format!("; did you mean `{}`?", excerpt(near)));
    let mut names: Vec<String> = columns.columns().take(SHOWN).map(|name| format!("`{}`", excerpt(name))).collect();
    if columns.columns().nth(SHOWN).is_some() {
        names.push("and more".to_owned());
    }
    format!(
        "the table has no column `{}`{} Its columns are {}",
        excerpt(name),
        near.as_deref().unwrap_or("."),
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Schema {
        let mut columns = Schema::new();
        for (path, kind) in
            [("id", "string"), ("metadata", "map"), ("metadata.items", "list:map"), ("metadata.n", "integer")]
        {
            assert!(columns.insert_named(path, kind));
        }
        columns.set_whole();
        columns
    }

    const AT: Position = Position { offset: 0, line: 1, column: 1 };

    #[test]
    fn a_path_is_followed() {
        let columns = columns();
        let place = Place::of("metadata.items.sku", Some(&columns), AT).unwrap();
        let hops: Vec<_> = place.hops.iter().map(|hop| (hop.name, hop.path, hop.many)).collect();
        assert_eq!(hops, [("metadata", "metadata", false), ("items", "metadata.items", true)]);
        assert_eq!((place.column, place.field), ("sku", None));
        assert_eq!(Place::of("ID", Some(&columns), AT).unwrap().field.map(|f| f.kind), Some(FieldType::String));
    }

    #[test]
    fn a_path_that_leads_nowhere() {
        let columns = columns();
        let wrong = |path: &str| Place::of(path, Some(&columns), AT).unwrap_err();
        let absent = wrong("idd");
        assert!(absent.message.contains("did you mean `id`?") && absent.message.contains("`metadata`"), "{absent}");
        assert_eq!(absent.kind, ErrorKind::FieldNotFound);
        assert!(wrong("metadata.n.x").message.contains("`metadata.n` holds values of type integer"));
        assert!(wrong("c").message.contains("c:count(*)"));
        assert_eq!(wrong("a..b").kind, ErrorKind::InvalidPath);
        assert!(Place::of("anything.at.all", None, AT).is_ok());
    }

    #[test]
    fn a_short_name_of_the_metadata_is_one_where_nothing_else_can_be_meant() {
        let mut columns = columns();
        assert_eq!(meant("m.x", Some(&columns)), "metadata.x");
        assert_eq!(meant("m.x", None), "m.x");
        columns.insert("m", FieldType::Record);
        assert_eq!(meant("m.x", Some(&columns)), "m.x");
    }
}
