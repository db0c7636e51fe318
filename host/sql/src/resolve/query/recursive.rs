//! Recursive CTEs: `first UNION ALL repeated`, where the repeated query reads the CTE itself.
//!
//! The first query gives the names and types of the columns. The repeated one is computed again and again, each time over the
//! rows that it gave the last time, until it gives none; with DISTINCT, over those that no round gave before. It may read each
//! of these rows by itself only: so filters, select lists, inner joins and arrays may lie above them, and nothing else.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, JoinType, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::logical_plan::RecursiveQuery;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, col, lit, not};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{Query, SetExpr, SetOperator, SetQuantifier, Visit, Visitor};
use tidegate_functions::scalar::nullable;
use tidegate_model::{Failure, Position};

use super::distinct_key::distinct_key;
use super::set_columns::by_name;
use super::set_operation::{SetOperation, typed_of, unmarked};
use crate::fail::{Planning, Result, invalid, place, place_of};
use crate::piece_names::PieceNames;
use crate::resolve::environment::{Visible, WorkRows};
use crate::resolve::resolved::{Order, Output, Resolved, Row};
use crate::resolve::resolver::Resolver;
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{Conversion, common_of, plan_column};

impl Resolver<'_> {
    /// The rows of a CTE of WITH RECURSIVE.
    pub(super) fn recursive_cte(&mut self, visible: &Visible<'_>, order: Order) -> Result<Resolved> {
        let (cte, query) = (&visible.cte, visible.cte.query.as_ref());
        let Some((first, repeated, quantifier)) = parts(query, &visible.name) else {
            return self.query(query, &visible.environment, None, order);
        };
        let at = place_of(cte.alias.name.span);
        let environment = match &query.with {
            Some(with) => self.with_ctes(with, &visible.environment)?,
            None => visible.environment.clone(),
        };
        if let SetExpr::Query(query) = repeated
            && (query.order_by.is_some() || query.limit_clause.is_some())
        {
            return Err(over_rows(&visible.name, "ORDER BY or LIMIT", place(query.as_ref())));
        }
        let (first, matching) = unmarked(first)?;
        let distinct = quantifier != SetQuantifier::All;
        let first = self.body(first, &environment, None, Order::Dropped)?;
        let row = first.row;
        let (mut first, columns) = self.first_rows(first, distinct)?;
        // A UNION in the repeated query may give rows where the round before has none, as where the first query has none. The engine
        // makes no round then: so there is a row that only begins the first one.
        let begins = has_set_operation(repeated).then(|| self.fresh());
        if let Some(begins) = &begins {
            first = with_beginning(first, begins).planned()?;
        }
        let fields = first.schema().fields().iter();
        let fields = fields.map(|field| Field::new(field.name(), field.data_type().clone(), true));
        let rows = Arc::new(WorkRows {
            // What is written stands in messages.
            table: format!("{} {}", self.fresh(), visible.name),
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            columns: columns.clone(),
            row,
            begins: begins.clone(),
            readers: AtomicUsize::new(0),
        });
        let inside = environment.with_itself(cte, &rows);
        let repeated = self.body(repeated, &inside, None, Order::Dropped)?;
        if rows.readers.load(Ordering::Relaxed) != 1 {
            return Err(misplaced(&visible.name, at));
        }
        reads_rows_alone(&repeated.plan, &rows.table, &visible.name, at)?;
        let first = Resolved { plan: first, columns, row };
        let operation = SetOperation { op: SetOperator::Union, quantifier, matching, at };
        let mut repeated = self.repeated_rows(&first, repeated, &operation)?;
        if let Some(begins) = &begins {
            repeated = marked(repeated, begins).planned()?;
        }
        let Resolved { plan: first, columns, row } = first;
        let plan =
            RecursiveQuery::try_new(rows.table.clone(), Arc::new(first), Arc::new(repeated), distinct).planned()?;
        let mut plan = LogicalPlan::RecursiveQuery(plan);
        if let Some(begins) = &begins {
            let own: Vec<Expr> = columns.iter().map(|output| Expr::Column(output.column.clone())).collect();
            let rows = LogicalPlanBuilder::from(plan).filter(not(col(Column::new_unqualified(begins))));
            plan = rows.and_then(|rows| rows.project(own)).and_then(LogicalPlanBuilder::build).planned()?;
        }
        if let Some(with) = &query.with {
            self.check_unread(with, &environment)?;
        }
        Ok(Resolved { plan, columns, row })
    }

    /// The first rows, under fresh names. Any column may be NULL in later rows.
    fn first_rows(&mut self, first: Resolved, distinct: bool) -> Result<(LogicalPlan, Vec<Output>)> {
        let (mut exprs, mut columns) = (Vec::new(), Vec::new());
        for (place, output) in first.columns.iter().enumerate() {
            let ty = if output.ty == Type::Null { Type::Int64 } else { output.ty.clone() };
            let value = typed_of(&first, Some(place), output.ty == Type::Null);
            let value = plan_column(value.convert(&ty, Conversion::implicit(None))?);
            let expr = if distinct { distinct_key(value, &first.plan) } else { value.expr };
            let name = self.fresh();
            exprs.push(nullable(expr).alias(&name));
            self.labels.insert(name.clone(), output.name.clone());
            columns.push(Output { column: Column::new_unqualified(name), ty, ..output.clone() });
        }
        let plan = LogicalPlanBuilder::from(first.plan).project(exprs).and_then(LogicalPlanBuilder::build).planned()?;
        Ok((plan, columns))
    }

    /// The rows of a round as those of the first query.
    fn repeated_rows(&mut self, first: &Resolved, repeated: Resolved, operation: &SetOperation) -> Result<LogicalPlan> {
        let SetOperation { op, quantifier, at, .. } = *operation;
        let (width, other) = (first.columns.len(), repeated.columns.len());
        let places: Vec<Option<usize>> = match &operation.matching {
            Some(matching) => {
                let both = [
                    Resolved { plan: first.plan.clone(), columns: first.columns.clone(), row: Row::Columns },
                    repeated.clone(),
                ];
                let outputs = by_name(&both, matching, op, at)?;
                let own = |(i, from): (usize, &[Option<usize>])| from.first() == Some(&Some(i));
                if outputs.len() != width || !outputs.iter().map(|output| output.from.as_slice()).enumerate().all(own) {
                    let message = "the first query of a recursive CTE has all of its columns, in their order";
                    return Err(invalid(message, at));
                }
                outputs.iter().map(|output| output.from.get(1).copied().flatten()).collect()
            }
            None if width == other => (0..width).map(Some).collect(),
            None => return Err(invalid(format!("the queries of the {op} have {width} and {other} columns"), at)),
        };
        let mut exprs = Vec::with_capacity(width);
        for (output, place) in first.columns.iter().zip(places) {
            let mut value = typed_of(&repeated, place, false);
            if value.ty != output.ty {
                value = typed_of(&repeated, place, true);
            }
            // The first query has the type: no value may be changed for it.
            let own = Typed::new(col(output.column.clone()), output.ty.clone());
            if common_of(&[own, value.clone()], at).ok().as_ref() != Some(&output.ty) {
                let message = format!(
                    "the column {} of a recursive CTE has the type {} of its first query, not {}; CAST one of them",
                    output.name, output.ty, value.ty
                );
                return Err(invalid(message, at));
            }
            let value = plan_column(value.convert(&output.ty, Conversion::implicit(at))?);
            let expr = if quantifier == SetQuantifier::All { value.expr } else { distinct_key(value, &repeated.plan) };
            exprs.push(nullable(expr).alias(&output.column.name));
        }
        LogicalPlanBuilder::from(repeated.plan).project(exprs).and_then(LogicalPlanBuilder::build).planned()
    }

    /// The rows of the round before, where a recursive CTE reads itself.
    pub(super) fn work_rows(&mut self, rows: &WorkRows, at: Option<Position>) -> Result<Resolved> {
        self.count_relation(at)?;
        rows.readers.fetch_add(1, Ordering::Relaxed);
        let table: Arc<dyn TableProvider> = Arc::new(CteWorkTable::new(&rows.table, Arc::clone(&rows.schema)));
        // As it is written: a name that is read as text loses its capitals.
        let named = TableReference::bare(rows.table.as_str());
        let scan = LogicalPlanBuilder::scan(named.clone(), provider_as_source(table), None);
        let (mut exprs, mut columns) = (Vec::new(), Vec::new());
        for output in &rows.columns {
            let name = self.fresh();
            let stored = Column::new(Some(named.clone()), &output.column.name);
            exprs.push(Expr::Column(stored).alias(&name));
            self.labels.insert(name.clone(), output.name.clone());
            columns.push(Output { column: Column::new_unqualified(name), ..output.clone() });
        }
        let mut scan = scan.planned()?;
        if let Some(begins) = &rows.begins {
            scan = scan.filter(not(col(Column::new(Some(named), begins)))).planned()?;
        }
        let plan = scan.project(exprs).and_then(LogicalPlanBuilder::build).planned()?;
        Ok(Resolved { plan, columns, row: rows.row })
    }
}

