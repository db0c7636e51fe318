//! A subquery over the arrays of its row, as a function of the row.
//!
//! `EXISTS (SELECT 1 FROM UNNEST(r.tags) AS tag WHERE tag = 'x')` must be answered for every row
//! from nothing but the row itself. The engine could only join for it, and joins need a key that
//! log records do not have. So the subquery becomes a function: it gets what the subquery uses of
//! the row, unnests whole batches of rows at once, filters, sorts and aggregates the elements, and
//! gives back one value a row.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, RecordBatch, RecordBatchOptions, UInt32Array,
    new_empty_array, new_null_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortColumn, SortOptions, cast, concat, filter, lexsort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SortExpr, TypeSignature, Volatility,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregateBuilder};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::scalar::ScalarValue;
use tidegate_model::{Code, Failure};

use crate::stop::Stop;

use super::kernels::arity;
use crate::fail::value_error;

/// How many rows are unnested at once, as long as they come to no more elements than this.
const ROWS_AT_ONCE: usize = 1024;
const ELEMENTS_AT_ONCE: usize = 64 << 10;
/// How many elements one row may unnest to.
const MAX_ELEMENTS: usize = 4 << 20;

/// The subquery: expressions over what it uses of the row and over its own columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RowQuery {
    /// The real lists to unnest, each within what the ones before it gave.
    pub(crate) steps: Vec<Step>,
    pub(crate) filter: Option<Expr>,
    /// With aggregates, all elements of a row are one group.
    pub(crate) aggregates: Vec<(String, Expr)>,
    pub(crate) sorts: Vec<SortExpr>,
    pub(crate) distinct: bool,
    pub(crate) skip: usize,
    pub(crate) limit: Option<usize>,
    /// Over the elements or, with aggregates, over the groups.
    pub(crate) value: Expr,
    pub(crate) finish: Finish,
}

/// One UNNEST.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Step {
    pub(crate) array: Expr,
    /// Whether a row without elements stays, with NULL for one.
    pub(crate) keep: bool,
    /// The names of the columns that the element and its position become.
    pub(crate) element: String,
    pub(crate) offset: Option<String>,
}

/// What becomes of the rows of the subquery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Finish {
    /// Whether there are any.
    Exists,
    /// The value of the only one, NULL without one.
    Scalar,
    /// Their values as a list.
    Array,
}

impl RowQuery {
    /// The subquery as an expression over the row. What of it does not depend on the elements is
    /// computed outside and handed in.
    pub(crate) fn into_expr(mut self, stop: Stop) -> Result<Expr> {
        let mut own: Vec<String> = self.aggregates.iter().map(|(name, _)| name.clone()).collect();
        own.extend(self.steps.iter().flat_map(|step| std::iter::once(&step.element).chain(&step.offset)).cloned());
        let mut arguments: Vec<Expr> = Vec::new();
        let mut capture = |expr: &Expr| -> Result<Expr> { captured(expr, &own, &mut arguments) };
        for step in &mut self.steps {
            step.array = capture(&step.array)?;
        }
        self.filter = self.filter.as_ref().map(&mut capture).transpose()?;
        for (_, call) in &mut self.aggregates {
            *call = capture(call)?;
        }
        for sort in &mut self.sorts {
            sort.expr = capture(&sort.expr)?;
        }
        self.value = capture(&self.value)?;
        // One that reads nothing of the row has no arguments.
        let signatures = vec![TypeSignature::VariadicAny, TypeSignature::Nullary];
        let signature = Signature::one_of(signatures, Volatility::Immutable);
        Ok(ScalarUDF::from(Function { query: self, stop, signature, compiled: Mutex::new(None) }).call(arguments))
    }
}

/// The name under which an argument is known inside.
fn argument(i: usize) -> String {
    format!("row_{i}")
}

