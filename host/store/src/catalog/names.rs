//! The names of the catalog's files on stable storage.
//!
//! SQLite syncs the folder in which it makes a file, but passes over a failure of that sync. Commits would then be
//! acknowledged that are in a file whose name a power cut takes away. So the names of the database and of its
//! write-ahead file are made and synced here, before SQLite writes anything that counts. A name whose sync failed is
//! taken back, because repeating the sync alone may do nothing.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use rusqlite::Connection;

use crate::{
    catalog::{database, wal_file},
    data_folder::{
        paths,
        sync::{sync_file, sync_folder},
    },
    error::{Result, StoreError},
};

/// The database while it is made.
const UNFINISHED: &str = "catalog.new";

/// Makes the database with its schema, unless there is one. It appears under its name when it is complete.
pub(crate) fn create_database(data: &Path) -> Result<()> {
    let path = data.join(paths::CATALOG);
    if fs::metadata(&path).is_ok_and(|file| file.len() > 0) {
        return Ok(());
    }
    let unfinished = data.join(UNFINISHED);
    delete_all(&unfinished)?;
    let mut conn = Connection::open(&unfinished)?;
    database::format(&conn)?;
    // What is incomplete is made anew, so that nothing has to be undone.
    conn.pragma_update_and_check(None, "journal_mode", "off", |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "off")?;
    database::migrate(&mut conn, &unfinished)?;
    conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    conn.close().map_err(|(_, error)| error)?;
    sync_file(&unfinished)?;
    // Journals of a start of an older version that was cut off belong to the file that is replaced.
    if delete_all(&path)? {
        sync_folder(data)?;
    }
    fs::rename(&unfinished, &path).map_err(StoreError::io(format!("naming {}", path.display())))?;
    sync_folder(data).inspect_err(|_| drop(fs::remove_file(&path)))
}

/// Makes an empty write-ahead file if there is none: SQLite deletes it when a store is closed.
pub(crate) fn create_log(data: &Path) -> Result<()> {
    let log = wal_file::path(data);
    let made = match File::options().write(true).create_new(true).open(&log) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
        Err(error) => return Err(StoreError::io(format!("creating {}", log.display()))(error)),
    };
    sync_folder(data).inspect_err(|_| {
        if made {
            let _ = fs::remove_file(&log);
        }
    })
}

/// Deletes a database and the files that SQLite makes beside it; whether there were any.
pub(crate) fn delete_all(database: &Path) -> Result<bool> {
    let mut deleted = false;
    for suffix in ["-journal", "-wal", "-shm", ""] {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        let path = PathBuf::from(path);
        match fs::remove_file(&path) {
            Ok(()) => deleted = true,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io(format!("deleting {}", path.display()))(error)),
        }
    }
    Ok(deleted)
}
