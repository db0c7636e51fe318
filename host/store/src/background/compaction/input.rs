//! A segment that is being merged: its rows by their number, read run by run.

use std::{fs::File, path::PathBuf, sync::Arc};

use datafusion::arrow::{
    array::{AsArray, RecordBatch},
    datatypes::{DataType, SchemaRef},
};
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{
            ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
        },
    },
    file::metadata::ParquetMetaData,
};
use uuid::Uuid;

use crate::{
    arrays::{column_path::column_at, packed_uuids::packed_paths, schema_evolution::adapt},
    error::{Result, StoreError},
    field_names::{OVERFLOW, PLACE, TIMESTAMP},
    memory::{
        mem_batch::{conform, times},
        tenant_column::{TenantColumn, TenantField},
    },
    schema::tenant_path::TenantPath,
    segment::{footer, footer_entry::RowPlaces, handle::Segment, row_order::OrderKeys, run::Run},
};

/// Rows of a batch. Of each run that is read, one or two batches are in memory with all their columns.
const BATCH_ROWS: usize = 2 << 10;

/// By how many bytes a UUID as a text is longer than a packed one.
const TEXT_OF_UUID: u64 = 20;

/// A segment whose bytes have been checked.
pub(crate) struct Input {
    pub(crate) segment: Arc<Segment>,
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    /// The columns that are taken over.
    schema: SchemaRef,
    places: RowPlaces,
    runs: Vec<RunReader>,
}

/// The rows of a run, read in their order. Batches stay in memory until all of their rows were taken.
struct RunReader {
    rows: usize,
    /// The number of its first row in the segment.
    start: usize,
    groups: Vec<usize>,
    reader: Option<ParquetRecordBatchReader>,
    batches: Vec<Option<LiveBatch>>,
}

struct LiveBatch {
    rows: RecordBatch,
    /// Rows that were not taken yet.
    left: usize,
}

/// Where a row is: the number of its run, of its batch in the run, and of the row in the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) run: usize,
    pub(crate) batch: usize,
    pub(crate) row: usize,
}

impl Input {
    /// Checks every byte of the segment. Damage is noted with the segment, so that it is not selected again. Places of rows
    /// that another catalog than this one numbered are left out: the merged segment would mistake them for its own.
    pub(crate) fn open(segment: &Arc<Segment>, catalog: Uuid) -> Result<Input> {
        let unreadable = |reason: String| StoreError::corrupt(format!("segment {}", segment.id), reason);
        let path = segment.path().ok_or_else(|| unreadable("it is no file".to_owned()))?.to_owned();
        let footer = footer::check(&path, segment.id, segment.checksum).map_err(|refused| {
            if refused.is_damage() {
                segment.note_damage(&refused.reason());
            }
            unreadable(refused.reason())
        })?;
        let file = File::open(&path).map_err(StoreError::io(format!("reading segment {}", path.display())))?;
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
            .map_err(|source| StoreError::Parquet { segment: segment.id, source })?;
        let places = footer.row_places(catalog);
        let schema = match places {
            RowPlaces::Foreign => without_places(metadata.schema())?,
            RowPlaces::After(_) => Arc::clone(metadata.schema()),
        };
        let mut input = Input { segment: Arc::clone(segment), path, metadata, schema, places, runs: Vec::new() };
        input.runs = input.run_readers().ok_or_else(|| unreadable("its runs are not those of its file".to_owned()))?;
        Ok(input)
    }

