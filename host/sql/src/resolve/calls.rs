//! The aggregate and window calls of one SELECT: collected while its expressions are resolved,
//! computed below them in the plan, and seen by the expressions as columns.

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, col};

use crate::exprs::any;

/// The calls of one SELECT, each with the plan column that carries its result.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Aggregate calls over the rows.
    pub(super) aggregates: Vec<(String, Expr)>,
    /// Window calls over the rows or, in a grouped SELECT, over the groups.
    pub(super) windows: Vec<(String, Expr)>,
    /// `GROUPING(key)`: the key that each asks about.
    pub(super) groupings: Vec<(String, Expr)>,
}

impl Calls {
    /// Whether an expression needs the result of an aggregation.
    pub(super) fn aggregated(&self, expr: &Expr) -> bool {
        uses(expr, &self.aggregates)
            || uses(expr, &self.groupings)
            || self.windows.iter().any(|(name, call)| names(expr, name) && self.aggregated(call))
    }

    /// Whether an expression needs the result of a window call.
    pub(super) fn windowed(&self, expr: &Expr) -> bool {
        uses(expr, &self.windows)
    }

    /// Whether a plan column carries the result of a call.
    pub(super) fn carries(&self, column: &str) -> bool {
        let lists = [&self.aggregates, &self.windows, &self.groupings];
        lists.iter().any(|calls| calls.iter().any(|(name, _)| name == column))
    }
}

/// The column that carries a call's result; equal calls share one. `fresh` is its name if the
/// call is new.
pub(super) fn carried(calls: &mut Vec<(String, Expr)>, call: Expr, fresh: String) -> Expr {
    let name = match calls.iter().find(|(_, known)| *known == call) {
        Some((name, _)) => name.clone(),
        None => {
            calls.push((fresh.clone(), call));
            fresh
        }
    };
    col(Column::new_unqualified(name))
}

fn uses(expr: &Expr, calls: &[(String, Expr)]) -> bool {
    calls.iter().any(|(name, _)| names(expr, name))
}

fn names(expr: &Expr, column: &str) -> bool {
    any(expr, |part| matches!(part, Expr::Column(c) if c.name == column))
}
