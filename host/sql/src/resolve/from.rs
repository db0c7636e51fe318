//! FROM: tables and joins.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{Column, JoinType};
use datafusion::datasource::provider_as_source;
use datafusion::functions::core::expr_fn as core;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, col, lit};
use sqlparser::ast::{
    Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, TableAlias, TableFactor, TableWithJoins,
};
use tidegate_model::{Code, Position, nearest};

use super::expr::Context;
use super::query::Order;
use super::scope::{Relation, Scope, ScopeColumn};
use super::unnest::Keep;
use super::{Environment, Resolver, Typed};
use crate::fail::{Planning, Result, fail, invalid, place, place_of, unsupported};
use crate::types::Type;

/// The overflow column of stored tables: readable by name, not part of `*`.
const OVERFLOW: &str = "_overflow";

/// A plan and what its columns are called.
pub(crate) struct Source<'p> {
    pub(crate) plan: LogicalPlan,
    pub(crate) scope: Scope<'p>,
}

impl Resolver<'_> {
    /// Resolves a FROM clause; `order` tells whether the order of its rows matters above.
    pub(crate) fn from<'p>(
        &mut self,
        tables: &[TableWithJoins],
        environment: &Environment,
        parent: Option<&'p Scope<'p>>,
        order: Order,
    ) -> Result<Source<'p>> {
        let one_row = LogicalPlanBuilder::empty(true).build().planned()?;
        let mut source = Source { plan: one_row, scope: Scope { parent, ..Scope::default() } };
        for (i, table) in tables.iter().enumerate() {
            source = self.joined(source, i == 0, table, environment, order)?;
        }
        Ok(source)
    }

    fn joined<'p>(
        &mut self,
        left: Source<'p>,
        first: bool,
        table: &TableWithJoins,
        environment: &Environment,
        order: Order,
    ) -> Result<Source<'p>> {
        let mut source =
            self.join(left, first, &table.relation, JoinType::Inner, &JoinConstraint::None, environment, order)?;
        for Join { relation, join_operator, .. } in &table.joins {
            let (kind, constraint) = match join_operator {
                JoinOperator::Join(on) | JoinOperator::Inner(on) => (JoinType::Inner, on),
                JoinOperator::CrossJoin(on) => (JoinType::Inner, on),
                JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (JoinType::Left, on),
                JoinOperator::Right(on) | JoinOperator::RightOuter(on) => (JoinType::Right, on),
                JoinOperator::FullOuter(on) => (JoinType::Full, on),
                _ => {
                    let message = "this kind of join; there are JOIN, LEFT, RIGHT and FULL JOIN, and CROSS JOIN; for SEMI and \
                                   ANTI joins write EXISTS or IN";
                    return Err(unsupported(message, place(relation)));
                }
            };
            let plain = matches!(join_operator, JoinOperator::Join(_) | JoinOperator::Inner(_));
            if plain && *constraint == JoinConstraint::None && self.unnest_of(relation, &source.scope)?.is_none() {
                let message = "JOIN needs ON or USING; to join every row with every other, write CROSS JOIN";
                return Err(invalid(message, place(relation)));
            }
            source = self.join(source, false, relation, kind, constraint, environment, order)?;
        }
        Ok(source)
    }

    /// Joins one factor to what stands to its left.
    #[expect(clippy::too_many_arguments, reason = "a join is all of these")]
    fn join<'p>(
        &mut self,
        left: Source<'p>,
        first: bool,
        factor: &TableFactor,
        kind: JoinType,
        constraint: &JoinConstraint,
        environment: &Environment,
        order: Order,
    ) -> Result<Source<'p>> {
        let at = place(factor);
        if let Some(unnest) = self.unnest_of(factor, &left.scope)? {
            let keep = match kind {
                JoinType::Inner => Keep::Matching,
                JoinType::Left => Keep::Left,
                _ => return Err(unsupported("RIGHT or FULL JOIN of an UNNEST", at)),
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

    /// Two sources side by side.
    pub(super) fn joined_to<'p>(
        &mut self,
        left: Source<'p>,
        right: Source<'p>,
        kind: JoinType,
        constraint: &JoinConstraint,
        environment: &Environment,
        at: Option<Position>,
    ) -> Result<Source<'p>> {
        let parent = left.scope.parent;
        let right_is_element = matches!(right.scope.relations.as_slice(), [Relation::Element { .. }, ..]);
        let mut relations = left.scope.relations;
        let left_count = relations.len();
        relations.extend(right.scope.relations);
        let mut scope = Scope { relations, parent, inline: false };
        let on = match constraint {
            JoinConstraint::None => None,
            JoinConstraint::On(condition) => {
                let mut cx = Context::new(&scope, environment, "ON");
                Some(self.condition(condition, &mut cx)?)
            }
            JoinConstraint::Using(names) => {
                let mut all: Option<Expr> = None;
                for name in names {
                    let equal = using(&mut scope, left_count, name, kind)?;
                    all = Some(match all {
                        Some(all) => all.and(equal),
                        None => equal,
                    });
                }
                all
            }
            JoinConstraint::Natural => return Err(unsupported("NATURAL JOIN; name the columns with USING (...)", at)),
        };
        let builder = LogicalPlanBuilder::from(left.plan);
        let plan = match (kind, on) {
            (JoinType::Inner, None) => builder.cross_join(right.plan),
            // The engine has no plan for subqueries in the condition itself.
            (JoinType::Inner, Some(on)) if super::calls::any(&on, is_subquery) => {
                builder.cross_join(right.plan).and_then(|joined| joined.filter(on))
            }
            (kind, Some(on)) => builder.join_on(right.plan, kind, [on]),
            // Of an array that needs nothing of the row.
            (JoinType::Left, None) if right_is_element => builder.join_on(right.plan, kind, [lit(true)]),
            (_, None) => return Err(invalid("an outer join needs ON or USING", at)),
        };
        Ok(Source { plan: plan.and_then(LogicalPlanBuilder::build).planned()?, scope })
    }

    /// A factor that stands on its own.
    fn factor<'p>(
        &mut self,
        factor: &TableFactor,
        environment: &Environment,
        parent: Option<&'p Scope<'p>>,
        order: Order,
    ) -> Result<Source<'p>> {
        let at = place(factor);
        self.count_relation(at)?;
        match factor {
            TableFactor::Table { name, alias, args, version, sample, with_hints, json_path, .. } => {
                if args.is_some() {
                    return Err(unsupported(format!("the table function {name}"), at));
                }
                if version.is_some() {
                    return Err(unsupported("FOR SYSTEM_TIME AS OF (time travel)", at));
                }
                if sample.is_some() || !with_hints.is_empty() || json_path.is_some() {
                    return Err(unsupported(
                        "TABLESAMPLE or another option of a table; filter with WHERE RAND() < 0.1",
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
                let one_row = LogicalPlanBuilder::empty(true).build().planned()?;
                let start = Source { plan: one_row, scope: Scope { parent, ..Scope::default() } };
                self.joined(start, true, table_with_joins, environment, order)
            }
            TableFactor::Unpivot { .. } => {
                Err(unsupported("UNPIVOT; write CROSS JOIN UNNEST([STRUCT('a' AS name, a AS value), ('b', b)])", at))
            }
            TableFactor::Pivot { .. } => {
                Err(unsupported("PIVOT; write COUNTIF(condition) or SUM(IF(condition, value, 0)) for each column", at))
            }
            other => {
                let text: String = other.to_string().chars().take(60).collect();
                Err(unsupported(format!("reading from {text}"), at))
            }
        }
    }

    /// A table by name: a CTE or grant, or, where they are visible, a source.
    fn table<'p>(
        &mut self,
        name: &ObjectName,
        alias: Option<&TableAlias>,
        environment: &Environment,
        parent: Option<&'p Scope<'p>>,
        order: Order,
    ) -> Result<Source<'p>> {
        let at = place(name);
        let mut parts = Vec::new();
        for part in &name.0 {
            match part {
                ObjectNamePart::Identifier(ident) => parts.push(ident.value.as_str()),
                ObjectNamePart::Function(_) => return Err(unsupported(format!("the table function {name}"), at)),
            }
        }
        let full = parts.join(".");
        if let Some(visible) = environment.find(&full) {
            let resolved = self.expand(&visible, order, at)?;
            let columns: Vec<&str> = visible.cte.alias.columns.iter().map(|c| c.name.value.as_str()).collect();
            return source_of(resolved, alias, Some(&visible.name), &columns, parent);
        }
        if self.sees_sources
            && let Some(table) = self.sources.table(&full)
        {
            return self.scan(table, alias.map_or_else(|| last_part(&full), |alias| alias.name.value.clone()), parent);
        }
        if self.sees_sources
            && let Some(saved) = self.sources.saved(&full)
        {
            let resolved = self.endpoint(&full, &saved, order, at)?;
            return source_of(resolved, alias, Some(last_part(&full).as_str()), &[], parent);
        }
        let mut known = environment.names();
        if self.sees_sources {
            known.extend(self.sources.names());
        }
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
        table: Arc<dyn TableProvider>,
        alias: String,
        parent: Option<&'p Scope<'p>>,
    ) -> Result<Source<'p>> {
        let name = self.fresh();
        let schema = table.schema();
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
                hidden: field.name() == OVERFLOW,
                qualified_only: false,
            });
        }
        self.label(&columns);
        let plan = LogicalPlanBuilder::scan(name.as_str(), provider_as_source(table), None)
            .and_then(|plan| plan.project(exprs))
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        Ok(Source {
            plan,
            scope: Scope {
                relations: vec![Relation::Table { alias: Some(alias), columns, open: true }],
                parent,
                inline: false,
            },
        })
    }
}

