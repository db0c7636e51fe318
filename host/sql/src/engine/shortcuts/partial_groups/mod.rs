//! The first half of a grouping: partial aggregates of one partition, which the second half merges.
//!
//! The engine's own operator hashes and compares the keys of every row, which for texts is most of the work of a question
//! such as "records by user agent". This one numbers the rows of a batch first ([`RowNumbers`]) and looks up one row of each
//! number; groups and most aggregates are the engine's ([`Aggregate`]). What comes out is the same.
//!
//! Where rows are only counted by one column of a scan, the scan may count them ([`Counted`]): then values come with their counts.
//! Without keys there are no groups to look up, and the engine's operator is replaced for such scans only ([`row_counts`]).

mod aggregate;
mod row_counts;
mod text_conditions;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateMode, PhysicalGroupBy, aggregate_expressions, evaluate_group_by,
};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::stream::{EmptyRecordBatchStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputOrderMode, PlanProperties,
};
use futures::{StreamExt, stream};
use tidegate_functions::RowNumbers;

use aggregate::{Aggregate, BatchGroups, is_count_of_rows};
use text_conditions::Texts;

/// A scan of one column with a second column, integers: how many rows of the scan each of its rows stands for. A scan without
/// columns gets a first column, too. Partitions are as many. `None` for a plan that does not count.
pub type Counted = fn(&Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>>;

/// No scan counts.
pub(crate) fn never(_: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    None
}

/// The plan with operators of ours for the first halves of groupings, and scans that count rows where nothing else is asked
/// of them.
///
/// # Errors
/// None that is known: walking a plan does not fail.
pub(crate) fn with_partial_groups(plan: Arc<dyn ExecutionPlan>, counted: Counted) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let Some(aggregate) = node.downcast_ref::<AggregateExec>().filter(|aggregate| is_first_half(aggregate)) else {
            return Ok(Transformed::no(node));
        };
        let input = aggregate.input();
        let partitions = |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count();
        let counted = if counts_rows(aggregate) { counted(input) } else { None };
        let counted = counted.filter(|counted| partitions(counted) == partitions(input));
        let aggregate = aggregate.clone();
        Ok(match aggregate.group_expr().is_true_no_grouping() && counted.is_none() {
            false => Transformed::yes(Arc::new(PartialGroups { aggregate, counted })),
            true => Transformed::no(node),
        })
    })
    .data()
}

/// Whether it is the first half of a grouping over rows without order, and without a limit to the groups.
fn is_first_half(aggregate: &AggregateExec) -> bool {
    let keys = aggregate.group_expr();
    *aggregate.mode() == AggregateMode::Partial
        && *aggregate.input_order_mode() == InputOrderMode::Linear
        && (keys.is_true_no_grouping() || keys.is_single())
        && aggregate.limit_options().is_none()
}

/// Whether it counts the rows of its input by at most one column, that of the keys, and does nothing else.
fn counts_rows(aggregate: &AggregateExec) -> bool {
    let is_column = match aggregate.group_expr().expr() {
        [] => aggregate.input().schema().fields().is_empty(),
        [(key, _)] => key.downcast_ref::<Column>().is_some() && aggregate.input().schema().fields().len() == 1,
        _ => false,
    };
    let counts = |(own, filter): (&Arc<AggregateFunctionExpr>, &Option<_>)| {
        is_count_of_rows(own, &own.expressions(), filter.as_ref())
    };
    is_column && aggregate.aggr_expr().iter().zip(aggregate.filter_expr()).all(counts)
}

/// The aggregates, without groups. Conditions on texts look into `texts`.
fn aggregates_of(aggregate: &AggregateExec, texts: &Arc<Texts>) -> Result<Vec<Aggregate>> {
    let (keys, columns) = (aggregate.group_expr().num_group_exprs(), aggregate.input().schema());
    let arguments = aggregate_expressions(aggregate.aggr_expr(), &AggregateMode::Partial, keys)?;
    let aggregates = aggregate.aggr_expr().iter().zip(arguments).zip(aggregate.filter_expr());
    let once = |expr| text_conditions::once_for_each_text(expr, &columns, texts);
    let of = |((own, arguments), filter): ((_, Vec<_>), &Option<_>)| {
        let arguments = arguments.into_iter().map(once).collect::<Result<_>>()?;
        Aggregate::new(own, arguments, filter.clone().map(once).transpose()?)
    };
    aggregates.map(of).collect()
}

/// The first half of a grouping, or of a count of rows.
#[derive(Debug)]
struct PartialGroups {
    aggregate: AggregateExec,
    /// The rows of its input with their counts, if these are counted: it is read instead.
    counted: Option<Arc<dyn ExecutionPlan>>,
}

