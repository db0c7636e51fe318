//! Copies of the catalog in an object store, from which a data folder is recovered whose disk is lost.
//!
//! A copy is put when all segments that it names are there. A segment is deleted only when no copy that is kept names it,
//! and when it is certain after that that no other server has taken a copy to recover from. Such a server takes the
//! next epoch first and reads the newest copy then: either this server sees the epoch and deletes nothing, or the copy that is
//! read does not name the segment.

use std::sync::{Arc, MutexGuard, PoisonError, atomic::Ordering};

use object_store::{PutMode, PutOptions, PutPayload};
use uuid::Uuid;

use crate::{
    catalog::copy::{CopiedLog, write_copy},
    clock::now_micros,
    data_folder::paths,
    error::{Result, StoreError},
    objects::{
        catalog_object::{CatalogHeader, CatalogName, pack},
        client::refused,
        copies::ObjectCopies,
        counters::add,
        kept_catalogs::KeptCatalogs,
        ownership::{delete_objects, list_catalogs},
    },
};

impl ObjectCopies {
    /// Puts a copy of the catalog as it is now, and deletes the copies that are not needed any more. In memory is the copy,
    /// compressed. Blocks.
    ///
    /// # Errors
    /// As of [`ObjectCopies::claim`]; [`StoreError::Sqlite`], [`StoreError::Io`]; [`StoreError::Closed`] after
    /// [`ObjectCopies::stop`].
    pub(crate) fn put_catalog(&self) -> Result<()> {
        let put = self.try_to_put_catalog();
        match &put {
            Ok((bytes, taken_at)) => {
                add(&self.counters.catalog_puts, 1);
                add(&self.counters.catalog_put_bytes, *bytes);
                self.counters.catalog_copied_at.store(*taken_at, Ordering::Relaxed);
            }
            Err(StoreError::Closed | StoreError::Replaced { .. }) => {}
            Err(_) => add(&self.counters.failed_catalog_puts, 1),
        }
        put.map(drop)
    }

    /// The bytes of the copy that was put, and when it was taken.
    fn try_to_put_catalog(&self) -> Result<(u64, i64)> {
        let epoch = self.claim()?;
        self.check_epoch()?;
        let _putting = self.putting.lock().unwrap_or_else(PoisonError::into_inner);
        self.list_kept()?;
        let snapshot = self.kept().begin();
        let taken_at = now_micros();
        let [head, body] = self.packed_catalog(taken_at)?;
        let bytes = (head.len() + body.len()) as u64;
        let payload: PutPayload = [head, body].into_iter().collect();
        loop {
            let name = CatalogName { epoch, number: self.kept().next_number() };
            let (client, payload) = (Arc::clone(&self.client), payload.clone());
            let is_new = self.run(async move {
                let options = PutOptions::from(PutMode::Create);
                match client.store.put_opts(&name.place(&client.prefix), payload, options).await {
                    Ok(_) => Ok(true),
                    Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                        Ok(false)
                    }
                    Err(error) => Err(refused("putting a copy of the catalog", &error)),
                }
            });
            match is_new {
                Ok(true) => break self.kept().put(epoch, snapshot),
                // An earlier attempt was carried out after all, with an earlier state.
                Ok(false) => self.kept().was_there(epoch),
                Err(error) => {
                    self.kept().not_known(snapshot);
                    return Err(error);
                }
            }
        }
        self.delete_superfluous();
        Ok((bytes, taken_at))
    }

    /// A copy of the catalog as the two parts of an object.
    fn packed_catalog(&self, taken_at: i64) -> Result<[bytes::Bytes; 2]> {
        let file = self.data.join(paths::CATALOG_COPY);
        let CopiedLog { last_seq, unflushed } = write_copy(&self.data, &file)?;
        let unflushed = unflushed.into_iter().map(|(source, first)| (source.to_string(), first)).collect();
        let writer = self.writer.to_string();
        let header = |bytes, sha256| CatalogHeader {
            catalog: self.catalog,
            writer,
            taken_at,
            last_seq,
            unflushed,
            bytes,
            sha256,
        };
        let packed = pack(&file, header).map_err(StoreError::io(format!("reading {}", file.display())));
        let removed = std::fs::remove_file(&file);
        removed.map_err(StoreError::io(format!("deleting {}", file.display())))?;
        packed
    }

    fn kept(&self) -> MutexGuard<'_, KeptCatalogs> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds out which copies are there.
    fn list_kept(&self) -> Result<()> {
        if !self.kept().is_listed() {
            let client = Arc::clone(&self.client);
            let names = self.run(async move { list_catalogs(&client).await })?;
            self.kept().listed(names);
        }
        Ok(())
    }

    /// Deletes the copies that are not needed any more. Where that fails, the next call tries again.
    fn delete_superfluous(&self) {
        let old = self.kept().superfluous();
        let objects = old.iter().map(|name| name.place(&self.client.prefix)).collect();
        let client = Arc::clone(&self.client);
        match self.run(async move { delete_objects(&client, objects, "deleting old copies of the catalog").await }) {
            Ok(()) => self.kept().deleted(&old),
            Err(error) => tracing::warn!(%error, "old copies of the catalog stay for now"),
        }
    }

    /// Whether segments are to be deleted that an old copy names, so that a new one is due.
    pub(crate) fn is_catalog_awaited(&self) -> bool {
        self.kept().is_awaited()
    }

    /// Deletes the copies of segments, given by segment and source; where both are the same, of a whole source. The catalog
    /// does not name them any more. Those that a copy of the catalog may name wait; whoever calls calls again. Returns what
    /// was deleted.
    ///
    /// # Errors
    /// As of [`ObjectCopies::delete_segments`].
    pub(crate) fn delete(&self, dropped: &[(Uuid, Uuid)]) -> Result<Vec<(Uuid, Uuid)>> {
        if dropped.is_empty() {
            return Ok(Vec::new());
        }
        self.claim()?;
        self.list_kept()?;
        let mut gone = self.kept().deletable(dropped);
        while self.is_manual && gone.len() < dropped.len() {
            self.put_catalog()?;
            gone = self.kept().deletable(dropped);
        }
        if !gone.is_empty() {
            // After the copies that do not name them.
            self.check_epoch()?;
            self.delete_segments(&gone)?;
            self.kept().forget(&gone);
        }
        Ok(gone)
    }

    /// How long the catalog has had what its newest copy lacks, in seconds; 0 if it has nothing.
    pub(crate) fn catalog_behind_seconds(&self) -> u64 {
        match self.counters.catalog_behind_since.load(Ordering::Relaxed) {
            0 => 0,
            since => u64::try_from(now_micros().saturating_sub(since) / 1_000_000).unwrap_or(0),
        }
    }
}
