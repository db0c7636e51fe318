//! A subquery over the arrays of a row, compiled for arguments of known types, and its computation batch by batch.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, RecordBatch, RecordBatchOptions, UInt32Array,
    new_empty_array, new_null_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortColumn, SortOptions, cast, filter, lexsort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{ColumnarValue, Expr};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregateBuilder};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::scalar::ScalarValue;
use tidegate_model::{Code, Failure};

use crate::arrays::arity;
use crate::context::{failed, value_error};
use crate::wording::MORE_THAN_ONE_ROW;

use super::{ArraySubquery, Finish, argument};

/// How many elements are held at once; batches with more are computed in smaller parts.
const ELEMENTS_AT_ONCE: usize = 64 << 10;
/// How many elements one row may unnest to.
const MAX_ELEMENTS: usize = 4 << 20;

/// The subquery over columns of known types.
#[derive(Debug)]
pub(super) struct Compiled {
    /// The row's columns.
    row: Arc<Schema>,
    steps: Vec<CompiledStep>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    aggregates: Vec<CompiledAggregate>,
    /// The row's columns and those of the aggregates.
    groups: Option<Arc<Schema>>,
    sorts: Vec<(Arc<dyn PhysicalExpr>, SortOptions)>,
    distinct: bool,
    skip: usize,
    limit: Option<usize>,
    value: Arc<dyn PhysicalExpr>,
    value_type: DataType,
    finish: Finish,
}

/// A step over columns of known types.
#[derive(Debug)]
struct CompiledStep {
    array: Arc<dyn PhysicalExpr>,
    keep: bool,
    with_offset: bool,
    /// The columns after it.
    after: Arc<Schema>,
}

#[derive(Debug)]
struct CompiledAggregate {
    call: Arc<AggregateFunctionExpr>,
    filter: Option<Arc<dyn PhysicalExpr>>,
}

impl Compiled {
    pub(super) fn new(query: &ArraySubquery, types: &[DataType]) -> Result<Self> {
        let mut fields: Vec<Field> =
            types.iter().enumerate().map(|(i, ty)| Field::new(argument(i), ty.clone(), true)).collect();
        let row = Arc::new(Schema::new(fields.clone()));
        let mut steps = Vec::new();
        for step in &query.steps {
            let schema = Schema::new(fields.clone());
            let array = compile(&step.array, &schema)?;
            let DataType::List(item) = array.data_type(&schema)? else {
                return Err(value_error("only lists can be unnested in a subquery over a row"));
            };
            fields.push(Field::new(&step.element, item.data_type().clone(), true));
            fields.extend(step.offset.iter().map(|name| Field::new(name, DataType::Int64, true)));
            let (keep, with_offset) = (step.keep, step.offset.is_some());
            steps.push(CompiledStep { array, keep, with_offset, after: Arc::new(Schema::new(fields.clone())) });
        }
        let schema = Schema::new(fields);
        let filter = query.filter.as_ref().map(|filter| compile(filter, &schema)).transpose()?;
        let mut aggregates = Vec::new();
        let mut group_fields: Vec<Field> = row.fields().iter().map(|field| field.as_ref().clone()).collect();
        for (name, call) in &query.aggregates {
            let planned = DFSchema::try_from(schema.clone())?;
            let call = coerced(call, &planned)?;
            let context = PhysicalPlanningContext::default();
            let properties = ExecutionProps::new();
            let lowered = LoweredAggregateBuilder::new(&call, &planned, &schema, &properties, &context).build()?;
            group_fields.push(Field::new(name, lowered.aggregate.field().data_type().clone(), true));
            aggregates.push(CompiledAggregate { call: lowered.aggregate, filter: lowered.filter });
        }
        let groups = (!aggregates.is_empty()).then(|| Arc::new(Schema::new(group_fields)));
        let over = groups.as_deref().unwrap_or(&schema);
        let value = compile(&query.value, over)?;
        let value_type = value.data_type(over)?;
        let sorts = query.sorts.iter().map(|sort| {
            let options = SortOptions { descending: !sort.asc, nulls_first: sort.nulls_first };
            Ok((compile(&sort.expr, over)?, options))
        });
        Ok(Self {
            row,
            steps,
            filter,
            aggregates,
            sorts: sorts.collect::<Result<_>>()?,
            distinct: query.distinct,
            skip: query.skip,
            limit: query.limit,
            value,
            value_type,
            finish: query.finish,
            groups,
        })
    }

    pub(super) fn returns(&self) -> DataType {
        match self.finish {
            Finish::Exists => DataType::Boolean,
            Finish::Scalar => self.value_type.clone(),
            Finish::Array => DataType::List(Arc::new(Field::new_list_field(self.value_type.clone(), true))),
        }
    }

