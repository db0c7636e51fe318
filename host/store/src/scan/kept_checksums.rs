//! Tables of checksums in the cache of footers: they are smaller than footers, and are needed together with them.

use std::{any::Any, sync::Arc};

use datafusion::{
    common::HashMap,
    execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadata, FileMetadataCache},
};
use object_store::{ObjectMeta, path::Path};

use crate::segment::{checksum::table::ChecksumTable, handle::Segment};

/// A table of checksums as an entry of the cache.
struct CachedTable(Arc<ChecksumTable>);

impl FileMetadata for CachedTable {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_size(&self) -> usize {
        self.0.memory()
    }

    fn extra_info(&self) -> HashMap<String, String> {
        HashMap::new()
    }
}

/// Under what a table is kept. No file has this name, because segments end in `.parquet`.
fn key(location: &Path) -> Path {
    Path::from(format!("{location}.checksums"))
}

/// The table of a segment, if it is kept.
pub(crate) fn get(cache: &FileMetadataCache, location: &Path, segment: &Segment) -> Option<Arc<ChecksumTable>> {
    let entry = cache.get(&key(location))?;
    let CachedTable(checksums) = entry.file_metadata.as_any().downcast_ref()?;
    // Nobody names a segment otherwise, except who sends plans to a process that reads without a catalog.
    let is_same = (Some(checksums.root), checksums.size) == (segment.checksum, segment.bytes);
    is_same.then(|| Arc::clone(checksums))
}

/// Keeps the table of a segment.
pub(crate) fn put(cache: &FileMetadataCache, location: &Path, checksums: &Arc<ChecksumTable>) {
    let key = key(location);
    let meta = ObjectMeta {
        location: key.clone(),
        last_modified: chrono::DateTime::UNIX_EPOCH,
        size: checksums.size,
        e_tag: None,
        version: None,
    };
    cache.put(&key, CachedFileMetadataEntry::new(meta, Arc::new(CachedTable(Arc::clone(checksums)))));
}
