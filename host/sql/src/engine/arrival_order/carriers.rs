//! Carrying the places of rows from the tables to what is sorted by their times.
//!
//! Each node is made once, with the places of all its times after its own columns. What nobody sorts by, the optimizer leaves
//! out.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, JoinType, Result, ScalarValue};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::logical_plan::{self, SubqueryAlias};
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, TableScan, TableScanBuilder, Union,
    Unnest, Window, lit,
};
use tidegate_functions::context::{check_planning, failed};

use super::Placed;
use super::sorted::{Names, Place, carried, column_of, in_order, numbered, with_places};
use crate::barrier::{above_same_barrier, opened};
use crate::engine::shortcuts::shared_part::{SharedPart, leaf_of, on_enough_stack, part_of};

/// A stored table with the places of its rows.
#[derive(Debug, Clone)]
struct PlacedTable {
    /// The table as the statement named it. It is kept, so that no other comes to lie where it lies.
    plain: Arc<dyn TableProvider>,
    table: Arc<dyn TableProvider>,
    time: &'static str,
}

pub(super) struct Carriers {
    placed: Placed,
    /// The tables that were found.
    tables: Vec<PlacedTable>,
    /// The leaves of parts that are computed once, by number.
    parts: HashMap<usize, Wide>,
    /// How many names were given to carried columns.
    names: usize,
}

/// A plan with the places of its times after its own columns.
#[derive(Clone)]
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

impl Carriers {
    pub(super) fn new(placed: Placed) -> Self {
        Self { placed, tables: Vec::new(), parts: HashMap::new(), names: 0 }
    }

    /// The plan with its own columns, if something in it is sorted by places.
    pub(super) fn changed(&mut self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
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

    /// A part, whose readers may all have its places.
    fn of_part(&mut self, part: &SharedPart) -> Result<Wide> {
        if let Some(wide) = self.parts.get(&part.id) {
            return Ok(wide.clone());
        }
        let wide = self.widened(&part.input)?;
        let (schema, input) = (Arc::clone(wide.plan.schema()), Arc::new(wide.plan));
        let wide = Wide { plan: leaf_of(SharedPart { schema, input, ..part.clone() }), ..wide };
        self.parts.insert(part.id, wide.clone());
        Ok(wide)
    }

    fn widened_node(&mut self, plan: &LogicalPlan) -> Result<Wide> {
        if let Some(part) = part_of(plan) {
            return self.of_part(part);
        }
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
    pub(super) fn wide(&self, scan: &TableScan) -> Result<Option<LogicalPlan>> {
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
