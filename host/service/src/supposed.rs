//! How sources would be after a change that is not made yet. Plans that never run are made over that, so that what a change
//! widens is known before anything is changed.

use std::collections::BTreeMap;

use tidegate_model::{Audience, NotOfTenant, RowPolicy, SourceTenancy};
use tidegate_store::Store;
use uuid::Uuid;

/// Which rows of a source an audience may read, as the store says it: `None` is all of them.
pub(crate) type RowsOf = Result<Option<RowPolicy>, NotOfTenant>;

/// What is supposed of sources. By default nothing: they are as the store has them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Supposed {
    /// What sources would say of their tenants; one that would be gone says nothing.
    tenants: BTreeMap<Uuid, Option<SourceTenancy>>,
    /// Sources that would be made, by name.
    made: BTreeMap<String, Uuid>,
}

impl Supposed {
    /// A source would say something else of its tenants. One that is deleted would say nothing.
    pub(crate) fn says(source: Uuid, tenant: Option<SourceTenancy>) -> Self {
        Self { tenants: BTreeMap::from([(source, tenant)]), made: BTreeMap::new() }
    }

    /// A source would be made. Returns what stands for its id.
    pub(crate) fn make(&mut self, name: &str, tenant: Option<SourceTenancy>) -> Uuid {
        let id = *self.made.entry(name.to_owned()).or_insert_with(Uuid::new_v4);
        self.tenants.insert(id, tenant);
        id
    }

    /// The source of a name, if it would be made.
    pub(crate) fn named(&self, name: &str) -> Option<Uuid> {
        self.made.get(name).copied()
    }

    /// The name of a source that would be made.
    pub(crate) fn name_of(&self, id: Uuid) -> Option<&str> {
        self.made.iter().find(|(_, made)| **made == id).map(|(name, _)| name.as_str())
    }

    /// What a source would say of its tenants.
    pub(crate) fn tenant_of(&self, store: &Store, id: Uuid) -> Option<SourceTenancy> {
        match self.tenants.get(&id) {
            Some(tenant) => tenant.clone(),
            None => store.source(&id.to_string())?.tenant,
        }
    }

    /// Whether a name would be a tenant key of any source.
    pub(crate) fn is_key(&self, store: &Store, name: &str) -> bool {
        let has = |tenant: Option<&SourceTenancy>| match tenant {
            Some(SourceTenancy::Keyed(keys)) => keys.contains_key(name),
            Some(SourceTenancy::Shared) | None => false,
        };
        if self.tenants.is_empty() {
            return store.is_tenant_key(name);
        }
        self.tenants.values().any(|tenant| has(tenant.as_ref()))
            || store.sources().iter().any(|own| !self.tenants.contains_key(&own.id) && has(own.tenant.as_ref()))
    }

    /// Whether anything is supposed.
    pub(crate) fn is_nothing(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Which rows of a source an audience would read.
    pub(crate) fn rows_of(&self, store: &Store, id: Uuid, audience: &Audience) -> RowsOf {
        let own = self.tenant_of(store, id);
        SourceTenancy::policy(own.as_ref(), audience, |name| self.is_key(store, name))
    }
}
