//! Skipping segments and their runs by the statistics of the catalog alone, before any file is opened; and batches in
//! memory by theirs.
//!
//! DataFusion does the reasoning (comparisons, IN lists, casts, AND and OR). This module answers its questions: the
//! range of `timestamp` of each run or batch, its number of rows, and whether it has any of the given values of `project`.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, BooleanArray, Int64Array, UInt64Array},
        compute::cast,
        datatypes::SchemaRef,
    },
    common::{Column, ScalarValue, pruning::PruningStatistics},
    error::Result,
    physical_expr::PhysicalExpr,
    physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder},
};

use crate::{
    field_names::TIMESTAMP,
    memory::mem_batch::MemBatch,
    schema::{
        kind::{Kind, Scalar},
        run_projects::RunProjects,
        shape::Shape,
    },
    segment::{handle::Segment, run::Run},
};

/// An Arrow array of times in microseconds.
pub(crate) fn time_array(times: impl Iterator<Item = i64>) -> Result<ArrayRef> {
    let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(times));
    Ok(cast(&ints, &crate::schema::kind::Scalar::Time.data_type())?)
}

/// What a scan reads of a segment.
#[derive(Debug, Clone)]
pub(crate) struct SegmentPart {
    pub(crate) segment: Arc<Segment>,
    /// The places of the runs that are read.
    pub(crate) runs: Vec<usize>,
}

impl SegmentPart {
    /// All of a segment.
    pub(crate) fn whole(segment: &Arc<Segment>) -> SegmentPart {
        SegmentPart { segment: Arc::clone(segment), runs: (0..segment.runs.len()).collect() }
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter_map(|place| self.segment.runs.get(*place))
    }

    pub(crate) fn rows(&self) -> usize {
        self.runs().map(|run| run.rows).sum()
    }

    pub(crate) fn min_time(&self) -> i64 {
        self.runs().map(|run| run.min_time).min().unwrap_or(i64::MAX)
    }

    pub(crate) fn max_time(&self) -> i64 {
        self.runs().map(|run| run.max_time).max().unwrap_or(i64::MIN)
    }
}

/// What is known of rows that are read together: of a run of a segment, or of a batch in memory.
#[derive(Debug, Clone, Copy)]
struct RowsKnown<'r> {
    rows: usize,
    min_time: i64,
    max_time: i64,
    projects: &'r RunProjects,
}

impl<'r> From<&'r Run> for RowsKnown<'r> {
    fn from(run: &'r Run) -> Self {
        RowsKnown { rows: run.rows, min_time: run.min_time, max_time: run.max_time, projects: &run.projects }
    }
}

impl<'r> From<&'r MemBatch> for RowsKnown<'r> {
    fn from(batch: &'r MemBatch) -> Self {
        let MemBatch { min_time, max_time, projects, .. } = batch;
        RowsKnown { rows: batch.rows.num_rows(), min_time: *min_time, max_time: *max_time, projects }
    }
}

/// Leaves out what cannot have a row for which a condition is true.
#[derive(Debug)]
pub(crate) struct Pruning {
    /// `None` if nothing can be said.
    predicate: Option<PruningPredicate>,
    /// Whether all values of `project` are in its column.
    projects: bool,
}

impl Pruning {
    /// By a condition over the schema of the table.
    pub(crate) fn new(predicate: &Arc<dyn PhysicalExpr>, schema: &SchemaRef, shape: &Shape) -> Pruning {
        // Values of a mixed path are also in the overflow, which the statistics do not cover.
        let projects = matches!(shape.fields.get("project"), Some(Kind::Scalar { ty: Scalar::Text, mixed: false, .. }));
        let predicate =
            PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).try_build(Arc::clone(predicate));
        let predicate = predicate.inspect_err(|error| tracing::debug!(%error, "nothing pruned")).ok();
        Pruning { predicate, projects }
    }

    /// Whether each of them may have such a row.
    fn may_have(&self, known: &[RowsKnown<'_>]) -> Vec<bool> {
        let kept = self.predicate.as_ref().map(|pruning| pruning.prune(&Known { known, projects: self.projects }));
        match kept {
            Some(Ok(kept)) => kept,
            Some(Err(error)) => {
                tracing::debug!(%error, "nothing pruned");
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// The parts of segments that may have such a row. In case of doubt, all of them.
    pub(crate) fn segments(&self, segments: &[Arc<Segment>]) -> Vec<SegmentPart> {
        let mut parts: Vec<SegmentPart> = segments.iter().map(SegmentPart::whole).collect();
        let runs: Vec<_> = segments.iter().flat_map(|segment| &segment.runs).map(RowsKnown::from).collect();
        let mut kept = self.may_have(&runs).into_iter();
        for part in &mut parts {
            part.runs.retain(|_| kept.next().unwrap_or(true));
        }
        parts.retain(|part| !part.runs.is_empty());
        parts
    }

    /// The batches that may have such a row. In case of doubt, all of them.
    pub(crate) fn batches(&self, batches: &[Arc<MemBatch>]) -> Vec<Arc<MemBatch>> {
        let known: Vec<_> = batches.iter().map(|batch| RowsKnown::from(batch.as_ref())).collect();
        let mut kept = self.may_have(&known).into_iter();
        batches.iter().filter(|_| kept.next().unwrap_or(true)).cloned().collect()
    }
}

struct Known<'s> {
    known: &'s [RowsKnown<'s>],
    projects: bool,
}

impl PruningStatistics for Known<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        (column.name == TIMESTAMP).then(|| time_array(self.known.iter().map(|rows| rows.min_time)).ok())?
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        (column.name == TIMESTAMP).then(|| time_array(self.known.iter().map(|rows| rows.max_time)).ok())?
    }

    fn num_containers(&self) -> usize {
        self.known.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let zeroes = || Arc::new(UInt64Array::from(vec![0; self.known.len()])) as ArrayRef;
        (column.name == TIMESTAMP).then(zeroes)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.known.iter().map(|rows| Some(rows.rows as u64)).collect::<UInt64Array>()))
    }

    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        if !self.projects || column.name != "project" {
            return None;
        }
        let values: Vec<&str> = values.iter().map(|value| value.try_as_str().flatten()).collect::<Option<_>>()?;
        // `false` states that no row has any of the values. There is no way to state that all rows have one.
        let answers = self
            .known
            .iter()
            .map(|rows| if values.iter().any(|value| rows.projects.may_have(value)) { None } else { Some(false) });
        Some(answers.collect())
    }
}
