//! Segments that were put into the store after the copy of the catalog was made, which the copy therefore does not name.
//!
//! Other objects that it does not name were dropped before, and must not come back: segments of sources that were deleted, or what
//! retention dropped. The calls that a segment was made of tell the two apart, because the copy says which calls were in
//! no segment yet.

use std::{collections::HashSet, fs, path::Path};

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use crate::{
    error::{Result, StoreError},
    maintenance::{
        listed_segment::ListedSegment,
        recover::{Recovery, RecoveryReport},
        repair::take_back,
        segment_copies::SegmentCopies,
    },
    objects::{catalog_object::CatalogHeader, segment_objects},
    recovery::{
        leftovers::{self, CatalogNames},
        quarantine::{self, SetAside},
    },
    segment::footer::{self, Footer},
};

impl Recovery {
    /// Decides about the segments that the copy of the catalog does not name.
    pub(super) fn take_later(
        &self,
        conn: &mut Connection,
        header: &CatalogHeader,
        report: &mut RecoveryReport,
    ) -> Result<()> {
        let known = CatalogNames::read(conn)?;
        let (mut later, mut unreadable) = (Vec::new(), Vec::new());
        for file in leftovers::list_files(&self.data)?.segments {
            if known.names(file.segment) {
                continue;
            }
            match footer::read(&file.path, file.segment, None) {
                Ok(Footer { entry: Some(entry), .. })
                    if entry.catalog == header.catalog && header.is_later(file.source, entry.first_seq) =>
                {
                    later.push((file, entry));
                }
                // It was dropped before the copy was taken, or its rows are in others.
                Ok(Footer { entry: Some(_), .. }) => delete(&file.path)?,
                Ok(_) => unreadable.push((file, "it does not say what a catalog needs".to_owned())),
                Err(refused) => unreadable.push((file, refused.reason())),
            }
        }
        // What has the rows of others comes before these: a merge, which has rows of later calls only, and the flush that
        // repeated another.
        later.sort_by_key(|(_, entry)| leftovers::place(entry));
        for (file, entry) in later {
            // The source may have come with a segment before.
            let key = "SELECT key FROM sources WHERE id = ?1";
            if let Some(key) = conn.query_row(key, [file.source], |row| row.get(0)).optional()? {
                let is_elsewhere = match entry.replaces.as_slice() {
                    [] => {
                        let others = leftovers::overlapping(conn, key, &entry)?;
                        others.first().is_some_and(|other| leftovers::is_within(&file, *other))
                    }
                    _ => leftovers::are_rows_elsewhere(conn, key, &file, &entry)?,
                };
                if is_elsewhere {
                    delete(&file.path)?;
                    continue;
                }
            }
            let note = SetAside {
                source_name: Some(entry.source_name.clone()),
                rows: u64::try_from(entry.rows).ok(),
                ..SetAside::new(file.segment, file.source, "it was put after the copy of the catalog was made")
            };
            let note = quarantine::put(&self.data, &file.path, note)?;
            match take_back(conn, &self.data, header.catalog, &note)? {
                Ok(()) => {
                    report.last_call = report.last_call.max(entry.last_seq);
                    report.later.push(note);
                }
                Err(reason) => report.left.push(SetAside { reason, ..note }),
            }
        }
        for (file, reason) in unreadable {
            let note = SetAside::new(file.segment, file.source, reason);
            report.left.push(quarantine::put(&self.data, &file.path, note)?);
        }
        Ok(())
    }

    /// The objects of segments that the copy of the catalog does not know. Their rows are not known.
    pub(super) fn later_segments(
        &self,
        copies: &SegmentCopies,
        conn: &Connection,
        named: &[ListedSegment],
    ) -> Result<Vec<ListedSegment>> {
        let objects = copies.run(|client| async move {
            let folder = client.folder();
            segment_objects::list_segments(&client, &folder).await
        })?;
        let mut known: HashSet<Uuid> = named.iter().map(|segment| segment.id).collect();
        let mut dropped = conn.prepare("SELECT id FROM dropped")?;
        known.extend(dropped.query_map([], |row| row.get::<_, Uuid>(0))?.collect::<rusqlite::Result<Vec<_>>>()?);
        let objects =
            objects.into_iter().filter(|object| !known.contains(&object.segment) && !known.contains(&object.source));
        let listed = objects.map(|object| ListedSegment {
            id: object.segment,
            source: object.source,
            source_name: object.source.to_string(),
            rows: 0,
            bytes: object.bytes,
            checksum: None,
        });
        Ok(listed.collect())
    }
}

fn delete(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(StoreError::io(format!("deleting {}", path.display())))
}
