//! Set operations that match columns by name: `FULL UNION ALL BY NAME`, `INTERSECT DISTINCT CORRESPONDING BY (a, b)`.
//!
//! The parser has no place for the mode and the list of columns. `a LEFT UNION ALL CORRESPONDING BY (x) b` is respelled as
//! `a UNION ALL (SELECT marker, x) UNION ALL b`: the operation that a marker stands on the right of belongs to the one
//! after it.

use sqlparser::ast::{Expr, Ident, SelectItem, SetExpr};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::markers::{added, marked_query, marker};
use super::tokens::{BLANK, is_blank, is_word, next};
use crate::fail::{Result, invalid, place_of};

/// Which columns a set operation by name takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchingMode {
    /// All; each query must have them.
    Strict,
    /// Those that all queries have.
    Inner,
    /// Those of the first query.
    Left,
    /// Those that any query has.
    Full,
}

/// How a set operation matches columns by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Matching {
    pub(crate) mode: MatchingMode,
    /// The columns of the result, if the text lists them.
    pub(crate) columns: Option<Vec<Ident>>,
}

/// The markers, each with its mode and whether a list of columns follows.
const MARKERS: [(&str, MatchingMode, bool); 8] = [
    ("match strict", MatchingMode::Strict, false),
    ("match inner", MatchingMode::Inner, false),
    ("match left", MatchingMode::Left, false),
    ("match full", MatchingMode::Full, false),
    ("match strict on", MatchingMode::Strict, true),
    ("match inner on", MatchingMode::Inner, true),
    ("match left on", MatchingMode::Left, true),
    ("match full on", MatchingMode::Full, true),
];

/// The matching that an operand stands for, if it is a marker.
pub(crate) fn matching_of(operand: &SetExpr) -> Option<Result<Matching>> {
    let SetExpr::Query(query) = operand else { return None };
    let (_, name, items) = marked_query(query)?;
    let (_, mode, listed) = *MARKERS.iter().find(|(known, ..)| *known == name)?;
    let names = items.iter().map(|item| match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Ok(name.clone()),
        other => {
            Err(invalid(format!("the columns of a set operation are listed by their names, not as {other}"), None))
        }
    });
    let columns = names.collect::<Result<Vec<_>>>();
    Some(columns.map(|columns| Matching { mode, columns: listed.then_some(columns) }))
}

/// Respells set operations by name.
///
/// # Errors
/// A mode without `BY NAME` or `CORRESPONDING`, and STRICT with a mode.
pub(super) fn respelled(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    if !tokens.iter().any(|token| is_operator(keyword(token))) {
        return Ok(tokens);
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let quantified = next(&tokens, at + 1).filter(|(_, token)| {
            matches!(keyword(token), Some(Keyword::ALL | Keyword::DISTINCT)) && is_operator(keyword_of(&tokens, at))
        });
        let Some((quantifier_at, quantifier)) = quantified else {
            out.push(token.clone());
            at += 1;
            continue;
        };
        let mode = taken_mode(&mut out);
        let suffix = suffix(&tokens, quantifier_at + 1);
        let place = place_of(token.span);
        let (mode, suffix) = match (mode, suffix) {
            (None, None) => {
                out.push(token.clone());
                at += 1;
                continue;
            }
            (Some(_), None) => {
                let message =
                    "a set operation with INNER, LEFT, FULL or OUTER matches columns by name; write BY NAME after it";
                return Err(invalid(message, place));
            }
            (Some(_), Some(Suffix { strict: true, .. })) => {
                return Err(invalid("STRICT CORRESPONDING takes no INNER, LEFT, FULL or OUTER", place));
            }
            (None, Some(suffix)) if suffix.strict => (MatchingMode::Strict, suffix),
            (None, Some(suffix)) => {
                (if suffix.corresponding { MatchingMode::Inner } else { MatchingMode::Strict }, suffix)
            }
            (Some(mode), Some(suffix)) => (mode, suffix),
        };
        let listed = suffix.list.is_some();
        let Some((name, ..)) = MARKERS.iter().find(|(_, known, on)| *known == mode && *on == listed) else { continue };
        let piped = out.iter().rev().find(|before| !is_blank(before));
        let piped = piped.is_some_and(|before| before.token == Token::VerticalBarRightAngleBracket);
        let operation = [token.clone(), added(token, BLANK), quantifier.clone(), added(token, BLANK)];
        out.extend(operation.clone());
        let select = [Token::LParen, Token::make_keyword("SELECT"), BLANK, marker(name)];
        out.extend(select.map(|word| added(token, word)));
        if let Some((from, to)) = suffix.list {
            out.push(added(token, Token::Comma));
            out.extend(tokens.get(from..to).unwrap_or_default().iter().cloned());
        }
        out.push(added(token, Token::RParen));
        if piped {
            out.push(added(token, Token::Comma));
        } else {
            out.extend(operation);
        }
        at = suffix.end;
    }
    Ok(out)
}

/// What follows a set operation: `BY NAME ON (...)`, `STRICT CORRESPONDING BY (...)`.
struct Suffix {
    strict: bool,
    corresponding: bool,
    /// The tokens of the list, without its parentheses.
    list: Option<(usize, usize)>,
    /// The token after all of it.
    end: usize,
}

fn suffix(tokens: &[TokenWithSpan], start: usize) -> Option<Suffix> {
    let word = |from: usize, wanted: &str| {
        next(tokens, from).filter(|(_, token)| is_word(token, wanted)).map(|(at, _)| at + 1)
    };
    let strict = word(start, "STRICT");
    let (corresponding, after, before_list) = match word(strict.unwrap_or(start), "CORRESPONDING") {
        Some(after) => (true, after, "BY"),
        None => (false, word(start, "BY").and_then(|after| word(after, "NAME"))?, "ON"),
    };
    let mut suffix = Suffix { strict: strict.is_some(), corresponding, list: None, end: after };
    if let Some(list) = word(after, before_list)
        && let Some((open, token)) = next(tokens, list)
        && token.token == Token::LParen
    {
        let closing = (open..tokens.len()).find(|at| tokens.get(*at).is_some_and(|t| t.token == Token::RParen));
        if let Some(closing) = closing {
            suffix.list = Some((open + 1, closing));
            suffix.end = closing + 1;
        }
    }
    Some(suffix)
}

/// Takes the mode before a set operation off the tokens.
fn taken_mode(out: &mut Vec<TokenWithSpan>) -> Option<MatchingMode> {
    let last = |out: &[TokenWithSpan]| out.iter().rposition(|token| !is_blank(token));
    let outer = last(out).filter(|at| out.get(*at).is_some_and(|token| is_word(token, "OUTER")));
    let before = out.get(..outer.unwrap_or(out.len())).unwrap_or_default();
    let named = last(before).and_then(|at| {
        let mode = match keyword(before.get(at)?)? {
            Keyword::FULL => MatchingMode::Full,
            Keyword::LEFT => MatchingMode::Left,
            Keyword::INNER if outer.is_none() => MatchingMode::Inner,
            _ => return None,
        };
        Some((at, mode))
    });
    let (at, mode) = named.or_else(|| outer.map(|at| (at, MatchingMode::Full)))?;
    out.truncate(at);
    Some(mode)
}

fn is_operator(word: Option<Keyword>) -> bool {
    matches!(word, Some(Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT))
}

fn keyword_of(tokens: &[TokenWithSpan], at: usize) -> Option<Keyword> {
    tokens.get(at).and_then(keyword)
}

fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}
