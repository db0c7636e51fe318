//! Rows with equal times come in the order of their arrival.
//!
//! SQL leaves it open in which order rows with equal keys come, and the engine's order depends on how they lie in segments
//! and memory. Logs have equal times all the time: lines of one request, senders whose clocks are coarse. A stored table has
//! columns that no query sees, with the place of each row in the order of commits. Wherever rows are sorted by the time of
//! a stored table, or numbered in that order, these columns become its last keys, in the direction of the time.
//!
//! The columns are carried through the plan from the table to the sort: through whatever hands rows on as they are
//! (projections, conditions, joins, UNNEST, unions, windows, limits, parts that are computed once). Groups and DISTINCT have no places: a sort above them stays
//! as it is.

mod carriers;
mod sorted;

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Expr, LogicalPlan};

use carriers::Carriers;
use sorted::{by_row, column_of};

use crate::engine::shortcuts::shared_part::all_parts;

/// How a stored table is read with the places of its rows: as a table with two more columns, the last ones, which are integers
/// and compared one after the other (NULL is before all others), and the name of its column with the time of a row.
/// `None` for a table that knows no places.
pub type Placed = fn(&dyn TableProvider) -> Option<(Arc<dyn TableProvider>, &'static str)>;

/// Knows no places.
pub(super) fn never(_: &dyn TableProvider) -> Option<(Arc<dyn TableProvider>, &'static str)> {
    None
}

/// The resolved plan with the places of rows as last keys of what is sorted by time. It takes one walk, however many sorts
/// stand above each other.
///
/// # Errors
/// If planning is to stop. No other is known: the columns that are carried have names that no other has.
pub(super) fn by_arrival(plan: LogicalPlan, placed: Placed) -> Result<LogicalPlan> {
    let mut has_any = has_times(&plan)?;
    for part in all_parts(&plan)?.values() {
        has_any = has_any || has_times(&part.input)?;
    }
    if !has_any {
        return Ok(plan);
    }
    let mut carriers = Carriers::new(placed);
    let Some(plan) = carriers.changed(&plan)? else { return Ok(plan) };
    // A table that is read several times stays one table, of which later steps know all that is read.
    let plan = plan.transform_up_with_subqueries(|node| {
        let wide = match &node {
            LogicalPlan::TableScan(scan) => carriers.wide(scan)?,
            _ => None,
        };
        Ok(wide.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    Ok(plan.data)
}

/// Whether anything is sorted by a time.
fn has_times(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        let is_time = |input: &LogicalPlan, key: &Expr| {
            let time = column_of(key, input.schema()).map(|time| input.schema().field(time).data_type());
            matches!(time, Some(DataType::Timestamp(..)))
        };
        found |= match node {
            LogicalPlan::Sort(sort) => sort.expr.iter().any(|key| is_time(&sort.input, &key.expr)),
            LogicalPlan::Window(window) => {
                let calls = window.window_expr.iter().filter_map(by_row);
                calls.flat_map(|call| &call.params.order_by).any(|key| is_time(&window.input, &key.expr))
            }
            LogicalPlan::Aggregate(aggregate) => aggregate.aggr_expr.iter().any(|call| match call.clone().unalias() {
                Expr::AggregateFunction(AggregateFunction { params, .. }) => {
                    let keys = params.order_by.iter().map(|key| &key.expr);
                    keys.chain(params.args.iter().skip(1)).any(|key| is_time(&aggregate.input, key))
                }
                _ => false,
            }),
            _ => false,
        };
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
