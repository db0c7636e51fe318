//! Subqueries over nothing but the enclosing row: `UNNEST`s of its arrays, or no FROM at all.
//!
//! They become expressions over the row. A record has one element or none, so a subquery over
//! records alone is a plain CASE (`EXISTS (SELECT 1 FROM UNNEST(t.metadata) AS m WHERE m.level =
//! 'error')` is a condition on a leaf that the storage can prune by). With real lists it is a
//! [`ArraySubquery`].

use datafusion::functions::core::expr_fn as core;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::{Expr, Operator, SortExpr, col, lit, when};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{GroupByExpr, OrderBy, Query, SetExpr, ValueTableMode as Mode};
use tidegate_functions::array_subquery::{ArraySubquery, Finish, Step};
use tidegate_model::{Failure, Position};

use super::array_from::unnested_arrays;
use super::boolean;
use super::limit::Limit;
use super::select_list::{Item, nth_item, unique_names};
use crate::exprs::{any, is_subquery};
use crate::fail::{Planning, Result, invalid, place, unsupported};
use crate::resolve::calls::Calls;
use crate::resolve::context::{Clause, Context};
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Relation, Scope};
use crate::resolve::sorting::{ordinal, sort_keys, sorted};
use crate::text::{marked_items, plain_query};
use crate::typed::Typed;
use crate::types::{Field, Type, is_there};
use crate::typing::{Conversion, compare, folded, over_list, plan_column};

/// A subquery over the arrays of a row; how it is used decides what it becomes: a value, EXISTS, an array or IN.
pub(super) struct ArraySubqueryBuilder {
    query: ArraySubquery,
    /// The columns of the subquery.
    columns: Vec<Typed>,
    at: Option<Position>,
}

