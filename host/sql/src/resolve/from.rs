//! FROM: tables, joins and UNNEST.
//!
//! `UNNEST` sees what stands to its left. Of a stored record it is no work: the element *is* the
//! struct, so the alias becomes a name for the struct's expression, and a cross join only drops
//! the rows that have none. Of a real list it is the engine's unnest.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{Column, JoinType, NullHandling, UnnestOptions};
use datafusion::datasource::provider_as_source;
use datafusion::functions::core::expr_fn as core;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, col, lit, when};
use sqlparser::ast::{
    Expr as Ast, Ident, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, TableAlias, TableFactor,
    TableWithJoins,
};
use tidegate_model::{Code, Position, nearest};

use super::expr::{Context, boolean};
use super::query::Order;
use super::scope::{Relation, Scope, ScopeColumn};
use super::{Environment, Resolver, Typed};
use crate::fail::{Planning, Result, fail, invalid, place, place_of, unsupported};
use crate::types::{Type, is_there};

/// The overflow column of stored tables: readable by name, not part of `*`.
const HIDDEN_PREFIX: char = '_';

/// A plan and what its columns are called.
pub(crate) struct Source<'p> {
    pub(crate) plan: LogicalPlan,
    pub(crate) scope: Scope<'p>,
}

/// Whether rows without a partner are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Matching,
    Left,
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
                other => {
                    return Err(unsupported(
                        format!("the join {other:?}").chars().take(40).collect::<String>(),
                        place(relation),
                    ));
                }
            };
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
    fn joined_to<'p>(
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
            TableFactor::Pivot { .. } | TableFactor::Unpivot { .. } => {
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
                hidden: field.name().starts_with(HIDDEN_PREFIX),
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

    /// Recognises `UNNEST(...)` and its short form `FROM t, t.array`.
    fn unnest_of(&self, factor: &TableFactor, left: &Scope<'_>) -> Result<Option<Unnest>> {
        match factor {
            TableFactor::UNNEST { alias, array_exprs, with_offset, with_offset_alias, with_ordinality: false } => {
                let [array] = array_exprs.as_slice() else {
                    return Err(unsupported(
                        "UNNEST of several arrays; write UNNEST(a) AS x WITH OFFSET AS i JOIN UNNEST(b) AS y WITH OFFSET AS j ON i = j",
                        place(factor),
                    ));
                };
                Ok(Some(Unnest {
                    array: array.clone(),
                    alias: alias.as_ref().map(|alias| alias.name.value.clone()),
                    offset: with_offset
                        .then(|| with_offset_alias.as_ref().map_or_else(|| "offset".to_owned(), |a| a.value.clone())),
                }))
            }
            TableFactor::Table { name, alias, args: None, version: None, .. } if name.0.len() > 1 => {
                let parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
                let correlated = parts.len() == name.0.len()
                    && parts.first().is_some_and(|first| {
                        left.relations.iter().any(|r| r.alias().is_some_and(|a| a.eq_ignore_ascii_case(&first.value)))
                    });
                Ok(correlated.then(|| Unnest {
                    alias: alias
                        .as_ref()
                        .map(|a| a.name.value.clone())
                        .or_else(|| parts.last().map(|p| p.value.clone())),
                    array: Ast::CompoundIdentifier(parts),
                    offset: None,
                }))
            }
            _ => Ok(None),
        }
    }

    fn unnest<'p>(
        &mut self,
        left: Source<'p>,
        unnest: &Unnest,
        keep: Keep,
        constraint: &JoinConstraint,
        environment: &Environment,
    ) -> Result<Source<'p>> {
        let at = place(&unnest.array);
        self.count_relation(at)?;
        let array = self.expr(&unnest.array, &mut Context::new(&left.scope, environment, "UNNEST"))?;
        let Some(item) = array.ty.element() else {
            return Err(invalid(format!("UNNEST takes an array, not a value of type {}", array.ty), at));
        };
        let array_type = array.ty.clone();
        let is_list = matches!(array_type, Type::Array(_));
        let mut left = left;
        let mut array = array;
        // Where the row stays whatever the condition says, the list loses the elements first.
        if let (true, Keep::Left, JoinConstraint::On(condition)) = (is_list, keep, constraint)
            && !always(condition)
        {
            if unnest.offset.is_some() {
                return Err(unsupported("LEFT JOIN UNNEST WITH OFFSET with a condition other than TRUE", at));
            }
            let name = self.fresh();
            let value = Typed::new(col(Column::new_unqualified(&name)), item.clone());
            left.scope.relations.push(Relation::Element { alias: unnest.alias.clone(), value });
            let condition = self.condition(condition, &mut Context::new(&left.scope, environment, "ON"))?;
            left.scope.relations.pop();
            array.expr = super::of_row::filtered(array.expr, name, condition)?;
        }
        // An array that needs nothing of the row is unnested once and joined, not once a row.
        if is_list && !left.scope.relations.is_empty() && !super::calls::any(&array.expr, reads) {
            let one_row = LogicalPlanBuilder::empty(true).build().planned()?;
            let start = Source { plan: one_row, scope: Scope { parent: left.scope.parent, ..Scope::default() } };
            let right = self.unnest(start, unnest, Keep::Matching, &JoinConstraint::None, environment)?;
            let kind = if keep == Keep::Left { JoinType::Left } else { JoinType::Inner };
            return self.joined_to(left, right, kind, constraint, environment, at);
        }
        let Source { plan, mut scope } = left;
        let plan = if keep == Keep::Matching { without_implied(plan, &array.expr) } else { plan };
        let builder = LogicalPlanBuilder::from(plan);
        let (builder, element, offset) = match &array.ty {
            Type::Null => {
                let builder = if keep == Keep::Left { Ok(builder) } else { builder.filter(lit(false)) };
                (builder.planned()?, Typed::null(), Typed::null())
            }
            Type::Record(_) => {
                let there = is_there(&array.expr, &array.ty);
                let builder = if keep == Keep::Left { Ok(builder) } else { builder.filter(there.clone()) };
                let first = when(there, lit(0_i64)).end().planned()?;
                (builder.planned()?, Typed::new(array.expr, item), Typed::new(first, Type::Int64))
            }
            _ => self.unnest_list(builder, array, item, keep, unnest.offset.is_some())?,
        };
        // A record's element is an expression over its row; a list's is a row of its own.
        let of_the_row = matches!(array_type, Type::Record(_) | Type::Null);
        let before = scope.relations.len();
        if let (Some(alias), Expr::Column(column)) = (&unnest.alias, &element.expr) {
            self.labels.insert(column.name.clone(), alias.clone());
        }
        scope.relations.push(Relation::Element { alias: unnest.alias.clone(), value: element });
        if let Some(name) = &unnest.offset {
            scope.relations.push(Relation::Element { alias: Some(name.clone()), value: offset });
        }
        let condition = match constraint {
            JoinConstraint::None => None,
            JoinConstraint::On(condition) => {
                let condition = self.condition(condition, &mut Context::new(&scope, environment, "ON"))?;
                (boolean(condition.clone()).literal() != Some(&datafusion::scalar::ScalarValue::Boolean(Some(true))))
                    .then_some(condition)
            }
            _ => return Err(unsupported("USING with an UNNEST", at)),
        };
        let builder = match (condition, keep) {
            (None, _) => builder,
            (Some(condition), Keep::Matching) => builder.filter(condition).planned()?,
            (Some(condition), Keep::Left) if of_the_row => {
                // The row stays; its element is there only where the condition holds.
                for relation in scope.relations.iter_mut().skip(before) {
                    if let Relation::Element { value, .. } = relation {
                        value.expr = when(condition.clone(), value.expr.clone()).end().planned()?;
                    }
                }
                builder
            }
            // Done to the list already.
            (Some(_), Keep::Left) => builder,
        };
        Ok(Source { plan: builder.build().planned()?, scope })
    }

    fn unnest_list(
        &mut self,
        builder: LogicalPlanBuilder,
        array: Typed,
        item: Type,
        keep: Keep,
        with_offset: bool,
    ) -> Result<(LogicalPlanBuilder, Typed, Typed)> {
        let mut exprs: Vec<Expr> = builder.schema().columns().into_iter().map(Expr::Column).collect();
        let element = self.fresh();
        exprs.push(array.expr.clone().alias(&element));
        let mut unnested = vec![Column::new_unqualified(&element)];
        let mut offset = Typed::null();
        if with_offset {
            let index = self.fresh();
            let length = core::coalesce(vec![nested::array_length(array.expr), lit(0_u64)]);
            exprs.push(
                nested::gen_series(
                    lit(0_i64),
                    cast(length, datafusion::arrow::datatypes::DataType::Int64) - lit(1_i64),
                    lit(1_i64),
                )
                .alias(&index),
            );
            unnested.push(Column::new_unqualified(&index));
            offset = Typed::new(col(Column::new_unqualified(index)), Type::Int64);
        }
        let nulls = if keep == Keep::Left { NullHandling::PreserveAndExpandEmpty } else { NullHandling::Drop };
        let builder = builder
            .project(exprs)
            .and_then(|builder| {
                builder.unnest_columns_with_options(unnested, UnnestOptions::new().with_null_handling(nulls))
            })
            .planned()?;
        Ok((builder, Typed::new(col(Column::new_unqualified(element)), item), offset))
    }
}

