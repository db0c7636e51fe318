//! The state of one resolution, and the one call that goes upwards: from an expression to the query within it.

use std::collections::{HashMap, HashSet};

use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use sqlparser::ast::Query;
use tidegate_functions::context::planning;
use tidegate_model::{Arguments, Code, Position, TextLimits};

use super::environment::Environment;
use super::remarks::Remarks;
use super::resolved::{Order, Resolved};
use super::scope::{Scope, ScopeColumn};
use super::unfolded::Unfolded;
use crate::fail::{Result, fail};
use crate::typed::{Digits, Typed};
use crate::types::Type;

/// How a query is resolved within `environment`; `parent` is the scope of the query around it, which a correlated
/// subquery reads.
pub(super) type ResolveQuery =
    fn(&mut Resolver<'_>, &Query, &Environment<'_>, parent: Option<&Scope<'_>>, Order) -> Result<Resolved>;

/// The state of one resolution.
pub(super) struct Resolver<'a> {
    /// What the layer of queries does for a subquery of an expression. Expressions lie below queries and hold
    /// them all the same, so they get it as a value.
    pub(super) resolve_query: ResolveQuery,
    pub(super) arguments: &'a Arguments,
    /// The time of the request in microseconds: every CURRENT_TIMESTAMP of a statement is the same.
    pub(super) now: i64,
    /// How many conditions of CASE and IF are around the expression that is resolved.
    pub(super) conditions: usize,
    pub(super) remarks: Remarks,
    /// Whether a subquery reads a row of a query around it.
    pub(super) correlated: bool,
    /// Whether a subquery stands in an arm that may not be taken.
    pub(super) subqueries_in_arms: bool,
    /// What plan columns are called in the text, for messages.
    pub(super) labels: HashMap<String, String>,
    /// Names that stand for items of a select list which are keys of grouping sets, and what these compute.
    pub(super) named_keys: HashMap<String, Expr>,
    /// Plan columns of text that come from log records as they are: they may hold any kind of value.
    paths: HashSet<String>,
    /// Plan columns of a FLOAT64 that stands in the text as a number, and its digits.
    digits: HashMap<String, Digits>,
    /// What expressions became so far.
    pub(super) unfolded: Unfolded,
    /// How many windows were computed so far.
    pub(super) windows: usize,
    next_column: usize,
    relations: usize,
    max_relations: usize,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(
        resolve_query: ResolveQuery,
        arguments: &'a Arguments,
        now: i64,
        limits: &TextLimits,
        remarks: Remarks,
    ) -> Self {
        Self {
            resolve_query,
            arguments,
            now,
            conditions: 0,
            remarks,
            correlated: false,
            subqueries_in_arms: false,
            labels: HashMap::new(),
            named_keys: HashMap::new(),
            paths: HashSet::new(),
            digits: HashMap::new(),
            unfolded: Unfolded::default(),
            windows: 0,
            next_column: 0,
            relations: 0,
            max_relations: limits.relations,
        }
    }

    /// A name for a plan column that no other has.
    pub(super) fn fresh(&mut self) -> String {
        planning::charge(planning::COLUMN);
        self.next_column += 1;
        format!("c{}", self.next_column)
    }

    /// Remembers what plan columns are called in the text.
    pub(super) fn label(&mut self, columns: &[ScopeColumn]) {
        for column in columns {
            if let Expr::Column(Column { name, .. }) = &column.value.expr {
                self.labels.insert(name.clone(), column.name.clone());
            }
        }
    }

    /// Remembers that a column of text is a path of log records, whose values may be of any kind.
    pub(super) fn note_path(&mut self, value: &Typed) {
        if let (Expr::Column(column), Type::String) = (&value.expr, &value.ty) {
            self.note_path_column(&column.name);
        }
    }

    /// The same of the plan column with this name.
    pub(super) fn note_path_column(&mut self, name: &str) {
        self.paths.insert(name.to_owned());
    }

    /// Whether a plan column is such a path.
    pub(super) fn is_path_column(&self, column: &Column) -> bool {
        self.paths.contains(&column.name)
    }

    /// Remembers that a plan column is a number that stands in the text.
    pub(super) fn note_digits(&mut self, name: &str, value: &Typed) {
        if let Some(digits) = &value.digits {
            self.digits.insert(name.to_owned(), digits.clone());
        }
    }

    /// The digits of the number in the text that a plan column is.
    pub(super) fn digits_of(&self, column: &Column) -> Option<Digits> {
        self.digits.get(&column.name).cloned()
    }

    /// How many tables and subqueries were counted so far.
    pub(super) fn relations(&self) -> usize {
        self.relations
    }

    /// Counts a table or subquery.
    ///
    /// # Errors
    /// If there are too many, or the statement is stopped or too large.
    pub(super) fn count_relation(&mut self, at: Option<Position>) -> Result<()> {
        self.count_relations(1, at)
    }

    /// Counts several.
    ///
    /// # Errors
    /// As [`Resolver::count_relation`].
    pub(super) fn count_relations(&mut self, count: usize, at: Option<Position>) -> Result<()> {
        planning::check()?;
        self.relations += count;
        if self.relations > self.max_relations {
            let message = format!("the statement uses more than {} tables and subqueries", self.max_relations);
            return Err(fail(Code::LimitExceeded, message, at));
        }
        Ok(())
    }
}
