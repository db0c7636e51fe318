//! The names in a piece of a query: tables, parameters, and which parameters may bind its rows.
//!
//! Whether a parameter that a token fixes narrows the rows of a piece depends on how it is used. A comparison may narrow
//! them. A search for it in a text does not, nor does its use where another parameter is not sent, in a column that is
//! selected, in one part of an OR, behind NOT or `<>`, or in the condition of an outer join.
//!
//! This is no proof: an author who wants to get round it can (`project = @project` beside a join that brings other rows back). It
//! finds what is easily written by mistake.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Join, JoinConstraint,
    JoinOperator, ObjectName, Query, Select, SelectItem, SetExpr, TableFactor, UnaryOperator, Visit, Visitor,
    visit_expressions,
};

/// How a piece of a saved query uses a parameter that a token may fix, where that binds its rows to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weak {
    /// It is only searched for in a text, as by `REGEXP_CONTAINS` or `LIKE`.
    Searched,
    /// It only stands in for another parameter that is not sent, as in `COALESCE(@other, @own)`.
    Default,
    /// It only stands where it leaves out no rows, or others: in a selected column, in one part of an OR, behind NOT or `<>`,
    /// in the condition of an outer join.
    Loose,
}

/// The names in a piece of a query.
#[derive(Debug, Default)]
pub(crate) struct PieceNames {
    /// All parameters.
    pub(crate) parameters: BTreeSet<String>,
    /// The parameters, in lower case, that are compared, or used in any other way that may bind rows.
    bound: BTreeSet<String>,
    /// The parameters, in lower case, that replace another one that is not sent.
    defaults: BTreeSet<String>,
    /// The parameters, in lower case, that stand where they leave out no rows, or others.
    loose: BTreeSet<String>,
    /// The names of tables, and paths in places of tables, as they are written.
    pub(crate) written: BTreeSet<String>,
    /// The same in lower case.
    pub(crate) tables: BTreeSet<String>,
}

impl PieceNames {
    /// The names in `piece`, which is a query or a part of one.
    pub(crate) fn within(piece: &impl Visit) -> Self {
        let mut namer = Namer::default();
        let _ = piece.visit(&mut namer);
        namer.names
    }

    /// Whether a parameter, in any case, is used in a way that may bind rows.
    pub(crate) fn binds(&self, parameter: &str) -> bool {
        self.bound.contains(&parameter.to_lowercase())
    }

    /// How a parameter is used that binds nothing; `None` if it may bind rows or is not used.
    pub(crate) fn weakly(&self, parameter: &str) -> Option<Weak> {
        if self.binds(parameter) || !self.parameters.iter().any(|own| own.eq_ignore_ascii_case(parameter)) {
            return None;
        }
        let parameter = parameter.to_lowercase();
        Some(match (self.defaults.contains(&parameter), self.loose.contains(&parameter)) {
            (true, _) => Weak::Default,
            (false, true) => Weak::Loose,
            (false, false) => Weak::Searched,
        })
    }
}

/// Functions that look for one text in another.
const SEARCHES: [&str; 14] = [
    "REGEXP_CONTAINS",
    "REGEXP_EXTRACT",
    "REGEXP_EXTRACT_ALL",
    "REGEXP_SUBSTR",
    "REGEXP_REPLACE",
    "REGEXP_INSTR",
    "REGEXP_LIKE",
    "REGEXP_MATCH",
    "CONTAINS_SUBSTR",
    "STRPOS",
    "INSTR",
    "STARTS_WITH",
    "ENDS_WITH",
    "SEARCH",
];
/// Functions that give the first of their arguments that is there.
const FIRST_OF: [&str; 2] = ["COALESCE", "IFNULL"];

/// An expression around parameters that bind nothing.
#[derive(Debug, Clone)]
struct WeakPart {
    /// By its address: the tree does not move.
    at: *const Expr,
    weak: Weak,
    /// The only parameters, in lower case, that it holds for; all of them unless told.
    only: Option<BTreeSet<String>>,
    /// Whether it is a selected column, in which a subquery may bind rows of its own.
    is_selected: bool,
}

impl WeakPart {
    fn new(part: &Expr, weak: Weak) -> Self {
        Self { at: part, weak, only: None, is_selected: false }
    }
}

