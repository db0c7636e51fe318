//! Counting what a scan reads of a file, where it reads one column and no condition is left.
//!
//! A scan of rows that are only counted by the value of a column ([`counted_rows`](super::counted_rows)) need not make the
//! rows. Of each row group whose column is a dictionary ([`value_counts`]), the values come out once, with how often they
//! stand there. Conditions on the column itself are applied to the values. The other conditions of the scan must hold for every
//! row of the row group, which the file itself tells: by the fields that no row lacks, the one tenant that these rows have
//! ([`expr_adapter`](super::expr_adapter)), and the first and the last time of the row group. Other row groups are read as
//! rows.

use std::{fmt, ops::RangeInclusive, sync::Arc, vec};

use datafusion::{
    arrow::{array::RecordBatch, compute::filter_record_batch, datatypes::SchemaRef},
    common::{
        ScalarValue,
        cast::as_boolean_array,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    datasource::{
        listing::PartitionedFile,
        physical_plan::parquet::{ParquetAccessPlan, RowGroupAccess},
    },
    error::{DataFusionError, Result},
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, Column, Literal},
        split_conjunction,
    },
    physical_expr_adapter::PhysicalExprAdapterFactory,
    physical_plan::metrics::Count,
};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use parquet::{
    arrow::async_reader::AsyncFileReader,
    file::{
        metadata::{ColumnChunkMetaData, ParquetMetaData},
        statistics::Statistics,
    },
};

use crate::{
    field_names::TIMESTAMP,
    scan::expr_adapter::field_chain,
    segment::value_counts::{is_countable, value_counts},
};

/// The bounds of times that are not bounded.
const ANY_TIME: RangeInclusive<i64> = i64::MIN..=i64::MAX;

/// What a scan counts.
#[derive(Debug)]
pub(crate) struct Counting {
    /// Makes expressions over the columns of a file.
    pub(crate) adapters: Arc<dyn PhysicalExprAdapterFactory>,
    /// The schema of the table, over which the next two are.
    pub(crate) table: SchemaRef,
    /// Only rows for which it holds are counted.
    pub(crate) condition: Option<Arc<dyn PhysicalExpr>>,
    /// The column, or a path of fields below one.
    pub(crate) value: Arc<dyn PhysicalExpr>,
    /// The value and its count.
    pub(crate) output: SchemaRef,
    /// The rows that were counted without being made, less those that came out.
    pub(crate) rows: Count,
}

/// What can be counted of a file.
#[derive(Debug)]
pub(crate) struct Countable {
    /// The path of the column.
    path: Vec<String>,
    /// Row groups are counted whose times are all among these.
    times: RangeInclusive<i64>,
    /// Conditions on the value, over the columns of [`Counting::output`].
    conditions: Vec<Arc<dyn PhysicalExpr>>,
}

/// What is counted of a file.
pub(crate) struct CountedGroups {
    counting: Arc<Counting>,
    conditions: Vec<Arc<dyn PhysicalExpr>>,
    /// The name of the file, for errors.
    file: String,
    footer: Arc<ParquetMetaData>,
    /// The place of the column among those of the file.
    column: usize,
    groups: vec::IntoIter<usize>,
    reader: Box<dyn AsyncFileReader + Send>,
}

impl Counting {
    /// What is counted of a file, and what is left to be read of it, if anything; `None` if nothing is counted.
    pub(crate) fn split(
        self: &Arc<Self>,
        file: &PartitionedFile,
        countable: Countable,
        footer: Arc<ParquetMetaData>,
        reader: Box<dyn AsyncFileReader + Send>,
    ) -> Option<(CountedGroups, Option<ParquetAccessPlan>)> {
        let Countable { path, times, conditions } = countable;
        let columns = footer.file_metadata().schema_descr().columns();
        let place = |path: &[String]| columns.iter().position(|column| column.path().parts() == path);
        let column = place(&path)?;
        let time = place(&[TIMESTAMP.to_owned()]);
        let mut access = match file.extension::<ParquetAccessPlan>() {
            Some(access) if access.len() != footer.num_row_groups() => return None,
            _ if file.range.is_some() => return None,
            Some(access) => access.clone(),
            None => ParquetAccessPlan::new_all(footer.num_row_groups()),
        };
        let kind = self.output.field(0).data_type();
        let is_counted = |(place, access): &(usize, &RowGroupAccess)| {
            let Some(group) = footer.row_groups().get(*place) else { return false };
            let chunk = group.columns().get(column).filter(|chunk| chunk.num_values() == group.num_rows());
            matches!(access, RowGroupAccess::Scan)
                && chunk.is_some_and(|chunk| is_countable(chunk, kind))
                && (times == ANY_TIME || time.is_some_and(|time| are_within(group.columns().get(time), &times)))
        };
        let groups: Vec<usize> = access.inner().iter().enumerate().filter(is_counted).map(|(place, _)| place).collect();
        if groups.is_empty() {
            return None;
        }
        groups.iter().for_each(|group| access.skip(*group));
        let is_read = access.inner().iter().any(|access| !matches!(access, RowGroupAccess::Skip));
        let counting = Arc::clone(self);
        let groups = groups.into_iter();
        let file = file.object_meta.location.to_string();
        let counted = CountedGroups { counting, conditions, file, footer, column, groups, reader };
        Some((counted, is_read.then_some(access)))
    }

