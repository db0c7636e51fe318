//! The pipe syntax: a query is a table, and each operator makes a table of the one before.
//!
//! An operator is what the same clause is in a SELECT: WHERE is a filter, SELECT and AGGREGATE are a SELECT over the rows so
//! far, JOIN is a join. So plans of piped queries consist of the same nodes as others, and whatever reads plans sees
//! through them. What differs is the scope: most operators leave the aliases of tables visible.

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, col};
use sqlparser::ast::{
    Expr as Ast, Ident, LimitClause, ObjectNamePart, OrderByExpr, PipeOperator, Query, Select, SetExpr, SetOperator,
    SetQuantifier, With,
};
use tidegate_model::Position;

use super::distinct_key::distinct_key;
use super::fallible_filters::guarded;
use super::from::source_of;
use super::join::Input;
use super::pipe_aggregate::AggregateOperator;
use super::pipe_scope::{Change, changed, renamed_table, visible};
use super::select::refuse_foreign_clauses;
use super::set_operation::SetOperation;
use super::windows::windowed;
use crate::fail::{Planning, Result, invalid, place, place_of, unsupported};
use crate::resolve::calls::Calls;
use crate::resolve::context::{Clause, Context};
use crate::resolve::environment::Environment;
use crate::resolve::expr::{Item, Limit, calls_aggregate, nth_item, unique_names};
use crate::resolve::resolved::{Order, Output, Resolved, Row};
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Relation, Scope, ScopeColumn};
use crate::resolve::sorting::{ordinal, sorted, with_stored_last};
use crate::resolve::stored::with_stored_floats;
use crate::text::{Matching, marked_items, marked_query, marker_name, matching_of, pipes};
use crate::typed::Typed;
use crate::typing::plan_column;

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
    pub(super) fn from_query(
        &mut self,
        select: &Select,
        environment: &Environment<'_>,
        parent: Option<&Scope<'_>>,
        order: Order,
    ) -> Result<Resolved> {
        let input = self.from_rows(select, environment, parent, order)?;
        self.table_of(Piped { input, row: Row::Columns })
    }

    fn from_rows<'p>(
        &mut self,
        select: &Select,
        environment: &Environment<'_>,
        parent: Option<&'p Scope<'p>>,
        order: Order,
    ) -> Result<Input<'p>> {
        refuse_foreign_clauses(select)?;
        let plain = Select { projection: Vec::new(), from: Vec::new(), ..select.clone() };
        if plain.selection.is_some() || plain.having.is_some() || plain.qualify.is_some() || !plain.named_window.is_empty() {
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
                Piped { input: self.from_rows(select, &environment, parent, first)?, row: Row::Columns }
            }
            _ => piped_of(body(self, first)?, parent)?,
        };
        let mut withs: Vec<(&With, Environment<'_>)> = Vec::new();
        for (i, operator) in operators.iter().enumerate() {
            let rest = operators.get(i + 1..).unwrap_or_default();
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
            let selects: Vec<&Select> = queries.iter().filter_map(select_of).collect();
            return match (name, selects.as_slice()) {
                (pipes::SELECT, [select]) => {
                    if calls_aggregate(&select.projection) {
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
            PipeOperator::Where { expr } => self.filtered(input, expr, environment)?,
            PipeOperator::Call { function, alias: None } if asserts(function).is_some() => {
                let Some(condition) = asserts(function) else { return Err(invalid("ASSERT needs a condition", None)) };
                let rows = self.filtered(fenced(input)?, &condition, environment)?;
                fenced(rows)?
            }
            PipeOperator::Limit { expr, offset } => {
                let offset = offset.as_ref().map(|value| sqlparser::ast::Offset {
                    value: value.clone(),
                    rows: sqlparser::ast::OffsetRows::None,
                });
                let clause = LimitClause::LimitOffset { limit: Some(expr.clone()), offset, limit_by: Vec::new() };
                let limit = self.limit(Some(&clause), environment)?;
                Input { plan: limit.applied_to(LogicalPlanBuilder::from(input.plan))?, ..input }
            }
            PipeOperator::OrderBy { exprs } => self.sorted_by(input, exprs, environment, order)?,
            PipeOperator::As { alias } => Input { scope: renamed_table(input.scope, &alias.value), ..input },
            PipeOperator::Set { assignments } => {
                let mut changes = Vec::with_capacity(assignments.len());
                for assignment in assignments {
                    let sqlparser::ast::AssignmentTarget::ColumnName(target) = &assignment.target else {
                        return Err(unsupported("SET of several columns at once", Some("write SET a = 1, b = 2"), None));
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
                return self.united(Piped { input, row }, SetOperator::Union, *set_quantifier, queries, environment, parent);
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
        let keeps_row = matches!(
            operator,
            PipeOperator::Where { .. } | PipeOperator::Limit { .. } | PipeOperator::OrderBy { .. } | PipeOperator::Call { .. }
        );
        Ok(Piped { input, row: if keeps_row { row } else { Row::Columns } })
    }

    fn filtered<'p>(&mut self, input: Input<'p>, condition: &Ast, environment: &Environment<'_>) -> Result<Input<'p>> {
        let Input { plan, scope } = input;
        let mut calls = Calls::default();
        let context = Context::new(&scope, environment, Clause::Where);
        let mut cx = Context { calls: Some(&mut calls), windows: Some(&[]), ..context };
        let expr = self.condition(condition, &mut cx)?;
        refuse_aggregates(&calls, "WHERE", place(condition))?;
        let mut builder = LogicalPlanBuilder::from(plan);
        let expr = if calls.windows.is_empty() {
            guarded(with_stored_floats(expr, &[builder.plan()])?, &scope, builder.schema())?
        } else {
            builder = windowed(builder, &calls, Ok)?;
            expr
        };
        Ok(Input { plan: builder.filter(expr).and_then(LogicalPlanBuilder::build).planned()?, scope })
    }

    fn extended<'p>(&mut self, input: Input<'p>, select: &Select, environment: &Environment<'_>) -> Result<Input<'p>> {
        let Input { plan, mut scope } = input;
        let mut calls = Calls::default();
        let named = select.named_window.as_slice();
        self.named_windows(named, &scope, environment)?;
        let items = self.items(&select.projection, &scope, environment, &mut calls, Some(named), false)?;
        refuse_aggregates(&calls, "EXTEND", place(select))?;
        let builder = windowed(LogicalPlanBuilder::from(plan), &calls, Ok)?;
        let values = items.iter().map(|item| (item.name.clone().unwrap_or_default(), item.value.clone()));
        let (builder, columns) = self.with_columns(builder, values)?;
        scope.relations.push(Relation::Table { alias: None, columns, open: false });
        Ok(Input { plan: builder.build().planned()?, scope })
    }

    /// The rows with columns of these names and values beside their own.
    fn with_columns(
        &mut self,
        builder: LogicalPlanBuilder,
        values: impl Iterator<Item = (String, Typed)>,
    ) -> Result<(LogicalPlanBuilder, Vec<ScopeColumn>)> {
        let mut exprs: Vec<Expr> = builder.schema().columns().into_iter().map(Expr::Column).collect();
        let mut columns = Vec::new();
        for (name, value) in values {
            let unique = self.fresh();
            self.labels.insert(unique.clone(), name.clone());
            if self.is_path(&value) {
                self.note_path_column(&unique);
            }
            let value = plan_column(value);
            exprs.push(value.expr.alias(&unique));
            let value = Typed::new(col(Column::new_unqualified(unique)), value.ty);
            columns.push(ScopeColumn { name, value, hidden: false, qualified_only: false });
        }
        Ok((builder.project(exprs).planned()?, columns))
    }

    fn set<'p>(
        &mut self,
        input: Input<'p>,
        changes: &[(Ident, &Ast)],
        environment: &Environment<'_>,
    ) -> Result<Input<'p>> {
        let Input { plan, scope } = input;
        refuse_twice(&changes.iter().map(|(name, _)| name).collect::<Vec<_>>(), "SET")?;
        let mut calls = Calls::default();
        let mut values = Vec::with_capacity(changes.len());
        for (name, value) in changes {
            let context = Context::new(&scope, environment, Clause::Select);
            let mut cx = Context { calls: Some(&mut calls), windows: Some(&[]), ..context };
            values.push((name.value.clone(), self.expr(value, &mut cx)?));
            refuse_aggregates(&calls, "SET", place(*value))?;
        }
        let builder = windowed(LogicalPlanBuilder::from(plan), &calls, Ok)?;
        let (builder, columns) = self.with_columns(builder, values.into_iter())?;
        let changes = changes.iter().zip(columns).map(|((name, _), column)| (name, Change::Value(column.value)));
        Ok(Input { plan: builder.build().planned()?, scope: changed(scope, changes.collect())? })
    }

    fn sorted_by<'p>(
        &mut self,
        input: Input<'p>,
        keys: &[OrderByExpr],
        environment: &Environment<'_>,
        order: Order,
    ) -> Result<Input<'p>> {
        let Input { plan, scope } = input;
        let mut calls = Calls::default();
        let mut sorts = Vec::with_capacity(keys.len());
        for key in keys {
            let at = place(&key.expr);
            let value = match ordinal(&key.expr) {
                Some(n) => nth_item(&visible(&scope), n, at)?.value.clone(),
                None => {
                    let context = Context::new(&scope, environment, Clause::OrderBy);
                    self.expr(&key.expr, &mut Context { calls: Some(&mut calls), windows: Some(&[]), ..context })?
                }
            };
            refuse_aggregates(&calls, "ORDER BY", at)?;
            sorts.push(sorted(value, key)?);
        }
        let builder = windowed(LogicalPlanBuilder::from(plan), &calls, Ok)?;
        if order == Order::Dropped {
            return Ok(Input { plan: builder.build().planned()?, scope });
        }
        let sorts = with_stored_last(sorts, builder.plan());
        Ok(Input { plan: builder.sort(sorts).and_then(LogicalPlanBuilder::build).planned()?, scope })
    }

    /// Equal rows become one. Columns that only an alias has are gone.
    fn distinct<'p>(&mut self, input: Input<'p>, at: Option<Position>) -> Result<Input<'p>> {
        let Input { plan, mut scope } = input;
        let items = visible(&scope);
        let (mut exprs, mut columns) = (Vec::new(), Vec::new());
        for Item { name, value, .. } in items {
            if !value.ty.is_groupable() {
                return Err(invalid(format!("DISTINCT cannot compare values of type {}", value.ty), at));
            }
            let unique = self.fresh();
            self.labels.insert(unique.clone(), name.unwrap_or_default());
            if self.is_path(&value) {
                self.note_path_column(&unique);
            }
            let key = plan_column(value.clone());
            exprs.push(distinct_key(key.clone(), &plan).alias(&unique));
            columns.push((value.expr, Typed::new(col(Column::new_unqualified(unique)), key.ty)));
        }
        let kept = |value: &Typed| columns.iter().find(|(of, _)| *of == value.expr).map(|(_, value)| value.clone());
        for relation in &mut scope.relations {
            match relation {
                Relation::Table { columns, .. } => {
                    let own = std::mem::take(columns).into_iter();
                    *columns = own.filter_map(|column| Some(ScopeColumn { value: kept(&column.value)?, ..column })).collect();
                }
                Relation::Element { value, .. } => {
                    if let Some(kept) = kept(value) {
                        *value = kept;
                    }
                }
            }
        }
        let plan = LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::distinct);
        Ok(Input { plan: plan.and_then(LogicalPlanBuilder::build).planned()?, scope })
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
        let matching: Option<Matching> = queries.first().map(as_body).and_then(|body| matching_of(&body)).transpose()?;
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
        let (mut exprs, mut columns) = (Vec::new(), Vec::new());
        for (item, name) in items.iter().zip(unique_names(&items)) {
            let unique = self.fresh();
            self.labels.insert(unique.clone(), name.clone());
            if self.is_path(&item.value) {
                self.note_path_column(&unique);
            }
            exprs.push(item.value.expr.clone().alias(&unique));
            let column = Column::new_unqualified(unique);
            columns.push(Output { name, written: item.name.clone(), column, ty: item.value.ty.clone() });
        }
        let plan = LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::build).planned()?;
        Ok(Resolved { plan, columns, row })
    }
}

