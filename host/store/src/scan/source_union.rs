//! The union of the segment scan and the memory scan.
//!
//! It differs from DataFusion's `UnionExec` in three points. `UnionExec` lets a projection through only if it has fewer
//! expressions than its input has columns: `SELECT metadata.request.method` has one expression over one column, so that
//! the scan would read all of `metadata`. Filters have the same effect for another reason (see
//! `handle_child_pushdown_result`). And `UnionExec` forgets which expressions are equal in all of its inputs, so that
//! the order of one input is not recognized as that of the other.

use std::{fmt, sync::Arc};

use datafusion::{
    common::{Statistics, tree_node::TreeNodeRecursion},
    config::ConfigOptions,
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
        StatisticsArgs,
        execution_plan::CardinalityEffect,
        filter_pushdown::{ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation},
        metrics::MetricsSet,
        projection::{ProjectionExec, make_with_child},
        union::UnionExec,
    },
};

/// A union that lets projections through.
#[derive(Debug)]
pub(crate) struct SourceUnion {
    inner: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl SourceUnion {
    /// Its name in the text of a plan.
    pub(crate) const NAME: &'static str = "SourceUnion";

    /// The union of the inputs. A single input is returned unchanged.
    pub(crate) fn of(inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let single = inputs.len() == 1;
        let inner = UnionExec::try_new(inputs)?;
        if single {
            return Ok(inner);
        }
        let mut properties = inner.properties().as_ref().clone();
        let mut equivalences = properties.equivalence_properties().clone();
        for (one, other) in equal_in_all(&inner.children()) {
            equivalences.add_equal_conditions(one, other)?;
        }
        properties.set_eq_properties(equivalences);
        Ok(Arc::new(SourceUnion { inner, properties: Arc::new(properties) }))
    }
}

/// Pairs of expressions that are equal in all inputs. `SELECT STRUCT(id, timestamp), timestamp` has such a pair: a
/// field of the record, and the column.
fn equal_in_all(inputs: &[&Arc<dyn ExecutionPlan>]) -> Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)> {
    let mut inputs = inputs.iter().map(|input| input.equivalence_properties().eq_group());
    let Some(first) = inputs.next() else { return Vec::new() };
    let others: Vec<_> = inputs.collect();
    let mut pairs = Vec::new();
    for class in first.iter() {
        let mut members = class.iter();
        let Some(one) = members.next() else { continue };
        pairs.extend(
            members
                .filter(|other| others.iter().all(|group| group.exprs_equal(one, other)))
                .map(|other| (Arc::clone(one), Arc::clone(other))),
        );
    }
    pairs
}

impl DisplayAs for SourceUnion {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str(Self::NAME),
        }
    }
}

impl ExecutionPlan for SourceUnion {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// The special cases of the planner and of plan codecs for unions apply here too.
    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.inner.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.inner.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.inner.benefits_from_input_partitioning()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inner.children()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Self::of(children)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.inner.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.metrics()
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.inner.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.inner.statistics_from_inputs(inputs, args)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.inner.cardinality_effect()
    }

    fn supports_limit_pushdown(&self) -> bool {
        self.inner.supports_limit_pushdown()
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let children = self.children().into_iter().map(|child| make_with_child(projection, child));
        Ok(Some(Self::of(children.collect::<Result<_>>()?)?))
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.inner.gather_filters_for_pushdown(phase, filters, config)
    }

    /// A filter that not every input accepts stays above the union and above the projections below it. `UnionExec`
    /// would put it on its inputs, below the projections, where it needs the whole record of which it tests one leaf.
    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }
}
