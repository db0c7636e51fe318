//! The names in a piece of a query: tables and parameters.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{Expr, ObjectName, Visit, Visitor};

use crate::text::marker_name;

/// The names in a piece of a query.
#[derive(Debug, Default)]
pub(crate) struct PieceNames {
    /// All parameters.
    pub(crate) parameters: BTreeSet<String>,
    /// The names of tables, and paths in places of tables, as they are written.
    pub(crate) written: BTreeSet<String>,
    /// The same in lower case.
    pub(crate) tables: BTreeSet<String>,
}

impl PieceNames {
    /// The names in `piece`, which is a query or a part of one.
    pub(crate) fn within(piece: &impl Visit) -> Self {
        let mut names = Self::default();
        let _ = piece.visit(&mut names);
        names
    }
}

impl Visitor for PieceNames {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Identifier(ident) = expr
            && ident.quote_style.is_none()
            && let Some(name) = ident.value.strip_prefix('@')
        {
            self.parameters.insert(name.to_owned());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if relation.0.iter().any(|part| part.as_ident().is_some_and(|ident| marker_name(ident).is_some())) {
            return ControlFlow::Continue(());
        }
        // As the resolver does: joined first, then in lower case, which depends on the neighbouring characters.
        let parts = relation.0.iter().filter_map(|part| part.as_ident()).map(|ident| ident.value.as_str());
        let written = parts.collect::<Vec<_>>().join(".");
        self.tables.insert(written.to_lowercase());
        self.written.insert(written);
        ControlFlow::Continue(())
    }
}
