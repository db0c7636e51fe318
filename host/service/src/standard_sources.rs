//! The sources that every data folder has from its first start, and whose rows those of the platform are.

use std::collections::BTreeMap;

use tidegate_model::SourceTenancy;
use tidegate_store::{SourceInfo, Store, StoreError};

/// The tenant key of the platform's sources.
const KEY: &str = "project";

/// The names of the sources that log shippers of the platform post to, with the field that has the project (section 2.4 of
/// the specification).
const STANDARD: [(&str, &str); 9] = [
    ("cloudflare.logs.prod", "project"),
    ("postgres.logs", "project"),
    ("deno-relay-logs", "metadata.project_ref"),
    ("deno-subhosting-events", "metadata.project_ref"),
    ("gotrue.logs.prod", "project"),
    ("realtime.logs.prod", "metadata.project"),
    ("storage.logs.prod.2", "metadata.project"),
    ("postgREST.logs.prod", "project"),
    ("pgbouncer.logs.prod", "project"),
];

/// Further sources of the platform, which the pack `log-viewer` reads.
const OF_PACK: [(&str, &str); 4] = [
    ("supavisor.logs.prod", "metadata.project"),
    ("gotrue.audit.logs.prod", "project"),
    ("pg_upgrade.logs.prod", "project"),
    ("etl.replication.logs.prod", "project"),
];

/// The names of the standard sources.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    STANDARD.into_iter().map(|(name, _)| name)
}

/// Whose the rows of a source of the platform are; `None` for another source.
pub(crate) fn tenancy(name: &str) -> Option<SourceTenancy> {
    let (_, path) = STANDARD.into_iter().chain(OF_PACK).find(|(known, _)| *known == name)?;
    Some(SourceTenancy::Keyed(BTreeMap::from([(KEY.to_owned(), path.parse().ok()?)])))
}

/// Creates a source, or finds it. One of the platform that is created says whose its rows are.
///
/// # Errors
/// The store's.
pub(crate) fn ensure(store: &Store, name: &str) -> Result<SourceInfo, StoreError> {
    if let Some(source) = store.source(name).filter(|source| source.name == name) {
        return Ok(source);
    }
    let source = store.ensure_source(name)?;
    match tenancy(name) {
        Some(tenancy) => store.set_tenant(source.id, Some(tenancy)),
        None => Ok(source),
    }
}

/// The entry in the catalog of a folder whose sources say whose their rows are.
const MARK: &str = "tenancy";

/// Has the sources of the platform say whose their rows are, in a folder of a release that did not know it. What its owner
/// changes afterwards stays.
///
/// # Errors
/// The store's.
pub(crate) fn bring_up_to_date(store: &Store) -> Result<(), StoreError> {
    if store.catalog().meta(MARK)?.is_some() {
        return Ok(());
    }
    for source in store.sources().iter().filter(|source| source.tenant.is_none()) {
        if let Some(tenancy) = tenancy(&source.name) {
            store.set_tenant(source.id, Some(tenancy))?;
        }
    }
    store.catalog().set_meta(MARK, "1")
}
