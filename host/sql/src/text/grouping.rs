//! `GROUPING SETS (...)`, `ROLLUP(...)` and `CUBE(...)`, respelled as calls of functions.
//!
//! The parser knows them, but neither one within another nor a subquery as a key. Calls are read everywhere, and hold both.

use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::markers::{added, marker, marker_name};
use super::tokens::{is_blank, is_word, next};

/// What makes several grouping sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupingCall {
    Sets,
    Rollup,
    Cube,
}

const SETS: &str = "grouping sets";
const ROLLUP: &str = "rollup";
const CUBE: &str = "cube";
/// The marker of the set without keys, `()`.
const NOTHING: &str = "no keys";

/// What an expression makes several grouping sets of, if it does, and its arguments.
pub(crate) fn grouping_call(expr: &Expr) -> Option<(GroupingCall, Vec<&Expr>)> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else { return None };
    let [part] = name.0.as_slice() else { return None };
    let call = match marker_name(part.as_ident()?)? {
        SETS => GroupingCall::Sets,
        ROLLUP => GroupingCall::Rollup,
        CUBE => GroupingCall::Cube,
        _ => return None,
    };
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    Some((call, args.collect::<Option<_>>()?))
}

/// The keys of one set: `(a, b)`, `a`, `()`.
pub(crate) fn keys_of_set(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Tuple(keys) => keys.iter().collect(),
        Expr::Nested(key) => match key.as_ref() {
            Expr::Identifier(name) if marker_name(name) == Some(NOTHING) => Vec::new(),
            key => vec![key],
        },
        key => vec![key],
    }
}

pub(super) fn respelled(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| ["ROLLUP", "CUBE", "SETS"].iter().any(|word| is_word(token, word))) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        let opens = |from: usize| next(&tokens, from).is_some_and(|(_, next)| next.token == Token::LParen);
        let last = out.iter().rposition(|token| !is_blank(token));
        let before = |wanted: &str| last.and_then(|last| out.get(last)).is_some_and(|token| is_word(token, wanted));
        match &token.token {
            Token::Word(_) if is_word(token, "SETS") && before("GROUPING") && opens(at + 1) => {
                out.truncate(last.unwrap_or_default());
                out.push(added(token, marker(SETS)));
            }
            Token::Word(_) if is_word(token, "ROLLUP") && opens(at + 1) => out.push(added(token, marker(ROLLUP))),
            Token::Word(_) if is_word(token, "CUBE") && opens(at + 1) => out.push(added(token, marker(CUBE))),
            Token::RParen if last.and_then(|last| out.get(last)).is_some_and(|token| token.token == Token::LParen) => {
                // `()` within parentheses; elsewhere the parser reads it.
                let outside = out.get(..last.unwrap_or_default()).unwrap_or_default().iter().rev();
                let outside = outside.clone().find(|token| !is_blank(token));
                if outside.is_some_and(|token| matches!(token.token, Token::LParen | Token::Comma)) {
                    out.push(added(token, marker(NOTHING)));
                }
                out.push(token.clone());
            }
            _ => out.push(token.clone()),
        }
    }
    out
}
