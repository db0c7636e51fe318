//! The pipe syntax: a query is a table, and each operator makes a table of the one before.
//!
//! An operator is what the same clause is in a SELECT: WHERE is a filter, SELECT and AGGREGATE are a SELECT over the rows so
//! far, JOIN is a join. So plans of piped queries consist of the same nodes as others, and whatever reads plans sees
//! through them. What differs is the scope: most operators leave the aliases of tables visible.

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use sqlparser::ast::{
    AssignmentTarget, Expr as Ast, Ident, LimitClause, ObjectNamePart, Offset, OffsetRows, PipeOperator, Query, Select,
    SetExpr, SetOperator, SetQuantifier, With,
};

use tidegate_model::Position;

use super::from::source_of;
use super::join::Input;
use super::own_aggregates::aggregates;
use super::pipe_aggregate::{AggregateOperator, select_of};
use super::pipe_columns::{dropped, refuse_others, refuse_twice};
use super::pipe_rows::{asserts, fenced};
use super::pipe_scope::{Change, changed, renamed_table, visible};
use super::select::refuse_foreign_clauses;
use super::set_operation::SetOperation;
use crate::fail::{Planning, Result, invalid, place, place_of, unsupported};
use crate::resolve::environment::Environment;
use crate::resolve::expr::{Limit, unique_names};
use crate::resolve::resolved::{Order, Output, Resolved, Row};
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Relation, Scope};
use crate::text::{Matching, marked_items, marked_query, matching_of, pipes};

/// The table between two operators.
struct Piped<'p> {
    input: Input<'p>,
    /// What its rows are, if it is used as a value.
    row: Row,
}

/// Whether a body is a FROM without SELECT.
pub(super) fn is_from_query(body: &SetExpr) -> bool {
    matches!(body, SetExpr::Select(select) if from_query(select))
}

fn from_query(select: &Select) -> bool {
    matches!(marked_items(&select.projection), Some((_, pipes::FROM, [])))
}