/// The first and the repeated query of a recursive CTE, and how its UNION treats equal rows.
fn parts<'q>(query: &'q Query, name: &str) -> Option<(&'q SetExpr, &'q SetExpr, SetQuantifier)> {
    let is_plain = |query: &Query| {
        query.order_by.is_none()
            && query.limit_clause.is_none()
            && query.fetch.is_none()
            && query.pipe_operators.is_empty()
    };
    if !is_plain(query) {
        return None;
    }
    let mut body = query.body.as_ref();
    while let SetExpr::Query(inner) = body
        && is_plain(inner)
        && inner.with.is_none()
    {
        body = inner.body.as_ref();
    }
    match body {
        SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right }
            if PieceNames::within(right.as_ref()).tables.contains(&name.to_lowercase()) =>
        {
            Some((left, right, *set_quantifier))
        }
        _ => None,
    }
}

/// Whether a query is a set operation, or has one in it.
fn has_set_operation(body: &SetExpr) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            match query.body.as_ref() {
                SetExpr::SetOperation { .. } => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    matches!(body, SetExpr::SetOperation { .. }) || body.visit(&mut Search).is_break()
}

/// The rows with a column that is false.
fn marked(rows: LogicalPlan, name: &str) -> datafusion::common::Result<LogicalPlan> {
    let mut columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    columns.push(nullable(lit(false)).alias(name));
    LogicalPlanBuilder::from(rows).project(columns)?.build()
}

