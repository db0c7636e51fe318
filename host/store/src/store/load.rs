//! Loading the sources and their segments from the catalog.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicUsize},
};

use rusqlite::Connection;

use crate::{
    data_folder::paths,
    error::{Result, StoreError},
    options::StoreOptions,
    schema::shape::Shape,
    segment::catalog_rows,
    source::{Source, column_ages::ColumnAges},
    source_info::{Retention, SourceInfo, tenancy_of_text},
};

pub(crate) fn load_sources(
    conn: &Connection,
    dir: &Path,
    options: &StoreOptions,
    unflushed: &Arc<AtomicUsize>,
) -> Result<Vec<Arc<Source>>> {
    let mut statement = conn.prepare(
        "SELECT key, id, name, shape, created_at, retention_seconds, retention_bytes, seen, tenant
         FROM sources",
    )?;
    let mut rows = statement.query([])?;
    let mut sources = Vec::new();
    while let Some(row) = rows.next()? {
        let key = row.get(0)?;
        let info = SourceInfo {
            id: row.get(1)?,
            name: row.get(2)?,
            created_at: row.get(4)?,
            retention: Retention::of_columns(row.get(5)?, row.get(6)?),
            tenant: tenancy_of_text(row.get_ref(8)?.as_str_or_null().ok().flatten()),
        };
        let shape: Shape = serde_json::from_str(row.get_ref(3)?.as_str().unwrap_or_default())
            .map_err(|e| StoreError::corrupt(format!("the schema of source `{}`", info.name), e))?;
        let folder = paths::source_folder(dir, info.id);
        let segments = catalog_rows::load(conn, key, info.id, &folder)?;
        let seen = ColumnAges::of_text(row.get_ref(7)?.as_str_or_null().ok().flatten());
        let source = Source::new(info, key, shape, segments, options, Arc::clone(unflushed)).with_seen(seen);
        sources.push(Arc::new(source));
    }
    Ok(sources)
}
