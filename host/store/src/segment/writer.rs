//! Writing a segment: the Parquet file, its checksums, and the steps that make it durable.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use datafusion::arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::{
        metadata::{KeyValue, SortingColumn},
        properties::{BloomFilterPosition, EnabledStatistics, WriterProperties, WriterVersion},
    },
    schema::types::ColumnPath,
};
use uuid::Uuid;

use crate::{
    data_folder::{
        paths::segment_file,
        sync::{create_folder, sync_folder},
    },
    error::{Result, StoreError},
    field_names::{CALL, ID, TIMESTAMP},
    memory::{
        flush_rows::FlushRows,
        mem_batch::{conform, times},
        tenant_column::TenantColumn,
    },
    options::StoreOptions,
    schema::tenant_path::TenantPath,
    segment::{
        checksum::writer::ChecksumWriter,
        column_encoding::ColumnEncodings,
        footer_entry::{FOOTER_KEY, FooterEntry, Origin, TENANT_PATH_KEY},
        handle::Segment,
        packed_columns::schema_of_rows,
        row_order::{OrderKeys, RowOrder},
        text_indexes::{TextIndex, TextIndexes},
        trigram::{
            GRANULE_ROWS,
            directory::{INDEX_KEY, IndexPlace, VERSION},
        },
    },
};

/// Rows of a page. A page is decoded as a whole, so that the newest hundred rows cost about two pages of each column, and
/// a short range of times about two pages of each run.
const PAGE_ROWS: usize = GRANULE_ROWS;

/// Rows that are put in order and written at once: whole pages, and few enough that the memory for the next ones is at hand.
pub(crate) const CHUNK_ROWS: usize = 2 * PAGE_ROWS;

/// How often the filter of a row group says of an id that it may be there, although it is not. A filter takes about ten
/// bits for each row.
const ID_FILTER_ERRORS: f64 = 0.01;

/// Writes rows as a new segment, made at `created_at` by the age clock: durable, but not yet in the catalog.
pub(crate) fn write(
    folder: &Path,
    id: Uuid,
    origin: Origin<'_>,
    rows: &FlushRows,
    created_at: i64,
    options: &StoreOptions,
) -> Result<Segment> {
    let mut keys = OrderKeys::default();
    rows.parts().iter().for_each(|part| keys.add(times(part), TenantColumn::of(part, origin.tenant_path)));
    let RowOrder { order, runs } = keys.order(options.run_rows, options.row_group_rows);
    let (first_seq, last_seq) = rows.seqs;
    let entry = FooterEntry {
        catalog: origin.catalog,
        source: origin.source,
        source_name: origin.name.to_owned(),
        rows: rows.count(),
        min_time: rows.min_time,
        max_time: rows.max_time,
        projects: None,
        runs: Some(runs.clone()),
        tenant_path: origin.tenant_path.clone(),
        created_at,
        first_seq,
        last_seq,
        placed_after: rows.is_complete(CALL).then_some(0),
        replaces: Vec::new(),
        shape: origin.shape.clone(),
    };
    let indexes = TextIndexes::new(rows.count(), origin.texts, options);
    let encodings = ColumnEncodings::of_rows(rows, order.as_deref());
    let plain = plain_texts(&indexes, origin.tenant_path);
    let schema = schema_of_rows(rows, order.as_deref(), options.row_group_rows, &encodings, &plain);
    let mut file = SegmentFile::create(folder, id, entry, schema, indexes, &encodings, options)?;
    match order {
        // They are one run, in the order of its rows.
        None => {
            rows.parts().iter().try_for_each(|part| file.write(part))?;
            file.end_run()?;
        }
        Some(order) => {
            let mut rest = order.as_slice();
            for run in &runs {
                let (of_run, others) = rest.split_at_checked(run.rows).unwrap_or((rest, &[]));
                rest = others;
                of_run.chunks(CHUNK_ROWS).try_for_each(|chunk| file.write(&rows.take(chunk)?))?;
                file.end_run()?;
            }
        }
    }
    file.finish()
}

