//! The plan of an aggregation, and what expressions over rows become over groups.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef};
use datafusion::functions_aggregate::expr_fn::{count, min};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::logical_plan::{Aggregate, Subquery};
use datafusion::logical_expr::{
    Expr, GroupingSet, LogicalPlanBuilder, bitwise_and, bitwise_shift_right, cast, col, lit,
};
use tidegate_model::{Code, Position};

use super::distinct_key::distinct_key;
use super::group_keys::{Key, Keys};
use crate::exprs::is_subquery;
use crate::fail::{Planning, Result, fail, invalid};
use crate::resolve::calls::Calls;
use crate::typed::Typed;
use crate::types::Type;

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
            if !is_subquery(&part) {
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

/// Whether an expression is a column that stands for the key.
fn is_name(key: &Key, expr: &Expr) -> bool {
    matches!(expr, Expr::Column(column) if key.names.contains(&column.name))
}

/// An aggregation: its keys and calls.
pub(super) struct Grouped<'l> {
    pub(super) keys: Keys,
    pub(super) calls: &'l Calls,
    pub(super) labels: &'l HashMap<String, String>,
    /// The columns of the rows.
    pub(super) rows: DFSchemaRef,
}

impl Grouped<'_> {
    /// The plan of the aggregation. Columns that are computed below it are named by `prefix` and a number.
    pub(super) fn plan(&self, builder: LogicalPlanBuilder, prefix: &str) -> Result<LogicalPlanBuilder> {
        let grouped = |key: &Key| {
            let value = Typed::new(key.expr.clone(), key.ty.clone());
            distinct_key(value, builder.plan()).alias(&key.column)
        };
        let mut keys: Vec<Expr> = self.keys.keys.iter().map(grouped).collect();
        let shown = self.shown_intervals(&mut keys);
        let mut calls: Vec<Expr> = self.calls.aggregates.iter().map(|(name, call)| call.clone().alias(name)).collect();
        calls.extend(shown);
        let mut builder = below(builder, keys.iter_mut().chain(&mut calls), prefix)?;
        let Some(sets) = &self.keys.sets else {
            if keys.is_empty() && calls.is_empty() {
                calls.push(count(lit(1_i64)).alias("rows"));
            }
            return builder.aggregate(keys, calls).planned();
        };
        // The engine takes nothing but columns in grouping sets.
        let mut columns: Vec<Expr> = builder.schema().columns().into_iter().map(Expr::Column).collect();
        columns.extend(keys);
        builder = builder.project(columns).planned()?;
        let column = |key: &usize| {
            let key = self.keys.keys.get(*key);
            col(Column::new_unqualified(key.map_or_else(String::new, |key| key.column.clone())))
        };
        let no_keys = sets.iter().any(Vec::is_empty) && !self.keys.is_empty();
        let sets = sets.iter().map(|set| set.iter().map(column).collect()).collect();
        let rows = format!("{prefix}_rows");
        if no_keys {
            calls.push(count(lit(1_i64)).alias(&rows));
        }
        builder = builder.aggregate([Expr::GroupingSet(GroupingSet::GroupingSets(sets))], calls).planned()?;
        if no_keys {
            // Of no rows the engine makes a group for the set without keys; to the language they have none.
            builder = builder.filter(col(Column::new_unqualified(rows)).gt(lit(0_i64))).planned()?;
        }
        Ok(builder)
    }

    /// Of a group of INTERVALs, which are equal in different forms, one is shown: what computes it takes the name of the key.
    /// Where keys are rolled up, the form of the key is shown.
    fn shown_intervals(&self, keys: &mut [Expr]) -> Vec<Expr> {
        let is_shown = |key: &Key| key.ty == Type::Interval && self.keys.sets.is_none();
        let intervals = self.keys.keys.iter().zip(keys).filter(|(key, _)| is_shown(key));
        intervals
            .map(|(key, grouped)| {
                *grouped = grouped.clone().unalias().alias(format!("{}_key", key.column));
                min(key.expr.clone()).alias(&key.column)
            })
            .collect()
    }

    /// An expression over the rows, rewritten over the groups.
    pub(super) fn over(&self, expr: Expr, at: Option<Position>) -> Result<Expr> {
        let mut stray: Option<String> = None;
        let mut no_key = false;
        let rewritten = expr
            .transform_down(|part| {
                let literal = matches!(part, Expr::Literal(..));
                let is =
                    |key: &&Key| is_name(key, &part) || !literal && key.expr == part && !self.follows_from_keys(key);
                if let Some(key) = self.keys.keys.iter().find(is) {
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

    /// Whether a key of grouping sets is computed of other keys, as in `ROLLUP(a, a + 1)`: then it is computed of their values
    /// in the group, also in the sets without it.
    fn follows_from_keys(&self, key: &Key) -> bool {
        if self.keys.sets.is_none() {
            return false;
        }
        let (mut of_keys, mut of_rows) = (false, false);
        // The closure never fails, so neither does the walk.
        let _ = key.expr.apply(|part| {
            let is_key = *part != key.expr && self.keys.keys.iter().any(|other| other.expr == *part);
            if is_key && !matches!(part, Expr::Literal(..)) {
                of_keys = true;
                return Ok(TreeNodeRecursion::Jump);
            }
            of_rows |= matches!(part, Expr::Column(_));
            Ok(TreeNodeRecursion::Continue)
        });
        of_keys && !of_rows
    }

    /// A correlated subquery over a group instead of a row: it can read the keys of the group only.
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
                            if self.rows.has_column_with_unqualified_name(&column.name) {
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

    /// Whether a key is rolled up in a group, as 0 or 1; `None` if `asked` is no key. The engine's grouping id has a bit for
    /// each column, in the order in which the sets name the columns, the last one the lowest.
    fn rolled_up(&self, asked: &Expr) -> Option<Expr> {
        let key = self.keys.keys.iter().position(|key| key.expr == *asked || is_name(key, asked))?;
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
        Some(bitwise_and(bitwise_shift_right(id, lit(bit)), lit(1_i64)))
    }
}
