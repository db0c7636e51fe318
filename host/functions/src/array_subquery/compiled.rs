//! A subquery over the arrays of a row, compiled for arguments of known types, and its computation batch by batch.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, new_empty_array};
use datafusion::arrow::compute::{concat, filter};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, SortExpr};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregateBuilder};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::scalar::ScalarValue;

use crate::arrays::{arity, copied_size};
use crate::context::{Transient, check, count_copied, value_error};

use super::chosen::{Choice, ranges};
use super::shared_lists::{self, with_shared_lists};
use super::unnested::{CompiledStep, Unnested, batch, hold, to_u32};
use super::{ArraySubquery, Step, argument};

/// The subquery over columns of known types.
#[derive(Debug)]
pub(super) struct Compiled {
    /// The row's columns.
    row: Arc<Schema>,
    steps: Vec<CompiledStep>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    /// What is computed of each element, with the types: inputs of the aggregates, or the value and what it is sorted by.
    /// Nothing else of an element is kept.
    computed: Vec<(Arc<dyn PhysicalExpr>, DataType)>,
    aggregates: Vec<CompiledAggregate>,
    /// The row's columns and those of the aggregates.
    groups: Option<Arc<Schema>>,
    value: Arc<dyn PhysicalExpr>,
    sorts: Vec<Arc<dyn PhysicalExpr>>,
    choice: Choice,
    /// The arguments that come as columns of shared lists, too.
    lists: Vec<usize>,
}

#[derive(Debug)]
struct CompiledAggregate {
    call: Arc<AggregateFunctionExpr>,
    /// How many of the computed columns it takes, after which comes that of its filter, if it has one.
    inputs: usize,
    filtered: bool,
}

/// What was computed of elements so far, in parts.
struct Computed {
    /// The row that each belongs to.
    owners: Vec<u32>,
    columns: Vec<Vec<ArrayRef>>,
}

impl Compiled {
    pub(super) fn new(query: &ArraySubquery, types: &[DataType]) -> Result<Self> {
        let (query, lists) = with_shared_lists(query, types)?;
        let mut fields: Vec<Field> =
            types.iter().enumerate().map(|(i, ty)| Field::new(argument(i), ty.clone(), true)).collect();
        for (i, list) in lists.iter().enumerate() {
            let ty = shared_lists::shared_type(types.get(*list).ok_or_else(arity)?);
            fields.push(Field::new(shared_lists::name(i), ty, true));
        }
        let row = Arc::new(Schema::new(fields.clone()));
        let mut steps = Vec::new();
        for (number, step) in query.steps.iter().enumerate() {
            let schema = Schema::new(fields.clone());
            let array = compile(&step.array, &schema)?;
            let DataType::List(item) = array.data_type(&schema)? else {
                return Err(value_error("only lists can be unnested in a subquery over a row"));
            };
            let later = query.steps.get(number + 1..).unwrap_or_default();
            let is_read = |name: &str| is_read(&query, later, name);
            // What is not read later would be copied for each element for nothing.
            let carried: Vec<usize> =
                (0..).zip(&fields).filter(|(_, field)| is_read(field.name())).map(|(i, _)| i).collect();
            fields.retain(|field| is_read(field.name()));
            let element = is_read(&step.element);
            if element {
                fields.push(Field::new(&step.element, item.data_type().clone(), true));
            }
            let offset = step.offset.as_ref().filter(|name| is_read(name));
            fields.extend(offset.map(|name| Field::new(name, DataType::Int64, true)));
            let (keep, offset) = (step.keep, offset.is_some());
            steps.push(CompiledStep {
                array,
                keep,
                carried,
                element,
                offset,
                after: Arc::new(Schema::new(fields.clone())),
            });
        }
        let schema = Schema::new(fields);
        let filter = query.filter.as_ref().map(|filter| compile(filter, &schema)).transpose()?;
        let mut aggregates = Vec::new();
        let mut computed = Vec::new();
        let mut group_fields: Vec<Field> = row.fields().iter().map(|field| field.as_ref().clone()).collect();
        for (name, call) in &query.aggregates {
            let planned = DFSchema::try_from(schema.clone())?;
            let call = coerced(call, &planned)?;
            let context = PhysicalPlanningContext::default();
            let properties = ExecutionProps::new();
            let lowered = LoweredAggregateBuilder::new(&call, &planned, &schema, &properties, &context).build()?;
            group_fields.push(Field::new(name, lowered.aggregate.field().data_type().clone(), true));
            let call = lowered.aggregate;
            let mut inputs = call.expressions();
            inputs.extend(call.order_bys().iter().map(|sort| Arc::clone(&sort.expr)));
            aggregates.push(CompiledAggregate { call, inputs: inputs.len(), filtered: lowered.filter.is_some() });
            computed.extend(inputs.into_iter().chain(lowered.filter));
        }
        let groups = (!aggregates.is_empty()).then(|| Arc::new(Schema::new(group_fields)));
        let over = groups.as_deref().unwrap_or(&schema);
        let value = compile(&query.value, over)?;
        let value_type = value.data_type(over)?;
        let sorts = query.sorts.iter().map(|sort| compile(&sort.expr, over)).collect::<Result<Vec<_>>>()?;
        if groups.is_none() {
            computed.push(Arc::clone(&value));
            computed.extend(sorts.iter().cloned());
        }
        let computed = computed.into_iter().map(|expr| {
            let ty = expr.data_type(&schema)?;
            Ok((expr, ty))
        });
        Ok(Self {
            row,
            steps,
            filter,
            computed: computed.collect::<Result<_>>()?,
            aggregates,
            groups,
            value,
            sorts,
            choice: Choice::new(&query, value_type),
            lists,
        })
    }

