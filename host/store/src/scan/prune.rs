//! Skipping segments and their runs by the statistics of the catalog alone, before any file is opened.
//!
//! DataFusion does the reasoning (comparisons, IN lists, casts, AND and OR). This module answers its questions: the
//! range of `timestamp` of each run, its number of rows, and whether it has any of the given values of `project`.

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
    physical_optimizer::pruning::PruningPredicateBuilder,
};

use crate::{
    field_names::TIMESTAMP,
    schema::{
        kind::{Kind, Scalar},
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

/// The parts of segments that may have a row for which `predicate` is true. In case of doubt, all of them.
pub(crate) fn prune(
    segments: &[Arc<Segment>],
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    shape: &Shape,
) -> Vec<SegmentPart> {
    // Values of a mixed path are also in the overflow, which the statistics do not cover.
    let projects = matches!(shape.fields.get("project"), Some(Kind::Scalar { ty: Scalar::Text, mixed: false, .. }));
    let mut parts: Vec<SegmentPart> = segments.iter().map(SegmentPart::whole).collect();
    let runs: Vec<&Run> = segments.iter().flat_map(|segment| &segment.runs).collect();
    let kept = PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(schema))
        .try_build(Arc::clone(predicate))
        .and_then(|pruning| pruning.prune(&RunStatistics { runs: &runs, projects }));
    match kept {
        Ok(kept) => {
            let mut kept = kept.into_iter();
            for part in &mut parts {
                part.runs.retain(|_| kept.next().unwrap_or(true));
            }
            parts.retain(|part| !part.runs.is_empty());
        }
        Err(error) => tracing::debug!(%error, "segments not pruned"),
    }
    parts
}

struct RunStatistics<'s> {
    runs: &'s [&'s Run],
    projects: bool,
}

impl PruningStatistics for RunStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        (column.name == TIMESTAMP).then(|| time_array(self.runs.iter().map(|run| run.min_time)).ok())?
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        (column.name == TIMESTAMP).then(|| time_array(self.runs.iter().map(|run| run.max_time)).ok())?
    }

    fn num_containers(&self) -> usize {
        self.runs.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let zeroes = || Arc::new(UInt64Array::from(vec![0; self.runs.len()])) as ArrayRef;
        (column.name == TIMESTAMP).then(zeroes)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.runs.iter().map(|run| Some(run.rows as u64)).collect::<UInt64Array>()))
    }

    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        if !self.projects || column.name != "project" {
            return None;
        }
        let values: Vec<&str> = values.iter().map(|value| value.try_as_str().flatten()).collect::<Option<_>>()?;
        // `false` states that no row has any of the values. There is no way to state that all rows have one.
        let answers = self
            .runs
            .iter()
            .map(|run| if values.iter().any(|value| run.projects.may_have(value)) { None } else { Some(false) });
        Some(answers.collect())
    }
}