/// A resolved query as the table before an operator.
fn piped_of<'p>(resolved: Resolved, parent: Option<&'p Scope<'p>>) -> Result<Piped<'p>> {
    let row = resolved.row;
    let unnamed: Vec<bool> = resolved.columns.iter().map(|column| column.written.is_none()).collect();
    let mut input = source_of(resolved, None, None, &[], parent)?;
    // Columns without a name stay without.
    if let [Relation::Table { columns, .. }] = input.scope.relations.as_mut_slice() {
        for (column, _) in columns.iter_mut().zip(&unnamed).filter(|(_, unnamed)| **unnamed) {
            column.name.clear();
        }
    }
    Ok(Piped { input, row })
}

/// The marker that an operator was respelled with, and the queries after it.
fn marked(operator: &PipeOperator) -> Option<(&Ident, &str, &[Query])> {
    let PipeOperator::Union { queries, .. } = operator else { return None };
    let (first, rest) = queries.split_first()?;
    let (ident, name, items) = marked_query(first)?;
    if name == pipes::AGGREGATE {
        return Some((ident, name, queries));
    }
    let of_pipe = [pipes::SELECT, pipes::EXTEND, pipes::WINDOW, pipes::DROP, pipes::DISTINCT, pipes::WITH];
    (items.is_empty() && of_pipe.contains(&name)).then_some((ident, name, rest))
}

