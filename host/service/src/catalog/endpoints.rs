//! Saved endpoints in the catalog, with all their versions.

use std::collections::BTreeMap;

use chrono::Utc;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, TransactionBehavior, params};
use serde_json::{Map, Value};
use tidegate_store::{Catalog, StoreError, check_name};
use uuid::Uuid;

use super::Result;
use super::alerts::{self, NewAlert};

/// One version of a saved endpoint, mostly the newest.
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
    /// Who saved this version, as free text; may be empty.
    pub author: String,
    /// The sources that the saved query names, each with its identity when this version was saved.
    pub sources: BTreeMap<String, Uuid>,
    /// When the first version was saved, microseconds since 1970, UTC.
    pub created_at: i64,
    /// When this version was saved, microseconds since 1970, UTC.
    pub updated_at: i64,
}

/// The newest version of an endpoint without its manifest: enough to find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointEntry {
    /// Identity, the same in every version.
    pub id: Uuid,
    /// Unique name.
    pub name: String,
    /// The version.
    pub version: i64,
    /// SHA-256 of the component, in hex.
    pub component: String,
    /// As [`EndpointRecord::sources`].
    pub tables: BTreeMap<String, Uuid>,
}

impl From<&EndpointRecord> for EndpointEntry {
    fn from(record: &EndpointRecord) -> Self {
        let EndpointRecord { id, version, .. } = *record;
        let (name, component, tables) = (record.name.clone(), record.component.clone(), record.sources.clone());
        Self { id, name, version, component, tables }
    }
}

/// What [`EndpointTable::put`] saves.
#[derive(Debug, Clone, Copy)]
pub struct NewVersion<'a> {
    /// Identity of the endpoint; a known one gets its next version.
    pub id: Uuid,
    /// Unique name.
    pub name: &'a str,
    /// The manifest as JSON.
    pub manifest: &'a str,
    /// The component itself.
    pub component: &'a [u8],
    /// SHA-256 of the component, in hex.
    pub component_digest: &'a str,
    /// Who saves it, as free text; may be empty.
    pub author: &'a str,
    /// The sources that the saved query names, each with its identity now. If a source is renamed, the endpoint keeps
    /// using it; a new source with the old name does not take its place.
    pub sources: &'a BTreeMap<String, Uuid>,
    /// All its alerts. Those that it has already keep their state and their secret.
    pub alerts: &'a [NewAlert],
}

/// The endpoints, their versions and the components of these.
#[derive(Debug, Clone, Copy)]
pub struct EndpointTable<'a>(pub &'a Catalog);

