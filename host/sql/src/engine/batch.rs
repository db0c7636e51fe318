//! The number of rows of a batch.
//!
//! Each operator holds a few batches, whose memory is not counted, so a batch must be small. Its size is rows times
//! columns: a page of logs reads few columns, and `SELECT *` of a source with a thousand fields reads them all, most of
//! them empty. So statements over wide rows run in batches of fewer rows.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;

use super::shortcuts::narrow::leaves;
use super::shortcuts::shared_part::all_parts;
use super::shortcuts::shared_rows::SharedRows;

/// Rows of a batch, unless its columns or literals make it smaller.
pub(super) const ROWS: usize = 8192;

/// The most cells (leaf columns times rows) of a batch: 8 MiB of columns without their texts.
const CELLS: usize = 1 << 19;

/// The fewest rows of a batch, however wide: below that, what a batch costs by itself exceeds what its rows cost.
const LEAST_ROWS: usize = 64;

/// The most bytes of a literal in a batch, which has a copy of it for each row.
const LITERAL_BYTES: usize = 32 << 20;

/// How many rows a batch of the statement has.
pub(super) fn rows(logical: &LogicalPlan, physical: &Arc<dyn ExecutionPlan>) -> usize {
    // The closure never fails, so neither does the walk.
    let parts = all_parts(logical).unwrap_or_default();
    let longest = parts.values().map(|part| longest_literal(&part.input)).max().unwrap_or(0);
    let by_literals = LITERAL_BYTES.checked_div(longest.max(longest_literal(logical))).unwrap_or(ROWS).max(1);
    rows_by_width(physical).min(by_literals)
}

/// How many rows a batch has by the width of its rows alone.
pub(super) fn rows_by_width(physical: &Arc<dyn ExecutionPlan>) -> usize {
    (CELLS / widest(physical).max(1)).clamp(LEAST_ROWS, ROWS)
}

/// The leaf columns of the widest rows that any of the operators makes.
fn widest(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let mut widest = 0;
    let (mut plans, mut parts) = (vec![Arc::clone(plan)], HashSet::new());
    while let Some(plan) = plans.pop() {
        // The closure never fails, so neither does the walk.
        let _ = plan.apply(|operator| {
            let own = operator.schema().fields().iter().map(|field| leaves(field.data_type())).sum();
            widest = widest.max(own);
            if let Some(shared) = operator.downcast_ref::<SharedRows>()
                && parts.insert(shared.place().part)
            {
                plans.push(Arc::clone(shared.input()));
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    widest
}

fn longest_literal(plan: &LogicalPlan) -> usize {
    let mut longest = 0;
    // The closures never fail, so neither do the walks.
    let _ = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::Literal(value, _) = part {
                    longest = longest.max(value.size());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    longest
}
