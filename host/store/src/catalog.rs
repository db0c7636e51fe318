//! The catalog: one SQLite file that is the truth about everything but the rows in segments.
//!
//! The file is opened twice: by the writer thread, which owns the write-ahead log
//! ([`crate::commit`]), and here, for small reads and writes of endpoints, tokens and settings.
//! Both sync at every commit (`synchronous=FULL`). The calls here are short but block; call them
//! off the async threads where that matters.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};
use uuid::Uuid;

use crate::{
    error::{Result, StoreError},
    now_micros,
};

/// "TIDE" in ASCII: `file` and other tools can tell whose database this is.
const APPLICATION_ID: i64 = 0x5449_4445;
const SCHEMA_VERSION: i64 = 1;

/// The catalog of a data folder; see [`Store::catalog`](crate::Store::catalog).
#[derive(Debug)]
pub struct Catalog {
    path: PathBuf,
    conn: Mutex<Connection>,
}

/// A saved endpoint at its newest version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointRecord {
    /// Identity, the same in every version.
    pub id: Uuid,
    /// Unique name.
    pub name: String,
    /// 1 for the first version, one more for each later one.
    pub version: i64,
    /// The manifest as JSON.
    pub manifest: String,
    /// SHA-256 of the component, in hex.
    pub component: String,
    /// When the first version was saved, microseconds since 1970, UTC.
    pub created_at: i64,
    /// When this version was saved, microseconds since 1970, UTC.
    pub updated_at: i64,
}

/// An access token; the token itself is stored nowhere, only its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// Identity.
    pub id: Uuid,
    /// SHA-256 of the token.
    pub hash: Vec<u8>,
    /// What it is for.
    pub description: String,
    /// What it may do.
    pub scopes: String,
    /// Parameter values it fixes, as a JSON object.
    pub pinned: String,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
    /// When it stops working, if ever.
    pub expires_at: Option<i64>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<i64>,
}

impl Catalog {
    pub(crate) fn open(path: &Path) -> Result<Catalog> {
        let mut conn = connect(path)?;
        migrate(&mut conn, path)?;
        Ok(Catalog { path: path.to_owned(), conn: Mutex::new(conn) })
    }