    /// The values of some rows; `None` if they have too many elements for one part.
    pub(super) fn run(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<Option<ArrayRef>> {
        let row = batch(&self.row, arrays, rows)?;
        let Some((mut elements, mut owners)) = self.unnested(row.clone())? else { return Ok(None) };
        if let Some(condition) = &self.filter {
            let kept = condition.evaluate(&elements)?.into_array(elements.num_rows())?;
            let kept = kept.as_boolean_opt().ok_or_else(arity)?;
            owners = filter(&owners, kept)?.as_primitive().clone();
            let columns = elements.columns().iter().map(|column| filter(column, kept));
            let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
            elements = batch(&elements.schema(), columns, owners.len())?;
        }
        if let Some(groups) = &self.groups {
            let mut columns = row.columns().to_vec();
            columns.extend(self.aggregated(&elements, &owners, rows)?);
            elements = batch(groups, columns, rows)?;
            owners = UInt32Array::from_iter_values(0..to_u32(rows)?);
        }
        let values = self.value.evaluate(&elements)?.into_array(elements.num_rows())?;
        let order = self.order(&elements, &owners, &values)?;
        self.finished(&values, &owners, &order, rows).map(Some)
    }

    /// The elements of all rows, each with the number of the row that it belongs to.
    fn unnested(&self, row: RecordBatch) -> Result<Option<(RecordBatch, UInt32Array)>> {
        let one_row = row.num_rows() <= 1;
        let mut owners = UInt32Array::from_iter_values(0..to_u32(row.num_rows())?);
        let mut current = row;
        for CompiledStep { array, keep, with_offset, after } in &self.steps {
            // A constant list is not repeated for every row.
            let lists = array.evaluate(&current)?;
            let constant = matches!(lists, ColumnarValue::Scalar(_));
            let lists = lists.into_array(if constant { 1 } else { current.num_rows() })?;
            let lists = lists.as_list_opt::<i32>().ok_or_else(arity)?;
            let (mut parents, mut elements, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
            for row in 0..current.num_rows() {
                let parent = to_u32(row)?;
                let list = if constant { 0 } else { row };
                let bounds = match lists.value_offsets().get(list..list + 2) {
                    Some([start, end]) if lists.is_valid(list) => *start..*end,
                    _ => 0..0,
                };
                match parents.len() + bounds.len() {
                    count if count > ELEMENTS_AT_ONCE && !one_row => return Ok(None),
                    count if count > MAX_ELEMENTS => return Err(too_many()),
                    _ => {}
                }
                if bounds.is_empty() && *keep {
                    parents.push(parent);
                    elements.push(None);
                    offsets.push(None);
                }
                for (position, element) in bounds.enumerate() {
                    parents.push(parent);
                    elements.push(u32::try_from(element).ok());
                    offsets.push(i64::try_from(position).ok());
                }
            }
            let parents = UInt32Array::from(parents);
            owners = take(&owners, &parents, None)?.as_primitive().clone();
            let rows = parents.len();
            let taken = current.columns().iter().map(|column| take(column, &parents, None));
            let mut columns = taken.collect::<std::result::Result<Vec<_>, _>>()?;
            columns.push(take(lists.values(), &UInt32Array::from(elements), None)?);
            if *with_offset {
                columns.push(Arc::new(Int64Array::from(offsets)));
            }
            current = batch(after, columns, rows)?;
        }
        Ok(Some((current, owners)))
    }

    /// The aggregates over the elements of each row.
    fn aggregated(&self, elements: &RecordBatch, owners: &UInt32Array, rows: usize) -> Result<Vec<ArrayRef>> {
        let ranges = ranges(owners.values(), rows);
        let mut results = Vec::new();
        for CompiledAggregate { call: aggregate, filter } in &self.aggregates {
            let mut inputs = aggregate.expressions();
            inputs.extend(aggregate.order_bys().iter().map(|sort| Arc::clone(&sort.expr)));
            let inputs = inputs
                .iter()
                .map(|input| input.evaluate(elements)?.into_array(elements.num_rows()))
                .collect::<Result<Vec<_>>>()?;
            let kept = match filter {
                Some(filter) => Some(filter.evaluate(elements)?.into_array(elements.num_rows())?),
                None => None,
            };
            let mut values = Vec::with_capacity(rows);
            for range in &ranges {
                let mut accumulator = aggregate.create_accumulator()?;
                let slice = |array: &ArrayRef| array.slice(range.start, range.len());
                let mut inputs: Vec<ArrayRef> = inputs.iter().map(slice).collect();
                if let Some(kept) = &kept {
                    let kept = slice(kept);
                    let kept = kept.as_boolean_opt().ok_or_else(arity)?;
                    let keep = |array: &ArrayRef| datafusion::arrow::compute::filter(array, kept);
                    inputs = inputs.iter().map(keep).collect::<std::result::Result<_, _>>()?;
                }
                if inputs.first().is_some_and(|input| !input.is_empty()) {
                    accumulator.update_batch(&inputs)?;
                }
                values.push(accumulator.evaluate()?);
            }
            results.push(match values.is_empty() {
                true => new_empty_array(aggregate.field().data_type()),
                false => ScalarValue::iter_to_array(values)?,
            });
        }
        Ok(results)
    }

    /// The positions of the elements of the result: by row, then as sorted, without duplicates, after OFFSET and within
    /// LIMIT.
    fn order(&self, elements: &RecordBatch, owners: &UInt32Array, values: &ArrayRef) -> Result<Vec<u32>> {
        let count = owners.len();
        let mut order: Vec<u32> = if self.sorts.is_empty() {
            (0..to_u32(count)?).collect()
        } else {
            let mut keys = vec![SortColumn { values: Arc::new(owners.clone()), options: None }];
            for (sort, options) in &self.sorts {
                keys.push(SortColumn { values: sort.evaluate(elements)?.into_array(count)?, options: Some(*options) });
            }
            lexsort_to_indices(&keys, None)?.values().to_vec()
        };
        if self.distinct {
            let fields = [DataType::UInt32, self.value_type.clone()].map(SortField::new).to_vec();
            let rows = RowConverter::new(fields)?;
            let rows = rows.convert_columns(&[Arc::new(owners.clone()), Arc::clone(values)])?;
            let mut seen = std::collections::HashSet::new();
            order.retain(|at| usize::try_from(*at).is_ok_and(|at| seen.insert(rows.row(at))));
        }
        if self.skip > 0 || self.limit.is_some() {
            let (mut of, mut passed) = (None, 0_usize);
            order.retain(|at| {
                let owner = usize::try_from(*at).ok().and_then(|at| owners.values().get(at));
                if owner != of {
                    (of, passed) = (owner, 0);
                }
                passed += 1;
                passed > self.skip && self.limit.is_none_or(|limit| passed - self.skip <= limit)
            });
        }
        Ok(order)
    }

    fn finished(&self, values: &ArrayRef, owners: &UInt32Array, order: &[u32], rows: usize) -> Result<ArrayRef> {
        let picked = UInt32Array::from(order.to_vec());
        let owners = take(owners, &picked, None)?;
        let ranges = ranges(owners.as_primitive::<datafusion::arrow::datatypes::UInt32Type>().values(), rows);
        match self.finish {
            Finish::Exists => Ok(Arc::new(BooleanArray::from_iter(ranges.iter().map(|range| Some(!range.is_empty()))))),
            Finish::Scalar => {
                let only = |range: &Range<usize>| match range.len() {
                    0 => Ok(None),
                    1 => Ok(order.get(range.start).copied()),
                    _ => Err(value_error(format!("{MORE_THAN_ONE_ROW}, or write ARRAY(...)"))),
                };
                let places = ranges.iter().map(only).collect::<Result<Vec<_>>>()?;
                if values.is_empty() {
                    return Ok(new_null_array(values.data_type(), rows));
                }
                Ok(take(values, &UInt32Array::from(places), None)?)
            }
            Finish::Array => {
                let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
                let offsets = OffsetBuffer::from_lengths(ranges.iter().map(ExactSizeIterator::len));
                Ok(Arc::new(ListArray::try_new(field, offsets, take(values, &picked, None)?, None)?))
            }
        }
    }
}

/// The elements of each row, as ranges: the numbers of their rows are in ascending order.
fn ranges(owners: &[u32], rows: usize) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut ranges = Vec::with_capacity(rows);
    for row in 0..rows {
        let rest = owners.get(start..).unwrap_or_default();
        let len = rest.iter().take_while(|owner| usize::try_from(**owner).is_ok_and(|owner| owner == row)).count();
        ranges.push(start..start + len);
        start += len;
    }
    ranges
}

fn batch(schema: &Arc<Schema>, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let typed = columns.into_iter().zip(schema.fields()).map(|(array, field)| {
        if array.data_type() == field.data_type() { Ok(array) } else { cast(&array, field.data_type()) }
    });
    let columns = typed.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

fn coerced(expr: &Expr, schema: &DFSchema) -> Result<Expr> {
    let shared = Arc::new(schema.clone());
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().with_schema(Arc::clone(&shared)).build());
    // Some of the engine's functions exist only until they are simplified.
    simplifier.coerce(expr.clone(), &shared).and_then(|expr| simplifier.simplify(expr))
}

fn compile(expr: &Expr, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let planned = DFSchema::try_from(schema.clone())?;
    let expr = coerced(expr, &planned)?;
    create_physical_expr(&expr, &planned, &ExecutionProps::new(), &PhysicalPlanningContext::default())
}

fn to_u32(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| too_many())
}

fn too_many() -> datafusion::error::DataFusionError {
    let message = format!("a subquery over arrays visits more than {MAX_ELEMENTS} elements for one row");
    failed(Failure::new(Code::LimitExceeded, message))
}