fn is_subquery(part: &Expr) -> bool {
    matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_))
}

fn last_part(name: &str) -> String {
    name.rsplit('.').next().unwrap_or(name).to_owned()
}

/// A resolved query as a table in scope.
fn source_of<'p>(
    resolved: super::Resolved,
    alias: Option<&TableAlias>,
    name: Option<&str>,
    renamed: &[&str],
    parent: Option<&'p Scope<'p>>,
) -> Result<Source<'p>> {
    let own: Vec<&str> = alias.map(|a| a.columns.iter().map(|c| c.name.value.as_str()).collect()).unwrap_or_default();
    let names = if own.is_empty() { renamed } else { own.as_slice() };
    if !names.is_empty() && names.len() != resolved.columns.len() {
        let at = alias.and_then(|alias| place_of(alias.name.span));
        let message = format!("{} column names are given for {} columns", names.len(), resolved.columns.len());
        return Err(invalid(message, at));
    }
    let alias_name = alias.map(|alias| alias.name.value.clone()).or_else(|| name.map(str::to_owned));
    // A value table: the alias is the value, its fields hang off it.
    if let (super::Row::Value, [output]) = (resolved.row, resolved.columns.as_slice()) {
        let value = Typed::new(Expr::Column(output.column.clone()), output.ty.clone());
        let relations = vec![Relation::Element { alias: alias_name, value }];
        return Ok(Source { plan: resolved.plan, scope: Scope { relations, parent, inline: false } });
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
    Ok(Source { plan: resolved.plan, scope: Scope { relations, parent, inline: false } })
}

