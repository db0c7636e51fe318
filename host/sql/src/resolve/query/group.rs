//! GROUP BY: the keys, grouping sets, and what expressions mean over the groups.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::logical_plan::{Aggregate, Subquery};
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlanBuilder, cast, col, lit};
use sqlparser::ast::{Expr as Ast, GroupByExpr, GroupByWithModifier};
use tidegate_model::{Code, Failure, Position};

use crate::fail::{Planning, Result, fail, invalid, place, unsupported};
use crate::resolve::calls::Calls;
use crate::resolve::context::{Clause, Context};
use crate::resolve::environment::Environment;
use crate::resolve::expr::{Item, nth_item};
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::Scope;
use crate::resolve::sorting::ordinal;
use crate::typed::Typed;
use crate::typing::plan_column;

/// The most grouping sets that one GROUP BY may unfold to: a CUBE of n keys has 2^n.
const MAX_SETS: usize = 64;

/// A group key and the plan column that carries it above the aggregation.
struct Key {
    expr: Expr,
    column: String,
}

/// The keys of a GROUP BY. `sets` lists, for ROLLUP, CUBE and GROUPING SETS, which keys each set
/// groups by.
#[derive(Default)]
pub(super) struct Keys {
    keys: Vec<Key>,
    sets: Option<Vec<Vec<usize>>>,
}

impl Keys {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl Resolver<'_> {
    pub(super) fn keys(
        &mut self,
        group_by: &GroupByExpr,
        items: &[Item],
        scope: &Scope<'_>,
        environment: &Environment<'_>,
        calls: &Calls,
    ) -> Result<Keys> {
        let plain = |item: &&Item| !calls.aggregated(&item.value.expr) && !calls.windowed(&item.value.expr);
        // An alias wins over a column, except where it names an aggregate: that cannot be a key.
        let aliases: Vec<(String, Typed)> =
            items.iter().filter(plain).filter_map(|item| Some((item.name.clone()?, item.value.clone()))).collect();
        let mut keys = Keys::default();
        let (asts, modifiers) = match group_by {
            GroupByExpr::All(modifiers) => {
                for item in items.iter().filter(plain) {
                    self.key(&mut keys, item.value.clone(), item.at)?;
                }
                (&[][..], modifiers)
            }
            GroupByExpr::Expressions(asts, modifiers) => (asts.as_slice(), modifiers),
        };
        let read = |this: &mut Self, keys: &mut Keys, ast: &Ast| -> Result<usize> {
            let at = place(ast);
            let value = match ordinal(ast) {
                Some(n) => {
                    let item = nth_item(items, n, at)?;
                    if !plain(&item) {
                        return Err(invalid(format!("GROUP BY {n} names an aggregate or window function"), at));
                    }
                    item.value.clone()
                }
                None => {
                    let mut cx = Context { aliases: &aliases, ..Context::new(scope, environment, Clause::GroupBy) };
                    this.expr(ast, &mut cx)?
                }
            };
            this.key(keys, value, at)
        };
        // Each item of the list multiplies the sets: a plain key is in all of them.
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        let mut grouping_sets = false;
        for ast in asts {
            let several = |this: &mut Self, keys: &mut Keys, lists: &[Vec<Ast>]| -> Result<Vec<Vec<usize>>> {
                lists.iter().map(|list| list.iter().map(|ast| read(this, keys, ast)).collect()).collect()
            };
            let choices: Vec<Vec<usize>> = match ast {
                Ast::Rollup(lists) => {
                    let parts = several(self, &mut keys, lists)?;
                    (0..=parts.len()).rev().map(|n| parts.iter().take(n).flatten().copied().collect()).collect()
                }
                Ast::Cube(lists) => {
                    let parts = several(self, &mut keys, lists)?;
                    if parts.len() > 6 {
                        return Err(too_many(place(ast)));
                    }
                    let chosen = |mask: usize| {
                        let parts = parts.iter().enumerate().filter(move |(i, _)| mask & (1 << i) != 0);
                        parts.flat_map(|(_, part)| part.iter().copied()).collect()
                    };
                    (0..1_usize << parts.len()).rev().map(chosen).collect()
                }
                Ast::GroupingSets(lists) => several(self, &mut keys, lists)?,
                Ast::Tuple(list) if list.is_empty() => vec![Vec::new()],
                ast => {
                    let key = read(self, &mut keys, ast)?;
                    for set in &mut sets {
                        set.push(key);
                    }
                    continue;
                }
            };
            grouping_sets = true;
            if sets.len() * choices.len() > MAX_SETS {
                return Err(too_many(place(ast)));
            }
            let joined = |set: &Vec<usize>| {
                let set = set.clone();
                choices.iter().map(move |choice| [set.as_slice(), choice].concat())
            };
            sets = sets.iter().flat_map(joined).collect();
        }
        match modifiers.as_slice() {
            [] => {}
            // MySQL's spelling of the same.
            [GroupByWithModifier::Rollup] if !grouping_sets && !asts.is_empty() => {
                grouping_sets = true;
                let all = sets.pop().unwrap_or_default();
                sets = (0..=all.len()).rev().map(|n| all.iter().take(n).copied().collect()).collect();
            }
            _ => return Err(unsupported("this modifier of GROUP BY", None, None)),
        }
        keys.sets = grouping_sets.then_some(sets);
        Ok(keys)
    }