/// The texts that are not packed: those that have an index, which is made of what is written, and tenants, whose bounds tell
/// scans that all rows of a row group have the same.
pub(crate) fn plain_texts(indexes: &TextIndexes, tenant_path: &TenantPath) -> Vec<ColumnPath> {
    indexes.columns().chain([ColumnPath::from(tenant_path.names().to_vec())]).collect()
}

/// A segment that is being written. Its file has a temporary name until [`Self::finish`], and is removed if that is not
/// reached.
pub(crate) struct SegmentFile {
    id: Uuid,
    folder: PathBuf,
    temporary: PathBuf,
    entry: FooterEntry,
    /// The columns of the file.
    schema: SchemaRef,
    /// `None` once it is finished.
    writer: Option<ArrowWriter<ChecksumWriter<BufWriter<File>>>>,
    indexes: TextIndexes,
    /// Whether its files must be removed.
    unfinished: bool,
}

impl SegmentFile {
    /// Begins a segment with these columns. `entry` says what will be written.
    pub(crate) fn create(
        folder: &Path,
        id: Uuid,
        entry: FooterEntry,
        schema: SchemaRef,
        indexes: TextIndexes,
        encodings: &ColumnEncodings,
        options: &StoreOptions,
    ) -> Result<SegmentFile> {
        let properties = properties(id, &entry, &schema, &indexes, encodings, options)?;
        create_folder(folder)?;
        let temporary = folder.join(format!("{id}.tmp"));
        let file =
            File::create_new(&temporary).map_err(StoreError::io(format!("writing segment {}", temporary.display())))?;
        let mut this = SegmentFile {
            id,
            folder: folder.to_owned(),
            temporary,
            entry,
            schema: Arc::clone(&schema),
            writer: None,
            indexes,
            unfinished: true,
        };
        let writer = ArrowWriter::try_new(ChecksumWriter::new(BufWriter::new(file)), schema, Some(properties));
        this.writer = Some(writer.map_err(parquet_error(id))?);
        Ok(this)
    }

    /// Writes more rows of the current run, whose texts may be packed or not.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.indexes.add(rows);
        let rows = conform(rows, &self.schema).map_err(|error| StoreError::corrupt("the rows of a segment", error))?;
        let writer = self.writer.as_mut().ok_or(StoreError::Closed)?;
        writer.write(&rows).map_err(parquet_error(self.id))
    }

    /// Ends the current run, and with it the current row group.
    pub(crate) fn end_run(&mut self) -> Result<()> {
        self.indexes.end_group();
        let writer = self.writer.as_mut().ok_or(StoreError::Closed)?;
        writer.flush().map_err(parquet_error(self.id))
    }

    /// Makes the file durable under its final name.
    pub(crate) fn finish(mut self) -> Result<Segment> {
        let (bytes, checksum) = self.close()?;
        let path = self.folder.join(segment_file(self.id));
        fs::rename(&self.temporary, &path).map_err(StoreError::io(format!("naming segment {}", path.display())))?;
        sync_folder(&self.folder)?;
        self.unfinished = false;
        Ok(Segment::of_entry(self.id, path, bytes, checksum, &self.entry))
    }

    /// Returns the length of the file and the root of its checksums.
    fn close(&mut self) -> Result<(u64, u32)> {
        let refused = || StoreError::io(format!("writing segment {}", self.temporary.display()));
        let mut writer = self.writer.take().ok_or(StoreError::Closed)?;
        // What follows are page indexes and the footer; the table of checksums goes before the footer.
        writer.flush().map_err(parquet_error(self.id))?;
        let mut places = Vec::new();
        for TextIndex { column, granules, bytes: index } in self.indexes.finish().map_err(refused())? {
            let (start, bytes) = (writer.bytes_written() as u64, index.len() as u64);
            places.push(IndexPlace { version: VERSION, column, start, bytes, granules });
            writer.write_all(&index).map_err(refused())?;
        }
        if !places.is_empty() {
            let said = serde_json::to_string(&places)
                .map_err(|error| StoreError::corrupt("the places of the indexes of texts", error))?;
            writer.append_key_value_metadata(KeyValue::new(INDEX_KEY.to_owned(), said));
        }
        writer.inner_mut().hold();
        let checked = writer.into_inner().map_err(parquet_error(self.id))?;
        let (mut buffered, checksum) = checked.finish(self.id).map_err(refused())?;
        buffered.flush().map_err(refused())?;
        let file = buffered.get_ref();
        file.sync_all().map_err(refused())?;
        Ok((file.metadata().map_err(refused())?.len(), checksum))
    }
}