impl Resolver<'_> {
    /// A FROM without SELECT: the rows as they are.
    pub(super) fn whole_from(
        &mut self,
        select: &Select,
        environment: &Environment<'_>,
        parent: Option<&Scope<'_>>,
        order: Order,
    ) -> Result<Resolved> {
        let input = self.rows_of_from(select, environment, parent, order)?;
        self.table_of(Piped { input, row: Row::Columns })
    }

    fn rows_of_from<'p>(
        &mut self,
        select: &Select,
        environment: &Environment<'_>,
        parent: Option<&'p Scope<'p>>,
        order: Order,
    ) -> Result<Input<'p>> {
        refuse_foreign_clauses(select)?;
        if select.selection.is_some()
            || select.having.is_some()
            || select.qualify.is_some()
            || !select.named_window.is_empty()
        {
            return Err(invalid("after a FROM without SELECT write |> before WHERE", place(select)));
        }
        self.from(&select.from, environment, parent, order)
    }

    /// The rows of a query with pipes; `order` tells whether their order matters.
    pub(super) fn piped(
        &mut self,
        query: &Query,
        body: impl FnOnce(&mut Self, Order) -> Result<Resolved>,
        environment: &Environment<'_>,
        parent: Option<&Scope<'_>>,
        order: Order,
    ) -> Result<Resolved> {
        let mut environment = environment.clone();
        let operators = query.pipe_operators.as_slice();
        let first = order_after(operators, order);
        let mut piped = match query.body.as_ref() {
            SetExpr::Select(select) if from_query(select) => {
                Piped { input: self.rows_of_from(select, &environment, parent, first)?, row: Row::Columns }
            }
            _ => piped_of(body(self, first)?, parent)?,
        };
        let mut withs: Vec<(&With, Environment<'_>)> = Vec::new();
        let mut rest = operators;
        while let Some((operator, after)) = rest.split_first() {
            let conditions: Vec<&Ast> = rest.iter().map_while(condition_of).collect();
            if !conditions.is_empty() {
                let input = self.filtered(piped.input, &conditions, &environment)?;
                piped = Piped { input, ..piped };
                rest = rest.get(conditions.len()..).unwrap_or_default();
                continue;
            }
            rest = after;
            if let Some((_, pipes::WITH, [query])) = marked(operator)
                && let Some(with) = &query.with
            {
                environment = self.with_ctes(with, &environment)?;
                withs.push((with, environment.clone()));
                continue;
            }
            piped = self.operator(piped, operator, &environment, parent, order_after(rest, order))?;
        }
        let resolved = self.table_of(piped)?;
        for (with, environment) in withs {
            self.check_unread(with, &environment)?;
        }
        Ok(resolved)
    }

    fn operator<'p>(
        &mut self,
        piped: Piped<'p>,
        operator: &PipeOperator,
        environment: &Environment<'_>,
        parent: Option<&'p Scope<'p>>,
        order: Order,
    ) -> Result<Piped<'p>> {
        let Piped { input, row } = piped;
        if let Some((ident, name, queries)) = marked(operator) {
            let at = place_of(ident.span);
            refuse_clauses(queries, at)?;
            let selects: Vec<&Select> = queries.iter().filter_map(select_of).collect();
            return match (name, selects.as_slice()) {
                (pipes::SELECT, [select]) => {
                    if aggregates(&select.projection) {
                        return Err(invalid("SELECT after |> cannot aggregate; write |> AGGREGATE", place(*select)));
                    }
                    refuse_others(select, "SELECT")?;
                    let resolved = self.select_over(input, select, None, Limit::default(), environment, order)?;
                    piped_of(resolved, parent)
                }
                (pipes::EXTEND | pipes::WINDOW, [select]) => {
                    refuse_others(select, "EXTEND")?;
                    Ok(Piped { input: self.extended(input, select, environment)?, row: Row::Columns })
                }
                (pipes::DROP, [select]) => {
                    refuse_others(select, "DROP")?;
                    Ok(Piped { input: dropped(input, select)?, row: Row::Columns })
                }
                (pipes::PIVOT, [select]) => {
                    Ok(Piped { input: self.pivot_operator(input, select, environment)?, row: Row::Columns })
                }
                (pipes::AGGREGATE, _) => {
                    let AggregateOperator { select, order_by } = AggregateOperator::read(queries, at)?;
                    let resolved =
                        self.select_over(input, &select, order_by.as_ref(), Limit::default(), environment, order)?;
                    piped_of(resolved, parent)
                }
                (pipes::DISTINCT, []) => Ok(Piped { input: self.distinct(input, at)?, row }),
                _ => Err(invalid("this pipe operator cannot be read", at)),
            };
        }
        let input = match operator {
            PipeOperator::Call { function, alias: None } if let Some(condition) = asserts(function) => {
                let rows = self.filtered(fenced(input)?, &[&condition], environment)?;
                fenced(rows)?
            }
            PipeOperator::Limit { expr, offset } => {
                let offset = offset.as_ref().map(|value| Offset { value: value.clone(), rows: OffsetRows::None });
                let clause = LimitClause::LimitOffset { limit: Some(expr.clone()), offset, limit_by: Vec::new() };
                let limit = self.limit(Some(&clause), environment)?;
                Input { plan: limit.applied_to(LogicalPlanBuilder::from(input.plan))?, ..input }
            }
            PipeOperator::OrderBy { exprs } => self.sorted_by(input, exprs, environment, order)?,
            PipeOperator::As { alias } => Input { scope: renamed_table(input.scope, &alias.value), ..input },
            PipeOperator::Set { assignments } => {
                let mut changes = Vec::with_capacity(assignments.len());
                for assignment in assignments {
                    let AssignmentTarget::ColumnName(target) = &assignment.target else {
                        return Err(unsupported(
                            "SET of several columns at once",
                            Some("write SET a = 1, b = 2"),
                            None,
                        ));
                    };
                    let [ObjectNamePart::Identifier(name)] = target.0.as_slice() else {
                        return Err(invalid("SET takes names of columns alone", place(target)));
                    };
                    changes.push((name.clone(), &assignment.value));
                }
                self.set(input, &changes, environment)?
            }
            PipeOperator::Rename { mappings } => {
                let mut scope = input.scope;
                let names: Vec<&Ident> = mappings.iter().map(|mapping| &mapping.ident).collect();
                refuse_twice(&names, "RENAME")?;
                let changes: Vec<_> = mappings
                    .iter()
                    .map(|mapping| (&mapping.ident, Change::Renamed(mapping.alias.value.clone())))
                    .collect();
                scope = changed(scope, changes)?;
                Input { scope, ..input }
            }
            PipeOperator::Join(join) => self.join_of(input, join, environment, Order::Dropped)?,
            PipeOperator::Union { set_quantifier, queries } => {
                return self.united(
                    Piped { input, row },
                    SetOperator::Union,
                    *set_quantifier,
                    queries,
                    environment,
                    parent,
                );
            }
            PipeOperator::Intersect { set_quantifier, queries } => {
                let op = SetOperator::Intersect;
                return self.united(Piped { input, row }, op, *set_quantifier, queries, environment, parent);
            }
            PipeOperator::Except { set_quantifier, queries } => {
                let op = SetOperator::Except;
                return self.united(Piped { input, row }, op, *set_quantifier, queries, environment, parent);
            }
            other => {
                let text: String = other.to_string().chars().take(40).collect();
                return Err(unsupported(format!("the pipe operator {text}"), None, None));
            }
        };
        let keeps_row =
            matches!(operator, PipeOperator::Limit { .. } | PipeOperator::OrderBy { .. } | PipeOperator::Call { .. });
        Ok(Piped { input, row: if keeps_row { row } else { Row::Columns } })
    }

    fn united<'p>(
        &mut self,
        piped: Piped<'p>,
        op: SetOperator,
        quantifier: SetQuantifier,
        queries: &[Query],
        environment: &Environment<'_>,
        parent: Option<&'p Scope<'p>>,
    ) -> Result<Piped<'p>> {
        let at = queries.first().and_then(place);
        let as_body = |query: &Query| SetExpr::Query(Box::new(query.clone()));
        let matching: Option<Matching> =
            queries.first().map(as_body).and_then(|body| matching_of(&body)).transpose()?;
        let queries = queries.get(usize::from(matching.is_some())..).unwrap_or_default();
        let mut all = vec![self.table_of(piped)?];
        for query in queries {
            all.push(self.query(query, environment, parent, Order::Dropped)?);
        }
        piped_of(self.combined(all, &SetOperation { op, quantifier, matching, at })?, parent)
    }

    /// The table as a resolved query: all its visible columns.
    fn table_of(&mut self, piped: Piped<'_>) -> Result<Resolved> {
        let Piped { input: Input { plan, scope }, row } = piped;
        let items = visible(&scope);
        if items.is_empty() {
            return Err(invalid("no columns are left", None));
        }
        let row = match scope.relations.as_slice() {
            [Relation::Element { .. }] => Row::Value,
            _ => row,
        };
        let (mut exprs, mut columns): (Vec<Expr>, Vec<Output>) = (Vec::new(), Vec::new());
        for (item, name) in items.iter().zip(unique_names(&items)) {
            let expr = &item.value.expr;
            let column = match expr {
                // As it is, so that an order below is one of the columns.
                Expr::Column(column) if !exprs.contains(expr) => {
                    exprs.push(expr.clone());
                    column.clone()
                }
                expr => {
                    let unique = self.fresh();
                    self.labels.insert(unique.clone(), name.clone());
                    if self.is_path(&item.value) {
                        self.note_path_column(&unique);
                    }
                    exprs.push(expr.clone().alias(&unique));
                    Column::new_unqualified(unique)
                }
            };
            columns.push(Output { name, written: item.name.clone(), column, ty: item.value.ty.clone() });
        }
        let plan = LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::build).planned()?;
        Ok(Resolved { plan, columns, row })
    }
}

