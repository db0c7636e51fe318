//! The names in a piece of a query: tables, parameters, and which parameters may bind its rows.
//!
//! Whether a parameter that a token fixes narrows the rows of a piece depends on how it is used. A comparison may narrow
//! them; a search for it in a text does not, nor does its use where another parameter is not sent.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Visit, Visitor,
};

/// How a piece of a saved query uses a parameter that a token may fix, where that binds its rows to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weak {
    /// It is only searched for in a text, as by `REGEXP_CONTAINS` or `LIKE`.
    Searched,
    /// It only stands in for another parameter that is not sent, as in `COALESCE(@other, @own)`.
    Default,
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
        Some(if self.defaults.contains(&parameter.to_lowercase()) { Weak::Default } else { Weak::Searched })
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

/// Finds the names in a piece.
#[derive(Default)]
struct Namer {
    names: PieceNames,
    /// Expressions that are not visited yet and whose parameters bind nothing, by their addresses: the tree does not move.
    weak: Vec<(*const Expr, Weak)>,
    /// Those of them around the expression that is visited.
    inside: Vec<(*const Expr, Weak)>,
}

impl Namer {
    /// Notes which parts of an expression bind nothing.
    fn look_ahead(&mut self, expr: &Expr) {
        match expr {
            Expr::Function(call) => {
                let name = call.name.to_string().to_uppercase();
                let name = name.rsplit('.').next().unwrap_or_default();
                if SEARCHES.contains(&name) {
                    self.weak.extend(arguments(call).map(|part| (std::ptr::from_ref(part), Weak::Searched)));
                } else if FIRST_OF.contains(&name) {
                    let mut behind = false;
                    for part in arguments(call) {
                        if behind {
                            self.weak.push((std::ptr::from_ref(part), Weak::Default));
                        }
                        // A parameter that is not sent is NULL, so that the next argument is taken; the sender decides.
                        behind |= has_parameter(part);
                    }
                }
            }
            Expr::Like { expr, pattern, .. }
            | Expr::ILike { expr, pattern, .. }
            | Expr::SimilarTo { expr, pattern, .. }
            | Expr::RLike { expr, pattern, .. } => {
                for part in [expr, pattern] {
                    self.weak.push((std::ptr::from_ref(&**part), Weak::Searched));
                }
            }
            Expr::BinaryOp { left, op, right } if is_match(op) => {
                for part in [left, right] {
                    self.weak.push((std::ptr::from_ref(&**part), Weak::Searched));
                }
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
    struct Any;
    impl Visitor for Any {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if parameter_of(expr).is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    expr.visit(&mut Any).is_break()
}

impl Visitor for Namer {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let here = std::ptr::from_ref(expr);
        // The expressions that were noted last are visited next.
        if let Some(at) = self.weak.iter().rposition(|(part, _)| *part == here) {
            let part = self.weak.swap_remove(at);
            self.inside.push(part);
        }
        if let Some(name) = parameter_of(expr) {
            self.names.parameters.insert(name.to_owned());
            match self.inside.last() {
                None => drop(self.names.bound.insert(name.to_lowercase())),
                Some((_, Weak::Default)) => drop(self.names.defaults.insert(name.to_lowercase())),
                Some((_, Weak::Searched)) => {}
            }
        }
        self.look_ahead(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.inside.last().is_some_and(|(part, _)| *part == std::ptr::from_ref(expr)) {
            self.inside.pop();
        }
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
