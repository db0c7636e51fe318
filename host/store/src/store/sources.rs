//! Creating, renaming and deleting sources.

use std::sync::Arc;

use rusqlite::{OptionalExtension, TransactionBehavior, params};
use tidegate_model::SourceTenancy;
use uuid::Uuid;

use crate::{
    catalog::check_name,
    catalog::retention_share,
    clock::now_micros,
    error::{Result, StoreError},
    recovery::quarantine,
    scan::held_segments::HeldSegments,
    schema::shape::Shape,
    source::Source,
    source_info::{Retention, SourceInfo},
    store::Store,
    wal::numbering,
};

impl Store {
    /// Reserves columns for these fields of a source, also if other fields come first. Each path is the keys of its
    /// records and its own. At most half of [`StoreOptions::max_fields`](crate::StoreOptions::max_fields) fields can be
    /// reserved, in addition to that bound. The reservation is kept until the store is closed. Values that arrived
    /// before stay where they are and are read all the same.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`].
    pub fn reserve_fields(&self, id: Uuid, paths: impl IntoIterator<Item = Vec<String>>) -> Result<()> {
        self.get(id)?.reserve(paths);
        Ok(())
    }

    /// Has segments that are written from now on have an index of these texts in records, so that searches for a part of
    /// them read less. Each path is the keys of its records and its own. At most four texts of a source are indexed beside its
    /// messages, those that are asked for first. It holds until the store is closed. Segments from before stay as they are until they
    /// are merged.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`].
    pub fn index_texts(&self, id: Uuid, paths: impl IntoIterator<Item = Vec<String>>) -> Result<()> {
        self.get(id)?.index_texts(paths);
        Ok(())
    }

    /// Creates a source. Blocks for one commit.
    ///
    /// # Errors
    /// [`StoreError::Exists`]; [`StoreError::InvalidName`] unless the name has 1 to 255 bytes and
    /// no control characters.
    pub fn create_source(&self, name: &str) -> Result<SourceInfo> {
        let (source, created) = self.add_source(name)?;
        if created { Ok(source) } else { Err(StoreError::Exists(name.to_owned())) }
    }

    /// The source with this name, created if there is none. Blocks for one commit if so.
    ///
    /// # Errors
    /// [`StoreError::InvalidName`] as in [`Self::create_source`].
    pub fn ensure_source(&self, name: &str) -> Result<SourceInfo> {
        match self.sources.find(name) {
            Some(source) => Ok(source.info().as_ref().clone()),
            None => Ok(self.add_source(name)?.0),
        }
    }

    fn add_source(&self, name: &str) -> Result<(SourceInfo, bool)> {
        check_name(name)?;
        let mut conn = self.catalog.lock();
        if let Some(source) = self.sources.find(name) {
            return Ok((source.info().as_ref().clone(), false));
        }
        let info = SourceInfo {
            id: Uuid::new_v4(),
            name: name.to_owned(),
            created_at: now_micros(),
            retention: Retention::default(),
            tenant: None,
        };
        let shape = Shape::default();
        let json = serde_json::to_string(&shape).map_err(|e| StoreError::corrupt("a shape", e))?;
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let key = tx
            .query_row(
                "INSERT INTO sources (id, name, shape, created_at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO NOTHING RETURNING key",
                params![info.id, info.name, json, info.created_at],
                |row| row.get(0),
            )
            .optional()?
            .ok_or_else(|| StoreError::Exists(name.to_owned()))?;
        tx.commit()?;
        let unflushed = Arc::clone(&self.sources.unflushed);
        let source = Source::new(info.clone(), key, shape, Vec::new(), &self.options, unflushed);
        self.sources.insert(Arc::new(source));
        Ok((info, true))
    }

    /// Renames a source. Its identity and its rows stay. Tables made before keep the old name. Blocks for one commit.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`]; [`StoreError::Exists`] when another source has the name;
    /// [`StoreError::InvalidName`].
    pub fn rename_source(&self, id: Uuid, new_name: &str) -> Result<SourceInfo> {
        check_name(new_name)?;
        let conn = self.catalog.lock();
        if self.sources.find(new_name).is_some_and(|other| other.id != id) {
            return Err(StoreError::Exists(new_name.to_owned()));
        }
        let changed = conn.execute("UPDATE OR IGNORE sources SET name = ?2 WHERE id = ?1", params![id, new_name])?;
        if changed == 0 && self.sources.get(id).is_some() {
            return Err(StoreError::Exists(new_name.to_owned()));
        }
        let info = self.sources.rename(id, new_name).ok_or_else(|| self.unknown(&id.to_string()))?;
        Ok(info.as_ref().clone())
    }

    /// Sets the retention of a source. It takes effect when the background looks next, for all that is too old then. Blocks for
    /// one commit.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`].
    pub fn set_retention(&self, id: Uuid, retention: Retention) -> Result<SourceInfo> {
        let (seconds, bytes) = retention.to_columns();
        let conn = self.catalog.lock();
        conn.execute(
            "UPDATE sources SET retention_seconds = ?2, retention_bytes = ?3 WHERE id = ?1",
            params![id, seconds, bytes],
        )?;
        // Who says how long logs are kept has looked at them.
        retention_share::free(&conn, id)?;
        let info = self.sources.set_retention(id, Retention::of_columns(seconds, bytes));
        Ok(info.ok_or_else(|| self.unknown(&id.to_string()))?.as_ref().clone())
    }