/// A resolved query as the table before an operator.
fn piped_of<'p>(resolved: Resolved, parent: Option<&'p Scope<'p>>) -> Result<Piped<'p>> {
    let row = resolved.row;
    let written: Vec<Option<String>> = resolved.columns.iter().map(|column| column.written.clone()).collect();
    let mut input = source_of(resolved, None, None, &[], parent)?;
    // Columns without a name stay without.
    if let [Relation::Table { columns, .. }] = input.scope.relations.as_mut_slice() {
        for (column, _) in columns.iter_mut().zip(&written).filter(|(_, written)| written.is_none()) {
            column.name.clear();
        }
    }
    Ok(Piped { input, row })
}

/// The condition of a WHERE.
fn condition_of(operator: &PipeOperator) -> Option<&Ast> {
    match operator {
        PipeOperator::Where { expr } => Some(expr),
        _ => None,
    }
}

/// The marker that an operator was respelled with, and the queries after it.
fn marked(operator: &PipeOperator) -> Option<(&Ident, &str, &[Query])> {
    let PipeOperator::Union { queries, .. } = operator else { return None };
    let (first, rest) = queries.split_first()?;
    let (ident, name, items) = marked_query(first)?;
    if name == pipes::AGGREGATE {
        return Some((ident, name, queries));
    }
    let of_pipe =
        [pipes::SELECT, pipes::EXTEND, pipes::WINDOW, pipes::DROP, pipes::DISTINCT, pipes::WITH, pipes::PIVOT];
    (items.is_empty() && of_pipe.contains(&name)).then_some((ident, name, rest))
}

/// Whether the order of the rows before these operators matters.
fn order_after(operators: &[PipeOperator], order: Order) -> Order {
    for operator in operators {
        match (marked(operator), operator) {
            (Some((_, pipes::SELECT, [query])), _) => {
                let distinct = select_of(query).is_some_and(|select| select.distinct.is_some());
                if distinct {
                    return Order::Dropped;
                }
            }
            (Some((_, pipes::EXTEND | pipes::WINDOW | pipes::DROP | pipes::WITH, _)), _) => {}
            (Some(_), _) => return Order::Dropped,
            (None, PipeOperator::Limit { .. }) => return Order::Kept,
            (
                None,
                PipeOperator::Where { .. }
                | PipeOperator::Set { .. }
                | PipeOperator::Rename { .. }
                | PipeOperator::As { .. }
                | PipeOperator::Call { .. },
            ) => {}
            (None, _) => return Order::Dropped,
        }
    }
    order
}

/// Refuses what the queries that an operator was respelled as have after it.
fn refuse_clauses(queries: &[Query], at: Option<Position>) -> Result<()> {
    for query in queries {
        let clauses = query.order_by.is_some()
            || query.limit_clause.is_some()
            || query.with.is_some()
            || query.fetch.is_some()
            || !query.pipe_operators.is_empty();
        if clauses || select_of(query).is_none() {
            return Err(invalid("after a pipe operator comes the next |>: write |> ORDER BY, |> LIMIT, |> UNION", at));
        }
    }
    Ok(())
}
