//! All sources of a store, by name and by identity.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicUsize},
};

use uuid::Uuid;

use crate::{
    source::Source,
    source_info::{Retention, SourceInfo},
};

/// All sources of a store.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    entries: RwLock<SourceMaps>,
    /// Bytes of rows that are in no segment.
    pub(crate) unflushed: Arc<AtomicUsize>,
}

/// Both maps hold the same sources; each name is the one in its source's info.
#[derive(Debug, Default)]
struct SourceMaps {
    by_name: HashMap<String, Arc<Source>>,
    by_id: HashMap<Uuid, Arc<Source>>,
}

impl Sources {
    fn read(&self) -> RwLockReadGuard<'_, SourceMaps> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SourceMaps> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Source>> {
        self.read().by_id.values().cloned().collect()
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Source>> {
        self.read().by_name.get(name).cloned()
    }

    pub(crate) fn get(&self, id: Uuid) -> Option<Arc<Source>> {
        self.read().by_id.get(&id).cloned()
    }

    pub(crate) fn insert(&self, source: Arc<Source>) {
        let mut entries = self.write();
        entries.by_name.insert(source.info().name.clone(), Arc::clone(&source));
        entries.by_id.insert(source.id, source);
    }

    /// Removes a source. Whoever holds it can still use it.
    pub(crate) fn remove(&self, source: &Source) {
        let mut entries = self.write();
        if entries.by_id.remove(&source.id).is_some() {
            entries.by_name.remove(&source.info().name);
        }
    }

    /// Renames a source; `None` if it was deleted meanwhile.
    pub(crate) fn rename(&self, id: Uuid, name: &str) -> Option<Arc<SourceInfo>> {
        let mut entries = self.write();
        let source = Arc::clone(entries.by_id.get(&id)?);
        entries.by_name.remove(&source.info().name);
        let info = source.change_info(|info| name.clone_into(&mut info.name));
        entries.by_name.insert(name.to_owned(), source);
        Some(info)
    }

    pub(crate) fn set_retention(&self, id: Uuid, retention: Retention) -> Option<Arc<SourceInfo>> {
        let entries = self.write();
        Some(entries.by_id.get(&id)?.change_info(|info| info.retention = retention))
    }
}