    fn key(&mut self, keys: &mut Keys, value: Typed, at: Option<Position>) -> Result<usize> {
        if !value.ty.is_groupable() {
            return Err(invalid(format!("GROUP BY cannot group values of type {}", value.ty), at));
        }
        let expr = plan_column(value).expr;
        if let Some(known) = keys.keys.iter().position(|key| key.expr == expr) {
            return Ok(known);
        }
        keys.keys.push(Key { expr, column: self.fresh() });
        Ok(keys.keys.len() - 1)
    }
}

/// Computes the subqueries in expressions below them, as columns: the engine makes joins of subqueries in
/// filters and select lists, and of no others.
fn below<'e>(
    builder: LogicalPlanBuilder,
    exprs: impl Iterator<Item = &'e mut Expr>,
    prefix: &str,
) -> Result<LogicalPlanBuilder> {
    let mut subqueries: Vec<(Expr, String)> = Vec::new();
    for expr in exprs {
        let rewritten = std::mem::take(expr).transform_down(|part| {
            if !matches!(part, Expr::ScalarSubquery(_)) {
                return Ok(Transformed::no(part));
            }
            let name = match subqueries.iter().find(|(known, _)| *known == part) {
                Some((_, name)) => name.clone(),
                None => {
                    let name = format!("{prefix}_{}", subqueries.len());
                    subqueries.push((part, name.clone()));
                    name
                }
            };
            Ok(Transformed::new(col(Column::new_unqualified(name)), true, TreeNodeRecursion::Jump))
        });
        *expr = rewritten.planned()?.data;
    }
    if subqueries.is_empty() {
        return Ok(builder);
    }
    let mut columns: Vec<Expr> = builder.schema().columns().into_iter().map(Expr::Column).collect();
    columns.extend(subqueries.into_iter().map(|(subquery, name)| subquery.alias(name)));
    builder.project(columns).planned()
}

fn too_many(at: Option<Position>) -> Failure {
    fail(Code::LimitExceeded, format!("the GROUP BY makes more than {MAX_SETS} grouping sets"), at)
}

/// An aggregation: its keys and calls.
pub(super) struct Grouped<'l> {
    pub(super) keys: Keys,
    pub(super) calls: &'l Calls,
    pub(super) labels: &'l HashMap<String, String>,
}