    /// `None` if the catalog says otherwise than the file.
    fn run_readers(&self) -> Option<Vec<RunReader>> {
        let file = self.metadata.metadata();
        let rows_of = |group: usize| Some(usize::try_from(file.row_groups().get(group)?.num_rows()).unwrap_or(0));
        let mut readers = Vec::new();
        let (mut start, mut group) = (0, 0);
        for Run { rows, groups, .. } in &self.segment.runs {
            let count = if self.segment.has_runs { *groups } else { file.num_row_groups() };
            let groups: Vec<usize> = (group..group + count).collect();
            let found = groups.iter().map(|group| rows_of(*group)).sum::<Option<usize>>()?;
            if found != *rows {
                return None;
            }
            readers.push(RunReader { rows: *rows, start, groups, reader: None, batches: Vec::new() });
            start += rows;
            group += count;
        }
        (group == file.num_row_groups()).then_some(readers)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn footer(&self) -> &ParquetMetaData {
        self.metadata.metadata()
    }

    /// Rows of calls after this number have their place, among those that the catalog numbered; `None` if it numbered none.
    pub(crate) fn placed_after(&self) -> Option<i64> {
        match self.places {
            RowPlaces::Foreign => None,
            RowPlaces::After(call) => Some(call.min(self.segment.seqs.map_or(i64::MAX, |(_, last)| last))),
        }
    }

    /// About how many bytes the rows of one run take in memory while they are merged, with `leaves` leaf columns. Runs
    /// that are longer than a few batches are merged in order, so that only a part of them is in memory.
    pub(crate) fn live_bytes(&self, shared_run: usize, leaves: usize) -> u64 {
        let file: &ParquetMetaData = self.metadata.metadata();
        let bytes: i64 = file.row_groups().iter().map(|group| group.total_byte_size()).sum();
        let rows = self.segment.rows.max(1) as u64;
        // Packed texts may be merged with others, and are texts then.
        let packed = packed_paths(&self.schema).len() as u64 * TEXT_OF_UUID;
        let each = u64::try_from(bytes).unwrap_or(0) / rows + 12 * leaves as u64 + packed;
        let live = if self.segment.has_runs { shared_run.min(self.segment.rows) } else { self.segment.rows };
        each.saturating_mul(live as u64)
    }

    /// A reader of the leaves whose path is one of `columns`; of all if there is none.
    fn reader(&self, groups: Vec<usize>, columns: Option<&[&[String]]>) -> Result<ParquetRecordBatchReader> {
        let (id, path) = (&self.segment.id, &self.path);
        let file = File::open(path).map_err(StoreError::io(format!("reading segment {}", path.display())))?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_batch_size(BATCH_ROWS)
            .with_row_groups(groups);
        let builder = match columns {
            Some(columns) => {
                let schema = builder.parquet_schema();
                let is_read = |leaf: &usize| columns.contains(&schema.column(*leaf).path().parts());
                let mask = ProjectionMask::leaves(schema, (0..schema.num_columns()).filter(is_read));
                builder.with_projection(mask)
            }
            None => builder,
        };
        builder.build().map_err(|source| StoreError::Parquet { segment: *id, source })
    }

    /// Adds the keys of all rows, in their order. `path` is that of their tenants in the merged segment, whatever it is in this
    /// one.
    pub(crate) fn add_keys(&self, keys: &mut OrderKeys, path: &TenantPath) -> Result<()> {
        let all = (0..self.metadata.metadata().num_row_groups()).collect();
        let (time, overflow) = ([TIMESTAMP.to_owned()], [OVERFLOW.to_owned()]);
        let field = TenantField::of(self.metadata.schema(), path);
        let columns: &[&[String]] = match field {
            TenantField::Text => &[&time, path.names()],
            TenantField::Missing if !path.is_default() => &[&time, &overflow],
            TenantField::Missing | TenantField::Unknown => &[&time],
        };
        for batch in self.reader(all, Some(columns))? {
            let batch = batch?;
            match field {
                TenantField::Text => {
                    // They may be packed.
                    let texts = column_at(&batch, path.names()).map(|column| adapt(column, &DataType::Utf8View));
                    let texts = texts.transpose().map_err(|error| StoreError::corrupt("the tenants of rows", error))?;
                    let texts = texts.as_ref().and_then(|column| column.as_string_view_opt());
                    keys.add(times(&batch), texts.map_or(TenantColumn::Unknown, TenantColumn::Texts));
                }
                TenantField::Missing => keys.add(times(&batch), TenantColumn::without_column(&batch, path)),
                TenantField::Unknown => keys.add(times(&batch), TenantColumn::Unknown),
            }
        }
        Ok(())
    }

    /// The place of a row, whose batch is in memory afterwards in the columns of `schema`.
    pub(crate) fn find(&mut self, row: usize, schema: &SchemaRef) -> Result<Place> {
        let lost = || StoreError::corrupt(format!("segment {}", self.segment.id), "it has fewer rows than it says");
        let run = self.runs.partition_point(|run| run.start <= row).checked_sub(1).ok_or_else(lost)?;
        let (start, rows) = self.runs.get(run).map(|run| (run.start, run.rows)).ok_or_else(lost)?;
        let row = row - start;
        if row >= rows {
            return Err(lost());
        }
        let batch = row / BATCH_ROWS;
        while self.runs.get(run).is_some_and(|run| run.batches.len() <= batch) {
            let next = match self.runs.get(run) {
                Some(RunReader { reader: None, groups, .. }) => Some(self.reader(groups.clone(), None)?),
                _ => None,
            };
            let run = self.runs.get_mut(run).ok_or_else(lost)?;
            let reader = match next {
                Some(reader) => run.reader.insert(reader),
                None => run.reader.as_mut().ok_or_else(lost)?,
            };
            let read = reader.next().ok_or_else(lost)??;
            let left = read.num_rows();
            let fit = |rows: &RecordBatch, schema| {
                conform(rows, schema).map_err(|error| {
                    StoreError::corrupt("the segments to merge", format!("their columns do not go together: {error}"))
                })
            };
            let rows = match self.places {
                RowPlaces::Foreign => fit(&fit(&read, &self.schema)?, schema)?,
                RowPlaces::After(_) => fit(&read, schema)?,
            };
            run.batches.push(Some(LiveBatch { rows, left }));
            if run.batches.len() >= run.rows.div_ceil(BATCH_ROWS) {
                // It would keep the last page of each column.
                run.reader = None;
            }
        }
        Ok(Place { run, batch, row: row % BATCH_ROWS })
    }

    /// A batch that is in memory.
    pub(crate) fn batch(&self, run: usize, batch: usize) -> Option<&RecordBatch> {
        Some(&self.runs.get(run)?.batches.get(batch)?.as_ref()?.rows)
    }

    /// Drops a batch if so many more of its rows were all that were left.
    pub(crate) fn take(&mut self, run: usize, batch: usize, rows: usize) {
        if let Some(slot) = self.runs.get_mut(run).and_then(|run| run.batches.get_mut(batch))
            && let Some(live) = slot
        {
            live.left = live.left.saturating_sub(rows);
            if live.left == 0 {
                *slot = None;
            }
        }
    }
}

/// The columns without those of places.
fn without_places(schema: &SchemaRef) -> Result<SchemaRef> {
    let is_other = |column: &usize| schema.fields().get(*column).is_some_and(|of| !PLACE.contains(&of.name().as_str()));
    let others: Vec<usize> = (0..schema.fields().len()).filter(is_other).collect();
    Ok(Arc::new(schema.project(&others)?))
}