/// Finds the names in a piece.
#[derive(Default)]
struct Namer {
    names: PieceNames,
    /// Those that are not visited yet, by their addresses.
    weak: HashMap<*const Expr, Vec<WeakPart>>,
    /// Those around the expression that is visited, the innermost last; `None` for a query within a selected column.
    inside: Vec<Option<WeakPart>>,
    /// The parts of an OR that was looked at as a whole.
    alternatives: BTreeSet<*const Expr>,
    /// Of each query around the expression, whether it is the first within a selected column.
    queries: Vec<bool>,
}

impl Namer {
    fn note(&mut self, part: &Expr, weak: Weak) {
        self.note_part(WeakPart::new(part, weak));
    }

    fn note_part(&mut self, part: WeakPart) {
        self.weak.entry(part.at).or_default().push(part);
    }

    /// Which kind of weak use a parameter, in lower case, has here; `None` if it may bind rows.
    fn weak_here(&self, parameter: &str) -> Option<Weak> {
        let around = self.inside.iter().rev().map_while(Option::as_ref);
        let mut holds = around.filter(|part| part.only.as_ref().is_none_or(|only| only.contains(parameter)));
        holds.next().map(|part| part.weak)
    }

    /// Notes the parts of an OR: a parameter that one of them has and another has not leaves out nothing.
    fn look_at_alternatives(&mut self, expr: &Expr) {
        let (mut parts, mut open) = (Vec::new(), vec![expr]);
        while let Some(part) = open.pop() {
            match part {
                Expr::Nested(inner) => open.push(inner),
                Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
                    self.alternatives.insert(std::ptr::from_ref(part));
                    open.extend([&**left, &**right]);
                }
                other => parts.push((other, parameters_of(other))),
            }
        }
        let mut all = parts.iter().map(|(_, parameters)| parameters.clone());
        let first = all.next().unwrap_or_default();
        let common = all.fold(first, |common, parameters| common.intersection(&parameters).cloned().collect());
        for (part, parameters) in parts {
            let only: BTreeSet<String> = parameters.difference(&common).cloned().collect();
            if !only.is_empty() {
                self.note_part(WeakPart { only: Some(only), ..WeakPart::new(part, Weak::Loose) });
            }
        }
    }

    /// Notes the condition of an outer join, and a table of constants that is joined: rows without a partner stay.
    fn look_at_join(&mut self, join: &Join) {
        let (JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on)) = &join.join_operator
        else {
            return;
        };
        if let JoinConstraint::On(condition) = on {
            self.note(condition, Weak::Loose);
        }
        if let TableFactor::Derived { subquery, .. } = &join.relation
            && let SetExpr::Select(select) = &*subquery.body
            && select.from.is_empty()
        {
            self.look_at_columns(select);
        }
    }

    fn look_at_columns(&mut self, select: &Select) {
        for item in &select.projection {
            if let SelectItem::UnnamedExpr(column) | SelectItem::ExprWithAlias { expr: column, .. } = item {
                self.note_part(WeakPart { is_selected: true, ..WeakPart::new(column, Weak::Loose) });
            }
        }
    }

    /// Notes which parts of an expression bind nothing.
    fn look_ahead(&mut self, expr: &Expr) {
        match expr {
            Expr::Function(call) => {
                let name = call.name.to_string().to_uppercase();
                let name = name.rsplit('.').next().unwrap_or_default();
                if SEARCHES.contains(&name) {
                    arguments(call).for_each(|part| self.note(part, Weak::Searched));
                } else if FIRST_OF.contains(&name) {
                    let mut behind = false;
                    for part in arguments(call) {
                        if behind {
                            self.note(part, Weak::Default);
                        }
                        // A parameter that is not sent is NULL, so that the next argument is taken; the sender decides.
                        behind |= has_parameter(part);
                    }
                } else if name == "IF" {
                    let mut parts = arguments(call);
                    if parts.next().is_some_and(has_parameter) {
                        parts.for_each(|part| self.note(part, Weak::Default));
                    }
                }
            }
            Expr::Case { operand, conditions, else_result, .. } => {
                let decides =
                    conditions.iter().map(|when| &when.condition).chain(operand.as_deref()).any(has_parameter);
                let results = conditions.iter().map(|when| &when.result).chain(else_result.as_deref());
                results.filter(|_| decides).for_each(|part| self.note(part, Weak::Default));
            }
            // Not again for an OR within an OR.
            Expr::BinaryOp { op: BinaryOperator::Or, .. } if !self.alternatives.remove(&std::ptr::from_ref(expr)) => {
                self.look_at_alternatives(expr);
                self.alternatives.remove(&std::ptr::from_ref(expr));
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => self.note(expr, Weak::Loose),
            Expr::IsDistinctFrom(left, right) | Expr::BinaryOp { left, op: BinaryOperator::NotEq, right } => {
                [left, right].into_iter().for_each(|part| self.note(part, Weak::Loose));
            }
            Expr::InList { list, negated: true, .. } => list.iter().for_each(|part| self.note(part, Weak::Loose)),
            Expr::Between { low, high, negated: true, .. } => {
                [low, high].into_iter().for_each(|part| self.note(part, Weak::Loose));
            }
            Expr::Like { expr, pattern, .. }
            | Expr::ILike { expr, pattern, .. }
            | Expr::SimilarTo { expr, pattern, .. }
            | Expr::RLike { expr, pattern, .. } => {
                [expr, pattern].into_iter().for_each(|part| self.note(part, Weak::Searched));
            }
            Expr::BinaryOp { left, op, right } if is_match(op) => {
                [left, right].into_iter().for_each(|part| self.note(part, Weak::Searched));
            }
            _ => {}
        }
    }
}