/// `USING (name)`: the condition; afterwards the unqualified name means one column.
fn using(scope: &mut Scope<'_>, left_count: usize, name: &ObjectName, kind: JoinType) -> Result<Expr> {
    let at: Option<Position> = place(name);
    let wanted = name.to_string().replace('`', "");
    let (left, right) = scope.relations.split_at_mut(left_count);
    let find = |relations: &mut [Relation]| -> Option<Typed> {
        relations.iter_mut().find_map(|relation| match relation {
            Relation::Table { columns, .. } => {
                let column = columns.iter_mut().find(|c| c.name.eq_ignore_ascii_case(&wanted) && !c.qualified_only)?;
                Some(column.value.clone())
            }
            Relation::Element { .. } => None,
        })
    };
    let missing = || fail(Code::UnknownColumn, format!("USING needs a column {wanted} on both sides"), at);
    let (one, other) = (find(left).ok_or_else(missing)?, find(right).ok_or_else(missing)?);
    let hide = |relations: &mut [Relation]| {
        for relation in relations {
            if let Relation::Table { columns, .. } = relation {
                for column in columns.iter_mut().filter(|c| c.name.eq_ignore_ascii_case(&wanted)) {
                    column.qualified_only = true;
                }
            }
        }
    };
    let equal = super::coerce::compare(one.clone(), datafusion::logical_expr::Operator::Eq, other.clone(), at)?.expr;
    match kind {
        JoinType::Right => hide(left),
        JoinType::Full => {
            hide(left);
            hide(right);
            let (values, ty) = super::coerce::unify(vec![one, other], at)?;
            let merged = core::coalesce(values.into_iter().map(|value| value.expr).collect());
            let column =
                ScopeColumn { name: wanted, value: Typed::new(merged, ty), hidden: false, qualified_only: false };
            scope.relations.insert(0, Relation::Table { alias: None, columns: vec![column], open: false });
        }
        _ => hide(right),
    }
    Ok(equal)
}
