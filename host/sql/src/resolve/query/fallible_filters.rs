//! Conditions of a WHERE that may fail are computed only for the rows that the other conditions keep.
//!
//! `WHERE STARTS_WITH(line, 'took ') AND CAST(SUBSTR(line, 6) AS INT64) > 5` promises no order, and the engine computes
//! both for all rows of a batch. But authors mean the first to protect the second.

use std::collections::HashSet;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, cast, lit, when};

use crate::barrier::expr_may_fail;
use crate::exprs::reads_beyond;
use crate::fail::{Planning, Result};
use crate::resolve::scope::{Relation, Scope};

/// The most conditions that may fail and are ordered: each is nested in the one before.
const MOST: usize = 32;

/// A condition over the rows of a plan that keeps the same rows and fails on fewer.
///
/// # Errors
/// If the engine does not take an expression, which is a bug.
pub(super) fn guarded(condition: Expr, scope: &Scope<'_>, plan: &LogicalPlan) -> Result<Expr> {
    let tables_of = |expr: &Expr| tables_of(expr, scope, plan);
    let mut fail = Vec::new();
    let mut safe = Vec::new();
    for part in split_conjunction_owned(condition.clone()) {
        // The engine makes joins of some conditions, which stay as they are: those with subqueries, those that read
        // the outer row, and those that read several tables.
        let list =
            if !reads_beyond(&part) && tables_of(&part).len() < 2 && expr_may_fail(&part, plan.schema()).planned()? {
                &mut fail
            } else {
                &mut safe
            };
        list.push(part);
    }
    if fail.is_empty() || fail.len() > MOST || safe.len() + fail.len() < 2 {
        return Ok(condition);
    }
    let mut all = safe.clone();
    for (tables, parts) in by_tables(fail, tables_of) {
        // A condition on another table would keep these from being computed before the join.
        let beside = |part: &&Expr| !reads_beyond(part) && tables_of(part).iter().all(|table| tables.contains(table));
        let before = conjunction(safe.iter().filter(beside).cloned());
        let parts: Vec<Expr> = before.into_iter().chain(parts).collect();
        let Some((last, parts)) = parts.split_last() else { continue };
        // As numbers, because the optimizer turns nested CASEs of conditions into an AND again.
        let mut kept = cast(last.clone(), DataType::Int64);
        for part in parts.iter().rev() {
            kept = when(part.clone(), kept).otherwise(lit(0_i64)).planned()?;
        }
        all.push(if parts.is_empty() { last.clone() } else { kept.eq(lit(1_i64)) });
    }
    Ok(conjunction(all).unwrap_or(condition))
}

/// The conditions, grouped by the tables that they read.
fn by_tables(parts: Vec<Expr>, tables_of: impl Fn(&Expr) -> Vec<usize>) -> Vec<(Vec<usize>, Vec<Expr>)> {
    let mut groups: Vec<(Vec<usize>, Vec<Expr>)> = Vec::new();
    for part in parts {
        let tables = tables_of(&part);
        match groups.iter_mut().find(|(known, _)| *known == tables) {
            Some((_, parts)) => parts.push(part),
            None => groups.push((tables, vec![part])),
        }
    }
    groups
}

/// The tables of a FROM that an expression reads, by their indices: those that are joined last below the rows. Columns that
/// pipe operators compute above that join are of the tables that these read. A column that several tables have, as
/// USING and pipes make them, is that of the last.
fn tables_of(expr: &Expr, scope: &Scope<'_>, plan: &LogicalPlan) -> Vec<usize> {
    let home = |column: &Column| {
        let has = |relation: &Relation| match relation {
            Relation::Table { columns: own, .. } => {
                own.iter().any(|own| matches!(&own.value.expr, Expr::Column(own) if own == column))
            }
            Relation::Element { .. } => false,
        };
        scope.relations.iter().rposition(has)
    };
    let mut tables: Vec<usize> = read_below(expr, plan).iter().filter_map(home).collect();
    tables.sort_unstable();
    tables.dedup();
    tables
}

/// The columns that an expression over a plan reads of what is below the operators of single tables.
fn read_below(expr: &Expr, plan: &LogicalPlan) -> HashSet<Column> {
    let mut read: HashSet<Column> = expr.column_refs().into_iter().cloned().collect();
    let mut node = plan;
    loop {
        node = match node {
            LogicalPlan::Projection(projection) => {
                let places = read.iter().filter_map(|column| projection.schema.maybe_index_of_column(column));
                let computed = places.filter_map(|place| projection.expr.get(place));
                read = computed.flat_map(Expr::column_refs).cloned().collect();
                &projection.input
            }
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Limit(limit) => &limit.input,
            _ => return read,
        };
    }
}
