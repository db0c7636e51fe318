//! The names in a piece of a query: tables and parameters.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use sqlparser::ast::{Cte, Expr, ObjectName, Visit, Visitor};

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

/// The CTEs of a WITH RECURSIVE, each after those that it reads. Those that read each other in a circle stay in the order of the
/// text; names of CTEs within them count as well.
pub(crate) fn by_dependency(ctes: Vec<Arc<Cte>>) -> Vec<Arc<Cte>> {
    let name = |cte: &Cte| cte.alias.name.value.to_lowercase();
    let names: HashSet<String> = ctes.iter().map(|cte| name(cte)).collect();
    let mut open: Vec<(Arc<Cte>, BTreeSet<String>)> = Vec::with_capacity(ctes.len());
    for cte in ctes {
        let mut read = PieceNames::within(cte.query.as_ref()).tables;
        read.retain(|table| names.contains(table) && *table != name(&cte));
        open.push((cte, read));
    }
    let mut placed = Vec::with_capacity(open.len());
    let mut known: HashSet<String> = HashSet::new();
    while !open.is_empty() {
        let before = open.len();
        let mut later = Vec::new();
        for (cte, read) in open {
            if read.iter().all(|table| known.contains(table)) {
                known.insert(name(&cte));
                placed.push(cte);
            } else {
                later.push((cte, read));
            }
        }
        open = later;
        if open.len() == before {
            placed.extend(open.into_iter().map(|(cte, _)| cte));
            break;
        }
    }
    placed
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
