//! The newest copy of the catalog that is whole.

use bytes::Bytes;
use object_store::{ObjectStoreExt, path::Path as ObjectPath};
use rusqlite::Connection;
use uuid::Uuid;

use crate::{
    catalog::{database, names},
    error::{Result, StoreError},
    maintenance::{
        catalog_check::check_catalog,
        recover::{Recovery, RecoveryReport},
        segment_copies::SegmentCopies,
        verify::Finding,
    },
    objects::{
        catalog_object::{CatalogHeader, unpack},
        client::{ObjectClient, refused},
        object_error::ObjectError,
        ownership,
    },
};

impl Recovery {
    /// Opens the newest copy of the catalog that is whole.
    pub(super) fn newest_catalog(
        &self,
        copies: &SegmentCopies,
        catalog: Uuid,
        report: &mut RecoveryReport,
    ) -> Result<(Connection, CatalogHeader)> {
        let names = copies.run(|client| async move { ownership::list_catalogs(&client).await })?;
        for name in names.iter().rev() {
            let object = name.place(&copies.client.prefix);
            let fetched = {
                let object = object.clone();
                copies.run(move |client| async move { get(&client, &object).await })?
            };
            let opened = match fetched {
                Ok(bytes) => self.open_copy(&bytes, catalog)?,
                Err(reason) => Err(reason),
            };
            match opened {
                Ok((conn, header)) => {
                    report.copy = object.to_string();
                    report.taken_at = header.taken_at;
                    report.last_call = header.last_seq;
                    report.first_unflushed = header.unflushed.values().min().copied();
                    return Ok((conn, header));
                }
                Err(problem) => {
                    tracing::error!(copy = %object, problem, "a copy of the catalog cannot be used; the one before it is");
                    report.refused_copies.push(Finding { what: object.to_string(), problem });
                }
            }
        }
        let problems: Vec<String> =
            report.refused_copies.iter().map(|copy| format!("{}: {}", copy.what, copy.problem)).collect();
        Err(self.refused(format!("no copy of the catalog there is whole ({}); restore a backup", problems.join("; "))))
    }

    /// Opens a copy of the catalog. The inner error says why it cannot be used.
    fn open_copy(&self, object: &[u8], catalog: Uuid) -> Result<Result<(Connection, CatalogHeader), String>> {
        let path = self.staged_catalog();
        names::delete_all(&path)?;
        let header = match unpack(object, &path).map_err(StoreError::io(format!("writing {}", path.display())))? {
            Ok(header) => header,
            Err(reason) => return Ok(Err(reason)),
        };
        if header.catalog != catalog {
            return Ok(Err(format!("it is a copy of another catalog ({})", header.catalog)));
        }
        let open = || -> Result<Connection> {
            let mut conn = Connection::open(&path)?;
            // What is cut off is made anew.
            conn.pragma_update_and_check(None, "journal_mode", "memory", |_| Ok(()))?;
            conn.pragma_update(None, "synchronous", "off")?;
            conn.pragma_update(None, "foreign_keys", true)?;
            check_catalog(&conn, &path, "the copy of the catalog")?;
            database::migrate(&mut conn, &path)?;
            Ok(conn)
        };
        match open() {
            Ok(conn) => Ok(Ok((conn, header))),
            Err(error @ StoreError::Corrupt { .. }) => Ok(Err(error.to_string())),
            // An older copy would be an earlier state.
            Err(StoreError::Incompatible { reason, .. }) => {
                Err(self.refused(format!("the copy of the catalog cannot be used: {reason}")))
            }
            Err(error) => Err(error),
        }
    }
}

/// The bytes of an object. The inner error says why they cannot be had.
async fn get(client: &ObjectClient, object: &ObjectPath) -> Result<Result<Bytes, String>> {
    let size = match client.store.head(object).await {
        Ok(found) => found.size,
        Err(object_store::Error::NotFound { .. }) => return Ok(Err("its object is missing".to_owned())),
        Err(error) => return Err(refused("reading a copy of the catalog", &error)),
    };
    if size == 0 {
        return Ok(Err("its object is empty".to_owned()));
    }
    match client.read(object, size, 0..size).await {
        Ok(bytes) => Ok(Ok(bytes)),
        Err(error @ ObjectError::Refused(_)) => {
            Err(StoreError::ObjectStore { reason: format!("reading a copy of the catalog: {error}") })
        }
        Err(error) => Ok(Err(error.to_string())),
    }
}
