//! Whether a piece of a query aggregates by itself, not in a subquery.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr as Ast, Query, Visit, Visitor};

use crate::resolve::expr::is_aggregate;

/// Whether a piece calls an aggregate function outside of its subqueries.
pub(super) fn aggregates(piece: &impl Visit) -> bool {
    piece.visit(&mut OwnCalls { subqueries: 0 }).is_break()
}

struct OwnCalls {
    subqueries: usize,
}

impl Visitor for OwnCalls {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Ast) -> ControlFlow<()> {
        let Ast::Function(call) = expr else { return ControlFlow::Continue(()) };
        if self.subqueries == 0 && is_aggregate(call) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}
