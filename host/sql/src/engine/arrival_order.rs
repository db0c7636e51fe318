//! Rows with equal times come in the order of their arrival.
//!
//! SQL leaves it open in which order rows with equal keys come, and the engine's order depends on how they lie in segments
//! and memory. Logs have equal times all the time: lines of one request, senders whose clocks are coarse. A stored table has
//! columns that no query sees, with the place of each row in the order of commits. Wherever rows are sorted by the time of
//! a stored table, or numbered in that order, these columns become its last keys, in the direction of the time.
//!
//! The columns are carried through the plan from the table to the sort: through whatever hands rows on as they are
//! (projections, conditions, joins, UNNEST, unions, windows, limits). Groups and DISTINCT have no places: a sort above them stays
//! as it is.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, JoinType, Result, ScalarValue};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::expr::{AggregateFunction, Sort, WindowFunction};
use datafusion::logical_expr::logical_plan::{self, SubqueryAlias};
use datafusion::logical_expr::{
    Aggregate, Cast, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, TableScan, TableScanBuilder,
    Union, Unnest, Window, WindowFrameUnits, WindowFunctionDefinition, lit,
};

use tidegate_functions::aggregate::first;
use tidegate_functions::make;

use super::shortcuts::shared_part::on_enough_stack;
use crate::barrier::{above_same_barrier, opened};

/// Windows of numbers of rows, and of neighbours: each row has a number of its own, whatever the frame.
const BY_ROW: [&str; 4] = ["row_number", "lag", "lead", "ntile"];