impl Resolver<'_> {
    /// The subquery as one over the arrays of the row; `None` if it reads anything else.
    pub(super) fn array_subquery(
        &mut self,
        query: &Query,
        cx: &mut Context<'_, '_>,
    ) -> Result<Option<ArraySubqueryBuilder>> {
        let plain = plain_query(query);
        let query = plain.as_ref().unwrap_or(query);
        let SetExpr::Select(select) = query.body.as_ref() else { return Ok(None) };
        if marked_items(&select.projection).is_some() {
            return Ok(None);
        }
        let foreign = query.with.is_some() || query.fetch.is_some() || !query.pipe_operators.is_empty();
        let of_outer = |name: &str| {
            // A CTE of that name hides the alias.
            cx.environment.find(name).is_none() && cx.scope.has_alias(name)
        };
        let Some(arrays) = unnested_arrays(select, of_outer).filter(|_| !foreign) else { return Ok(None) };
        let at = place(query);
        let mut scope = Scope { relations: Vec::new(), parent: Some(cx.scope), inline: true };
        let mut steps = Vec::new();
        let mut filter: Option<Expr> = None;
        let mut and = |condition: Expr| {
            filter = Some(match filter.take() {
                Some(filter) => filter.and(condition),
                None => condition,
            });
        };
        for unnested in &arrays {
            let calls = cx.calls.as_deref_mut();
            let mut inner = Context { calls, ..Context::new(&scope, cx.environment, Clause::Unnest) };
            let array = self.expr(&unnested.array, &mut inner)?;
            let (array, of_path) = self.as_array(array);
            let Some(item) = array.ty.element() else {
                let message = format!("UNNEST takes an array, not a value of type {}", array.ty);
                return Err(invalid(message, place(unnested.array.as_ref())));
            };
            let (element, offset) = match &array.ty {
                Type::Record(_) | Type::Null => {
                    let there = if array.ty == Type::Null { lit(false) } else { is_there(&array.expr, &array.ty) };
                    let offset = when(there.clone(), lit(0_i64)).end().planned()?;
                    if !unnested.keep {
                        and(there);
                    }
                    (Typed::new(array.expr, item), offset)
                }
                _ => {
                    let element = self.fresh();
                    let offset = unnested.offset.is_some().then(|| self.fresh());
                    let position = offset.as_ref().map_or_else(|| lit(0_i64), col);
                    let value = Typed::new(col(&element), item);
                    if of_path {
                        self.note_path(&value);
                    }
                    steps.push(Step { array: array.expr, keep: unnested.keep, element, offset });
                    (value, position)
                }
            };
            // The newest alias hides older ones, so it is looked up first.
            if let Some(name) = &unnested.offset {
                let value = Typed::new(offset, Type::Int64);
                scope.relations.insert(0, Relation::Element { alias: Some(name.clone()), value });
            }
            scope.relations.insert(0, Relation::Element { alias: unnested.alias.clone(), value: element });
            if let Some(on) = unnested.on {
                let on = self.condition(on, &mut Context::new(&scope, cx.environment, Clause::On))?;
                let truth = boolean(on.clone()).literal() == Some(&ScalarValue::Boolean(Some(true)));
                if unnested.keep && !truth {
                    return Err(unsupported("LEFT JOIN UNNEST with a condition in a subquery over arrays", None, at));
                }
                and(on);
            }
        }
        if let Some(condition) = &select.selection {
            and(self.condition(condition, &mut Context::new(&scope, cx.environment, Clause::Where))?);
        }
        // The values of a record are computed also where the record is missing, so a value that does not convert is NULL.
        let guarded = steps.is_empty();
        let mut calls = Calls::default();
        let items = self.items(&select.projection, &scope, cx.environment, &mut calls, None, guarded)?;
        let sorts = self.sorts_of_row(query.order_by.as_ref(), &items, &scope, &mut calls, cx)?;
        let Limit { rows: limit, skip } = self.limit(query.limit_clause.as_ref(), cx.environment)?;
        let mut columns: Vec<Typed> = items.iter().map(|item| plan_column(item.value.clone())).collect();
        if matches!(select.value_table_mode, Some(Mode::AsStruct | Mode::DistinctAsStruct)) {
            let names = unique_names(&items);
            let parts = names.iter().zip(&columns).flat_map(|(name, value)| [lit(name.as_str()), value.expr.clone()]);
            let packed = core::named_struct(parts.collect());
            let fields = names.iter().zip(&columns);
            let fields = fields.map(|(name, value)| Field { name: name.clone(), ty: value.ty.clone() }).collect();
            columns = vec![Typed::new(packed, Type::Struct { fields, open: false })];
        }
        let distinct = select.distinct.is_some()
            || matches!(select.value_table_mode, Some(Mode::DistinctAsStruct | Mode::DistinctAsValue));
        let (value, finish) = (lit(1_i64), Finish::Exists);
        // A condition that is NULL keeps no element.
        let filter = filter.map(|filter| boolean(core::coalesce(vec![filter, lit(false)])).expr);
        let query =
            ArraySubquery { steps, filter, aggregates: calls.aggregates, sorts, distinct, skip, limit, value, finish };
        let subquery = ArraySubqueryBuilder { query, columns, at };
        // A subquery that reads nothing of the row is computed once, by the layer of queries.
        if !subquery.reads_the_row() && !subquery.query.steps.is_empty() {
            return Ok(None);
        }
        let groups = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
        if groups || select.having.is_some() || select.qualify.is_some() || !calls.windows.is_empty() {
            let what = "GROUP BY, HAVING or QUALIFY in a subquery over the arrays of a row";
            return Err(unsupported(what, Some("unnest them in FROM"), at));
        }
        if subquery.holds_subquery() {
            // Without arrays it is a subquery over tables, which may hold other subqueries.
            if arrays.is_empty() {
                return Ok(None);
            }
            let what = "a subquery over tables inside of a subquery over the arrays of a row";
            return Err(unsupported(what, None, at));
        }
        Ok(Some(subquery))
    }

    fn sorts_of_row(
        &mut self,
        order_by: Option<&OrderBy>,
        items: &[Item],
        scope: &Scope<'_>,
        calls: &mut Calls,
        cx: &Context<'_, '_>,
    ) -> Result<Vec<SortExpr>> {
        let aliases: Vec<(String, Typed)> =
            items.iter().filter_map(|item| Some((item.name.clone()?, item.value.clone()))).collect();
        let mut sorts = Vec::new();
        for key in sort_keys(order_by)? {
            let value = match ordinal(&key.expr) {
                Some(n) => nth_item(items, n, place(&key.expr))?.value.clone(),
                None => {
                    let context = Context::new(scope, cx.environment, Clause::OrderBy);
                    self.expr(&key.expr, &mut Context { aliases: &aliases, calls: Some(&mut *calls), ..context })?
                }
            };
            sorts.push(sorted(value, key)?);
        }
        Ok(sorts)
    }
}

impl ArraySubqueryBuilder {
    /// `(SELECT ...)`
    pub(super) fn scalar(self) -> Result<Typed> {
        let value = self.one()?;
        let ty = value.ty.clone();
        if self.is_plain() {
            return Ok(match self.query.filter {
                Some(there) => Typed::new(when(there, value.expr).end().planned()?, ty),
                None => value,
            });
        }
        Ok(Typed::new(self.run(value.expr, Finish::Scalar)?, ty))
    }

