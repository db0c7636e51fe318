//! Skipping segments and their runs by the statistics of the catalog alone, before any file is opened; and batches in
//! memory by theirs.
//!
//! DataFusion does the reasoning (comparisons, IN lists, casts, AND and OR). This module answers its questions: the
//! range of `timestamp` of each run or batch, its number of rows, and whether it has any of the given tenants.
//!
//! DataFusion reasons about columns. So the field of the tenants, which may be one of a record, becomes a column of its own in
//! the condition: one for each path by which some of the segments and batches were made. Of rows that were made by another
//! path nothing is said of that column.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, BooleanArray, Int64Array, UInt64Array},
        compute::cast,
        datatypes::{DataType, Schema, SchemaRef},
    },
    common::{
        Column, ScalarValue,
        pruning::PruningStatistics,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    error::Result,
    physical_expr::{PhysicalExpr, expressions},
    physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder},
};

use crate::{
    field_names::TIMESTAMP,
    memory::mem_batch::MemBatch,
    scan::expr_adapter::field_chain,
    schema::{arrow_fields::field, kind::Scalar, run_tenants::RunTenants, shape::Shape, tenant_path::TenantPath},
    segment::{handle::Segment, run::Run},
};

/// An Arrow array of times in microseconds.
pub(crate) fn time_array(times: impl Iterator<Item = i64>) -> Result<ArrayRef> {
    let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(times));
    Ok(cast(&ints, &Scalar::Time.data_type())?)
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
    tenants: &'r RunTenants,
    /// By which path.
    tenant_path: &'r TenantPath,
}

impl<'r> RowsKnown<'r> {
    fn of_run(run: &'r Run, tenant_path: &'r TenantPath) -> Self {
        let Run { rows, min_time, max_time, tenants, .. } = run;
        RowsKnown { rows: *rows, min_time: *min_time, max_time: *max_time, tenants, tenant_path }
    }

    fn of_batch(batch: &'r MemBatch) -> Self {
        let MemBatch { rows, min_time, max_time, tenants, tenant_path, .. } = batch;
        RowsKnown { rows: rows.num_rows(), min_time: *min_time, max_time: *max_time, tenants, tenant_path }
    }
}

/// A column of the condition that stands for the tenants of rows that were made by a path.
#[derive(Debug)]
struct TenantOfPath {
    path: TenantPath,
    column: String,
}

/// Leaves out what cannot have a row for which a condition is true.
#[derive(Debug)]
pub(crate) struct Pruning<'c> {
    /// Over the schema of the table.
    predicate: &'c Arc<dyn PhysicalExpr>,
    schema: &'c SchemaRef,
    shape: &'c Shape,
}

impl<'c> Pruning<'c> {
    /// By a condition over the schema of the table.
    pub(crate) fn new(predicate: &'c Arc<dyn PhysicalExpr>, schema: &'c SchemaRef, shape: &'c Shape) -> Self {
        Pruning { predicate, schema, shape }
    }

    /// The columns for these paths. A path at which other values than texts may be has none: they may be in the overflow,
    /// which is not listed.
    fn tenants<'r>(&self, paths: impl Iterator<Item = &'r TenantPath>) -> Vec<TenantOfPath> {
        let mut distinct: Vec<&TenantPath> = Vec::new();
        for path in paths {
            if distinct.last() != Some(&path) && !distinct.contains(&path) {
                distinct.push(path);
            }
        }
        let free = |number: usize| {
            let mut column = format!("_tidegate_tenant_{number}");
            while self.schema.column_with_name(&column).is_some() {
                column.push('_');
            }
            column
        };
        let texts = distinct.into_iter().filter(|path| self.shape.has_text_at(path));
        texts.enumerate().map(|(number, path)| TenantOfPath { path: path.clone(), column: free(number) }).collect()
    }

    /// The condition with these columns in the place of the paths.
    fn predicate(&self, tenants: &[TenantOfPath]) -> Result<PruningPredicate> {
        let fields = self.schema.fields().iter().cloned();
        let more = tenants.iter().map(|of| field(&of.column, DataType::Utf8View));
        let schema = Arc::new(Schema::new(fields.chain(more).collect::<Vec<_>>()));
        let replaced = Arc::clone(self.predicate).transform_down(|expr| {
            let (column, fields) = match (expr.downcast_ref::<expressions::Column>(), field_chain(&expr)) {
                (Some(column), _) => (column, Vec::new()),
                (None, Some((_, column, fields))) => (column, fields),
                (None, None) => return Ok(Transformed::no(expr)),
            };
            let of = tenants.iter().find(|of| of.path.is(column.name(), &fields));
            let Some(of) = of else { return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump)) };
            let column: Arc<dyn PhysicalExpr> = Arc::new(expressions::Column::new_with_schema(&of.column, &schema)?);
            Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
        });
        PruningPredicateBuilder::new().with_file_schema(Arc::clone(&schema)).try_build(replaced.data()?)
    }

    /// Whether each of them may have such a row; nothing if that cannot be said.
    fn may_have(&self, known: &[RowsKnown<'_>]) -> Vec<bool> {
        let tenants = self.tenants(known.iter().map(|rows| rows.tenant_path));
        let kept = self.predicate(&tenants).and_then(|pruning| pruning.prune(&Known { known, tenants: &tenants }));
        kept.inspect_err(|error| tracing::debug!(%error, "nothing pruned")).unwrap_or_default()
    }

    /// The parts of segments that may have such a row. In case of doubt, all of them.
    pub(crate) fn segments(&self, segments: &[Arc<Segment>]) -> Vec<SegmentPart> {
        let mut parts: Vec<SegmentPart> = segments.iter().map(SegmentPart::whole).collect();
        let runs = segments.iter().flat_map(|segment| segment.runs.iter().map(|run| (run, &segment.tenant_path)));
        let runs: Vec<_> = runs.map(|(run, tenant_path)| RowsKnown::of_run(run, tenant_path)).collect();
        let mut kept = self.may_have(&runs).into_iter();
        for part in &mut parts {
            part.runs.retain(|_| kept.next().unwrap_or(true));
        }
        parts.retain(|part| !part.runs.is_empty());
        parts
    }

    /// The batches that may have such a row. In case of doubt, all of them.
    pub(crate) fn batches(&self, batches: &[Arc<MemBatch>]) -> Vec<Arc<MemBatch>> {
        let known: Vec<_> = batches.iter().map(|batch| RowsKnown::of_batch(batch)).collect();
        let mut kept = self.may_have(&known).into_iter();
        batches.iter().filter(|_| kept.next().unwrap_or(true)).cloned().collect()
    }
}

struct Known<'s> {
    known: &'s [RowsKnown<'s>],
    tenants: &'s [TenantOfPath],
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
        let TenantOfPath { path, .. } = self.tenants.iter().find(|of| of.column == column.name)?;
        let values: Vec<&str> = values.iter().map(|value| value.try_as_str().flatten()).collect::<Option<_>>()?;
        // `false` states that no row has any of the values. There is no way to state that all rows have one.
        let may_have =
            |rows: &RowsKnown<'_>| rows.tenant_path != path || values.iter().any(|value| rows.tenants.may_have(value));
        let answers: BooleanArray =
            self.known.iter().map(|rows| if may_have(rows) { None } else { Some(false) }).collect();
        Some(answers)
    }
}