    /// Says whose the rows of a source are; `None` takes it back. It holds for tables that are made from now on. Blocks for
    /// one commit.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`].
    pub fn set_tenant(&self, id: Uuid, tenant: Option<SourceTenancy>) -> Result<SourceInfo> {
        let text = tenant.as_ref().map(serde_json::to_string).transpose();
        let text = text.map_err(|error| StoreError::corrupt("tenant keys", error))?;
        let conn = self.catalog.lock();
        conn.execute("UPDATE sources SET tenant = ?2 WHERE id = ?1", params![id, text])?;
        if let Some(source) = self.sources.get(id) {
            source.look_for_tenants(tenant.as_ref());
        }
        let info = self.sources.set_tenant(id, tenant);
        Ok(info.ok_or_else(|| self.unknown(&id.to_string()))?.as_ref().clone())
    }

    /// Whether a source has this name as a tenant key.
    pub fn is_tenant_key(&self, name: &str) -> bool {
        self.sources.is_tenant_key(name)
    }

    /// Counts the changes of what sources say of their tenants, since the store was opened. What was made of the rows of
    /// a source for a tenant before a change must not be used after it.
    pub fn tenancy_generation(&self) -> u64 {
        self.sources.tenancy_generation()
    }

    /// Deletes a source with all its rows, for good. An event on its way to the source is either stored before and
    /// deleted with it, or refused as for an unknown source. Running queries finish; a file is deleted when the last
    /// query that reads it ends. Blocks for one commit.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`]; [`StoreError::DiskFull`], [`StoreError::ReadOnly`],
    /// [`StoreError::Sqlite`] and [`StoreError::Closed`], upon which the source is still there.
    pub fn delete_source(&self, id: Uuid) -> Result<()> {
        let unknown = || self.unknown(&id.to_string());
        let source = self.sources.get(id).ok_or_else(unknown)?;
        let (victim, gone, sources) = (Arc::clone(&source), Arc::clone(&source), Arc::clone(&self.sources));
        let now = self.clock.now();
        let deleted = self.writer.transact_then(
            move |tx| {
                if victim.is_deleted() {
                    return Ok(false);
                }
                // Its files are deleted later. A start in between finds the tombstone.
                let bury = "INSERT OR IGNORE INTO dropped (id, source, dropped_at) VALUES (?1, ?1, ?2)";
                tx.execute(bury, params![victim.id, now])?;
                for statement in [
                    "DELETE FROM wal WHERE source = ?1",
                    "DELETE FROM ingest_keys WHERE source = ?1",
                    "DELETE FROM segments WHERE source = ?1",
                    "DELETE FROM sources WHERE key = ?1",
                ] {
                    tx.execute(statement, [victim.key])?;
                }
                numbering::forget(tx, victim.id)?;
                retention_share::forget(tx, victim.id)?;
                Ok(true)
            },
            // On the writer thread, before it looks at calls that wait for the source.
            move || {
                gone.mark_deleted();
                sources.remove(&gone);
            },
        )?;
        if !deleted {
            return Err(unknown());
        }
        source.clear();
        if let Err(error) = quarantine::delete_source(&self.data, id) {
            tracing::error!(%id, %error, "segments of a deleted source stay in quarantine/: delete them");
        }
        // If the source had no segment, nothing else removes the folder.
        let _ = std::fs::remove_dir(crate::data_folder::paths::source_folder(&self.data, id));
        tracing::info!(source = source.info().name, %id, "deleted a source");
        Ok(())
    }

    /// All sources by name.
    pub fn sources(&self) -> Vec<SourceInfo> {
        let mut infos: Vec<SourceInfo> = self.sources.all().iter().map(|s| s.info().as_ref().clone()).collect();
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        infos
    }

    /// Whether a source may have this name.
    pub fn may_name_source(name: &str) -> bool {
        check_name(name).is_ok()
    }

    /// The source with this name or, failing that, this UUID.
    pub fn source(&self, name_or_id: &str) -> Option<SourceInfo> {
        let source = self.sources.find(name_or_id).or_else(|| self.sources.get(Uuid::parse_str(name_or_id).ok()?))?;
        Some(source.info().as_ref().clone())
    }

    /// Segments of a source, held so that their files stay. The others of those named are missing: the store does not
    /// have them, or no longer.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`].
    pub fn hold_segments(&self, source: &str, ids: &[Uuid]) -> Result<HeldSegments> {
        let segments = self.find(source)?.segments();
        Ok(HeldSegments::new(segments.iter().filter(|segment| ids.contains(&segment.id)).cloned()))
    }

    /// Whether there is a source with this identity.
    pub fn has_source(&self, id: Uuid) -> bool {
        self.sources.get(id).is_some()
    }

    pub(crate) fn find(&self, name: &str) -> Result<Arc<Source>> {
        self.sources.find(name).ok_or_else(|| self.unknown(name))
    }

    pub(crate) fn get(&self, id: Uuid) -> Result<Arc<Source>> {
        self.sources.get(id).ok_or_else(|| self.unknown(&id.to_string()))
    }

    pub(crate) fn unknown(&self, name: &str) -> StoreError {
        StoreError::UnknownSource {
            name: name.to_owned(),
            known: self.sources().into_iter().map(|info| info.name).collect(),
        }
    }
}