impl EndpointTable<'_> {
    /// Saves an endpoint: a new one as version 1, a known `id` as its next version, in one transaction. Older versions
    /// and their components are kept.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when another endpoint has the name; [`StoreError::InvalidName`].
    pub fn put(self, new: NewVersion<'_>) -> Result<EndpointRecord> {
        self.put_version(new, None)
    }

    /// As [`Self::put`]. In the same transaction the secret is forgotten that is kept otherwise for an alert of
    /// this name: of one that the version does not have any more, or has anew.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn put_forgetting(self, new: NewVersion<'_>, alert: &str) -> Result<EndpointRecord> {
        self.put_version(new, Some(alert))
    }

    fn put_version(self, new: NewVersion<'_>, forgotten: Option<&str>) -> Result<EndpointRecord> {
        let NewVersion { id, name, .. } = new;
        check_name(name)?;
        let sources: Map<String, Value> =
            new.sources.iter().map(|(name, id)| (name.clone(), id.to_string().into())).collect();
        let sources = Value::Object(sources).to_string();
        let mut conn = self.0.lock();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let holder: Option<Uuid> =
            tx.query_row("SELECT id FROM endpoints WHERE name = ?1", [name], |row| row.get(0)).optional()?;
        if holder.is_some_and(|holder| holder != id) {
            return Err(StoreError::Exists(name.to_owned()));
        }
        let now = Utc::now().timestamp_micros();
        // The numbers of versions continue after a deleted endpoint of the same identity.
        let version: i64 =
            tx.query_row("SELECT coalesce(max(version), 0) + 1 FROM endpoint_versions WHERE id = ?1", [id], |row| {
                row.get(0)
            })?;
        tx.execute(
            "INSERT INTO components (digest, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            params![new.component_digest, new.component],
        )?;
        tx.execute(
            "INSERT INTO endpoints (id, name, version, manifest, component, author, sources, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
             ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version,
                 manifest = excluded.manifest, component = excluded.component, author = excluded.author,
                 sources = excluded.sources, updated_at = excluded.updated_at",
            params![id, name, version, new.manifest, new.component_digest, new.author, sources, now],
        )?;
        tx.execute(
            "INSERT INTO endpoint_versions (id, version, name, manifest, component, author, sources, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![id, version, name, new.manifest, new.component_digest, new.author, sources, now],
        )?;
        let forget = || forgotten.map_or(Ok(()), |name| alerts::forget(&tx, id, name));
        forget()?;
        alerts::replace(&tx, id, new.alerts, now)?;
        forget()?;
        let record = tx.query_row(&format!("{ENDPOINTS} WHERE id = ?1"), [id], endpoint)?;
        tx.commit()?;
        Ok(record)
    }

    /// The endpoint with this identity.
    pub fn by_id(self, id: Uuid) -> Result<Option<EndpointRecord>> {
        let conn = self.0.lock();
        Ok(conn.prepare_cached(&format!("{ENDPOINTS} WHERE id = ?1"))?.query_row([id], endpoint).optional()?)
    }

    /// All endpoints, without their manifests, for a caller that keeps them all in memory.
    pub fn entries(self) -> Result<Vec<EndpointEntry>> {
        let conn = self.0.lock();
        let mut statement = conn.prepare_cached("SELECT id, name, version, component, sources FROM endpoints")?;
        let rows = statement.query_map([], |row| {
            Ok(EndpointEntry {
                id: row.get(0)?,
                name: row.get(1)?,
                version: row.get(2)?,
                component: row.get(3)?,
                tables: tables(row, 4)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// All endpoints by name.
    pub fn all(self) -> Result<Vec<EndpointRecord>> {
        let conn = self.0.lock();
        let mut statement = conn.prepare_cached(&format!("{ENDPOINTS} ORDER BY name"))?;
        let rows = statement.query_map([], endpoint)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Every version that was saved under this identity, newest first, also of a deleted endpoint. Empty if there was
    /// none.
    pub fn versions(self, id: Uuid) -> Result<Vec<EndpointRecord>> {
        let conn = self.0.lock();
        let mut statement = conn.prepare_cached(&format!("{VERSIONS} WHERE v.id = ?1 ORDER BY v.version DESC"))?;
        let rows = statement.query_map([id], endpoint)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// One version of an endpoint, also of a deleted one.
    pub fn version(self, id: Uuid, version: i64) -> Result<Option<EndpointRecord>> {
        let conn = self.0.lock();
        let mut statement = conn.prepare_cached(&format!("{VERSIONS} WHERE v.id = ?1 AND v.version = ?2"))?;
        Ok(statement.query_row(params![id, version], endpoint).optional()?)
    }

    /// Deletes an endpoint with its alerts; its versions are kept. Returns false if there was none.
    pub fn delete(self, id: Uuid) -> Result<bool> {
        let mut conn = self.0.lock();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        alerts::delete_all(&tx, id)?;
        let deleted = tx.execute("DELETE FROM endpoints WHERE id = ?1", [id])? > 0;
        tx.commit()?;
        Ok(deleted)
    }

    /// The bytes of a component by its digest.
    pub fn component(self, digest: &str) -> Result<Option<Vec<u8>>> {
        let conn = self.0.lock();
        let mut statement = conn.prepare_cached("SELECT bytes FROM components WHERE digest = ?1")?;
        Ok(statement.query_row([digest], |row| row.get(0)).optional()?)
    }
}

const ENDPOINTS: &str = "SELECT id, name, version, manifest, component, author, sources, created_at, updated_at
    FROM endpoints";

/// The same columns of a version. The endpoint was created with its first version.
const VERSIONS: &str = "SELECT id, name, version, manifest, component, author, sources,
        (SELECT min(first.created_at) FROM endpoint_versions first WHERE first.id = v.id), created_at
    FROM endpoint_versions v";

fn endpoint(row: &Row<'_>) -> rusqlite::Result<EndpointRecord> {
    Ok(EndpointRecord {
        id: row.get(0)?,
        name: row.get(1)?,
        version: row.get(2)?,
        manifest: row.get(3)?,
        component: row.get(4)?,
        author: row.get(5)?,
        sources: tables(row, 6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
    })
}

/// The sources of an endpoint, from the column with this number.
fn tables(row: &Row<'_>, column: usize) -> rusqlite::Result<BTreeMap<String, Uuid>> {
    let unreadable = |error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error);
    let texts: BTreeMap<String, String> =
        serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|error| unreadable(Box::new(error)))?;
    let ids = texts.into_iter().map(|(name, id)| match Uuid::parse_str(&id) {
        Ok(id) => Ok((name, id)),
        Err(error) => Err(unreadable(Box::new(error))),
    });
    ids.collect()
}
