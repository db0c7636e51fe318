//! Pipe operators that change columns and leave the aliases of tables: EXTEND, SET, DROP. And PIVOT and UNPIVOT, which
//! leave none.

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, col};
use sqlparser::ast::{Expr as Ast, GroupByExpr, Ident, Select, SelectItem, TableAlias, TableFactor, TableWithJoins};

use super::join::Input;
use super::pipe_rows::refuse_aggregates;
use super::pipe_scope::{Change, changed};
use super::pivot::Pivot;
use super::select::refuse_foreign_clauses;
use super::unpivot::Unpivot;
use crate::fail::{Planning, Result, invalid, place, place_of};
use crate::resolve::calls::Calls;
use crate::resolve::context::{Clause, Context};
use crate::resolve::environment::Environment;
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Relation, ScopeColumn};
use crate::text::pipes::is_input;
use crate::typed::Typed;
use crate::typing::plan_column;

impl Resolver<'_> {
    pub(super) fn extended<'p>(
        &mut self,
        input: Input<'p>,
        select: &Select,
        environment: &Environment<'_>,
    ) -> Result<Input<'p>> {
        let Input { plan, mut scope } = input;
        let mut calls = Calls::default();
        let named = select.named_window.as_slice();
        self.named_windows(named, &scope, environment)?;
        let items = self.items(&select.projection, &scope, environment, &mut calls, Some(named), false)?;
        refuse_aggregates(&calls, "EXTEND", place(select))?;
        let builder = self.windowed(LogicalPlanBuilder::from(plan), calls.windows)?;
        let values = items.iter().map(|item| (item.name.clone().unwrap_or_default(), item.value.clone()));
        let kept = scope.read_of(builder.schema().columns());
        let (builder, columns) = self.with_columns(builder, kept, values)?;
        scope.relations.push(Relation::Table { alias: None, columns, open: false });
        Ok(Input { plan: builder.build().planned()?, scope })
    }

    /// The rows with columns of these names and values beside those of their own that are `kept`.
    pub(super) fn with_columns(
        &mut self,
        builder: LogicalPlanBuilder,
        kept: Vec<Column>,
        values: impl Iterator<Item = (String, Typed)>,
    ) -> Result<(LogicalPlanBuilder, Vec<ScopeColumn>)> {
        let mut exprs: Vec<Expr> = kept.into_iter().map(Expr::Column).collect();
        let mut columns = Vec::new();
        for (name, value) in values {
            let unique = self.fresh();
            self.labels.insert(unique.clone(), name.clone());
            if self.is_path(&value) {
                self.note_path_column(&unique);
            }
            self.note_digits(&unique, &value);
            let value = plan_column(value);
            exprs.push(value.expr.alias(&unique));
            let value = Typed::new(col(Column::new_unqualified(unique)), value.ty);
            columns.push(ScopeColumn { name, value, hidden: false, qualified_only: false });
        }
        Ok((builder.project(exprs).planned()?, columns))
    }

    pub(super) fn set<'p>(
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
        let builder = self.windowed(LogicalPlanBuilder::from(plan), calls.windows)?;
        // Without the columns that no name means any more: of a hundred SETs the last would hand on a hundred.
        let left = changed(scope.clone(), changes.iter().map(|(name, _)| (name, Change::Dropped)).collect())?;
        let kept = left.read_of(builder.schema().columns());
        let (builder, columns) = self.with_columns(builder, kept, values.into_iter())?;
        let changes = changes.iter().zip(columns).map(|((name, _), column)| (name, Change::Value(column.value)));
        Ok(Input { plan: builder.build().planned()?, scope: changed(scope, changes.collect())? })
    }

    pub(super) fn pivot_operator<'p>(
        &mut self,
        input: Input<'p>,
        select: &Select,
        environment: &Environment<'_>,
    ) -> Result<Input<'p>> {
        let at = place(select);
        let name = |alias: &Option<TableAlias>| alias.as_ref().map(|alias| alias.name.value.clone());
        let [TableWithJoins { relation, joins }] = select.from.as_slice() else {
            return Err(invalid("after |> PIVOT comes the next |>", at));
        };
        if !joins.is_empty() {
            return Err(invalid("after |> PIVOT comes the next |>", at));
        }
        match relation {
            TableFactor::Pivot {
                table,
                aggregate_functions: aggregates,
                value_column: columns,
                value_source: values,
                default_on_null: None,
                alias,
            } if is_input(table) => {
                self.pivoted(input, &Pivot { aggregates, columns, values, alias: name(alias), at }, environment)
            }
            TableFactor::Unpivot { table, value, name: names, columns, null_inclusion, alias } if is_input(table) => {
                let nulls = null_inclusion.as_ref();
                let unpivot = Unpivot { value, name: names, columns, nulls, alias: name(alias), at };
                self.unpivoted(input, &unpivot, environment)
            }
            _ => Err(invalid("after |> PIVOT comes the next |>", at)),
        }
    }
}

pub(super) fn dropped<'p>(input: Input<'p>, select: &Select) -> Result<Input<'p>> {
    let mut names = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(Ast::Identifier(name)) => names.push(name),
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
    let groups = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if !select.from.is_empty()
        || select.selection.is_some()
        || groups
        || select.having.is_some()
        || select.qualify.is_some()
    {
        let message = format!("after |> {name} comes the next |>: write |> WHERE, |> AGGREGATE ... GROUP BY");
        return Err(invalid(message, place(select)));
    }
    Ok(())
}

/// Refuses a column that an operator names twice.
pub(super) fn refuse_twice(names: &[&Ident], operator: &str) -> Result<()> {
    for (i, name) in names.iter().enumerate() {
        if names.iter().take(i).any(|before| before.value.eq_ignore_ascii_case(&name.value)) {
            return Err(invalid(format!("{operator} names the column {} twice", name.value), place_of(name.span)));
        }
    }
    Ok(())
}
