//! Where an expression stands: what it sees, and what may stand in it.

use std::fmt;

use sqlparser::ast::NamedWindowDefinition;

use super::calls::Calls;
use super::environment::Environment;
use super::scope::Scope;
use crate::typed::Typed;

/// The clause in which an expression stands. Displayed as messages name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clause {
    Select,
    On,
    Unnest,
    Where,
    GroupBy,
    Having,
    Qualify,
    Window,
    /// The distance of a bound of a window's frame.
    Frame,
    OrderBy,
    Limit,
    Offset,
    AggregateArgument,
    /// The key of `GROUPING(key)`.
    Grouping,
}

impl Clause {
    /// Whether rows are kept by the outcome of an expression in the clause.
    pub(super) fn filters(self) -> bool {
        matches!(self, Self::Where | Self::Having | Self::Qualify)
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Select => "SELECT",
            Self::On => "ON",
            Self::Unnest => "UNNEST",
            Self::Where => "WHERE",
            Self::GroupBy => "GROUP BY",
            Self::Having => "HAVING",
            Self::Qualify => "QUALIFY",
            Self::Window => "WINDOW",
            Self::Frame => "a window's frame",
            Self::OrderBy => "ORDER BY",
            Self::Limit => "LIMIT",
            Self::Offset => "OFFSET",
            Self::AggregateArgument => "the argument of an aggregate",
            Self::Grouping => "GROUPING",
        })
    }
}

/// What the outcome of a condition decides. Where rows are kept by it, false and NULL are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Decides {
    #[default]
    Nothing,
    /// That a row is kept, unless another condition beside it keeps it.
    RowOrOther,
    /// That a row is kept.
    Row,
}

/// Where an expression stands.
pub(super) struct Context<'s, 'p> {
    pub(super) scope: &'s Scope<'p>,
    pub(super) environment: &'s Environment<'s>,
    /// SELECT aliases that are visible here and win over columns.
    pub(super) aliases: &'s [(String, Typed)],
    /// Collects aggregate and window calls; `None` where they are not allowed.
    pub(super) calls: Option<&'s mut Calls>,
    /// The named windows, where window calls are allowed.
    pub(super) windows: Option<&'s [NamedWindowDefinition]>,
    pub(super) clause: Clause,
    /// What an expression here decides. The parts of an expression decide nothing, except those of AND, OR and brackets.
    pub(super) decides: Decides,
    /// Whether the expression is in an arm of a CASE or IF that may not be taken. A value that does not convert is NULL
    /// there, because the engine may compute it for rows that never need it.
    pub(super) guarded: bool,
}

impl<'s, 'p> Context<'s, 'p> {
    /// A place without aliases, aggregate calls and window calls.
    pub(super) fn new(scope: &'s Scope<'p>, environment: &'s Environment<'s>, clause: Clause) -> Self {
        let decides = if clause.filters() { Decides::Row } else { Decides::Nothing };
        Self { scope, environment, aliases: &[], calls: None, windows: None, clause, decides, guarded: false }
    }

    /// Resolves something at the same place, but inside an arm that may not be taken.
    pub(super) fn guarded<T>(&mut self, resolve: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.guarded, true);
        let result = resolve(self);
        self.guarded = before;
        result
    }
}
