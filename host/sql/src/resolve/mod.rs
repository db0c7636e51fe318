//! Syntax tree -> logical plan, in one scope-aware pass.
//!
//! Every piece of the tree is resolved exactly where it stands: a name is looked up in the
//! scopes that the dialect says are visible there, typed, and becomes an engine expression over
//! plan columns that have unique names. What comes out can be run, or is a [`Failure`] with its
//! place in the text.

mod access;
mod aggregate;
mod among;
mod calls;
mod coerce;
mod conditional;
mod constant;
mod expr;
mod from;
mod group;
mod guard;
mod literal;
mod of_row;
mod operators;
mod overflow;
mod query;
mod scope;
mod select;
mod subquery;
mod unite;
mod unnest;
mod window;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use sqlparser::ast::{Cte, Ident, Query};
use tidegate_model::{Arguments, Code, Failure, Position, TextLimits, nearest};

use crate::catalog::{SavedQuery, Sources, Tables};
use crate::engine::planning;
use crate::engine::security_barrier::above_barrier;
use crate::fail::{Planning, Result, fail, place_of};
use crate::types::Type;

pub(crate) use crate::typed::Typed;
pub(crate) use aggregate::AGGREGATES;
pub(crate) use coerce::{Conversion, compare, list_of_record, unify};
pub(crate) use constant::folded;
pub(crate) use window::WINDOW_FUNCTIONS;

/// A column of a resolved query.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// The name that the text gives it.
    pub(crate) name: String,
    /// Its unique name in the plan.
    pub(crate) column: Column,
    pub(crate) ty: Type,
}

/// What a row of a query is where the query is a value or a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    /// Its columns.
    Columns,
    /// `SELECT AS STRUCT`: a struct of its columns.
    Struct,
    /// `SELECT AS VALUE`: the value of its one column.
    Value,
}

/// A resolved query.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    pub(crate) plan: LogicalPlan,
    pub(crate) columns: Vec<Output>,
    pub(crate) row: Row,
}

/// The CTEs that are visible at a place, innermost first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    frame: Option<Arc<Frame>>,
}

#[derive(Debug)]
struct Frame {
    tables: HashMap<String, Visible>,
    parent: Environment,
}

/// A CTE and what it could see itself: the CTEs before it, never itself.
#[derive(Debug, Clone)]
pub(crate) struct Visible {
    cte: Arc<Cte>,
    environment: Environment,
    /// Whether base tables (sources) are visible inside: only for granted tables.
    sources: bool,
    /// The name as it was written, for messages.
    name: String,
    /// What it was resolved to, once for each [`query::Order`], with the number of relations that
    /// it unfolds to. A CTE that nothing reads is resolved once all the same, so that what is
    /// wrong with it is told.
    resolved: Arc<Mutex<Vec<Unfolded>>>,
}

/// A CTE as it is unfolded wherever it is used.
#[derive(Debug, Clone)]
struct Unfolded {
    order: query::Order,
    resolved: Resolved,
    /// The relations and the bytes of plan of each use.
    relations: usize,
    bytes: usize,
}

impl Environment {
    /// The environment with the CTEs of a WITH clause, each seeing those before it.
    fn with(&self, ctes: &[Arc<Cte>], sources: bool) -> Self {
        let mut environment = self.clone();
        for cte in ctes {
            let name = cte.alias.name.value.clone();
            let visible = Visible {
                cte: Arc::clone(cte),
                environment: environment.clone(),
                sources,
                name: name.clone(),
                resolved: Arc::default(),
            };
            let tables = HashMap::from([(name.to_lowercase(), visible)]);
            environment = Self { frame: Some(Arc::new(Frame { tables, parent: environment })) };
        }
        environment
    }

    fn find(&self, name: &str) -> Option<Visible> {
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

    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut environment = self;
        while let Some(frame) = &environment.frame {
            names.extend(frame.tables.values().map(|visible| visible.name.clone()));
            environment = &frame.parent;
        }
        names.reverse();
        names
    }
}

/// What is said of a name that no record ever had, with the nearest one that some had.
fn never_seen(name: &Ident, near: Option<&str>) -> Failure {
    let mut message = format!("no log has had {} so far, and it is NULL", name.value);
    if let Some(near) = near {
        message.push_str(&format!("; did you mean {near}?"));
    }
    fail(Code::UnknownColumn, message, place_of(name.span)).about(&name.value)
}

/// Names of fewer letters are near to too many others to be told as misspelt.
const SHORTEST: usize = 4;