/// How a stored table is read with the places of its rows: as a table with two more columns, the last ones, which are integers
/// and compared one after the other (NULL is before all others), and the name of its column with the time of a row.
/// `None` for a table that knows no places.
pub type Placed = fn(&dyn TableProvider) -> Option<(Arc<dyn TableProvider>, &'static str)>;

/// A stored table with the places of its rows.
#[derive(Debug, Clone)]
struct PlacedTable {
    /// The table as the statement named it. It is kept, so that no other comes to lie where it lies.
    plain: Arc<dyn TableProvider>,
    table: Arc<dyn TableProvider>,
    time: &'static str,
}

/// Knows no places.
pub(super) fn never(_: &dyn TableProvider) -> Option<(Arc<dyn TableProvider>, &'static str)> {
    None
}

/// The resolved plan with the places of rows as last keys of what is sorted by time.
///
/// # Errors
/// None that is known: the columns that are carried have names that no other has.
pub(super) fn by_arrival(plan: LogicalPlan, placed: Placed) -> Result<LogicalPlan> {
    let mut carriers = Carriers { placed, tables: Vec::new(), names: 0 };
    let plan = plan.transform_up_with_subqueries(|node| {
        let sorted = match &node {
            LogicalPlan::Sort(sort) => carriers.sorted(sort)?,
            LogicalPlan::Window(window) => carriers.numbered(window)?,
            LogicalPlan::Aggregate(aggregate) => carriers.collected(aggregate)?,
            _ => None,
        };
        Ok(sorted.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    if carriers.tables.is_empty() {
        return Ok(plan.data);
    }
    // A table that is read several times stays one table, of which later steps know all that is read.
    let plan = plan.data.transform_up_with_subqueries(|node| {
        let wide = match &node {
            LogicalPlan::TableScan(scan) => carriers.wide(scan)?,
            _ => None,
        };
        Ok(wide.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    Ok(plan.data)
}

struct Carriers {
    placed: Placed,
    /// The tables that are read with places.
    tables: Vec<PlacedTable>,
    /// How many names were given to carried columns.
    names: usize,
}

/// The input of a node, with the places that the node needs.
struct Carrying<'p> {
    plain: &'p LogicalPlan,
    /// The input with places after its own columns, if it has any.
    wide: Option<LogicalPlan>,
    /// The columns that were looked at, each with its places if it is a time.
    places: Vec<(usize, Option<Names>)>,
}

impl<'p> Carrying<'p> {
    fn of(plain: &'p LogicalPlan) -> Self {
        Self { plain, wide: None, places: Vec::new() }
    }
}

/// The names under which a place is carried. No name of a resolved plan has a space at its begin.
type Names = [String; 2];

impl Carriers {
    fn sorted(&mut self, sort: &logical_plan::Sort) -> Result<Option<LogicalPlan>> {
        let mut input = Carrying::of(&sort.input);
        let expr = self.with_places(&mut input, &sort.expr)?;
        let Some(input) = input.wide else { return Ok(None) };
        let own = sort.input.schema().columns().into_iter().map(Expr::Column);
        let sorted = LogicalPlan::Sort(logical_plan::Sort { expr, input: Arc::new(input), fetch: sort.fetch });
        LogicalPlanBuilder::from(sorted).project(own)?.build().map(Some)
    }

    /// A window in which each row has its own number. Where rows with equal keys are one to it, as they are to RANK, they stay that.
    fn numbered(&mut self, window: &Window) -> Result<Option<LogicalPlan>> {
        let calls: Option<Vec<_>> = window.window_expr.iter().map(by_row).collect();
        let Some(calls) = calls else { return Ok(None) };
        let Some(first) = calls.first() else { return Ok(None) };
        let keys = &first.params.order_by;
        // The calls of a node share their window.
        if calls.iter().any(|call| call.params.order_by != *keys) {
            return Ok(None);
        }
        let mut input = Carrying::of(&window.input);
        let keys = self.with_places(&mut input, keys)?;
        let Some(input) = input.wide else { return Ok(None) };
        let named = window.schema.columns().into_iter().skip(window.input.schema().fields().len());
        let calls = calls.into_iter().zip(named).map(|(call, column)| {
            let mut call = call.clone();
            call.params.order_by.clone_from(&keys);
            Expr::from(call).alias_qualified(column.relation, column.name)
        });
        let numbered = Window::try_new(calls.collect(), Arc::new(input))?;
        let own = window.schema.columns().into_iter().map(Expr::Column);
        LogicalPlanBuilder::from(LogicalPlan::Window(numbered)).project(own)?.build().map(Some)
    }

    /// Groups whose values are collected, or of which one is taken, in an order.
    fn collected(&mut self, aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
        let mut input = Carrying::of(&aggregate.input);
        let own = aggregate.schema.columns();
        let named = own.iter().skip(own.len().saturating_sub(aggregate.aggr_expr.len()));
        let calls = aggregate.aggr_expr.iter().zip(named).map(|(call, column)| {
            let call = self.in_order(&mut input, call.clone().unalias())?;
            Ok(call.alias_qualified(column.relation.clone(), &column.name))
        });
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let Some(input) = input.wide else { return Ok(None) };
        Aggregate::try_new(Arc::new(input), aggregate.group_expr.clone(), calls)
            .map(|wide| Some(LogicalPlan::Aggregate(wide)))
    }

    fn in_order(&mut self, input: &mut Carrying<'_>, call: Expr) -> Result<Expr> {
        let Expr::AggregateFunction(AggregateFunction { func, mut params }) = call else { return Ok(call) };
        if params.distinct {
            return Ok(Expr::AggregateFunction(AggregateFunction { func, params }));
        }
        params.order_by = self.with_places(input, &params.order_by)?;
        // Of this one the keys are arguments, after the value.
        if let make::AggregateFunction::First { number, mut order, ignore_nulls } = make::AggregateFunction::of(&func) {
            let keys = params.args.iter().skip(1).zip(&order);
            let keys: Vec<_> = keys.map(|(key, by)| key.clone().sort(!by.descending, by.nulls_first)).collect();
            for key in self.with_places(input, &keys)?.into_iter().skip(keys.len()) {
                order.push(SortOptions { descending: !key.asc, nulls_first: key.nulls_first });
                params.args.push(key.expr);
            }
            let func = first(number, order, ignore_nulls);
            return Ok(Expr::AggregateFunction(AggregateFunction { func, params }));
        }
        Ok(Expr::AggregateFunction(AggregateFunction { func, params }))
    }

    /// The keys, with the places of the tables whose times are among them after them.
    fn with_places(&mut self, input: &mut Carrying<'_>, keys: &[Sort]) -> Result<Vec<Sort>> {
        let mut all = keys.to_vec();
        for key in keys {
            let Some(time) = column_of(&key.expr, input.plain.schema()) else { continue };
            let known = input.places.iter().find(|(of, _)| *of == time);
            let names = match known {
                Some((_, names)) => names.clone(),
                None => {
                    let names = self.new_names();
                    let wide = self.carrying(input.wide.as_ref().unwrap_or(input.plain), time, &names)?;
                    let names = wide.is_some().then_some(names);
                    input.wide = wide.or(input.wide.take());
                    input.places.push((time, names.clone()));
                    names
                }
            };
            let place = |name: &String| Expr::Column(Column::new_unqualified(name)).sort(key.asc, key.nulls_first);
            all.extend(names.iter().flatten().map(place));
        }
        Ok(all)
    }

    fn new_names(&mut self) -> Names {
        let nth = self.names;
        self.names += 1;
        [format!(" call {nth}"), format!(" row {nth}")]
    }

    /// The plan with two more columns of these names, the last ones: the places of the rows of the table whose time is its
    /// `nth` column. `None` if that is no time of a table, or what lies between does not hand rows on.
    fn carrying(&mut self, plan: &LogicalPlan, nth: usize, names: &Names) -> Result<Option<LogicalPlan>> {
        on_enough_stack(|| self.carrying_inner(plan, nth, names))
    }

    fn carrying_inner(&mut self, plan: &LogicalPlan, nth: usize, names: &Names) -> Result<Option<LogicalPlan>> {
        if let Some(input) = opened(plan) {
            let input = self.carrying(input, nth, names)?;
            return Ok(input.and_then(|input| above_same_barrier(plan, input)));
        }
        let places = || names.iter().map(|name| Expr::Column(Column::new_unqualified(name)));
        Ok(Some(match plan {
            LogicalPlan::TableScan(scan) => return self.scanned(scan, nth, names),
            LogicalPlan::Projection(projection) => {
                let time = projection.expr.get(nth).and_then(|expr| column_of(expr, projection.input.schema()));
                let Some(time) = time else { return Ok(None) };
                let Some(input) = self.carrying(&projection.input, time, names)? else { return Ok(None) };
                let exprs = projection.expr.iter().cloned().chain(places()).collect();
                LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?)
            }
            LogicalPlan::Filter(Filter { predicate, input, .. }) => {
                let Some(input) = self.carrying(input, nth, names)? else { return Ok(None) };
                LogicalPlan::Filter(Filter::try_new(predicate.clone(), Arc::new(input))?)
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
                let Some(input) = self.carrying(input, nth, names)? else { return Ok(None) };
                let renamed = SubqueryAlias::try_new(Arc::new(input), alias.clone())?;
                return unqualified(LogicalPlan::SubqueryAlias(renamed), names).map(Some);
            }
            LogicalPlan::Sort(sort) => {
                let Some(input) = self.carrying(&sort.input, nth, names)? else { return Ok(None) };
                LogicalPlan::Sort(logical_plan::Sort { input: Arc::new(input), ..sort.clone() })
            }
            LogicalPlan::Limit(limit) => {
                let Some(input) = self.carrying(&limit.input, nth, names)? else { return Ok(None) };
                LogicalPlan::Limit(logical_plan::Limit { input: Arc::new(input), ..limit.clone() })
            }
            LogicalPlan::Unnest(unnest) => {
                let Some(time) = unnest.dependency_indices.get(nth) else { return Ok(None) };
                let Some(input) = self.carrying(&unnest.input, *time, names)? else { return Ok(None) };
                let (columns, options) = (unnest.exec_columns.clone(), unnest.options.clone());
                LogicalPlan::Unnest(Unnest::try_new(Arc::new(input), columns, options)?)
            }
            LogicalPlan::Window(window) => {
                let Some(input) = self.carrying(&window.input, nth, names)? else { return Ok(None) };
                let wide = LogicalPlan::Window(Window::try_new(window.window_expr.clone(), Arc::new(input))?);
                return with_last(wide, plan.schema(), names).map(Some);
            }
            LogicalPlan::Join(join) => return self.joined(join, nth, names),
            LogicalPlan::Union(union) => return self.united(union, nth, names),
            _ => return Ok(None),
        }))
    }

    fn scanned(&mut self, scan: &TableScan, nth: usize, names: &Names) -> Result<Option<LogicalPlan>> {
        if let Some(view) = scan.source.get_logical_plan() {
            let Some(view) = self.carrying(&view, nth, names)? else { return Ok(None) };
            let view = LogicalPlanBuilder::from(view).alias(scan.table_name.clone())?.build()?;
            return unqualified(view, names).map(Some);
        }
        let Some(placed) = self.table(scan)? else { return Ok(None) };
        if scan.fetch.is_some() || scan.projected_schema.field(nth).name() != placed.time {
            return Ok(None);
        }
        let own = scan.projected_schema.columns().into_iter().map(Expr::Column);
        let schema = placed.table.schema();
        let last = schema.fields().iter().skip(schema.fields().len().saturating_sub(names.len()));
        let places = last
            .zip(names)
            .map(|(place, name)| Expr::Column(Column::new(Some(scan.table_name.clone()), place.name())).alias(name));
        let source = provider_as_source(Arc::clone(&placed.table));
        let mut all = LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?;
        for filter in &scan.filters {
            all = all.filter(filter.clone())?;
        }
        all.project(own.chain(places))?.build().map(Some)
    }

    /// The table of a scan with places; that of a table which has them already is itself.
    fn table(&mut self, scan: &TableScan) -> Result<Option<PlacedTable>> {
        let plain = source_as_provider(&scan.source)?;
        let known = |placed: &&PlacedTable| Arc::ptr_eq(&placed.plain, &plain) || Arc::ptr_eq(&placed.table, &plain);
        if let Some(placed) = self.tables.iter().find(known) {
            return Ok(Some(placed.clone()));
        }
        let placed = (self.placed)(plain.as_ref()).map(|(table, time)| PlacedTable { plain, table, time });
        self.tables.extend(placed.clone());
        Ok(placed)
    }

    /// Another scan of a table that is read with places somewhere else.
    fn wide(&self, scan: &TableScan) -> Result<Option<LogicalPlan>> {
        let plain = source_as_provider(&scan.source)?;
        let Some(placed) = self.tables.iter().find(|placed| Arc::ptr_eq(&placed.plain, &plain)) else {
            return Ok(None);
        };
        let own = scan.projection.clone().unwrap_or_else(|| (0..plain.schema().fields().len()).collect());
        let source = provider_as_source(Arc::clone(&placed.table));
        let wide = TableScanBuilder::new(scan.table_name.clone(), source)
            .with_projection(Some(own))
            .with_filters(scan.filters.clone())
            .with_fetch(scan.fetch);
        Ok(Some(LogicalPlan::TableScan(wide.build()?)))
    }

    fn joined(&mut self, join: &Join, nth: usize, names: &Names) -> Result<Option<LogicalPlan>> {
        let left = join.left.schema().fields().len();
        let of_left = match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full | JoinType::LeftMark => nth < left,
            JoinType::LeftSemi | JoinType::LeftAnti => true,
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => return Ok(None),
        };
        let (mut left, mut right, at) =
            (Arc::clone(&join.left), Arc::clone(&join.right), if of_left { nth } else { nth - left });
        let side = if of_left { &mut left } else { &mut right };
        let Some(carrying) = self.carrying(side, at, names)? else { return Ok(None) };
        *side = Arc::new(carrying);
        let Join { on, filter, join_type, join_constraint, null_equality, null_aware, schema, .. } = join.clone();
        let wide = Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware)?;
        with_last(LogicalPlan::Join(wide), &schema, names).map(Some)
    }

    /// Rows of inputs without places come before the others.
    fn united(&mut self, union: &Union, nth: usize, names: &Names) -> Result<Option<LogicalPlan>> {
        let inputs = union.inputs.iter().map(|input| self.carrying(input, nth, names)).collect::<Result<Vec<_>>>()?;
        if inputs.iter().all(Option::is_none) {
            return Ok(None);
        }
        let inputs = inputs.into_iter().zip(&union.inputs).map(|(carrying, input)| match carrying {
            Some(carrying) => Ok(Arc::new(carrying)),
            None => {
                let own = input.schema().columns().into_iter().map(Expr::Column);
                let none = names.iter().map(|name| lit(ScalarValue::Int64(None)).alias(name));
                LogicalPlanBuilder::from(Arc::clone(input)).project(own.chain(none))?.build().map(Arc::new)
            }
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let own = union.schema.iter().map(|(table, field)| (table.cloned(), Arc::clone(field)));
        let place =
            |name: &String| (None, Arc::new(datafusion::arrow::datatypes::Field::new(name, DataType::Int64, true)));
        let fields = own.chain(names.iter().map(place)).collect();
        let schema = DFSchema::new_with_metadata(fields, union.schema.metadata().clone())?;
        Ok(Some(LogicalPlan::Union(Union { inputs, schema: Arc::new(schema) })))
    }
}

/// A call for which each row counts by itself, whichever of those with equal keys comes first.
fn by_row(call: &Expr) -> Option<&WindowFunction> {
    let call = match call {
        Expr::Alias(alias) => alias.expr.as_ref(),
        call => call,
    };
    let Expr::WindowFunction(function) = call else { return None };
    let is_numbering = match &function.fun {
        WindowFunctionDefinition::WindowUDF(udf) => BY_ROW.contains(&udf.name()),
        WindowFunctionDefinition::AggregateUDF(_) => false,
    };
    (is_numbering || function.params.window_frame.units == WindowFrameUnits::Rows).then_some(function.as_ref())
}

/// The column whose times an expression has, each under the same value.
fn column_of(expr: &Expr, schema: &DFSchema) -> Option<usize> {
    match expr {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        Expr::Alias(alias) => column_of(&alias.expr, schema),
        Expr::Cast(Cast { expr, field }) if matches!(field.data_type(), DataType::Timestamp(..)) => {
            column_of(expr, schema)
        }
        _ => None,
    }
}

/// The plan with the columns of `own`, and the carried ones after them.
fn with_last(plan: LogicalPlan, own: &DFSchema, names: &Names) -> Result<LogicalPlan> {
    let places = names.iter().map(Column::new_unqualified);
    LogicalPlanBuilder::from(plan).project(own.columns().into_iter().chain(places).map(Expr::Column))?.build()
}

/// The plan whose last columns are the carried ones, under no table's name.
fn unqualified(plan: LogicalPlan, names: &Names) -> Result<LogicalPlan> {
    let columns = plan.schema().columns();
    let own = columns.len().saturating_sub(names.len());
    let places = columns.iter().skip(own).cloned().zip(names).map(|(column, name)| Expr::Column(column).alias(name));
    let all = columns.iter().take(own).cloned().map(Expr::Column).chain(places).collect::<Vec<_>>();
    LogicalPlanBuilder::from(plan).project(all)?.build()
}
