//! FROM: tables, joined from left to right.

use std::sync::Arc;

use datafusion::common::{Column, JoinType};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, cast, col};
use sqlparser::ast::{
    Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, TableAlias, TableFactor, TableWithJoins,
};
use tidegate_model::{Code, nearest};

use super::join::Input;
use super::pivot::Pivot;
use super::unnest::{Keep, unnest_of};
use super::unpivot::Unpivot;
use crate::barrier::held_to;
use crate::catalog::StoredTable;
use crate::fail::{Planning, Result, fail, invalid, place, place_of, unsupported};
use crate::resolve::environment::{Environment, Meaning};
use crate::resolve::resolved::{Order, Resolved, Row};
use crate::resolve::resolver::Resolver;
use crate::resolve::row_policy;
use crate::resolve::scope::{Relation, Scope, ScopeColumn};
use crate::typed::Typed;
use crate::types::Type;

/// Columns of stored tables that always hold text, never another kind of value.
const PLAIN_COLUMNS: [&str; 3] = ["id", "event_message", "_overflow"];

/// Columns of stored tables that are the store's own: readable by name, not part of `*`.
const HIDDEN_COLUMNS: [&str; 2] = ["_overflow", tidegate_model::REST_FIELD];

impl Resolver<'_> {
    /// Resolves a FROM clause; `order` tells whether the order of its rows matters above.
    pub(super) fn from<'p>(
        &mut self,
        tables: &[TableWithJoins],
        environment: &Environment<'_>,
        parent: Option<&'p Scope<'p>>,
        order: Order,
    ) -> Result<Input<'p>> {
        let mut source = Input::one_row(parent)?;
        for (i, table) in tables.iter().enumerate() {
            source = self.joined(source, i == 0, table, environment, order)?;
        }
        Ok(source)
    }

    fn joined<'p>(
        &mut self,
        left: Input<'p>,
        first: bool,
        table: &TableWithJoins,
        environment: &Environment<'_>,
        order: Order,
    ) -> Result<Input<'p>> {
        let mut source =
            self.join(left, first, &table.relation, JoinType::Inner, &JoinConstraint::None, environment, order)?;
        for join in &table.joins {
            source = self.join_of(source, join, environment, order)?;
        }
        Ok(source)
    }

    /// The input joined as `JOIN ...` says.
    pub(super) fn join_of<'p>(
        &mut self,
        left: Input<'p>,
        join: &Join,
        environment: &Environment<'_>,
        order: Order,
    ) -> Result<Input<'p>> {
        let Join { relation, join_operator, .. } = join;
        let (kind, constraint) = match join_operator {
            JoinOperator::Join(on) | JoinOperator::Inner(on) => (JoinType::Inner, on),
            JoinOperator::CrossJoin(on) => (JoinType::Inner, on),
            JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (JoinType::Left, on),
            JoinOperator::Right(on) | JoinOperator::RightOuter(on) => (JoinType::Right, on),
            JoinOperator::FullOuter(on) => (JoinType::Full, on),
            _ => {
                let instead = "there are JOIN, LEFT, RIGHT and FULL JOIN, and CROSS JOIN; for SEMI and ANTI joins write \
                               EXISTS or IN";
                return Err(unsupported("this kind of join", Some(instead), place(relation)));
            }
        };
        let plain = matches!(join_operator, JoinOperator::Join(_) | JoinOperator::Inner(_));
        if plain && *constraint == JoinConstraint::None && unnest_of(relation, &left.scope)?.is_none() {
            let message = "JOIN needs ON or USING; to join every row with every other, write CROSS JOIN";
            return Err(invalid(message, place(relation)));
        }
        self.join(left, false, relation, kind, constraint, environment, order)
    }

    /// Joins one factor to the input on its left.
    #[expect(clippy::too_many_arguments, reason = "a join is all of these")]
    fn join<'p>(
        &mut self,
        left: Input<'p>,
        first: bool,
        factor: &TableFactor,
        kind: JoinType,
        constraint: &JoinConstraint,
        environment: &Environment<'_>,
        order: Order,
    ) -> Result<Input<'p>> {
        let at = place(factor);
        if let Some(unnest) = unnest_of(factor, &left.scope)? {
            let keep = match kind {
                JoinType::Inner => Keep::Matching,
                JoinType::Left => Keep::Left,
                _ => {
                    // The array can read nothing of rows that may not be there.
                    let start = Input::one_row(left.scope.parent)?;
                    let none = &JoinConstraint::None;
                    let right = self.unnest(start, &unnest, Keep::Matching, none, environment)?;
                    let correlated = |plan: &LogicalPlan| !plan.all_out_ref_exprs().is_empty();
                    if correlated(&left.plan) || correlated(&right.plan) {
                        let instead = Some("write a LEFT JOIN");
                        return Err(unsupported("RIGHT or FULL JOIN of arrays of an enclosing row", instead, at));
                    }
                    return self.joined_to(left, right, kind, constraint, environment, at);
                }
            };
            return self.unnest(left, &unnest, keep, constraint, environment);
        }
        let order = if first { order } else { Order::Dropped };
        let parent = left.scope.parent;
        let right = self.factor(factor, environment, parent, order)?;
        if first {
            return Ok(right);
        }
        self.joined_to(left, right, kind, constraint, environment, at)
    }

    /// A factor that reads nothing of the tables to its left.
    fn factor<'p>(
        &mut self,
        factor: &TableFactor,
        environment: &Environment<'_>,
        parent: Option<&'p Scope<'p>>,
        order: Order,
    ) -> Result<Input<'p>> {
        let at = place(factor);
        self.count_relation(at)?;
        match factor {
            TableFactor::Table { name, alias, args, version, sample, with_hints, json_path, .. } => {
                if args.is_some() {
                    return Err(unsupported(format!("the table function {name}"), None, at));
                }
                if version.is_some() {
                    return Err(unsupported("FOR SYSTEM_TIME AS OF (time travel)", None, at));
                }
                if sample.is_some() || !with_hints.is_empty() || json_path.is_some() {
                    return Err(unsupported(
                        "TABLESAMPLE or another option of a table",
                        Some("filter with WHERE RAND() < 0.1"),
                        at,
                    ));
                }
                self.table(name, alias.as_ref(), environment, parent, order)
            }
            TableFactor::Derived { lateral: false, subquery, alias, sample: None } => {
                let resolved = self.query(subquery, environment, parent, order)?;
                source_of(resolved, alias.as_ref(), None, &[], parent)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.joined(Input::one_row(parent)?, true, table_with_joins, environment, order)
            }
            TableFactor::Pivot {
                table,
                aggregate_functions: aggregates,
                value_column: columns,
                value_source: values,
                default_on_null: None,
                alias,
            } => {
                let alias = alias.as_ref().map(|alias| alias.name.value.clone());
                let input = self.factor(table, environment, parent, Order::Dropped)?;
                self.pivoted(input, &Pivot { aggregates, columns, values, alias, at }, environment)
            }
            TableFactor::Unpivot { table, value, name, columns, null_inclusion, alias } => {
                let alias = alias.as_ref().map(|alias| alias.name.value.clone());
                let input = self.factor(table, environment, parent, Order::Dropped)?;
                let nulls = null_inclusion.as_ref();
                self.unpivoted(input, &Unpivot { value, name, columns, nulls, alias, at }, environment)
            }
            other => {
                let text: String = other.to_string().chars().take(60).collect();
                Err(unsupported(format!("reading from {text}"), None, at))
            }
        }
    }

    /// A table by name: a CTE or grant, or, where they are visible, a source.
    fn table<'p>(
        &mut self,
        name: &ObjectName,
        alias: Option<&TableAlias>,
        environment: &Environment<'_>,
        parent: Option<&'p Scope<'p>>,
        order: Order,
    ) -> Result<Input<'p>> {
        let at = place(name);
        let mut parts = Vec::new();
        for part in &name.0 {
            match part {
                ObjectNamePart::Identifier(ident) => parts.push(ident.value.as_str()),
                ObjectNamePart::Function(_) => return Err(unsupported(format!("the table function {name}"), None, at)),
            }
        }
        let full = parts.join(".");
        if let Some(visible) = environment.find(&full) {
            let resolved = match &visible.meaning {
                Meaning::Pending => {
                    let message = format!(
                        "{} cannot be read here; a recursive CTE reads itself once, in the last query of a UNION ALL or UNION \
                         DISTINCT, and two CTEs cannot read each other",
                        visible.name
                    );
                    return Err(invalid(message, at));
                }
                Meaning::Itself(rows) => self.work_rows(rows, at)?,
                Meaning::Query | Meaning::Recursive => self.expand(&visible, environment, order, at)?,
            };
            let columns: Vec<&str> = visible.cte.alias.columns.iter().map(|c| c.name.value.as_str()).collect();
            return source_of(resolved, alias, Some(&visible.name), &columns, parent);
        }
        if let Some(sources) = environment.sources {
            if let Some(table) = sources.table(&full).map_err(|failure| failure.at(at))? {
                if self.remarks.keeps_all() && !sources.has_rows(&full) {
                    self.remarks.note_empty_source();
                }
                let alias = alias.map_or_else(|| last_part(&full), |alias| alias.name.value.clone());
                return self.scan(table, alias, parent);
            }
            if let Some(table) = sources.saved(&full) {
                let resolved = self.endpoint(&full, &table, environment, order, at)?;
                return source_of(resolved, alias, Some(last_part(&full).as_str()), &[], parent);
            }
        }
        let mut known = environment.names();
        known.extend(environment.sources.into_iter().flat_map(|sources| sources.names()));
        let mut message = format!("there is no table {full}");
        match nearest(&full, known.iter().map(String::as_str)) {
            Some(near) => message.push_str(&format!("; did you mean {near}?")),
            None if known.is_empty() => message.push_str("; this query may read no tables"),
            None => message.push_str(&format!("; there are {}", known.join(", "))),
        }
        Err(fail(Code::UnknownTable, message, at).about(full))
    }

    /// The rows of a source, each column under a unique name.
    fn scan<'p>(
        &mut self,
        StoredTable { provider, policy }: StoredTable,
        alias: String,
        parent: Option<&'p Scope<'p>>,
    ) -> Result<Input<'p>> {
        let name = self.fresh();
        let schema = provider.schema();
        let mut columns = Vec::new();
        let mut exprs = Vec::new();
        for field in schema.fields() {
            let unique = self.fresh();
            let ty = Type::of_stored(field.data_type());
            let stored = Expr::Column(Column::new(Some(name.as_str()), field.name()));
            let canonical = ty.arrow();
            let expr = match &ty {
                Type::Int64 | Type::Float64 | Type::Timestamp | Type::Date | Type::Time
                    if *field.data_type() != canonical =>
                {
                    cast(stored, canonical)
                }
                _ => stored,
            };
            exprs.push(expr.alias(&unique));
            columns.push(ScopeColumn {
                name: field.name().clone(),
                value: Typed::new(col(Column::new_unqualified(unique)), ty),
                hidden: HIDDEN_COLUMNS.contains(&field.name().as_str()),
                qualified_only: false,
            });
        }
        // A top-level field of an event may hold any kind of value; the fields that every event has do not.
        for column in columns.iter().filter(|column| !PLAIN_COLUMNS.contains(&column.name.as_str())) {
            self.note_path(&column.value);
        }
        self.label(&columns);
        let scan = LogicalPlanBuilder::scan(name.as_str(), provider_as_source(provider), None);
        let mut plan = scan.and_then(LogicalPlanBuilder::build).planned()?;
        if let Some(policy) = &policy {
            plan = held_to(plan, row_policy::condition(policy, &name, &schema)).planned()?;
        }
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan)).planned()?);
        Ok(Input {
            plan,
            scope: Scope {
                relations: vec![Relation::Table { alias: Some(alias), columns, open: true }],
                parent,
                inline: false,
            },
        })
    }
}

