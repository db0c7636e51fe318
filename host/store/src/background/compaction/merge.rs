//! Merging segments into one, in runs.
//!
//! First the keys of all rows are read, which decides about the order and the runs. Then the rows are read in that
//! order and written. Each input is sorted in the same way by its own runs, so that little more than a batch of each run
//! is in memory; a shared run is in memory as a whole.

use std::{collections::HashMap, path::Path, sync::Arc};

use datafusion::arrow::{array::RecordBatch, datatypes::SchemaRef};
use uuid::Uuid;

use crate::{
    arrays::interleave::interleave_rows,
    background::compaction::input::{Input, Place},
    error::{Result, StoreError},
    memory::mem_batch::joined_schema,
    options::StoreOptions,
    schema::arrow_fields::leaves,
    segment::{
        column_encoding::ColumnEncodings,
        footer_entry::{FooterEntry, Origin},
        handle::Segment,
        packed_columns::schema_of_inputs,
        row_order::{OrderKeys, RowOrder},
        text_indexes::TextIndexes,
        writer::{CHUNK_ROWS, SegmentFile, plain_texts},
    },
};

/// What became of the segments that were to be merged.
pub(crate) enum Merged {
    /// The new segment, durable but not in the catalog, with its columns and the segments that it replaces: the first of
    /// those that were given.
    Segment(Box<(Segment, SchemaRef, Vec<Arc<Segment>>)>),
    /// Even the first two have too large rows to be merged within the bound on memory.
    TooLarge,
}

/// Merges segments that are neighbours, oldest first. `pause` is called after each chunk; its failure ends the merge.
pub(crate) fn merge(
    segments: &[Arc<Segment>],
    folder: &Path,
    origin: Origin<'_>,
    options: &StoreOptions,
    pause: &mut dyn FnMut() -> Result<()>,
) -> Result<Merged> {
    let Some((inputs, joined)) = open(segments, origin.catalog, options, pause)? else { return Ok(Merged::TooLarge) };
    let mut keys = OrderKeys::default();
    let mut starts = Vec::new();
    for input in &inputs {
        starts.push(keys.rows());
        input.add_keys(&mut keys, origin.tenant_path)?;
        pause()?;
    }
    let rows = keys.rows();
    if rows != inputs.iter().map(|input| input.segment.rows).sum::<usize>() || u32::try_from(rows).is_err() {
        return Err(StoreError::corrupt("the segments to merge", "they have another number of rows than they say"));
    }
    let RowOrder { order, runs } = keys.order(options.run_rows, options.row_group_rows);
    let merged: Vec<Arc<Segment>> = inputs.iter().map(|input| Arc::clone(&input.segment)).collect();
    let seqs = || merged.iter().filter_map(|segment| segment.seqs);
    let entry = FooterEntry {
        catalog: origin.catalog,
        source: origin.source,
        source_name: origin.name.to_owned(),
        rows,
        min_time: runs.iter().map(|run| run.min_time).min().unwrap_or(0),
        max_time: runs.iter().map(|run| run.max_time).max().unwrap_or(0),
        projects: None,
        runs: Some(runs.clone()),
        tenant_path: origin.tenant_path.clone(),
        created_at: merged.iter().map(|segment| segment.created_at).max().unwrap_or(0),
        first_seq: seqs().map(|(first, _)| first).min().unwrap_or(0),
        last_seq: seqs().map(|(_, last)| last).max().unwrap_or(0),
        placed_after: inputs.iter().filter_map(Input::placed_after).max(),
        replaces: merged.iter().map(|segment| segment.id).collect(),
        shape: origin.shape.clone(),
    };
    let indexes = TextIndexes::new(rows, origin.texts, options);
    let encodings = ColumnEncodings::of_files(inputs.iter().map(Input::footer));
    let known: Vec<_> = inputs.iter().map(|input| (input.schema(), input.footer())).collect();
    let schema = schema_of_inputs(&joined, &known, &plain_texts(&indexes, origin.tenant_path));
    let mut file =
        SegmentFile::create(folder, Uuid::new_v4(), entry, Arc::clone(&schema), indexes, &encodings, options)?;
    let mut rows = Rows { inputs, starts, schema };
    let mut start = 0;
    for run in &runs {
        let end = start + run.rows;
        while start < end {
            let next = (start + CHUNK_ROWS).min(end);
            let chunk = match &order {
                Some(order) => rows.take(order.get(start..next).unwrap_or_default().iter().map(|row| *row as usize))?,
                None => rows.take(start..next)?,
            };
            file.write(&chunk)?;
            start = next;
            pause()?;
        }
        file.end_run()?;
    }
    let segment = file.finish()?;
    Ok(Merged::Segment(Box::new((segment, rows.schema, merged))))
}

/// Opens as many of the segments as may be merged within the bound on memory, with the schema that holds them all.
fn open(
    segments: &[Arc<Segment>],
    catalog: Uuid,
    options: &StoreOptions,
    pause: &mut dyn FnMut() -> Result<()>,
) -> Result<Option<(Vec<Input>, SchemaRef)>> {
    let mut inputs: Vec<Input> = Vec::new();
    let mut live = 0_u64;
    for segment in segments {
        let input = Input::open(segment, catalog)?;
        live = live.saturating_add(input.live_bytes(options.run_rows.saturating_mul(2), leaves(input.schema())));
        if live > options.compaction_memory as u64 && !inputs.is_empty() {
            break;
        }
        inputs.push(input);
        pause()?;
    }
    if inputs.len() < 2 && segments.len() > 1 {
        return Ok(None);
    }
    let schemas: Vec<SchemaRef> = inputs.iter().map(|input| Arc::clone(input.schema())).collect();
    Ok(Some((inputs, joined_schema(&schemas))))
}

/// The rows of all inputs, numbered from the first row of the first one.
struct Rows {
    inputs: Vec<Input>,
    /// The number of the first row of each input.
    starts: Vec<usize>,
    schema: SchemaRef,
}

impl Rows {
    /// The rows with these numbers, each of which is taken once.
    fn take(&mut self, rows: impl Iterator<Item = usize>) -> Result<RecordBatch> {
        // The batches that the rows are in, by input, run and batch.
        let mut numbers: HashMap<(usize, usize, usize), usize> = HashMap::new();
        let mut batches: Vec<((usize, usize, usize), usize)> = Vec::new();
        let mut indices = Vec::new();
        for row in rows {
            let number = self.starts.partition_point(|start| *start <= row).saturating_sub(1);
            let (Some(input), Some(start)) = (self.inputs.get_mut(number), self.starts.get(number)) else {
                return Err(StoreError::corrupt("the segments to merge", "a row is in none of them"));
            };
            let Place { run, batch, row } = input.find(row - start, &self.schema)?;
            let key = (number, run, batch);
            let at = *numbers.entry(key).or_insert_with(|| {
                batches.push((key, 0));
                batches.len() - 1
            });
            if let Some((_, taken)) = batches.get_mut(at) {
                *taken += 1;
            }
            indices.push((at, row));
        }
        let live: Option<Vec<&RecordBatch>> =
            batches.iter().map(|((input, run, batch), _)| self.inputs.get(*input)?.batch(*run, *batch)).collect();
        let live = live.ok_or_else(|| StoreError::corrupt("the segments to merge", "a row was taken twice"))?;
        let chunk = interleave_rows(&live, &indices)?;
        for ((input, run, batch), taken) in batches {
            if let Some(input) = self.inputs.get_mut(input) {
                input.take(run, batch, taken);
            }
        }
        Ok(chunk)
    }
}