/// The rows with such a column, and a row of NULLs where it is true.
fn with_beginning(rows: LogicalPlan, name: &str) -> datafusion::common::Result<LogicalPlan> {
    let fields = rows.schema().fields().iter();
    let null = |field: &FieldRef| {
        let null = ScalarValue::try_from(field.data_type())?;
        Ok(nullable(Expr::Literal(null, None)).alias(field.name()))
    };
    let mut columns = fields.map(null).collect::<datafusion::common::Result<Vec<_>>>()?;
    columns.push(nullable(lit(true)).alias(name));
    let one = LogicalPlanBuilder::empty(true).project(columns)?.build()?;
    LogicalPlanBuilder::from(marked(rows, name)?).union(one)?.build()
}

/// Whether nothing between the end of the plan and the rows that a CTE reads of itself looks at several of them.
fn reads_rows_alone(plan: &LogicalPlan, table: &str, name: &str, at: Option<Position>) -> Result<()> {
    let is_table =
        |node: &LogicalPlan| matches!(node, LogicalPlan::TableScan(scan) if scan.table_name.table() == table);
    let holds = |node: &LogicalPlan| node.exists(|node| Ok(is_table(node))).planned();
    let mut node = plan;
    loop {
        let what = match node {
            LogicalPlan::TableScan(_) => return Ok(()),
            LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Unnest(_) | LogicalPlan::Union(_) => {
                None
            }
            LogicalPlan::Join(join) => {
                let left = holds(&join.left)?;
                match (join.join_type, left) {
                    (JoinType::Inner, _) | (JoinType::Left, true) | (JoinType::Right, false) => None,
                    _ => Some("an outer join that makes rows of its own, INTERSECT or EXCEPT"),
                }
            }
            LogicalPlan::Aggregate(_) => Some("GROUP BY or an aggregate"),
            LogicalPlan::Distinct(_) => Some("DISTINCT"),
            LogicalPlan::Window(_) => Some("a window function"),
            LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => Some("ORDER BY or LIMIT"),
            _ => Some("this clause"),
        };
        if let Some(what) = what {
            return Err(over_rows(name, what, at));
        }
        let mut below = None;
        for input in node.inputs() {
            if holds(input)? {
                below = Some(input);
            }
        }
        // They are in a subquery of an expression.
        let Some(input) = below else { return Err(misplaced(name, at)) };
        node = input;
    }
}

fn over_rows(name: &str, what: &str, at: Option<Position>) -> Failure {
    let message = format!("the recursive CTE {name} cannot use {what} over its own rows; do so where it is read");
    invalid(message, at)
}

fn misplaced(name: &str, at: Option<Position>) -> Failure {
    invalid(format!("the recursive CTE {name} reads itself once, in the FROM of the last query of its UNION"), at)
}
