//! Small values of the catalog by name: the table `meta`. They are read and written in transactions of the caller.

use rusqlite::{Connection, OptionalExtension};

use crate::error::Result;

/// The value of a name.
///
/// # Errors
/// Those of the catalog's database.
pub(crate) fn get(conn: &Connection, key: &str) -> Result<Option<String>> {
    let mut statement = conn.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

/// Gives a name a value.
///
/// # Errors
/// As [`get`].
pub(crate) fn set(conn: &Connection, key: &str, value: &str) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    )?
    .execute([key, value])?;
    Ok(())
}

/// Forgets a name.
///
/// # Errors
/// As [`get`].
pub(crate) fn remove(conn: &Connection, key: &str) -> Result<()> {
    conn.prepare_cached("DELETE FROM meta WHERE key = ?1")?.execute([key])?;
    Ok(())
}
