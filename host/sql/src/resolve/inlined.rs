//! Bounds what conditions unfold to.
//!
//! The engine moves a condition below what computes its columns, by setting what computes them in their place. Where each
//! of forty levels reads the column below it twice, the condition would have 2^40 parts, and take all memory.

use std::collections::HashMap;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::logical_expr::{Expr, LogicalPlan};
use tidegate_model::{Code, Failure};

use crate::fail::{Planning, Result};

/// The parts to which the columns of a condition may unfold.
const MOST: usize = 16_384;

/// The parts to which columns unfold, by their names, which are unique in a plan; those that are not here are one.
type Weights = HashMap<String, usize>;

/// Refuses a plan with a condition that unfolds to too much.
///
/// # Errors
/// If there is one.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    let mut scale = Scale::default();
    plan.visit_with_subqueries(&mut scale).planned()?;
    if scale.heaviest <= MOST {
        return Ok(());
    }
    let message = "a condition is on a value that is computed in many steps, each of which uses the one before several times; \
                   put the condition before these steps, or use fewer";
    Err(Failure::new(Code::TooLarge, message))
}

/// What the columns of a plan weigh, from below, and its heaviest condition.
#[derive(Default)]
struct Scale {
    weights: Weights,
    heaviest: usize,
}

impl TreeNodeVisitor<'_> for Scale {
    type Node = LogicalPlan;

    fn f_up(&mut self, node: &LogicalPlan) -> datafusion::error::Result<TreeNodeRecursion> {
        let (computed, condition) = match node {
            LogicalPlan::Projection(projection) => (projection.expr.as_slice(), None),
            LogicalPlan::Aggregate(aggregate) => (aggregate.group_expr.as_slice(), None),
            LogicalPlan::Filter(filter) => (&[][..], Some(&filter.predicate)),
            LogicalPlan::Join(join) => (&[][..], join.filter.as_ref()),
            _ => (&[][..], None),
        };
        for expr in computed {
            if let Expr::Alias(alias) = expr {
                let weight = weight(&alias.expr, &self.weights).saturating_add(1);
                self.weights
                    .entry(alias.name.clone())
                    .and_modify(|known| *known = weight.max(*known))
                    .or_insert(weight);
            }
        }
        if let Some(condition) = condition {
            self.heaviest = weight(condition, &self.weights).max(self.heaviest);
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

/// The parts to which the columns of an expression unfold.
fn weight(expr: &Expr, weights: &Weights) -> usize {
    let mut sum = 0_usize;
    // The closure never fails, so neither does the walk.
    let _ = expr.apply(|part| {
        if let Expr::Column(column) = part {
            sum = sum.saturating_add(weights.get(&column.name).copied().unwrap_or(1));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    sum
}
