//! Connections to the catalog's database: their settings, and the version of the schema.
//!
//! `schema.sql` is the schema of a new database; `migrate_N.sql` migrates version N-1 to N. A test verifies that both
//! ways lead to the same schema.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::error::{Result, StoreError};

/// "TIDE" in ASCII, so that `file` and other tools recognize the database.
const APPLICATION_ID: i64 = 0x5449_4445;

pub(crate) const VERSION: i64 = 10;

/// The migration of each older version, from 1 on, to the next one.
pub(crate) const MIGRATIONS: [&str; 9] = [
    include_str!("migrate_2.sql"),
    include_str!("migrate_3.sql"),
    include_str!("migrate_4.sql"),
    include_str!("migrate_5.sql"),
    include_str!("migrate_6.sql"),
    include_str!("migrate_7.sql"),
    include_str!("migrate_8.sql"),
    include_str!("migrate_9.sql"),
    include_str!("migrate_10.sql"),
];

/// How long a connection waits for another one that writes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Lets commits of a connection return before they are on stable storage.
pub(crate) fn relax(conn: &Connection) -> Result<()> {
    Ok(conn.pragma_update(None, "synchronous", "off")?)
}

/// A connection to the catalog, whose file must be there unless it may be created.
pub(crate) fn connect(path: &Path, create: bool) -> Result<Connection> {
    let mut flags = OpenFlags::default();
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(PATIENCE)?;
    format(&conn)?;
    conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "full")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "wal_autocheckpoint", 2000)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// The format of a new database; an existing one keeps its own.
pub(crate) fn format(conn: &Connection) -> Result<()> {
    // Bodies of write-ahead rows are large; big pages keep a body in few of them.
    Ok(conn.pragma_update(None, "page_size", 16384)?)
}

/// The version of the schema; 0 for an empty file.
///
/// # Errors
/// [`StoreError::Incompatible`] if it is not a catalog, or one of a newer version.
pub(crate) fn version(conn: &Connection, path: &Path) -> Result<i64> {
    let number = |pragma: &str| conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let incompatible = |reason: String| StoreError::Incompatible { path: path.to_owned(), reason };
    match (number("application_id")?, number("user_version")?) {
        (APPLICATION_ID, version @ 1..=VERSION) => Ok(version),
        (APPLICATION_ID, newer) => {
            Err(incompatible(format!("it has schema version {newer}, this build knows {VERSION}")))
        }
        (0, 0) => {
            let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if tables == 0 { Ok(0) } else { Err(incompatible("it is another application's database".to_owned())) }
        }
        _ => Err(incompatible("it is another application's database".to_owned())),
    }
}

/// Migrates an empty or older catalog to the version of this build, in one transaction.
pub(crate) fn migrate(conn: &mut Connection, path: &Path) -> Result<()> {
    if version(conn, path)? == VERSION {
        return Ok(());
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    // Checked again, now that nobody else can change it.
    match version(&tx, path)? {
        0 => {
            tx.execute_batch(include_str!("schema.sql"))?;
            tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        }
        old => upgrade(&tx, old)?,
    }
    tx.pragma_update(None, "user_version", VERSION)?;
    tx.commit()?;
    Ok(())
}

fn upgrade(tx: &Transaction<'_>, from: i64) -> Result<()> {
    tracing::info!(from, to = VERSION, "the catalog's schema is brought up to date");
    for step in MIGRATIONS.iter().skip(usize::try_from(from - 1).unwrap_or(0)) {
        tx.execute_batch(step)?;
    }
    Ok(())
}
