//! Skipping segments by the statistics of the catalog alone, before any file is opened.
//!
//! DataFusion does the reasoning (comparisons, IN lists, casts, AND and OR). This module answers its questions: the
//! range of `timestamp` of each segment, its number of rows, and whether it has any of the given values of `project`.

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
    segment::handle::Segment,
};

/// An Arrow array of times in microseconds.
pub(crate) fn time_array(times: impl Iterator<Item = i64>) -> Result<ArrayRef> {
    let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(times));
    Ok(cast(&ints, &crate::schema::kind::Scalar::Time.data_type())?)
}

/// The segments that may have a row for which `predicate` is true. In case of doubt, all of them.
pub(crate) fn prune(
    segments: &[Arc<Segment>],
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    shape: &Shape,
) -> Vec<Arc<Segment>> {
    // Values of a mixed path are also in the overflow, which the statistics do not cover.
    let projects = matches!(shape.fields.get("project"), Some(Kind::Scalar { ty: Scalar::Text, mixed: false, .. }));
    let kept = PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(schema))
        .try_build(Arc::clone(predicate))
        .and_then(|pruning| pruning.prune(&SegmentStatistics { segments, projects }));
    match kept {
        Ok(kept) => segments.iter().zip(kept).filter(|(_, keep)| *keep).map(|(s, _)| Arc::clone(s)).collect(),
        Err(error) => {
            tracing::debug!(%error, "segments not pruned");
            segments.to_vec()
        }
    }
}

struct SegmentStatistics<'s> {
    segments: &'s [Arc<Segment>],
    projects: bool,
}

impl PruningStatistics for SegmentStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        (column.name == TIMESTAMP).then(|| time_array(self.segments.iter().map(|s| s.min_time)).ok())?
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        (column.name == TIMESTAMP).then(|| time_array(self.segments.iter().map(|s| s.max_time)).ok())?
    }

    fn num_containers(&self) -> usize {
        self.segments.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let zeroes = || Arc::new(UInt64Array::from(vec![0; self.segments.len()])) as ArrayRef;
        (column.name == TIMESTAMP).then(zeroes)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.segments.iter().map(|s| Some(s.rows as u64)).collect::<UInt64Array>()))
    }

    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        if !self.projects || column.name != "project" {
            return None;
        }
        let values: Vec<&str> = values.iter().map(|value| value.try_as_str().flatten()).collect::<Option<_>>()?;
        let answers = self.segments.iter().map(|segment| {
            let held = segment.projects.as_ref()?;
            // `false` states that no row has any of the values. There is no way to state that all rows have one.
            if values.iter().any(|value| held.iter().any(|h| h == value)) { None } else { Some(false) }
        });
        Some(answers.collect())
    }
}
