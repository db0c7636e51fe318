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
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, Result, ScalarValue};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::expr::{AggregateFunction, Sort, WindowFunction};
use datafusion::logical_expr::logical_plan::{self, SubqueryAlias};
use datafusion::logical_expr::{
    Aggregate, Cast, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, TableScan, TableScanBuilder,
    Union, Unnest, Window, WindowFrameUnits, WindowFunctionDefinition, lit,
};
use tidegate_functions::aggregate::first;
use tidegate_functions::context::{check_planning, failed};
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

/// The resolved plan with the places of rows as last keys of what is sorted by time. It takes one walk, however many sorts
/// stand above each other.
///
/// # Errors
/// If planning is to stop. No other is known: the columns that are carried have names that no other has.
pub(super) fn by_arrival(plan: LogicalPlan, placed: Placed) -> Result<LogicalPlan> {
    if !has_times(&plan)? {
        return Ok(plan);
    }
    let mut carriers = Carriers { placed, tables: Vec::new(), names: 0 };
    let Some(plan) = carriers.changed(&plan)? else { return Ok(plan) };
    // A table that is read several times stays one table, of which later steps know all that is read.
    let plan = plan.transform_up_with_subqueries(|node| {
        let wide = match &node {
            LogicalPlan::TableScan(scan) => carriers.wide(scan)?,
            _ => None,
        };
        Ok(wide.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    Ok(plan.data)
}

/// Whether anything is sorted by a time.
fn has_times(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        let is_time = |input: &LogicalPlan, key: &Expr| {
            let time = column_of(key, input.schema()).map(|time| input.schema().field(time).data_type());
            matches!(time, Some(DataType::Timestamp(..)))
        };
        found |= match node {
            LogicalPlan::Sort(sort) => sort.expr.iter().any(|key| is_time(&sort.input, &key.expr)),
            LogicalPlan::Window(window) => {
                let calls = window.window_expr.iter().filter_map(by_row);
                calls.flat_map(|call| &call.params.order_by).any(|key| is_time(&window.input, &key.expr))
            }
            LogicalPlan::Aggregate(aggregate) => aggregate.aggr_expr.iter().any(|call| match call.clone().unalias() {
                Expr::AggregateFunction(AggregateFunction { params, .. }) => {
                    let keys = params.order_by.iter().map(|key| &key.expr);
                    keys.chain(params.args.iter().skip(1)).any(|key| is_time(&aggregate.input, key))
                }
                _ => false,
            }),
            _ => false,
        };
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

struct Carriers {
    placed: Placed,
    /// The tables that were found.
    tables: Vec<PlacedTable>,
    /// How many names were given to carried columns.
    names: usize,
}

/// The names under which a place is carried. No name of a resolved plan has a space at its begin.
type Names = [String; 2];

/// The place that belongs to a time.
#[derive(Debug, Clone)]
struct Place {
    /// Which column the time is.
    time: usize,
    names: Names,
}

/// A plan with the places of its times after its own columns.
struct Wide {
    plan: LogicalPlan,
    places: Vec<Place>,
    /// Whether something in it is sorted by places. Otherwise nobody needs them.
    is_used: bool,
}

impl Wide {
    /// The columns that are carried.
    fn carried(&self) -> impl Iterator<Item = Expr> + use<> {
        carried(&self.places)
    }
}

fn carried(places: &[Place]) -> impl Iterator<Item = Expr> + use<> {
    let mut names: Vec<String> = Vec::new();
    for place in places {
        for name in &place.names {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names.into_iter().map(|name| Expr::Column(Column::new_unqualified(name)))
}

impl Carriers {
    /// The plan with its own columns, if something in it is sorted by places.
    fn changed(&mut self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let wide = self.widened(plan)?;
        if !wide.is_used {
            return Ok(None);
        }
        if wide.places.is_empty() {
            return Ok(Some(wide.plan));
        }
        let own = plan.schema().columns().into_iter().map(Expr::Column);
        LogicalPlanBuilder::from(wide.plan).project(own)?.build().map(Some)
    }

    fn widened(&mut self, plan: &LogicalPlan) -> Result<Wide> {
        check_planning().map_err(failed)?;
        on_enough_stack(|| match self.with_subqueries(plan)? {
            Some(plan) => Ok(Wide { is_used: true, ..self.widened_node(&plan)? }),
            None => self.widened_node(plan),
        })
    }

    /// The node with other subqueries in its expressions, if something in these is sorted by places.
    fn with_subqueries(&mut self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let with = plan.clone().map_subqueries(|subquery| {
            let LogicalPlan::Subquery(of) = &subquery else { return Ok(Transformed::no(subquery)) };
            Ok(match self.changed(&of.subquery)? {
                Some(plan) => Transformed::yes(LogicalPlan::Subquery(of.with_plan(Arc::new(plan)))),
                None => Transformed::no(subquery),
            })
        })?;
        Ok(with.transformed.then_some(with.data))
    }

    fn widened_node(&mut self, plan: &LogicalPlan) -> Result<Wide> {
        let none = |plan, is_used| Wide { plan, places: Vec::new(), is_used };
        let single = match plan {
            LogicalPlan::TableScan(scan) => return self.scanned(scan),
            LogicalPlan::Join(join) => return self.joined(join),
            LogicalPlan::Union(union) => return self.united(union),
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Aggregate(_) => true,
            node => opened(node).is_some(),
        };
        let inputs = plan.inputs();
        let Some(input) = inputs.first().filter(|_| single) else {
            // Nothing is known of what it does with rows.
            let changed = inputs.iter().map(|input| self.changed(input)).collect::<Result<Vec<_>>>()?;
            if changed.iter().all(Option::is_none) {
                return Ok(none(plan.clone(), false));
            }
            let inputs =
                changed.into_iter().zip(inputs).map(|(changed, input)| changed.unwrap_or_else(|| input.clone()));
            return Ok(none(plan.with_new_exprs(plan.expressions(), inputs.collect())?, true));
        };
        let wide = self.widened(input)?;
        if wide.places.is_empty() && !wide.is_used {
            return Ok(none(plan.clone(), false));
        }
        self.above(plan, input, wide)
    }

    /// The node above the wide form of its one input.
    fn above(&mut self, node: &LogicalPlan, input: &LogicalPlan, wide: Wide) -> Result<Wide> {
        let more = wide.carried();
        let Wide { plan, places, mut is_used } = wide;
        if opened(node).is_some() {
            let above = above_same_barrier(node, plan);
            return Ok(Wide { plan: above.unwrap_or_else(|| node.clone()), places, is_used });
        }
        let (plan, places) = match node {
            LogicalPlan::Projection(projection) => {
                let times = projection.expr.iter().enumerate().filter_map(|(time, expr)| {
                    let of = column_of(expr, input.schema())?;
                    let place = places.iter().find(|place| place.time == of)?;
                    Some(Place { time, names: place.names.clone() })
                });
                let places: Vec<Place> = times.collect();
                let exprs = projection.expr.iter().cloned().chain(carried(&places)).collect();
                (LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?), places)
            }
            LogicalPlan::Filter(Filter { predicate, .. }) => {
                (LogicalPlan::Filter(Filter::try_new(predicate.clone(), Arc::new(plan))?), places)
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias { alias, .. }) => {
                let renamed = SubqueryAlias::try_new(Arc::new(plan), alias.clone())?;
                (unqualified(LogicalPlan::SubqueryAlias(renamed), more.count())?, places)
            }
            LogicalPlan::Limit(limit) => {
                (LogicalPlan::Limit(logical_plan::Limit { input: Arc::new(plan), ..limit.clone() }), places)
            }
            LogicalPlan::Sort(sort) => {
                let expr = with_places(&sort.expr, input, &places);
                is_used |= expr.len() > sort.expr.len();
                (LogicalPlan::Sort(logical_plan::Sort { expr, input: Arc::new(plan), fetch: sort.fetch }), places)
            }
            LogicalPlan::Unnest(unnest) => {
                let times = unnest.dependency_indices.iter().enumerate().filter_map(|(time, of)| {
                    let place = places.iter().find(|place| place.time == *of)?;
                    Some(Place { time, names: place.names.clone() })
                });
                let places: Vec<Place> = times.collect();
                let (columns, options) = (unnest.exec_columns.clone(), unnest.options.clone());
                // What is carried comes last, as it did below, whether a place is left or not.
                let wide = LogicalPlan::Unnest(Unnest::try_new(Arc::new(plan), columns, options)?);
                (with_last(wide, node.schema(), carried(&places))?, places)
            }
            LogicalPlan::Window(window) => {
                let calls = numbered(window, &places);
                is_used |= calls.is_some();
                let calls = calls.unwrap_or_else(|| window.window_expr.clone());
                let wide = LogicalPlan::Window(Window::try_new(calls, Arc::new(plan))?);
                (with_last(wide, node.schema(), more)?, places)
            }
            LogicalPlan::Aggregate(aggregate) => {
                let own = aggregate.schema.columns();
                let named = own.iter().skip(own.len().saturating_sub(aggregate.aggr_expr.len()));
                let calls = aggregate.aggr_expr.iter().zip(named).map(|(call, column)| {
                    let (call, is_sorted) = in_order(call.clone().unalias(), input, &places);
                    is_used |= is_sorted;
                    call.alias_qualified(column.relation.clone(), &column.name)
                });
                let (calls, groups) = (calls.collect(), aggregate.group_expr.clone());
                (LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(plan), groups, calls)?), Vec::new())
            }
            other => (other.clone(), Vec::new()),
        };
        Ok(Wide { plan, places, is_used })
    }

    fn new_names(&mut self) -> Names {
        let nth = self.names;
        self.names += 1;
        [format!(" call {nth}"), format!(" row {nth}")]
    }

    fn scanned(&mut self, scan: &TableScan) -> Result<Wide> {
        let unchanged = || Wide { plan: LogicalPlan::TableScan(scan.clone()), places: Vec::new(), is_used: false };
        if let Some(view) = scan.source.get_logical_plan() {
            let wide = self.widened(&view)?;
            if wide.places.is_empty() && !wide.is_used {
                return Ok(unchanged());
            }
            let carried = wide.carried().count();
            let plan = LogicalPlanBuilder::from(wide.plan).alias(scan.table_name.clone())?.build()?;
            return Ok(Wide { plan: unqualified(plan, carried)?, ..wide });
        }
        let Some(placed) = self.table(scan)?.filter(|_| scan.fetch.is_none()) else { return Ok(unchanged()) };
        let time = scan.projected_schema.fields().iter().position(|field| field.name() == placed.time);
        let Some(time) = time else { return Ok(unchanged()) };
        let names = self.new_names();
        let own = scan.projected_schema.columns().into_iter().map(Expr::Column);
        let schema = placed.table.schema();
        let last = schema.fields().iter().skip(schema.fields().len().saturating_sub(names.len()));
        let columns = last
            .zip(&names)
            .map(|(place, name)| Expr::Column(Column::new(Some(scan.table_name.clone()), place.name())).alias(name));
        let source = provider_as_source(Arc::clone(&placed.table));
        let mut all = LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?;
        for filter in &scan.filters {
            all = all.filter(filter.clone())?;
        }
        let plan = all.project(own.chain(columns))?.build()?;
        Ok(Wide { plan, places: vec![Place { time, names }], is_used: false })
    }

    /// The table of a scan with places.
    fn table(&mut self, scan: &TableScan) -> Result<Option<PlacedTable>> {
        let plain = source_as_provider(&scan.source)?;
        if let Some(placed) = self.tables.iter().find(|placed| Arc::ptr_eq(&placed.plain, &plain)) {
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

    fn joined(&mut self, join: &Join) -> Result<Wide> {
        let (has_left, has_right) = match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => (true, true),
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, false),
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (false, true),
        };
        let (left, right) = (self.widened(&join.left)?, self.widened(&join.right)?);
        let is_used = left.is_used || right.is_used;
        let before = if has_left { join.left.schema().fields().len() } else { 0 };
        let of_left = left.places.into_iter().filter(|_| has_left);
        let of_right = right.places.into_iter().filter(|_| has_right);
        let places: Vec<Place> =
            of_left.chain(of_right.map(|place| Place { time: place.time + before, ..place })).collect();
        if places.is_empty() && !is_used {
            return Ok(Wide { plan: LogicalPlan::Join(join.clone()), places, is_used });
        }
        let Join { on, filter, join_type, join_constraint, null_equality, null_aware, schema, .. } = join.clone();
        let (left, right) = (Arc::new(left.plan), Arc::new(right.plan));
        let wide = Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware)?;
        Ok(Wide { plan: with_last(LogicalPlan::Join(wide), &schema, carried(&places))?, places, is_used })
    }

    /// Rows of inputs without places come before the others.
    fn united(&mut self, union: &Union) -> Result<Wide> {
        let inputs = union.inputs.iter().map(|input| self.widened(input)).collect::<Result<Vec<_>>>()?;
        let is_used = inputs.iter().any(|input| input.is_used);
        let mut times: Vec<usize> = inputs.iter().flat_map(|input| &input.places).map(|place| place.time).collect();
        times.sort_unstable();
        times.dedup();
        if times.is_empty() && !is_used {
            return Ok(Wide { plan: LogicalPlan::Union(union.clone()), places: Vec::new(), is_used });
        }
        let places: Vec<Place> = times.into_iter().map(|time| Place { time, names: self.new_names() }).collect();
        let inputs = inputs.into_iter().zip(&union.inputs).map(|(wide, input)| {
            let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
            for place in &places {
                let known = wide.places.iter().find(|known| known.time == place.time);
                for (nth, name) in place.names.iter().enumerate() {
                    let own = known.and_then(|known| known.names.get(nth));
                    let own =
                        own.map_or(lit(ScalarValue::Int64(None)), |own| Expr::Column(Column::new_unqualified(own)));
                    columns.push(own.alias(name));
                }
            }
            LogicalPlanBuilder::from(wide.plan).project(columns)?.build().map(Arc::new)
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let own = union.schema.iter().map(|(table, field)| (table.cloned(), Arc::clone(field)));
        let more = places.iter().flat_map(|place| &place.names);
        let more = more.map(|name| (None, Arc::new(Field::new(name, DataType::Int64, true))));
        let schema = DFSchema::new_with_metadata(own.chain(more).collect(), union.schema.metadata().clone())?;
        Ok(Wide { plan: LogicalPlan::Union(Union { inputs, schema: Arc::new(schema) }), places, is_used })
    }
}

/// The keys of rows of `input`, with the places of the times among them after them.
fn with_places(keys: &[Sort], input: &LogicalPlan, places: &[Place]) -> Vec<Sort> {
    let more = keys.iter().filter_map(|key| {
        let time = column_of(&key.expr, input.schema())?;
        let place = places.iter().find(|place| place.time == time)?;
        Some(place.names.iter().map(|name| Expr::Column(Column::new_unqualified(name)).sort(key.asc, key.nulls_first)))
    });
    keys.iter().cloned().chain(more.flatten()).collect()
}

/// The calls of a window in which each row has its own number, sorted by places. Where rows with equal keys are one to it,
/// as they are to RANK, they stay that.
fn numbered(window: &Window, places: &[Place]) -> Option<Vec<Expr>> {
    let calls = window.window_expr.iter().map(by_row).collect::<Option<Vec<_>>>()?;
    let keys = &calls.first()?.params.order_by;
    let all = with_places(keys, &window.input, places);
    // The calls of a node share their window.
    if all.len() == keys.len() || calls.iter().any(|call| call.params.order_by != *keys) {
        return None;
    }
    let named = window.schema.columns().into_iter().skip(window.input.schema().fields().len());
    let calls = calls.into_iter().zip(named).map(|(call, column)| {
        let mut call = call.clone();
        call.params.order_by.clone_from(&all);
        Expr::from(call).alias_qualified(column.relation, column.name)
    });
    Some(calls.collect())
}

/// A call over groups whose values are collected, or of which one is taken, in an order; and whether places are in it.
fn in_order(call: Expr, input: &LogicalPlan, places: &[Place]) -> (Expr, bool) {
    let Expr::AggregateFunction(AggregateFunction { mut func, mut params }) = call else { return (call, false) };
    let mut is_sorted = false;
    if !params.distinct {
        let keys = with_places(&params.order_by, input, places);
        is_sorted = keys.len() > params.order_by.len();
        params.order_by = keys;
        // Of this one the keys are arguments, after the value.
        if let make::AggregateFunction::First { number, mut order, ignore_nulls } = make::AggregateFunction::of(&func) {
            let keys = params.args.iter().skip(1).zip(&order);
            let keys: Vec<_> = keys.map(|(key, by)| key.clone().sort(!by.descending, by.nulls_first)).collect();
            for key in with_places(&keys, input, places).into_iter().skip(keys.len()) {
                order.push(SortOptions { descending: !key.asc, nulls_first: key.nulls_first });
                params.args.push(key.expr);
                is_sorted = true;
            }
            func = first(number, order, ignore_nulls);
        }
    }
    (Expr::AggregateFunction(AggregateFunction { func, params }), is_sorted)
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
fn with_last(plan: LogicalPlan, own: &DFSchema, carried: impl Iterator<Item = Expr>) -> Result<LogicalPlan> {
    let own = own.columns().into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(plan).project(own.chain(carried).collect::<Vec<_>>())?.build()
}

/// The plan whose last columns, so many, are under no table's name.
fn unqualified(plan: LogicalPlan, carried: usize) -> Result<LogicalPlan> {
    let columns = plan.schema().columns();
    let own = columns.len().saturating_sub(carried);
    let all = columns.into_iter().enumerate().map(|(nth, column)| {
        let name = column.name.clone();
        if nth < own { Expr::Column(column) } else { Expr::Column(column).alias(name) }
    });
    LogicalPlanBuilder::from(plan).project(all.collect::<Vec<_>>())?.build()
}