    pub(super) fn returns(&self) -> DataType {
        self.choice.returns()
    }

    /// The values of some rows; `None` if they have too many elements for one part.
    pub(super) fn run(&self, mut arrays: Vec<ArrayRef>, rows: usize) -> Result<Option<ArrayRef>> {
        for list in &self.lists {
            arrays.push(shared_lists::shared(&arrays, *list)?);
        }
        let row = batch(&self.row, arrays, rows)?;
        let Some((mut computed, mut owners)) = self.computed(row.clone())? else { return Ok(None) };
        if let Some(groups) = &self.groups {
            let mut columns = row.columns().to_vec();
            columns.extend(self.aggregated(&computed, &owners, rows)?);
            let elements = batch(groups, columns, rows)?;
            owners = UInt32Array::from_iter_values(0..to_u32(rows)?);
            let values = std::iter::once(&self.value).chain(&self.sorts);
            let values = values.map(|value| value.evaluate(&elements)?.into_array(rows));
            computed = values.collect::<Result<_>>()?;
        }
        let Some((values, sorts)) = computed.split_first() else { return Err(arity()) };
        let order = self.choice.order(sorts, &owners, values)?;
        self.choice.finished(values, &owners, &order, rows).map(Some)
    }

    /// What is computed of the elements of all rows, with the number of the row that each belongs to.
    fn computed(&self, row: RecordBatch) -> Result<Option<(Vec<ArrayRef>, UInt32Array)>> {
        let one_row = row.num_rows() <= 1;
        let mut owners = UInt32Array::from_iter_values(0..to_u32(row.num_rows())?);
        let mut computed = Computed { owners: Vec::new(), columns: vec![Vec::new(); self.computed.len()] };
        let Some((last, before)) = self.steps.split_last() else {
            // Without UNNEST there is one element for each row: the row.
            self.compute(row, owners, &mut computed)?;
            return self.joined(computed).map(Some);
        };
        let mut current = row;
        let mut held = Transient::default();
        for step in before {
            let Some(unnested) = Unnested::new(step, &current, one_row)? else { return Ok(None) };
            if !one_row && unnested.parts().len() > 1 {
                return Ok(None);
            }
            hold(&mut held, unnested.bytes())?;
            (current, owners) = unnested.part(0..unnested.len(), &owners)?;
        }
        let Some(unnested) = Unnested::new(last, &current, one_row)? else { return Ok(None) };
        for (part, bytes) in unnested.parts() {
            check()?;
            let mut held = Transient::default();
            hold(&mut held, bytes)?;
            let (elements, owners) = unnested.part(part, &owners)?;
            self.compute(elements, owners, &mut computed)?;
        }
        self.joined(computed).map(Some)
    }

