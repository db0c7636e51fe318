//! The check of a catalog as a whole, before a data folder is made of it.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use crate::{
    catalog::database,
    error::{Result, StoreError},
};

/// Checks a catalog that nobody else has open. `what` is what an error calls it.
///
/// # Errors
/// [`StoreError::Corrupt`] with what is wrong; [`StoreError::Incompatible`].
pub(crate) fn check_catalog(conn: &Connection, path: &Path, what: &str) -> Result<()> {
    look(conn, path, what).map_err(|error| match error {
        StoreError::Sqlite(error) => StoreError::corrupt(what, error),
        other => other,
    })
}

fn look(conn: &Connection, path: &Path, what: &str) -> Result<()> {
    if database::version(conn, path)? == 0 {
        return Err(StoreError::Incompatible { path: path.to_owned(), reason: "it is empty".to_owned() });
    }
    let found: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        return Err(StoreError::corrupt(what, found));
    }
    let dangling = conn.query_row("PRAGMA foreign_key_check", [], |row| row.get::<_, String>(0)).optional()?;
    match dangling {
        Some(table) => Err(StoreError::corrupt(what, format!("a row of {table} refers to nothing"))),
        None => Ok(()),
    }
}