/// The state of one resolution.
pub(crate) struct Resolver<'a> {
    sources: &'a dyn Sources,
    arguments: &'a Arguments,
    /// The time of the request: every CURRENT_TIMESTAMP of a statement is the same.
    pub(crate) now: i64,
    /// Whether base tables may be named at the place being resolved.
    sees_sources: bool,
    /// The endpoints that are being read as tables, outermost first.
    reading: Vec<String>,
    next_column: usize,
    /// In how many conditions of CASE and IF the expression at hand stands.
    deciding: usize,
    relations: usize,
    max_relations: usize,
    /// Plan columns of text that come from log records as they are: they may hold any kind of value.
    paths: HashSet<String>,
    /// What plan columns are called in the text, for messages.
    labels: HashMap<String, String>,
    /// Names that no record ever had; where anyone wants to know.
    remarks: Option<Vec<Failure>>,
    /// Whether a source was read that may have no rows yet: any name may come then.
    unseen: bool,
    /// Names that stand alone and are NULL because no record ever had them. They are told with the answer: a name
    /// behind an alias says where it is looked for, one that stands alone may be meant as a column.
    alone: Vec<Failure>,
}

/// How many such names are told.
const MOST_ALONE: usize = 8;

impl std::fmt::Debug for Resolver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("relations", &self.relations).finish_non_exhaustive()
    }
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(sources: &'a dyn Sources, arguments: &'a Arguments, now: i64, limits: &TextLimits) -> Self {
        Self {
            sources,
            arguments,
            now,
            sees_sources: false,
            reading: Vec::new(),
            next_column: 0,
            deciding: 0,
            relations: 0,
            max_relations: limits.relations,
            paths: HashSet::new(),
            labels: HashMap::new(),
            remarks: None,
            unseen: false,
            alone: Vec::new(),
        }
    }

    /// Notes from here on what [`Resolver::remarks`] gives.
    pub(crate) fn remarking(mut self) -> Self {
        self.remarks = Some(Vec::new());
        self
    }

    /// Names of the text that are NULL because no record ever had them, with the nearest one that has been seen:
    /// they may be misspelt. Of sources that have no rows yet, only those that are near to another.
    pub(crate) fn remarks(self) -> Vec<Failure> {
        self.remarks.unwrap_or_default()
    }

    /// A name that no record ever had is NULL: it may come.
    fn absent<'n>(&mut self, name: &Ident, known: impl IntoIterator<Item = &'n str>) -> Typed {
        if let Some(remarks) = &mut self.remarks
            && let near = nearest(&name.value, known).filter(|_| name.value.chars().count() >= SHORTEST)
            && (near.is_some() || !self.unseen)
        {
            let remark = never_seen(name, near);
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
        Typed::null()
    }

    /// The same for a name that stands alone, which could be a column of anything in scope.
    fn absent_alone(&mut self, name: &Ident, scope: &scope::Scope<'_>) -> Typed {
        if self.alone.len() < MOST_ALONE && self.remarks.is_none() {
            let near = nearest(&name.value, scope.all_names()).filter(|_| name.value.chars().count() >= SHORTEST);
            let remark = never_seen(name, near);
            if !self.alone.contains(&remark) {
                self.alone.push(remark);
            }
        }
        self.absent(name, std::iter::once_with(|| scope.all_names()).flatten())
    }

    /// Forgets remarks from those of `before` on: they are about another text.
    fn forget_remarks(&mut self, (remarks, alone): (usize, usize)) {
        if let Some(all) = &mut self.remarks {
            all.truncate(remarks);
        }
        self.alone.truncate(alone);
    }

    fn remarked(&self) -> (usize, usize) {
        (self.remarks.as_ref().map_or(0, Vec::len), self.alone.len())
    }

    /// Names of the text that stand alone and are NULL because no record ever had them; where all remarks are
    /// noted, they are among these.
    pub(crate) fn take_alone(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.alone)
    }

    /// Resolves a whole statement over what it may read.
    pub(crate) fn statement(&mut self, query: &Query, tables: Tables<'_>) -> Result<Resolved> {
        let environment = match tables {
            Tables::Sources => {
                self.sees_sources = true;
                Environment::default()
            }
            Tables::Granted(saved) => {
                // The grants' own queries see sources; the statement over them does not.
                self.sees_sources = false;
                Environment::default().with(&saved.ctes, true)
            }
        };
        self.query(query, &environment, None, query::Order::Kept)
    }

    /// Resolves the body of a saved query over its CTEs; both may read sources.
    pub(crate) fn saved(&mut self, saved: &SavedQuery) -> Result<Resolved> {
        self.sees_sources = true;
        let environment = Environment::default().with(&saved.ctes, true);
        self.query(&saved.body, &environment, None, query::Order::Kept)
    }

    /// The rows of another endpoint's saved query, which sees its own CTEs and the sources, and
    /// nothing of where it is read.
    fn endpoint(
        &mut self,
        name: &str,
        saved: &SavedQuery,
        order: query::Order,
        at: Option<Position>,
    ) -> Result<Resolved> {
        self.count_relation(at)?;
        if self.reading.iter().any(|outer| outer == name) {
            let message = format!("the endpoint {name} reads itself, by way of {}", self.reading.join(", "));
            return Err(fail(Code::InvalidQuery, message, at).about(name));
        }
        self.reading.push(name.to_owned());
        self.sources.enter(name);
        let remarked = self.remarked();
        let resolved = self.query(&saved.query, &Environment::default(), None, order);
        self.forget_remarks(remarked);
        self.sources.leave();
        self.reading.pop();
        resolved.map_err(|mut failure| {
            // Its text has places of its own; the failure's place is where it is named.
            let inside =
                failure.position.map(|Position { line, column }| format!(" (its line {line}, column {column})"));
            failure.message = format!("in the endpoint {name}{}: {}", inside.unwrap_or_default(), failure.message);
            failure.at(at)
        })
    }

    fn fresh(&mut self) -> String {
        planning::charge(planning::COLUMN);
        self.next_column += 1;
        format!("c{}", self.next_column)
    }

    /// Remembers what plan columns are called in the text.
    fn label(&mut self, columns: &[scope::ScopeColumn]) {
        for column in columns {
            if let Expr::Column(Column { name, .. }) = &column.value.expr {
                self.labels.insert(name.clone(), column.name.clone());
            }
        }
    }

    /// A CTE or granted table, as if its text stood where it is used: the same plan under fresh
    /// column names.
    fn expand(&mut self, visible: &Visible, order: query::Order, at: Option<Position>) -> Result<Resolved> {
        let known = {
            let resolved = visible.resolved.lock().unwrap_or_else(PoisonError::into_inner);
            resolved.iter().find(|known| known.order == order).cloned()
        };
        let resolved = match known {
            Some(Unfolded { resolved, relations, bytes, .. }) => {
                planning::charge(bytes);
                self.count_relations(relations, at)?;
                resolved
            }
            None => {
                let (before, charged, remarked) = (self.relations, planning::charged(), self.remarked());
                let outside = std::mem::replace(&mut self.sees_sources, visible.sources);
                let resolved = self.query(&visible.cte.query, &visible.environment, None, order);
                self.sees_sources = outside;
                if visible.sources && !outside {
                    self.forget_remarks(remarked);
                }
                let resolved = resolved?;
                let mut all = visible.resolved.lock().unwrap_or_else(PoisonError::into_inner);
                let (relations, bytes) = (self.relations - before, planning::charged() - charged);
                all.push(Unfolded { order, resolved: resolved.clone(), relations, bytes });
                resolved
            }
        };
        // A grant that is read by a statement that sees no sources itself; within another grant there is
        // no barrier.
        let crossed = visible.sources && !self.sees_sources;
        let plan = if crossed { above_barrier(resolved.plan) } else { resolved.plan };
        let mut exprs = Vec::with_capacity(resolved.columns.len());
        let mut columns = Vec::with_capacity(resolved.columns.len());
        for output in resolved.columns {
            let name = self.fresh();
            exprs.push(Expr::Column(output.column).alias(&name));
            self.labels.insert(name.clone(), output.name.clone());
            columns.push(Output { column: Column::new_unqualified(name), ..output });
        }
        let plan = LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::build);
        Ok(Resolved { plan: plan.planned()?, columns, row: resolved.row })
    }

    fn count_relation(&mut self, at: Option<Position>) -> Result<()> {
        self.count_relations(1, at)
    }

    fn count_relations(&mut self, count: usize, at: Option<Position>) -> Result<()> {
        planning::check()?;
        self.relations += count;
        if self.relations > self.max_relations {
            let message = format!("the statement uses more than {} tables and subqueries", self.max_relations);
            return Err(fail(Code::LimitExceeded, message, at));
        }
        Ok(())
    }
}