impl Drop for SegmentFile {
    fn drop(&mut self) {
        if self.unfinished {
            drop(self.writer.take());
            // Best effort: the next start deletes what remains of the first. The second is there if only the sync of the
            // folder failed; its rows will be in another segment, and it would look like one that the catalog has lost.
            let _ = fs::remove_file(&self.temporary);
            let _ = fs::remove_file(self.folder.join(segment_file(self.id)));
        }
    }
}

fn parquet_error(segment: Uuid) -> impl Fn(ParquetError) -> StoreError {
    move |source| StoreError::Parquet { segment, source }
}

/// What the footer says beside its columns.
fn said_of(id: Uuid, entry: &FooterEntry) -> Result<Vec<KeyValue>> {
    let all = serde_json::to_string(entry).map_err(|error| StoreError::corrupt("what a footer says", error))?;
    let said = [
        ("tidegate.segment", Some(id.to_string())),
        ("tidegate.source", Some(entry.source.to_string())),
        ("tidegate.source_name", Some(entry.source_name.clone())),
        ("tidegate.schema_version", Some("2".to_owned())),
        (FOOTER_KEY, Some(all)),
        (TENANT_PATH_KEY, entry.tenant_path.to_text()),
    ];
    Ok(said.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key.to_owned(), value?))).collect())
}

fn properties(
    id: Uuid,
    entry: &FooterEntry,
    schema: &Schema,
    indexes: &TextIndexes,
    encodings: &ColumnEncodings,
    options: &StoreOptions,
) -> Result<WriterProperties> {
    let column = schema.index_of(TIMESTAMP)?;
    // `column_idx` counts leaves. All columns before `timestamp` are leaves, so that the index is the same.
    let order = SortingColumn { column_idx: column as i32, descending: true, nulls_first: false };
    let level = ZstdLevel::try_new(options.zstd_level).map_err(parquet_error(id))?;
    let properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(concat!("tidegate ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(options.row_group_rows))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_ROWS)
        // Rows are sorted by time within runs of tenants, so that only the bounds of these columns leave out pages.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_column_statistics_enabled(ColumnPath::from(TIMESTAMP), EnabledStatistics::Page)
        .set_column_statistics_enabled(ColumnPath::from(entry.tenant_path.names().to_vec()), EnabledStatistics::Page)
        .set_sorting_columns(Some(vec![order]))
        // One event is looked up by its id without reading the ids of all others.
        .set_column_bloom_filter_enabled(ColumnPath::from(ID), true)
        .set_column_bloom_filter_max_ndv(ColumnPath::from(ID), options.row_group_rows as u64)
        .set_column_bloom_filter_fpp(ColumnPath::from(ID), ID_FILTER_ERRORS)
        .set_bloom_filter_position(BloomFilterPosition::End)
        .set_key_value_metadata(Some(said_of(id, entry)?));
    // Texts with an index are those that are searched. LZ4 is read faster than zstd, and takes half as much again.
    let properties = indexes
        .columns()
        .fold(properties, |properties, column| properties.set_column_compression(column, Compression::LZ4_RAW));
    let properties = encodings.applied(properties, schema);
    // The bounds of calls let a reader of the newest calls leave out pages, as those of times do.
    Ok(properties.set_column_statistics_enabled(ColumnPath::from(CALL), EnabledStatistics::Page).build())
}