/// The expression with every largest part that needs nothing of the elements handed in.
fn captured(expr: &Expr, own: &[String], arguments: &mut Vec<Expr>) -> Result<Expr> {
    let transformed = expr.clone().transform_down(|part| {
        // An aggregate stays where it is; its arguments are looked at.
        let whole = matches!(part, Expr::Literal(..) | Expr::AggregateFunction(_))
            || part.exists(|inner| {
                Ok(matches!(inner, Expr::Column(column) if own.contains(&column.name))
                    || matches!(inner, Expr::AggregateFunction(_)))
            })?;
        let reads = part.exists(|inner| Ok(matches!(inner, Expr::Column(_) | Expr::OuterReferenceColumn(..))))?;
        if whole || !reads {
            return Ok(Transformed::no(part));
        }
        let place = arguments.iter().position(|known| *known == part).unwrap_or_else(|| {
            arguments.push(part);
            arguments.len() - 1
        });
        let column = Expr::Column(Column::new_unqualified(argument(place)));
        Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
    })?;
    Ok(transformed.data)
}

/// The subquery as the engine sees it.
#[derive(Debug)]
struct Function {
    query: RowQuery,
    stop: Stop,
    signature: Signature,
    /// What it was compiled to, for the types of its arguments.
    compiled: Mutex<Option<(Vec<DataType>, Arc<Compiled>)>>,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.query == other.query
    }
}

impl Eq for Function {}

impl std::hash::Hash for Function {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.query.hash(state);
    }
}

impl Function {
    fn compiled(&self, types: &[DataType]) -> Result<Arc<Compiled>> {
        let mut known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, compiled)) = known.as_ref()
            && of == types
        {
            return Ok(Arc::clone(compiled));
        }
        let compiled = Arc::new(Compiled::new(&self.query, types)?);
        *known = Some((types.to_vec(), Arc::clone(&compiled)));
        Ok(compiled)
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &'static str {
        "row_query"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(self.compiled(arguments)?.returns())
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = call.args.iter().map(|value| value.to_array(call.number_rows)).collect::<Result<Vec<_>>>()?;
        let types: Vec<DataType> = arrays.iter().map(|array| array.data_type().clone()).collect();
        let compiled = self.compiled(&types)?;
        let mut parts = Vec::new();
        let mut start = 0;
        let mut rows = ROWS_AT_ONCE;
        while start < call.number_rows {
            self.stop.check()?;
            rows = rows.min(call.number_rows - start);
            let arrays = arrays.iter().map(|array| array.slice(start, rows)).collect();
            match compiled.run(arrays, rows)? {
                Some(part) => {
                    parts.push(part);
                    start += rows;
                }
                // Fewer rows at once: so the memory stays small, and the stop sign is seen.
                None => rows = rows.div_ceil(4),
            }
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(match parts.as_slice() {
            [] => new_empty_array(&compiled.returns()),
            parts => concat(parts)?,
        }))
    }
}

/// The subquery over columns of known types.
#[derive(Debug)]
struct Compiled {
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
    fn new(query: &RowQuery, types: &[DataType]) -> Result<Self> {
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

    fn returns(&self) -> DataType {
        match self.finish {
            Finish::Exists => DataType::Boolean,
            Finish::Scalar => self.value_type.clone(),
            Finish::Array => DataType::List(Arc::new(Field::new_list_field(self.value_type.clone(), true))),
        }
    }

    /// The values of some rows, unless they come to too many elements at once.
    fn run(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<Option<ArrayRef>> {
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

    /// The places of the elements that come out, in their order: by row, then as sorted, without
    /// doubles, from the first that is not skipped to the limit.
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
                    _ => Err(value_error(
                        "a scalar subquery returned more than one row; add LIMIT 1 or an aggregate, or write ARRAY(...)",
                    )),
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

/// The elements of each row, as ranges: the numbers of their rows never fall.
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
    crate::fail::failed(Failure::new(Code::LimitExceeded, message))
}