fn last_part(name: &str) -> String {
    name.rsplit('.').next().unwrap_or(name).to_owned()
}

/// A resolved query as a table in scope.
pub(super) fn source_of<'p>(
    resolved: Resolved,
    alias: Option<&TableAlias>,
    name: Option<&str>,
    renamed: &[&str],
    parent: Option<&'p Scope<'p>>,
) -> Result<Input<'p>> {
    let own: Vec<&str> = alias.map(|a| a.columns.iter().map(|c| c.name.value.as_str()).collect()).unwrap_or_default();
    let names = if own.is_empty() { renamed } else { own.as_slice() };
    if !names.is_empty() && names.len() != resolved.columns.len() {
        let at = alias.and_then(|alias| place_of(alias.name.span));
        let message = format!("{} column names are given for {} columns", names.len(), resolved.columns.len());
        return Err(invalid(message, at));
    }
    let alias_name = alias.map(|alias| alias.name.value.clone()).or_else(|| name.map(str::to_owned));
    // Of a value table the alias is the value itself, whose fields are read as alias.field.
    if let (Row::Value, [output]) = (resolved.row, resolved.columns.as_slice()) {
        let value = Typed::new(Expr::Column(output.column.clone()), output.ty.clone());
        let alias = alias_name.or_else(|| output.written.clone());
        let relations = vec![Relation::Element { alias, value }];
        return Ok(Input { plan: resolved.plan, scope: Scope { relations, parent, inline: false } });
    }
    let columns = resolved
        .columns
        .iter()
        .enumerate()
        .map(|(i, output)| ScopeColumn {
            name: names.get(i).map_or_else(|| output.name.clone(), |name| (*name).to_owned()),
            value: Typed::new(Expr::Column(output.column.clone()), output.ty.clone()),
            hidden: false,
            qualified_only: false,
        })
        .collect();
    let relations = vec![Relation::Table { alias: alias_name, columns, open: false }];
    Ok(Input { plan: resolved.plan, scope: Scope { relations, parent, inline: false } })
}