    /// Another connection to the same file, for the writer thread.
    pub(crate) fn connect(&self) -> Result<Connection> {
        connect(&self.path)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Connection> {
        // A panic elsewhere cannot leave SQLite half-way: its transactions roll back on drop.
        self.conn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Saves an endpoint: a new one as version 1, a known `id` as its next version. Older versions
    /// and their components are kept. All in one transaction.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when another endpoint has the name; [`StoreError::InvalidName`].
    pub fn put_endpoint(
        &self,
        id: Uuid,
        name: &str,
        manifest: &str,
        component_digest: &str,
        component: &[u8],
    ) -> Result<EndpointRecord> {
        check_name(name)?;
        let mut conn = self.lock();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let holder: Option<Uuid> =
            tx.query_row("SELECT id FROM endpoints WHERE name = ?1", [name], |row| row.get(0)).optional()?;
        if holder.is_some_and(|holder| holder != id) {
            return Err(StoreError::Exists(name.to_owned()));
        }
        let now = now_micros();
        // Versions count on where a deleted endpoint of the same identity stopped.
        let version: i64 =
            tx.query_row("SELECT coalesce(max(version), 0) + 1 FROM endpoint_versions WHERE id = ?1", [id], |row| {
                row.get(0)
            })?;
        tx.execute(
            "INSERT INTO components (digest, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            params![component_digest, component],
        )?;
        tx.execute(
            "INSERT INTO endpoints (id, name, version, manifest, component, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
             ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version,
                 manifest = excluded.manifest, component = excluded.component, updated_at = excluded.updated_at",
            params![id, name, version, manifest, component_digest, now],
        )?;
        tx.execute(
            "INSERT INTO endpoint_versions (id, version, name, manifest, component, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![id, version, name, manifest, component_digest, now],
        )?;
        let record = tx.query_row(&format!("{ENDPOINTS} WHERE id = ?1"), [id], endpoint)?;
        tx.commit()?;
        Ok(record)
    }

    /// The endpoint with this name.
    pub fn endpoint_by_name(&self, name: &str) -> Result<Option<EndpointRecord>> {
        let conn = self.lock();
        Ok(conn.prepare_cached(&format!("{ENDPOINTS} WHERE name = ?1"))?.query_row([name], endpoint).optional()?)
    }

    /// The endpoint with this identity.
    pub fn endpoint_by_id(&self, id: Uuid) -> Result<Option<EndpointRecord>> {
        let conn = self.lock();
        Ok(conn.prepare_cached(&format!("{ENDPOINTS} WHERE id = ?1"))?.query_row([id], endpoint).optional()?)
    }

    /// All endpoints by name.
    pub fn endpoints(&self) -> Result<Vec<EndpointRecord>> {
        let conn = self.lock();
        let mut statement = conn.prepare_cached(&format!("{ENDPOINTS} ORDER BY name"))?;
        let rows = statement.query_map([], endpoint)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Deletes an endpoint (its old versions stay on record); false when there was none.
    pub fn delete_endpoint(&self, id: Uuid) -> Result<bool> {
        Ok(self.lock().execute("DELETE FROM endpoints WHERE id = ?1", [id])? > 0)
    }

    /// The bytes of a component by its digest.
    pub fn component(&self, digest: &str) -> Result<Option<Vec<u8>>> {
        let conn = self.lock();
        let mut statement = conn.prepare_cached("SELECT bytes FROM components WHERE digest = ?1")?;
        Ok(statement.query_row([digest], |row| row.get(0)).optional()?)
    }

    /// Saves a new token.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when the identity or the hash is there already.
    pub fn put_token(&self, token: &TokenRecord) -> Result<()> {
        let inserted = self.lock().execute(
            "INSERT INTO tokens (id, hash, description, scopes, pinned, created_at, expires_at, revoked_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
            params![
                token.id,
                token.hash,
                token.description,
                token.scopes,
                token.pinned,
                token.created_at,
                token.expires_at,
                token.revoked_at
            ],
        )?;
        if inserted == 0 {
            return Err(StoreError::Exists(format!("token {}", token.id)));
        }
        Ok(())
    }

    /// The token whose SHA-256 this is, revoked and expired ones included.
    pub fn token_by_hash(&self, hash: &[u8]) -> Result<Option<TokenRecord>> {
        let conn = self.lock();
        Ok(conn.prepare_cached(&format!("{TOKENS} WHERE hash = ?1"))?.query_row([hash], token).optional()?)
    }

    /// All tokens, oldest first.
    pub fn tokens(&self) -> Result<Vec<TokenRecord>> {
        let conn = self.lock();
        let mut statement = conn.prepare_cached(&format!("{TOKENS} ORDER BY created_at, id"))?;
        let rows = statement.query_map([], token)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Revokes a token; false when there is none or it was revoked before.
    pub fn revoke_token(&self, id: Uuid) -> Result<bool> {
        let changed = self.lock().execute(
            "UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
            params![id, now_micros()],
        )?;
        Ok(changed > 0)
    }

    /// A small setting.
    pub fn meta(&self, key: &str) -> Result<Option<String>> {
        let conn = self.lock();
        let mut statement = conn.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
        Ok(statement.query_row([key], |row| row.get(0)).optional()?)
    }

    /// Writes a small setting.
    pub fn set_meta(&self, key: &str, value: &str) -> Result<()> {
        self.lock().execute(
            "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            [key, value],
        )?;
        Ok(())
    }
}

const ENDPOINTS: &str = "SELECT id, name, version, manifest, component, created_at, updated_at FROM endpoints";

fn endpoint(row: &Row<'_>) -> rusqlite::Result<EndpointRecord> {
    Ok(EndpointRecord {
        id: row.get(0)?,
        name: row.get(1)?,
        version: row.get(2)?,
        manifest: row.get(3)?,
        component: row.get(4)?,
        created_at: row.get(5)?,
        updated_at: row.get(6)?,
    })
}

const TOKENS: &str = "SELECT id, hash, description, scopes, pinned, created_at, expires_at, revoked_at FROM tokens";

fn token(row: &Row<'_>) -> rusqlite::Result<TokenRecord> {
    Ok(TokenRecord {
        id: row.get(0)?,
        hash: row.get(1)?,
        description: row.get(2)?,
        scopes: row.get(3)?,
        pinned: row.get(4)?,
        created_at: row.get(5)?,
        expires_at: row.get(6)?,
        revoked_at: row.get(7)?,
    })
}

/// Names of sources and endpoints: 1 to 255 bytes, no control characters.
pub(crate) fn check_name(name: &str) -> Result<()> {
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

fn connect(path: &Path) -> Result<Connection> {
    let conn = Connection::open(path)?;
    conn.busy_timeout(Duration::from_secs(30))?;
    // Write-ahead bodies are large: big pages keep a body in few of them. Only a new file takes it.
    conn.pragma_update(None, "page_size", 16384)?;
    conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "full")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "wal_autocheckpoint", 2000)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

fn migrate(conn: &mut Connection, path: &Path) -> Result<()> {
    let number = |conn: &Connection, pragma: &str| -> rusqlite::Result<i64> {
        conn.pragma_query_value(None, pragma, |row| row.get(0))
    };
    let incompatible = |reason: String| StoreError::Incompatible { path: path.to_owned(), reason };
    let (application, version) = (number(conn, "application_id")?, number(conn, "user_version")?);
    match (application, version) {
        (APPLICATION_ID, SCHEMA_VERSION) => Ok(()),
        (0, 0) => {
            let tx = conn.transaction_with_behavior(TransactionBehavior::Exclusive)?;
            let tables: i64 = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if tables > 0 {
                return Err(incompatible("it is another application's database".to_owned()));
            }
            tx.execute_batch(include_str!("schema.sql"))?;
            tx.pragma_update(None, "application_id", APPLICATION_ID)?;
            tx.pragma_update(None, "user_version", SCHEMA_VERSION)?;
            tx.commit()?;
            Ok(())
        }
        (APPLICATION_ID, newer) => {
            Err(incompatible(format!("it has schema version {newer}, this build knows {SCHEMA_VERSION}")))
        }
        _ => Err(incompatible("it is another application's database".to_owned())),
    }
}
