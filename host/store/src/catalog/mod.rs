//! The catalog: one SQLite database that describes everything except the rows in segments.
//!
//! The file is opened by the writer thread, which owns the write-ahead log ([`crate::wal::writer_thread`]), by what copies
//! that log into the file ([`crate::wal::checkpointer`]), by what copies the catalog to another place
//! ([`crate::background::catalog_copying`]), and here, for small reads and writes: of settings, and of tables that are not the store's own. Who
//! writes syncs at every commit (`synchronous=FULL`). The calls here are short but block; async code should call them on a
//! blocking thread.
//!
//! [`database`] opens connections and migrates the schema, `names` makes its files durable, [`retention`] and
//! [`retention_share`] are what retention goes by, [`copy`] makes a copy for another machine, [`wal_file`] inspects SQLite's
//! own write-ahead file for damage. The schema also has tables of the service (endpoints, alerts, tokens, the deny list):
//! they are in one file with the store's, so that a backup has all of one moment. The store does not read them; whoever
//! does has the connection of [`Catalog::lock`].
//!
//! Uses: `data_folder`, errors.

pub(crate) mod copy;
pub(crate) mod database;
pub(crate) mod meta;
pub(crate) mod names;
pub(crate) mod retention;
pub(crate) mod retention_share;
pub(crate) mod wal_file;

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rusqlite::Connection;
use uuid::Uuid;

pub use self::{
    retention::{RetentionState, RetentionWord},
    wal_file::LogDamage,
};
use crate::{
    data_folder::paths,
    error::{Result, StoreError},
};

/// The setting that has the identity of the data folder.
pub(crate) const WRITER: &str = "objects_writer";

/// The setting of a data folder that was made of a backup, and has not had the copies of its original yet.
const RESTORED: &str = "objects_restored";

/// Makes a copy of a catalog that of another data folder: it does not take the place of its original in an object store by
/// itself.
pub(crate) fn leave_original(copy: &Connection) -> Result<()> {
    copy.execute("DELETE FROM meta WHERE key = ?1", [WRITER])?;
    copy.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, '1')", [RESTORED])?;
    Ok(())
}

/// The catalog of a data folder; see [`Store::catalog`](crate::Store::catalog).
#[derive(Debug, Clone)]
pub struct Catalog {
    path: PathBuf,
    conn: Arc<Mutex<Connection>>,
}

/// Why no catalog is found in a folder: there is none, or it may not be read.
pub(crate) fn not_found(folder: &Path) -> StoreError {
    match fs::metadata(folder.join(paths::CATALOG)) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            StoreError::io(format!("reading {}", folder.display()))(error)
        }
        _ => StoreError::NoCatalog(folder.to_owned()),
    }
}

impl Catalog {
    /// Opens the catalog of a data folder and migrates its schema. An empty database is initialized only if it
    /// `may_be_new`.
    pub(crate) fn open(data: &Path, may_be_new: bool) -> Result<Catalog> {
        let path = data.join(paths::CATALOG);
        if may_be_new {
            names::create_database(data)?;
        }
        if path.is_file() {
            names::create_log(data)?;
        }
        let mut conn = database::connect(&path, may_be_new)?;
        if !may_be_new && database::version(&conn, &path)? == 0 {
            return Err(StoreError::CatalogMissing(data.to_owned()));
        }
        database::migrate(&mut conn, &path)?;
        Ok(Catalog { path, conn: Arc::new(Mutex::new(conn)) })
    }

    /// Opens the catalog of a data folder beside a server that may be running there, for the command line to manage
    /// tokens and endpoints. Takes no lock on the folder, because SQLite allows several processes. Blocks.
    ///
    /// # Errors
    /// [`StoreError::NoCatalog`] if the folder has none; nothing is created. [`StoreError::Incompatible`] if it has
    /// another version: only a store that has the folder for itself migrates it.
    pub fn open_beside(data_dir: &Path) -> Result<Catalog> {
        let path = data_dir.join(paths::CATALOG);
        if !path.is_file() {
            return Err(not_found(data_dir));
        }
        names::create_log(data_dir)?;
        let conn = database::connect(&path, false)?;
        match database::version(&conn, &path)? {
            database::VERSION => Ok(Catalog { path, conn: Arc::new(Mutex::new(conn)) }),
            0 => Err(not_found(data_dir)),
            old => Err(StoreError::Incompatible {
                path,
                reason: format!(
                    "it has schema version {old}; start the server of this build once, which brings it to version {}",
                    database::VERSION
                ),
            }),
        }
    }

    /// The identity of this catalog, made at the first call. Footers of segments record which catalog numbered their
    /// write-ahead rows.
    pub(crate) fn identity(&self) -> Result<Uuid> {
        self.made_once("catalog_id")
    }

    /// The identity of the data folder among those that have had this catalog, made at the first call. A folder that is
    /// recovered from an object store gets another one.
    pub(crate) fn writer(&self) -> Result<Uuid> {
        self.made_once(WRITER)
    }

    /// Whether the data folder was made of a backup, and has not had the copies of its original yet.
    pub(crate) fn is_restored(&self) -> Result<bool> {
        Ok(self.meta(RESTORED)?.is_some())
    }

    /// The data folder has the copies of its original.
    pub(crate) fn has_taken_over(&self) -> Result<()> {
        self.lock().execute("DELETE FROM meta WHERE key = ?1", [RESTORED])?;
        Ok(())
    }

    fn made_once(&self, key: &str) -> Result<Uuid> {
        let conn = self.lock();
        conn.execute(
            "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            [key, &Uuid::new_v4().to_string()],
        )?;
        let text: String = conn.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0))?;
        Uuid::parse_str(&text).map_err(|error| StoreError::corrupt(format!("`{key}` in the catalog"), error))
    }

    /// Another connection to the same file.
    pub(crate) fn connect(&self) -> Result<Connection> {
        database::connect(&self.path, false)
    }

    /// The connection, for as long as the guard is held: no other method of the catalog may be called until then, which would
    /// wait for ever. It is for tables that are not the store's own; whoever changes more than one row does so in one
    /// transaction.
    pub fn lock(&self) -> MutexGuard<'_, Connection> {
        // A panic elsewhere cannot leave SQLite in the middle of a transaction: it is rolled back on drop.
        self.conn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A small setting.
    pub fn meta(&self, key: &str) -> Result<Option<String>> {
        meta::get(&self.lock(), key)
    }

    /// Writes a small setting.
    pub fn set_meta(&self, key: &str, value: &str) -> Result<()> {
        meta::set(&self.lock(), key, value)
    }
}

/// Names of sources and endpoints: 1 to 255 bytes, no control characters.
///
/// # Errors
/// [`StoreError::InvalidName`].
pub fn check_name(name: &str) -> Result<()> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() > 255 {
        "it is longer than 255 bytes"
    } else if name.chars().any(char::is_control) {
        "it holds a control character"
    } else {
        return Ok(());
    };
    Err(StoreError::InvalidName { name: name.to_owned(), reason })
}