fn select_of(query: &Query) -> Option<&Select> {
    match query.body.as_ref() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
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

fn dropped<'p>(input: Input<'p>, select: &Select) -> Result<Input<'p>> {
    let mut names = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        match item {
            sqlparser::ast::SelectItem::UnnamedExpr(Ast::Identifier(name)) => names.push(name),
            other => return Err(invalid("DROP takes names of columns alone", place(other))),
        }
    }
    refuse_twice(&names, "DROP")?;
    let changes = names.into_iter().map(|name| (name, Change::Dropped)).collect();
    Ok(Input { scope: changed(input.scope, changes)?, ..input })
}

/// Refuses what a SELECT has after its list, which a pipe operator has not.
pub(super) fn refuse_others(select: &Select, name: &str) -> Result<()> {
    refuse_foreign_clauses(select)?;
    let groups = !matches!(&select.group_by, sqlparser::ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if !select.from.is_empty() || select.selection.is_some() || groups || select.having.is_some() || select.qualify.is_some()
    {
        let message = format!("after |> {name} comes the next |>: write |> WHERE, |> AGGREGATE ... GROUP BY");
        return Err(invalid(message, place(select)));
    }
    Ok(())
}

fn refuse_aggregates(calls: &Calls, clause: &str, at: Option<Position>) -> Result<()> {
    if calls.aggregates.is_empty() && calls.groupings.is_empty() {
        return Ok(());
    }
    Err(invalid(format!("{clause} after |> cannot aggregate; write |> AGGREGATE before it"), at))
}

fn refuse_twice(names: &[&Ident], operator: &str) -> Result<()> {
    for (i, name) in names.iter().enumerate() {
        if names.iter().take(i).any(|before| before.value.eq_ignore_ascii_case(&name.value)) {
            return Err(invalid(format!("{operator} names the column {} twice", name.value), place_of(name.span)));
        }
    }
    Ok(())
}

/// The rows above a limit that none reaches: the engine moves no condition past it, so that an ASSERT looks at just the rows
/// that reach it.
fn fenced(input: Input<'_>) -> Result<Input<'_>> {
    const ALL: usize = i64::MAX as usize;
    let plan = LogicalPlanBuilder::from(input.plan).limit(0, Some(ALL)).and_then(LogicalPlanBuilder::build);
    Ok(Input { plan: plan.planned()?, ..input })
}

/// The condition that `ASSERT condition, payload` is: it fails where it does not hold.
fn asserts(function: &sqlparser::ast::Function) -> Option<Ast> {
    use sqlparser::ast::{
        BinaryOperator, CaseWhen, CastKind, DataType, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
    };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    if marker_name(name) != Some(pipes::ASSERT) {
        return None;
    }
    let mut args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let condition = args.next()??;
    let text = |text: String| Ast::Value(Value::SingleQuotedString(text).into());
    let mut message = text("Assertion failed:".to_owned());
    let mut parts: Vec<Ast> = Vec::new();
    for payload in args {
        parts.push(Ast::Cast {
            kind: CastKind::Cast,
            expr: Box::new(payload?),
            data_type: DataType::String(None),
            array: false,
            format: None,
        });
    }
    if parts.is_empty() {
        parts.push(text(condition.to_string()));
    }
    let join = |left: Ast, right: Ast| Ast::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::StringConcat,
        right: Box::new(right),
    };
    for part in parts {
        message = join(join(message, text(" ".to_owned())), part);
    }
    let error = sqlparser::ast::Function {
        name: sqlparser::ast::ObjectName(vec![ObjectNamePart::Identifier(Ident { value: "ERROR".to_owned(), ..name.clone() })]),
        args: FunctionArguments::List(sqlparser::ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(message))],
            clauses: Vec::new(),
        }),
        ..function.clone()
    };
    // As a number, because the engine makes an OR of a CASE of conditions, of which it computes both sides.
    let one = || Ast::Value(Value::Number("1".to_owned(), false).into());
    let holds = Ast::Case {
        case_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        end_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: one() }],
        else_result: Some(Box::new(Ast::Function(error))),
    };
    Some(Ast::BinaryOp { left: Box::new(holds), op: BinaryOperator::Eq, right: Box::new(one()) })
}
