//! Adopting the file of a segment that the catalog does not name: is the file whole, and which source do its rows
//! belong to? Repair and rebuild share this.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use crate::{
    error::{Result, StoreError},
    schema::shape::Shape,
    segment::{
        footer::{self, Footer},
        footer_entry::FooterEntry,
    },
};

/// The footer of a file that is whole and says what a catalog needs.
pub(crate) fn whole(path: &Path, segment: Uuid) -> Result<(Footer, FooterEntry), String> {
    let mut footer = footer::check(path, segment, None).map_err(|refused| refused.reason())?;
    match footer.entry.take() {
        Some(entry) => Ok((footer, entry)),
        None => Err("it is of an older version, whose segments do not say what a catalog needs".to_owned()),
    }
}

/// The short key and the identity of the source for a segment: the source with its identity, else the one with its
/// name, else a new one with both.
pub(crate) fn owner(conn: &Connection, entry: &FooterEntry) -> Result<(i64, Uuid)> {
    let find = "SELECT key, id FROM sources WHERE id = ?1 OR name = ?2 ORDER BY id = ?1 DESC LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    if let Some(found) = conn.query_row(find, params![entry.source, entry.source_name], read).optional()? {
        return Ok(found);
    }
    crate::catalog::check_name(&entry.source_name)?;
    let shape = serde_json::to_string(&Shape::default()).map_err(|error| StoreError::corrupt("a shape", error))?;
    conn.execute(
        "INSERT INTO sources (id, name, shape, created_at) VALUES (?1, ?2, ?3, ?4)",
        params![entry.source, entry.source_name, shape, entry.created_at],
    )?;
    Ok((conn.last_insert_rowid(), entry.source))
}
