//! The Arrow schemas of files, kept beside their footers.
//!
//! A file has its Arrow schema as encoded text. The engine's reader decodes it whenever it opens the file, all fields of
//! it, which takes a tenth of a millisecond for a hundred fields. A reader that is given the schema does not.
//!
//! The schema also says which tenant all rows have that are read of the file, where they have one: those of a run of one
//! tenant. The condition that binds a query to that tenant then costs nothing ([`expr_adapter`](super::expr_adapter)).

use std::{any::Any, sync::Arc};

use datafusion::{
    arrow::datatypes::{Schema, SchemaRef},
    common::HashMap,
    datasource::{listing::PartitionedFile, physical_plan::parquet::ParquetAccessPlan},
    error::Result,
    execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadata, FileMetadataCache},
};
use object_store::{ObjectMeta, path::Path};
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    file::metadata::ParquetMetaData,
};

use crate::{overflow::sparse_paths, scan::sole_tenant::GroupTenants};

/// What a schema of a file says beside its fields, as far as scans look at it: which segment it is, so that no schema of a
/// file equals that of a table, and the paths in its overflow.
const SAID: [&str; 2] = ["tidegate.segment", sparse_paths::METADATA_KEY];

/// The schemas of files.
#[derive(Debug, Clone)]
pub(crate) struct FileSchemas {
    /// The cache of footers, which is bounded. Schemas are smaller than footers, and are needed together with them.
    pub(crate) cache: Arc<FileMetadataCache>,
}

/// A schema as an entry of the cache.
struct CachedSchema {
    schema: SchemaRef,
    tenants: GroupTenants,
}

impl CachedSchema {
    /// The schema for what is read of the file.
    fn of_read(&self, file: &PartitionedFile) -> SchemaRef {
        let access = file.extension::<ParquetAccessPlan>();
        let is_read = |group: usize| access.is_none_or(|access| group < access.len() && access.should_scan(group));
        self.tenants.schema_of_read(&self.schema, is_read)
    }
}

impl FileMetadata for CachedSchema {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_size(&self) -> usize {
        let said = self.schema.metadata().iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        size_of::<Self>() + size_of::<Schema>() + self.schema.fields().size() + said + self.tenants.held()
    }

    fn extra_info(&self) -> HashMap<String, String> {
        HashMap::new()
    }
}

/// No file has this name, because segments end in `.parquet`.
fn key(file: &PartitionedFile) -> Path {
    Path::from(format!("{}.schema", file.object_meta.location))
}

impl FileSchemas {
    /// The schema of a file, if it is kept.
    pub(crate) fn get(&self, file: &PartitionedFile) -> Option<SchemaRef> {
        let entry = self.cache.get(&key(file))?;
        Some(entry.file_metadata.as_any().downcast_ref::<CachedSchema>()?.of_read(file))
    }

    /// The schema of a file with this footer, which is kept from now on.
    ///
    /// # Errors
    /// If the file cannot have one.
    pub(crate) fn read(&self, file: &PartitionedFile, footer: &Arc<ParquetMetaData>) -> Result<SchemaRef> {
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(footer), ArrowReaderOptions::new())?;
        let mut schema = Schema::clone(metadata.schema());
        if !schema.metadata.is_empty() {
            schema.metadata.retain(|name, _| SAID.contains(&name.as_str()));
        }
        let cached = CachedSchema { schema: Arc::new(schema), tenants: GroupTenants::of(footer) };
        let schema = cached.of_read(file);
        let key = key(file);
        let meta = ObjectMeta { location: key.clone(), ..file.object_meta.clone() };
        self.cache.put(&key, CachedFileMetadataEntry::new(meta, Arc::new(cached)));
        Ok(schema)
    }
}