    /// Computes what is kept of some elements.
    fn compute(&self, elements: RecordBatch, owners: UInt32Array, computed: &mut Computed) -> Result<()> {
        let (elements, owners) = self.filtered(elements, owners)?;
        if owners.is_empty() {
            return Ok(());
        }
        computed.owners.extend(owners.values());
        for (column, (expr, _)) in computed.columns.iter_mut().zip(&self.computed) {
            let array = expr.evaluate(&elements)?.into_array(owners.len())?;
            count_copied(&array)?;
            column.push(array);
        }
        Ok(())
    }

    fn joined(&self, computed: Computed) -> Result<(Vec<ArrayRef>, UInt32Array)> {
        let columns = computed.columns.into_iter().zip(&self.computed).map(|(parts, (_, ty))| joined(parts, ty));
        Ok((columns.collect::<Result<_>>()?, UInt32Array::from(computed.owners)))
    }

    /// The elements for which the condition holds.
    fn filtered(&self, elements: RecordBatch, owners: UInt32Array) -> Result<(RecordBatch, UInt32Array)> {
        let Some(condition) = &self.filter else { return Ok((elements, owners)) };
        let kept = condition.evaluate(&elements)?.into_array(elements.num_rows())?;
        let kept = kept.as_boolean_opt().ok_or_else(arity)?;
        let owners: UInt32Array = filter(&owners, kept)?.as_primitive().clone();
        let columns = elements.columns().iter().map(|column| filter(column, kept));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
        Ok((batch(&elements.schema(), columns, owners.len())?, owners))
    }

    /// The aggregates over the elements of each row.
    fn aggregated(&self, computed: &[ArrayRef], owners: &UInt32Array, rows: usize) -> Result<Vec<ArrayRef>> {
        let ranges = ranges(owners.values(), rows);
        let mut computed = computed.iter();
        let mut results = Vec::new();
        for CompiledAggregate { call: aggregate, inputs, filtered } in &self.aggregates {
            let inputs: Vec<&ArrayRef> = computed.by_ref().take(*inputs).collect();
            let kept = if *filtered { Some(computed.next().ok_or_else(arity)?) } else { None };
            let mut values = Vec::with_capacity(rows);
            for range in &ranges {
                check()?;
                let mut accumulator = aggregate.create_accumulator()?;
                let slice = |array: &ArrayRef| array.slice(range.start, range.len());
                let mut inputs: Vec<ArrayRef> = inputs.iter().map(|input| slice(input)).collect();
                if let Some(kept) = kept {
                    let kept = slice(kept);
                    let kept = kept.as_boolean_opt().ok_or_else(arity)?;
                    let keep = |array: &ArrayRef| filter(array, kept);
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
}

/// Parts of a column as one array.
pub(super) fn joined(mut parts: Vec<ArrayRef>, ty: &DataType) -> Result<ArrayRef> {
    if parts.len() <= 1 {
        return Ok(parts.pop().unwrap_or_else(|| new_empty_array(ty)));
    }
    let mut held = Transient::default();
    hold(&mut held, parts.iter().map(copied_size).fold(0, usize::saturating_add))?;
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    let array = concat(&parts)?;
    drop(held);
    count_copied(&array)?;
    Ok(array)
}

/// Whether what comes after a step reads a column of the row or of the subquery. With aggregates, the value is one over
/// the row, not over the elements.
fn is_read(query: &ArraySubquery, later: &[Step], name: &str) -> bool {
    let reads = |expr: &Expr| expr.column_refs().iter().any(|column| column.name == name);
    let sorted = |sort: &SortExpr| reads(&sort.expr);
    later.iter().any(|step| reads(&step.array))
        || query.filter.as_ref().is_some_and(reads)
        || query.aggregates.iter().any(|(_, call)| reads(call))
        || query.aggregates.is_empty() && (reads(&query.value) || query.sorts.iter().any(sorted))
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