impl Grouped<'_> {
    /// The aggregation. What is computed below it is called by `prefix` and a number.
    pub(super) fn plan(&self, builder: LogicalPlanBuilder, prefix: &str) -> Result<LogicalPlanBuilder> {
        let mut keys: Vec<Expr> = self.keys.keys.iter().map(|key| key.expr.clone().alias(&key.column)).collect();
        let mut calls: Vec<Expr> = self.calls.aggregates.iter().map(|(name, call)| call.clone().alias(name)).collect();
        let mut builder = below(builder, keys.iter_mut().chain(&mut calls), prefix)?;
        let Some(sets) = &self.keys.sets else {
            if keys.is_empty() && calls.is_empty() {
                calls.push(count(lit(1_i64)).alias("rows"));
            }
            return builder.aggregate(keys, calls).planned();
        };
        // The engine groups sets by columns only.
        let mut columns: Vec<Expr> = builder.schema().columns().into_iter().map(Expr::Column).collect();
        columns.extend(keys);
        builder = builder.project(columns).planned()?;
        let column = |key: &usize| {
            let key = self.keys.keys.get(*key);
            col(Column::new_unqualified(key.map_or_else(String::new, |key| key.column.clone())))
        };
        let sets = sets.iter().map(|set| set.iter().map(column).collect()).collect();
        builder.aggregate([Expr::GroupingSet(GroupingSet::GroupingSets(sets))], calls).planned()
    }

    /// An expression over the rows, rewritten over the groups.
    pub(super) fn over(&self, expr: Expr, at: Option<Position>) -> Result<Expr> {
        let mut stray: Option<String> = None;
        let mut no_key = false;
        let rewritten = expr
            .transform_down(|part| {
                let literal = matches!(part, Expr::Literal(..));
                if let Some(key) = self.keys.keys.iter().find(|key| !literal && key.expr == part) {
                    let column = col(Column::new_unqualified(&key.column));
                    return Ok(Transformed::new(column, true, TreeNodeRecursion::Jump));
                }
                let part = match part {
                    Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(self.over_groups(subquery, &mut stray)?),
                    Expr::Exists(exists) => {
                        let subquery = self.over_groups(exists.subquery, &mut stray)?;
                        Expr::Exists(Exists { subquery, ..exists })
                    }
                    Expr::InSubquery(within) => {
                        let subquery = self.over_groups(within.subquery, &mut stray)?;
                        Expr::InSubquery(InSubquery { subquery, ..within })
                    }
                    part => part,
                };
                if let Expr::Column(column) = &part {
                    if let Some((_, asked)) = self.calls.groupings.iter().find(|(name, _)| *name == column.name) {
                        let bit = self.rolled_up(asked);
                        no_key |= bit.is_none();
                        return Ok(Transformed::new(bit.unwrap_or_else(|| lit(0_i64)), true, TreeNodeRecursion::Jump));
                    }
                    if !self.calls.carries(&column.name) {
                        stray = Some(column.name.clone());
                    }
                }
                Ok(Transformed::yes(part))
            })
            .planned()?
            .data;
        if no_key {
            return Err(invalid("GROUPING takes one of the GROUP BY keys", at));
        }
        match stray {
            None => Ok(rewritten),
            Some(column) => {
                let name = self.labels.get(&column).map_or("a column", String::as_str);
                let message = format!(
                    "{name} is neither grouped nor aggregated; add it to GROUP BY or wrap it, e.g. ANY_VALUE({name})"
                );
                Err(fail(Code::InvalidQuery, message, at).about(name))
            }
        }
    }

    /// A subquery that reads the row, which is a group now: of its columns it has the keys.
    fn over_groups(&self, subquery: Subquery, stray: &mut Option<String>) -> datafusion::common::Result<Subquery> {
        if subquery.outer_ref_columns.is_empty() {
            return Ok(subquery);
        }
        let plan = subquery.subquery.as_ref().clone().transform_up_with_subqueries(|node| {
            node.map_expressions(|expr| {
                expr.transform(|part| {
                    let Expr::OuterReferenceColumn(field, column) = part else { return Ok(Transformed::no(part)) };
                    let of_row = Expr::Column(column.clone());
                    let column = match self.keys.keys.iter().find(|key| key.expr == of_row) {
                        Some(key) => Column::new_unqualified(&key.column),
                        None => {
                            if self.labels.contains_key(&column.name) && !self.calls.carries(&column.name) {
                                *stray = Some(column.name.clone());
                            }
                            column
                        }
                    };
                    Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
                })
            })
        })?;
        let outer_ref_columns = plan.data.all_out_ref_exprs();
        Ok(Subquery { subquery: Arc::new(plan.data), outer_ref_columns, spans: subquery.spans })
    }

    /// Whether a key is rolled up in the group at hand, as 0 or 1. The engine numbers the sets by
    /// a bit for each column, in the order in which the sets name them, the last the lowest.
    fn rolled_up(&self, asked: &Expr) -> Option<Expr> {
        let key = self.keys.keys.iter().position(|key| key.expr == *asked)?;
        let Some(sets) = &self.keys.sets else { return Some(lit(0_i64)) };
        let mut named: Vec<usize> = Vec::new();
        for key in sets.iter().flatten() {
            if !named.contains(key) {
                named.push(*key);
            }
        }
        // A key that no set has is always rolled up.
        let Some(place) = named.iter().position(|known| *known == key) else { return Some(lit(1_i64)) };
        let bit = i64::try_from(named.len() - 1 - place).ok()?;
        let id = cast(col(Column::new_unqualified(Aggregate::INTERNAL_GROUPING_ID)), DataType::Int64);
        Some(datafusion::logical_expr::bitwise_and(
            datafusion::logical_expr::bitwise_shift_right(id, lit(bit)),
            lit(1_i64),
        ))
    }
}
