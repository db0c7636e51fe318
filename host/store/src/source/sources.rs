//! All sources of a store, by name and by identity.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use tidegate_model::SourceTenancy;
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
    tenancy_generation: AtomicU64,
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
            if source.info().tenant.is_some() {
                self.count_tenancy();
            }
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

    /// Says whose the rows of a source are; `None` if it was deleted meanwhile.
    pub(crate) fn set_tenant(&self, id: Uuid, tenant: Option<SourceTenancy>) -> Option<Arc<SourceInfo>> {
        let entries = self.write();
        let info = entries.by_id.get(&id)?.change_info(|info| info.tenant = tenant);
        self.count_tenancy();
        Some(info)
    }

    /// Whether a source has this name as a tenant key.
    pub(crate) fn is_tenant_key(&self, name: &str) -> bool {
        let is_key = |source: &Arc<Source>| match &source.info().tenant {
            Some(SourceTenancy::Keyed(keys)) => keys.contains_key(name),
            Some(SourceTenancy::Shared) | None => false,
        };
        self.read().by_id.values().any(is_key)
    }

    /// Counts a change of what sources say of their tenants: which names are keys depends on all of them.
    fn count_tenancy(&self) {
        self.tenancy_generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of changes of what sources say of their tenants.
    pub(crate) fn tenancy_generation(&self) -> u64 {
        self.tenancy_generation.load(Ordering::Acquire)
    }

    pub(crate) fn set_retention(&self, id: Uuid, retention: Retention) -> Option<Arc<SourceInfo>> {
        let entries = self.write();
        Some(entries.by_id.get(&id)?.change_info(|info| info.retention = retention))
    }
}