    /// `EXISTS (SELECT ...)`
    pub(super) fn exists(self) -> Result<Expr> {
        if self.is_plain() {
            return Ok(self.query.filter.unwrap_or_else(|| lit(true)));
        }
        self.run(lit(1_i64), Finish::Exists)
    }

    /// `ARRAY(SELECT ...)`
    pub(super) fn array(self) -> Result<Typed> {
        let value = self.one()?;
        let ty = Type::Array(Box::new(value.ty.clone()));
        if self.is_plain() {
            let one = nested::make_array(vec![value.expr]);
            let none = Typed::new(nested::make_array(Vec::new()), Type::Array(Box::new(Type::Null)));
            let none = none.convert(&ty, Conversion::implicit(self.at))?.expr;
            return Ok(match self.query.filter {
                Some(there) => Typed::new(when(there, one).otherwise(none).planned()?, ty),
                None => Typed::new(one, ty),
            });
        }
        Ok(Typed::new(self.run(value.expr, Finish::Array)?, ty))
    }

    /// `value IN (SELECT ...)`: true if an item is equal, else NULL if one might be, else false.
    pub(super) fn contains(self, value: Typed, at: Option<Position>) -> Result<Expr> {
        if !self.is_plain() {
            // The items are made a list first, because they may come from aggregates or under a LIMIT.
            let items = self.array()?;
            let Some(element) = items.ty.element() else { return Err(one_column(0, at)) };
            let name = "item".to_owned();
            let equal = compare(value, Operator::Eq, Typed::new(col(&name), element), at)?.expr;
            let any =
                |filter: Expr| over_list(items.expr.clone(), name.clone(), Some(filter), lit(1_i64), Finish::Exists);
            let found = any(core::coalesce(vec![equal.clone(), lit(false)]))?;
            return three_valued(found, any(equal.is_null())?);
        }
        let item = self.one()?;
        let there = self.query.filter.unwrap_or_else(|| lit(true));
        let equal = compare(value, Operator::Eq, item, at)?.expr;
        let found = there.clone().and(core::coalesce(vec![equal.clone(), lit(false)]));
        three_valued(found, there.and(equal.is_null()))
    }

    fn one(&self) -> Result<Typed> {
        match self.columns.as_slice() {
            [value] => Ok(value.clone()),
            columns => Err(one_column(columns.len(), self.at)),
        }
    }

    /// Whether there is at most one element, and no aggregate, OFFSET or LIMIT 0.
    fn is_plain(&self) -> bool {
        let query = &self.query;
        query.steps.is_empty() && query.aggregates.is_empty() && query.skip == 0 && query.limit != Some(0)
    }

    fn run(self, value: Expr, finish: Finish) -> Result<Expr> {
        ArraySubquery { value, finish, ..self.query }.into_expr().planned()
    }

    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let query = &self.query;
        let steps = query.steps.iter().map(|step| &step.array);
        let aggregates = query.aggregates.iter().map(|(_, call)| call);
        let sorts = query.sorts.iter().map(|sort| &sort.expr);
        steps.chain(&query.filter).chain(aggregates).chain(sorts).chain(self.columns.iter().map(|value| &value.expr))
    }

    fn reads_the_row(&self) -> bool {
        let own = |name: &str| {
            self.query.steps.iter().any(|step| step.element == name || step.offset.as_deref() == Some(name))
                || self.query.aggregates.iter().any(|(known, _)| known == name)
        };
        self.exprs().any(|expr| {
            any(expr, |part| match part {
                Expr::Column(column) => !own(&column.name),
                Expr::OuterReferenceColumn(..) => true,
                _ => false,
            })
        })
    }

    fn holds_subquery(&self) -> bool {
        self.exprs().any(|expr| any(expr, is_subquery))
    }
}

fn three_valued(found: Expr, unknown: Expr) -> Result<Expr> {
    let null = Expr::Literal(ScalarValue::Boolean(None), None);
    let value = when(found, lit(true)).when(unknown, null).otherwise(lit(false)).planned()?;
    Ok(folded(Typed::new(value, Type::Bool)).expr)
}

/// The failure of a subquery used as a value that has not one column but `columns`.
pub(super) fn one_column(columns: usize, at: Option<Position>) -> Failure {
    invalid(format!("a subquery used as a value has one column; this one has {columns}"), at)
}