    /// What can be counted of a file with this schema; `None` if other conditions than those of times and of the value are left
    /// there, or the value is no column as it is.
    ///
    /// # Errors
    /// Expressions that do not fit the file, which the scan of its rows would refuse too.
    pub(crate) fn countable(&self, schema: &SchemaRef) -> Result<Option<Countable>> {
        let adapter = self.adapters.create(Arc::clone(&self.table), Arc::clone(schema))?;
        let condition = self.condition.as_ref().map(|condition| adapter.rewrite(Arc::clone(condition))).transpose()?;
        let value = adapter.rewrite(Arc::clone(&self.value))?;
        let (mut times, mut conditions) = (ANY_TIME, Vec::new());
        for part in condition.iter().flat_map(split_conjunction) {
            if part.downcast_ref::<Literal>().map(Literal::value) == Some(&ScalarValue::from(true)) {
                continue;
            }
            match time_bound(part) {
                Some(bound) => times = *times.start().max(bound.start())..=*times.end().min(bound.end()),
                None => match self.of_value(part, &value)? {
                    Some(of_value) => conditions.push(of_value),
                    None => return Ok(None),
                },
            }
        }
        let (column, fields) = match (value.downcast_ref::<Column>(), field_chain(&value)) {
            (Some(column), _) => (column, Vec::new()),
            (None, Some((_, column, fields))) => (column, fields),
            (None, None) => return Ok(None),
        };
        if value.data_type(schema)? != *self.output.field(0).data_type() {
            return Ok(None);
        }
        let path = std::iter::once(column.name()).chain(fields).map(str::to_owned).collect();
        Ok(Some(Countable { path, times, conditions }))
    }

    /// A condition of a file over the columns of the output; `None` if it looks at more than the value.
    fn of_value(
        &self,
        condition: &Arc<dyn PhysicalExpr>,
        value: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(self.output.field(0).name(), 0));
        let mut is_of_value = true;
        let condition = Arc::clone(condition).transform_down(|expr| {
            if expr.as_ref() == value.as_ref() {
                return Ok(Transformed::new(Arc::clone(&column), true, TreeNodeRecursion::Jump));
            }
            is_of_value &= expr.downcast_ref::<Column>().is_none();
            Ok(Transformed::no(expr))
        });
        Ok(Some(condition.data()?).filter(|_| is_of_value))
    }
}

/// The bound of times that a condition is; `None` for other conditions.
fn time_bound(condition: &Arc<dyn PhysicalExpr>) -> Option<RangeInclusive<i64>> {
    let (least, most) = ANY_TIME.into_inner();
    let comparison = condition.downcast_ref::<BinaryExpr>()?;
    let (left, operator, right) = (comparison.left(), *comparison.op(), comparison.right());
    let (column, operator, bound) = match left.downcast_ref::<Column>() {
        Some(column) => (column, operator, right),
        None => (right.downcast_ref::<Column>()?, operator.swap()?, left),
    };
    let ScalarValue::TimestampMicrosecond(Some(bound), None) = bound.downcast_ref::<Literal>()?.value() else {
        return None;
    };
    if column.name() != TIMESTAMP {
        return None;
    }
    match operator {
        Operator::GtEq => Some(*bound..=most),
        Operator::Gt => Some(bound.checked_add(1)?..=most),
        Operator::LtEq => Some(least..=*bound),
        Operator::Lt => Some(least..=bound.checked_sub(1)?),
        _ => None,
    }
}

/// Whether all times of a column chunk are among these, as far as it tells.
fn are_within(chunk: Option<&ColumnChunkMetaData>, times: &RangeInclusive<i64>) -> bool {
    let Some(Statistics::Int64(known)) = chunk.and_then(ColumnChunkMetaData::statistics) else { return false };
    let has_value = |value: Option<&i64>| value.is_some_and(|value| times.contains(value));
    known.null_count_opt() == Some(0)
        && known.min_is_exact()
        && known.max_is_exact()
        && has_value(known.min_opt())
        && has_value(known.max_opt())
}

impl CountedGroups {
    /// The values of the next row group and their counts.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(group) = self.groups.next() else { return Ok(None) };
        let group = self.footer.row_groups().get(group);
        let Some(chunk) = group.and_then(|group| group.columns().get(self.column)) else { return Ok(None) };
        let (start, length) = chunk.byte_range();
        let bytes = self.reader.get_bytes(start..start + length).await?;
        let named = |error| DataFusionError::from(error).context(format!("counting the values of {}", self.file));
        let (values, counts) = value_counts(chunk, bytes).map_err(named)?;
        let output = Arc::clone(&self.counting.output);
        let mut batch = RecordBatch::try_new(output, vec![values, Arc::new(counts)])?;
        for condition in &self.conditions {
            let holds = condition.evaluate(&batch)?.into_array(batch.num_rows())?;
            batch = filter_record_batch(&batch, as_boolean_array(&holds)?)?;
        }
        let rows = usize::try_from(chunk.num_values()).unwrap_or(0);
        self.counting.rows.add(rows.saturating_sub(batch.num_rows()));
        Ok(Some(batch))
    }
}

impl Morsel for CountedGroups {
    /// Each row group is read when its turn comes, as the engine's own reader does it.
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let next =
            |mut groups: Box<CountedGroups>| async move { Ok(groups.next().await?.map(|batch| (batch, groups))) };
        stream::try_unfold(self, next).boxed()
    }
}

impl fmt::Debug for CountedGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedGroups").field("column", &self.column).field("groups", &self.groups).finish()
    }
}

/// The planner of a file of which a part is counted, and the rest is read by its own planner.
#[derive(Debug)]
pub(crate) struct CountedFile {
    pub(crate) counted: CountedGroups,
    pub(crate) rest: Option<Box<dyn MorselPlanner>>,
}

impl MorselPlanner for CountedFile {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let CountedFile { counted, rest } = *self;
        let plan = MorselPlan::new().with_morsels(vec![Box::new(counted)]);
        Ok(Some(plan.with_planners(rest.into_iter().collect())))
    }
}
