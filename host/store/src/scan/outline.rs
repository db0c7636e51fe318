//! What a plan reads of sources, as far as it is known before it runs: for whoever wants a statement explained.
//!
//! It comes from the catalog's statistics alone. When a scan opens a segment, it may leave out more of it, by the indexes
//! of ids and texts and by the statistics of row groups and pages.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use datafusion::{
    catalog::TableProvider,
    datasource::{
        physical_plan::{
            FileGroup, FileSource, ParquetSource,
            parquet::{ParquetAccessPlan, RowGroupAccess},
        },
        source::DataSourceExec,
    },
    physical_expr::{PhysicalExpr, expressions::DynamicFilterPhysicalExpr, split_conjunction},
    physical_expr_common::physical_expr::fmt_sql,
    physical_plan::{ExecutionPlan, ExecutionPlanProperties},
};
use uuid::Uuid;

use crate::{
    scan::{
        held_segments::scan_of, id_search::IdSearch, memory_scan::MemoryScan, segment_reader::SegmentOfFile,
        table::SourceTable, trigram_reader::TextSearch,
    },
    segment::{handle::Segment, run::Run},
};

/// What is read, or there is to be read, of the segments of a source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SegmentTotals {
    /// How many segments.
    pub segments: usize,
    /// How many of their runs: the rows of one tenant in one segment are one run.
    pub runs: usize,
    /// The rows of these runs.
    pub rows: u64,
    /// Their bytes, about: as they are stored, with all columns.
    pub bytes: u64,
}

/// A source as a statement finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOutline {
    /// The name of the source.
    pub source: Arc<str>,
    /// All of its segments.
    pub segments: SegmentTotals,
    /// All of its rows in memory.
    pub memory_rows: usize,
}

/// What a scan reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanPlace {
    /// What is left of the segments.
    Segments(SegmentTotals),
    /// Rows of batches in memory that are left.
    Memory {
        /// How many rows the batches have.
        rows: usize,
    },
}

/// A scan of a plan, after what the catalog excludes is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanOutline {
    /// The name of the source.
    pub source: Arc<str>,
    /// What it reads.
    pub place: ScanPlace,
    /// The conditions that reach it, as text: by them it leaves out row groups, pages or rows.
    pub conditions: Vec<String>,
    /// Whether other operators tell it conditions while they run, such as a join or a limit.
    pub learns_conditions: bool,
    /// Whether its rows come in an order: newest first.
    pub in_order: bool,
    /// How many rows each partition hands on at most.
    pub limit: Option<usize>,
    /// In how many partitions it is read.
    pub partitions: usize,
    /// Whether the index of ids is looked into when a segment is opened.
    pub by_ids: bool,
    /// Whether the index of texts is.
    pub by_texts: bool,
}

impl SegmentTotals {
    fn add(&mut self, segment: &Segment, runs: impl Iterator<Item = usize>) {
        let runs: Vec<&Run> = runs.filter_map(|place| segment.runs.get(place)).collect();
        let rows: usize = runs.iter().map(|run| run.rows).sum();
        let bytes = u128::from(segment.bytes) * rows as u128 / (segment.rows.max(1) as u128);
        self.segments += 1;
        self.runs += runs.len();
        self.rows += rows as u64;
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }
}

impl TableOutline {
    /// Of a table of a store; `None` for another one.
    pub fn of(table: &dyn TableProvider) -> Option<TableOutline> {
        let table: &SourceTable = table.downcast_ref()?;
        let mut segments = SegmentTotals::default();
        for segment in table.snapshot.segments.iter() {
            segments.add(segment, 0..segment.runs.len());
        }
        let memory_rows = table.snapshot.memory.iter().map(|batch| batch.rows.num_rows()).sum();
        Some(TableOutline { source: table.source().into(), segments, memory_rows })
    }
}

impl ScanOutline {
    /// Of an operator of a plan, if it is a scan of a source.
    pub fn of(plan: &dyn ExecutionPlan) -> Option<ScanOutline> {
        let outline = match scan_of(plan) {
            Some(_) => Self::of_segments(plan)?,
            None => Self::of_memory(plan)?,
        };
        Some(ScanOutline {
            in_order: plan.output_ordering().is_some(),
            limit: plan.fetch(),
            partitions: plan.output_partitioning().partition_count(),
            ..outline
        })
    }

    fn of_segments(plan: &dyn ExecutionPlan) -> Option<ScanOutline> {
        let scan = scan_of(plan)?;
        let files = scan.files();
        let mut read: BTreeMap<Uuid, (&Arc<Segment>, BTreeSet<usize>)> = BTreeMap::new();
        let (mut by_ids, mut by_texts) = (false, false);
        for file in files.file_groups.iter().flat_map(FileGroup::iter) {
            let SegmentOfFile(segment) = file.extension()?;
            by_ids |= file.extension::<IdSearch>().is_some();
            by_texts |= file.extension::<TextSearch>().is_some();
            let (_, runs) = read.entry(segment.id).or_insert_with(|| (segment, BTreeSet::new()));
            runs.extend(runs_read(segment, file.extension()));
        }
        let mut totals = SegmentTotals::default();
        for (segment, runs) in read.into_values() {
            totals.add(segment, runs.into_iter());
        }
        let filter = files.file_source.downcast_ref::<ParquetSource>()?.filter();
        let outline = Self::with(&scan.origin().source, ScanPlace::Segments(totals), filter.iter());
        Some(ScanOutline { by_ids, by_texts, ..outline })
    }

    fn of_memory(plan: &dyn ExecutionPlan) -> Option<ScanOutline> {
        let scan: &MemoryScan = plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref()?;
        Some(Self::with(scan.source(), ScanPlace::Memory { rows: scan.rows() }, scan.filters().iter()))
    }

    fn with<'e>(
        source: &Arc<str>,
        place: ScanPlace,
        filters: impl Iterator<Item = &'e Arc<dyn PhysicalExpr>>,
    ) -> ScanOutline {
        let all = filters.flat_map(split_conjunction);
        let (learnt, known): (Vec<_>, Vec<_>) =
            all.partition(|part| part.downcast_ref::<DynamicFilterPhysicalExpr>().is_some());
        ScanOutline {
            source: Arc::clone(source),
            place,
            conditions: known.into_iter().map(|part| fmt_sql(part.as_ref()).to_string()).collect(),
            learns_conditions: !learnt.is_empty(),
            in_order: false,
            limit: None,
            partitions: 0,
            by_ids: false,
            by_texts: false,
        }
    }
}

/// The places of the runs of which a file of a scan reads something.
fn runs_read(segment: &Segment, access: Option<&ParquetAccessPlan>) -> BTreeSet<usize> {
    let all = 0..segment.runs.len();
    let Some(access) = access else { return all.collect() };
    let (access, mut first) = (access.inner(), 0);
    all.filter(|place| {
        let end = first + segment.runs.get(*place).map_or(0, |run| run.groups);
        let groups = access.get(first..end).unwrap_or_default();
        first = end;
        groups.iter().any(|group| !matches!(group, RowGroupAccess::Skip))
    })
    .collect()
}
