//! Writing a segment: the Parquet file, its checksums, and the steps that make it durable.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
};

use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::{
        metadata::{KeyValue, SortingColumn},
        properties::{EnabledStatistics, WriterProperties, WriterVersion},
    },
};
use uuid::Uuid;

use crate::{
    clock::now_micros,
    data_folder::{
        paths::segment_file,
        sync::{create_folder, sync_folder},
    },
    error::{Result, StoreError},
    field_names::TIMESTAMP,
    memory::mem_batch::MemBatch,
    options::StoreOptions,
    segment::{
        checksum::writer::ChecksumWriter,
        footer_entry::{FOOTER_KEY, FooterEntry, Origin},
        handle::Segment,
    },
};

/// Writes a batch as a new segment: durable, but not yet in the catalog.
pub(crate) fn write(
    folder: &Path,
    id: Uuid,
    origin: Origin<'_>,
    batch: &MemBatch,
    options: &StoreOptions,
) -> Result<Segment> {
    let entry = FooterEntry {
        catalog: origin.catalog,
        source: origin.source,
        source_name: origin.name.to_owned(),
        rows: batch.rows.num_rows(),
        min_time: batch.min_time,
        max_time: batch.max_time,
        projects: batch.projects(),
        created_at: now_micros(),
        first_seq: batch.first_seq,
        last_seq: batch.last_seq,
        shape: origin.shape.clone(),
    };
    let path = folder.join(segment_file(id));
    let temporary = folder.join(format!("{id}.tmp"));
    create_folder(folder)?;
    let written = write_file(&temporary, id, &entry, batch, options).and_then(|written| {
        fs::rename(&temporary, &path).map_err(StoreError::io(format!("naming segment {}", path.display())))?;
        sync_folder(folder)?;
        Ok(written)
    });
    let (bytes, checksum) = match written {
        Ok(written) => written,
        Err(error) => {
            // Best effort: the next start deletes what remains of the first. The second is there if only the sync of the
            // folder failed; its rows will be in another segment, and it would look like one that the catalog has lost.
            let _ = fs::remove_file(&temporary);
            let _ = fs::remove_file(&path);
            return Err(error);
        }
    };
    Ok(Segment::of_entry(id, path, bytes, checksum, &entry))
}

/// Returns the length of the file and the root of its checksums.
fn write_file(
    path: &Path,
    id: Uuid,
    entry: &FooterEntry,
    batch: &MemBatch,
    options: &StoreOptions,
) -> Result<(u64, u32)> {
    let parquet = |source| StoreError::Parquet { segment: id, source };
    let column = batch.rows.schema_ref().index_of(TIMESTAMP)?;
    // `column_idx` counts leaves. All columns before `timestamp` are leaves, so that the index is the same.
    let order = SortingColumn { column_idx: column as i32, descending: true, nulls_first: false };
    let said = serde_json::to_string(entry).map_err(|error| StoreError::corrupt("what a footer says", error))?;
    let level = ZstdLevel::try_new(options.zstd_level).map_err(parquet)?;
    let properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(concat!("tidegate ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(options.row_group_rows))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_sorting_columns(Some(vec![order]))
        .set_key_value_metadata(Some(vec![
            KeyValue::new("tidegate.segment".to_owned(), id.to_string()),
            KeyValue::new("tidegate.source".to_owned(), entry.source.to_string()),
            KeyValue::new("tidegate.source_name".to_owned(), entry.source_name.clone()),
            KeyValue::new("tidegate.schema_version".to_owned(), "2".to_owned()),
            KeyValue::new(FOOTER_KEY.to_owned(), said),
        ]))
        .build();

    let refused = || StoreError::io(format!("writing segment {}", path.display()));
    let file = File::create_new(path).map_err(refused())?;
    let mut writer =
        ArrowWriter::try_new(ChecksumWriter::new(BufWriter::new(file)), batch.rows.schema(), Some(properties))
            .map_err(parquet)?;
    writer.write(&batch.rows).map_err(parquet)?;
    // What follows are page indexes and the footer; the table of checksums goes before the footer.
    writer.flush().map_err(parquet)?;
    writer.inner_mut().hold();
    let (mut buffered, checksum) = writer.into_inner().map_err(parquet)?.finish(id).map_err(refused())?;
    buffered.flush().map_err(refused())?;
    let file = buffered.get_ref();
    file.sync_all().map_err(refused())?;
    Ok((file.metadata().map_err(refused())?.len(), checksum))
}