/// The arguments of a call that are expressions.
fn arguments(call: &Function) -> impl Iterator<Item = &Expr> {
    let list = match &call.args {
        FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    list.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
        | FunctionArg::Named { arg: FunctionArgExpr::Expr(expr), .. }
        | FunctionArg::ExprNamed { arg: FunctionArgExpr::Expr(expr), .. } => Some(expr),
        _ => None,
    })
}

/// Whether an operator looks for a pattern.
fn is_match(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch
            | BinaryOperator::PGLikeMatch
            | BinaryOperator::PGILikeMatch
    )
}

/// The name of a parameter, if the expression is one.
fn parameter_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(ident) if ident.quote_style.is_none() => ident.value.strip_prefix('@'),
        _ => None,
    }
}

fn has_parameter(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match parameter_of(part) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    })
    .is_break()
}

/// The parameters in an expression, in lower case.
fn parameters_of(expr: &Expr) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let _ = visit_expressions(expr, |part| {
        all.extend(parameter_of(part).map(str::to_lowercase));
        ControlFlow::<()>::Continue(())
    });
    all
}

impl Visitor for Namer {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let here = std::ptr::from_ref(expr);
        self.inside.extend(self.weak.remove(&here).into_iter().flatten().map(Some));
        if let Some(name) = parameter_of(expr) {
            self.names.parameters.insert(name.to_owned());
            let name = name.to_lowercase();
            match self.weak_here(&name) {
                None => drop(self.names.bound.insert(name)),
                Some(Weak::Default) => drop(self.names.defaults.insert(name)),
                Some(Weak::Loose) => drop(self.names.loose.insert(name)),
                Some(Weak::Searched) => {}
            }
        }
        self.look_ahead(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let here = std::ptr::from_ref(expr);
        while self.inside.last().is_some_and(|part| part.as_ref().is_some_and(|part| part.at == here)) {
            self.inside.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        // What is around a query within a selected column does not concern the rows of that query.
        if self.inside.last().is_some_and(|part| part.as_ref().is_some_and(|part| part.is_selected)) {
            self.inside.push(None);
            self.queries.push(true);
        } else {
            self.queries.push(false);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        if self.queries.pop() == Some(true) {
            self.inside.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        // Without FROM it is a table of constants, which others compare with.
        if !select.from.is_empty() {
            self.look_at_columns(select);
        }
        select.from.iter().flat_map(|table| &table.joins).for_each(|join| self.look_at_join(join));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        // As the resolver does: joined first, then in lower case, which depends on the neighbouring characters.
        let parts = relation.0.iter().filter_map(|part| part.as_ident()).map(|ident| ident.value.as_str());
        let written = parts.collect::<Vec<_>>().join(".");
        self.names.tables.insert(written.to_lowercase());
        self.names.written.insert(written);
        ControlFlow::Continue(())
    }
}