/// A record that is there has its enclosing record too: the test for that, just planned by the
/// UNNEST before, need not be made.
fn without_implied(plan: LogicalPlan, record: &Expr) -> LogicalPlan {
    let tests_outer = |predicate: &Expr| {
        let Expr::ScalarFunction(reads) = record else { return false };
        reads
            .args
            .first()
            .is_some_and(|outer| *predicate == is_there(outer, &Type::Null) || presence_of(predicate) == Some(outer))
    };
    match plan {
        LogicalPlan::Filter(filter) if reads_field(record) && tests_outer(&filter.predicate) => {
            Arc::unwrap_or_clone(filter.input)
        }
        plan => plan,
    }
}

fn reads_field(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == "get_field")
}

/// Of `record._present IS NOT NULL`, the record.
fn presence_of(predicate: &Expr) -> Option<&Expr> {
    let Expr::IsNotNull(field) = predicate else { return None };
    let Expr::ScalarFunction(call) = field.as_ref() else { return None };
    match call.args.as_slice() {
        [record, Expr::Literal(name, _)]
            if reads_field(field) && name.try_as_str().flatten() == Some(tidegate_model::PRESENCE_FIELD) =>
        {
            Some(record)
        }
        _ => None,
    }
}

/// Whether an expression reads the row that it stands in.
fn reads(part: &Expr) -> bool {
    matches!(part, Expr::Column(_) | Expr::OuterReferenceColumn(..))
}

/// Whether a condition is the word TRUE.
fn always(condition: &Ast) -> bool {
    matches!(condition, Ast::Value(value) if matches!(value.value, sqlparser::ast::Value::Boolean(true)))
}

/// An UNNEST as written.
struct Unnest {
    array: Ast,
    alias: Option<String>,
    offset: Option<String>,
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