impl DisplayAs for PartialGroups {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.counted.is_some() { "PartialGroups of counts: " } else { "PartialGroups: " })?;
        self.aggregate.fmt_as(format, f)
    }
}

impl ExecutionPlan for PartialGroups {
    fn name(&self) -> &'static str {
        "PartialGroups"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.aggregate.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.counted.as_ref().map_or_else(|| self.aggregate.children(), |counted| vec![counted])
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.aggregate.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if self.counted.is_some() {
            let counted = children.into_iter().next();
            return Ok(Arc::new(Self { aggregate: self.aggregate.clone(), counted }));
        }
        let aggregate = replace_children_if_necessary(Arc::new(self.aggregate.clone()), children)?;
        Ok(match aggregate.downcast_ref::<AggregateExec>() {
            Some(own) => Arc::new(Self { aggregate: own.clone(), counted: None }),
            None => aggregate,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.counted.as_ref().unwrap_or(self.aggregate.input());
        let rows = input.execute(partition, Arc::clone(&context))?;
        if self.aggregate.group_expr().is_true_no_grouping() {
            return Ok(row_counts::summed(&self.aggregate, rows));
        }
        let groups = Groups::new(&self.aggregate, rows, &context)?;
        let schema = self.aggregate.schema();
        let batches =
            stream::try_unfold(
                groups,
                |mut groups| async move { Ok(groups.next().await?.map(|batch| (batch, groups))) },
            );
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// The groups of one partition.
struct Groups {
    input: SendableRecordBatchStream,
    /// The place of the column of counts, if the input has one.
    counts: usize,
    schema: SchemaRef,
    keys: PhysicalGroupBy,
    values: Box<dyn GroupValues>,
    /// What the conditions of the aggregates know of the batch at hand.
    texts: Arc<Texts>,
    aggregates: Vec<Aggregate>,
    numbers: RowNumbers,
    /// The group of each row of a batch, and of a row of each number.
    groups: Vec<usize>,
    groups_of_numbers: Vec<usize>,
    memory: MemoryReservation,
    /// Rows of a batch that goes out.
    batch_rows: usize,
    /// Groups that are on their way out.
    leaving: Option<RecordBatch>,
    /// How many rows came, and after how many of them, with which share of groups, grouping is given up.
    rows: usize,
    probe_rows: usize,
    probe_share: f64,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Grouping,
    /// Nearly every row is a group: rows go out as they come.
    Passing,
    Ended,
}

impl Groups {
    /// `input` has the columns of the aggregate's input, and then that of counts, if rows were counted.
    fn new(aggregate: &AggregateExec, input: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<Self> {
        let keys = aggregate.group_expr().clone();
        let columns = aggregate.input().schema();
        let values = new_group_values(keys.group_schema(&columns)?, &GroupOrdering::None)?;
        let texts = Arc::default();
        let aggregates = aggregates_of(aggregate, &texts)?;
        let options = &context.session_config().options().execution;
        Ok(Self {
            schema: aggregate.schema(),
            counts: columns.fields().len(),
            input,
            keys,
            values,
            texts,
            aggregates,
            numbers: RowNumbers::new(),
            groups: Vec::new(),
            groups_of_numbers: Vec::new(),
            memory: MemoryConsumer::new("groups").register(context.memory_pool()),
            batch_rows: context.session_config().batch_size().max(1),
            leaving: None,
            rows: 0,
            probe_rows: options.skip_partial_aggregation_probe_rows_threshold,
            probe_share: options.skip_partial_aggregation_probe_ratio_threshold,
            phase: Phase::Grouping,
        })
    }

    /// The next batch of groups.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.leaving()? {
                return Ok(Some(batch));
            }
            if self.phase == Phase::Ended {
                return Ok(None);
            }
            match self.input.next().await.transpose()? {
                None => {
                    // What the input holds goes before the groups do.
                    self.input = Box::pin(EmptyRecordBatchStream::new(self.input.schema()));
                    self.phase = Phase::Ended;
                    self.leave()?;
                }
                Some(batch) if self.phase == Phase::Passing => return self.passed(&batch).map(Some),
                Some(batch) => {
                    match counts(&batch, self.counts) {
                        Some(counts) => self.add_counted(&batch, counts)?,
                        None => self.add(&batch)?,
                    }
                    self.probe(batch.num_rows())?;
                    self.count()?;
                }
            }
        }
    }

    fn keys_of(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        match evaluate_group_by(&self.keys, batch)?.into_iter().next() {
            Some(keys) => Ok(keys),
            None => internal_err!("a grouping without keys"),
        }
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys = self.keys_of(batch)?;
        let Self { numbers, values, groups, groups_of_numbers, aggregates, .. } = self;
        let numbers = match numbers.of(&keys) {
            None => {
                values.intern(&keys, groups)?;
                None
            }
            Some((firsts, numbers)) => {
                let firsts = UInt32Array::from_iter_values(firsts.iter().copied());
                let distinct = keys.iter().map(|key| Ok(take(key, &firsts, None)?)).collect::<Result<Vec<_>>>()?;
                values.intern(&distinct, groups_of_numbers)?;
                if groups_of_numbers.len() != firsts.len() {
                    return internal_err!("{} of {} rows were looked up", groups_of_numbers.len(), firsts.len());
                }
                groups.clear();
                if !aggregates.iter().all(Aggregate::counts_rows) {
                    // Each number is less than their count, which `RowNumbers` promises.
                    let group = |number: &u32| groups_of_numbers.get(*number as usize).copied().unwrap_or_default();
                    groups.extend(numbers.iter().map(group));
                }
                Some((numbers, groups_of_numbers.as_slice()))
            }
        };
        let groups = BatchGroups { groups, numbers, total: values.len() };
        aggregates.iter_mut().try_for_each(|aggregate| aggregate.update(batch, groups))?;
        self.texts.clear();
        Ok(())
    }

    /// Adds values with their counts.
    fn add_counted(&mut self, batch: &RecordBatch, counts: &[i64]) -> Result<()> {
        let keys = self.keys_of(batch)?;
        let Self { values, groups, aggregates, .. } = self;
        values.intern(&keys, groups)?;
        let total = values.len();
        aggregates.iter_mut().for_each(|aggregate| aggregate.add_counts(groups, counts, total));
        Ok(())
    }

    /// Gives grouping up where it saves nothing.
    fn probe(&mut self, rows: usize) -> Result<()> {
        self.rows = self.rows.saturating_add(rows);
        if self.rows >= self.probe_rows && self.values.len() as f64 / self.rows as f64 > self.probe_share {
            self.phase = Phase::Passing;
            self.leave()?;
        }
        Ok(())
    }

    /// Counts what is held. Where that is too much, the groups go out; the second half holds them.
    fn count(&mut self) -> Result<()> {
        match self.memory.try_resize(self.size()) {
            Err(DataFusionError::ResourcesExhausted(_)) if !self.values.is_empty() => self.leave(),
            resized => resized,
        }
    }

    fn size(&self) -> usize {
        let states: usize = self.aggregates.iter().map(Aggregate::size).sum();
        let groups = (self.groups.capacity() + self.groups_of_numbers.capacity()) * size_of::<usize>();
        self.values.size() + states + groups + self.numbers.size()
    }

    /// Sends all groups on their way; there are none then. What is held counts as before until they are out.
    fn leave(&mut self) -> Result<()> {
        if self.values.is_empty() {
            return Ok(());
        }
        let mut columns = self.values.emit(EmitTo::All)?;
        for aggregate in &mut self.aggregates {
            columns.extend(aggregate.state()?);
        }
        self.values.clear_shrink(0);
        self.leaving = Some(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        Ok(())
    }

    /// The next rows of the groups that are on their way out.
    fn leaving(&mut self) -> Result<Option<RecordBatch>> {
        let Some(rest) = self.leaving.take() else { return Ok(None) };
        let rows = rest.num_rows().min(self.batch_rows);
        let batch = rest.slice(0, rows);
        if rows < rest.num_rows() {
            self.leaving = Some(rest.slice(rows, rest.num_rows() - rows));
        } else {
            self.memory.try_resize(self.size())?;
        }
        Ok(Some(batch))
    }

    /// Rows as groups of their own.
    fn passed(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = self.keys_of(batch)?;
        match batch.columns().get(self.counts) {
            // Counts of rows are the states of all aggregates.
            Some(counts) => columns.extend(self.aggregates.iter().map(|_| Arc::clone(counts))),
            None => {
                for aggregate in &self.aggregates {
                    columns.extend(aggregate.converted(batch)?);
                }
                self.texts.clear();
            }
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// The counts of a batch, if one of them is not 1: other batches are rows, in which a value may come often.
fn counts(batch: &RecordBatch, column: usize) -> Option<&[i64]> {
    let counts = batch.columns().get(column)?.as_primitive_opt::<Int64Type>()?.values();
    counts.iter().any(|count| *count != 1).then_some(counts)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests;
