//! The tables that a name can mean at a place of a text: CTEs, grants and sources.
//!
//! An environment belongs to a place in a text, not to the moment at which that text is resolved: each CTE keeps
//! the environment in which it was written, and a saved query that is read as a table has an environment of its
//! own sources. So nothing has to be restored when a text ends.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use sqlparser::ast::Cte;

use super::resolved::{Order, Output, Row};
use crate::catalog::Sources;

/// The tables that are visible at a place.
#[derive(Clone, Default)]
pub(super) struct Environment<'e> {
    /// The CTEs, innermost first.
    frame: Option<Arc<Frame<'e>>>,
    /// What table names mean that no CTE has; `None` where a text may read granted tables only.
    pub(super) sources: Option<&'e dyn Sources>,
    /// The endpoints in whose saved queries the place is, outermost first.
    pub(super) endpoints: Arc<[String]>,
}

struct Frame<'e> {
    tables: HashMap<String, Visible<'e>>,
    parent: Environment<'e>,
}

/// A CTE and the environment of its own text: the CTEs before it, never its own rows.
#[derive(Clone)]
pub(super) struct Visible<'e> {
    pub(super) cte: Arc<Cte>,
    pub(super) environment: Environment<'e>,
    /// The name as it was written, for messages.
    pub(super) name: String,
    pub(super) meaning: Meaning,
    /// The plans of the CTE so far: one for each [`Order`] in which it is read. A CTE that nothing reads is
    /// resolved once too, so that mistakes in it are reported.
    pub(super) unfolded: Arc<Mutex<Vec<Unfolded>>>,
}

/// What the name of a CTE means at a place.
#[derive(Debug, Clone)]
pub(super) enum Meaning {
    /// Its rows.
    Query,
    /// The same of a CTE of WITH RECURSIVE, which may read itself.
    Recursive,
    /// Nothing yet: the place is in the text of the CTE itself, or of one that it reads.
    Pending,
    /// The rows of the round before, in the last query of its UNION.
    Itself(Arc<WorkRows>),
}

/// The rows that a recursive CTE reads of itself.
#[derive(Debug)]
pub(super) struct WorkRows {
    /// The name of the table that stands for them.
    pub(super) table: String,
    pub(super) schema: SchemaRef,
    pub(super) columns: Vec<Output>,
    pub(super) row: Row,
    /// The column that is true in the row that is none of them and only begins the first round, if there is one.
    pub(super) begins: Option<String>,
    /// How many places read them.
    pub(super) readers: AtomicUsize,
}

/// A CTE's plan, which each place that reads it has under column names of its own.
#[derive(Debug, Clone)]
pub(super) struct Unfolded {
    pub(super) order: Order,
    pub(super) plan: Arc<LogicalPlan>,
    /// The same with a security barrier above it, for readers that are granted the CTE as a table.
    pub(super) above_barrier: Arc<LogicalPlan>,
    pub(super) columns: Vec<Output>,
    pub(super) row: Row,
    /// How many relations each copy counts as, and how many bytes of plan.
    pub(super) relations: usize,
    pub(super) bytes: usize,
}

impl<'e> Environment<'e> {
    /// The environment of a text that reads these sources, and no CTEs yet.
    pub(super) fn over(sources: &'e dyn Sources) -> Self {
        Self { sources: Some(sources), ..Self::default() }
    }

    /// The environment of the saved query of an endpoint, which is read from this one and over other sources.
    pub(super) fn of_endpoint<'s>(&self, name: &str, sources: &'s dyn Sources) -> Environment<'s> {
        let endpoints = self.endpoints.iter().cloned().chain([name.to_owned()]).collect();
        Environment { frame: None, sources: Some(sources), endpoints }
    }

    /// The same CTEs for a text that sees no sources.
    pub(super) fn without_sources(self) -> Self {
        Self { sources: None, ..self }
    }

    /// The environment with the CTEs of a WITH clause, each seeing those before it. The names of a `recursive` one hide what
    /// is outside from all of its CTEs, themselves included.
    pub(super) fn with(&self, ctes: &[Arc<Cte>], recursive: bool) -> Self {
        let mut environment = self.clone();
        if recursive {
            let hidden = ctes.iter().map(|cte| environment.visible(cte, Meaning::Pending)).collect();
            environment = environment.under(hidden);
        }
        for cte in ctes {
            let meaning = if recursive { Meaning::Recursive } else { Meaning::Query };
            let visible = environment.visible(cte, meaning);
            environment = environment.under(vec![visible]);
        }
        environment
    }

    /// The environment in which a CTE reads its own rows of the round before.
    pub(super) fn with_itself(&self, cte: &Arc<Cte>, rows: &Arc<WorkRows>) -> Self {
        self.under(vec![self.visible(cte, Meaning::Itself(Arc::clone(rows)))])
    }

    fn visible(&self, cte: &Arc<Cte>, meaning: Meaning) -> Visible<'e> {
        let name = cte.alias.name.value.clone();
        Visible { cte: Arc::clone(cte), environment: self.clone(), name, meaning, unfolded: Arc::default() }
    }

    fn under(&self, visible: Vec<Visible<'e>>) -> Self {
        let tables = visible.into_iter().map(|visible| (visible.name.to_lowercase(), visible)).collect();
        Self { frame: Some(Arc::new(Frame { tables, parent: self.clone() })), ..self.clone() }
    }

    /// The CTE of a name, in any case.
    pub(super) fn find(&self, name: &str) -> Option<Visible<'e>> {
        let name = name.to_lowercase();
        let mut environment = self;
        while let Some(frame) = &environment.frame {
            if let Some(visible) = frame.tables.get(&name) {
                return Some(visible.clone());
            }
            environment = &frame.parent;
        }
        None
    }

    /// The names of all CTEs, outermost first.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut environment = self;
        while let Some(frame) = &environment.frame {
            let readable = frame.tables.values().filter(|visible| !matches!(visible.meaning, Meaning::Pending));
            names.extend(readable.map(|visible| visible.name.clone()));
            environment = &frame.parent;
        }
        names.reverse();
        names
    }
}
