//! Rewrites three forms of expressions that the parser does not read. As [`super::respell`], on the tokens.
//!
//! - `ARRAY_AGG(x HAVING MAX y ORDER BY x)`: HAVING behind ORDER BY and LIMIT.
//! - `WITH(a AS 1, a + 1)`: a call of a marker with named arguments.
//! - `(x).UPPER().SUBSTR(1, 2)`: the same as `SUBSTR(UPPER((x)), 1, 2)`.

use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::markers::{added, marker};
use super::tokens::{dotted_name, is_blank, is_word, next};

/// The marker of a WITH expression.
pub(crate) const WITH: &str = "with";

pub(super) fn respelled(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    chained(with_expressions(having_last(tokens)))
}

/// What is open around a token: the arguments of a call, or a query in brackets.
#[derive(Default)]
struct Open {
    /// Whether it is a query, whose HAVING is another one.
    is_query: bool,
    /// Where a HAVING MAX or HAVING MIN begins.
    having: Option<usize>,
    /// The tokens of one that are to be put at the end.
    held: Vec<TokenWithSpan>,
}

/// Moves HAVING MAX and HAVING MIN in the arguments of an aggregate behind ORDER BY and LIMIT, where the parser reads them.
fn having_last(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "HAVING")) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 1);
    let mut open: Vec<Open> = vec![Open { is_query: true, ..Open::default() }];
    for (at, token) in tokens.iter().enumerate() {
        let next = || next(&tokens, at + 1);
        let nested = open.len() > 1;
        let Some(inner) = open.last_mut() else { break };
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                out.push(token.clone());
                open.push(Open::default());
                continue;
            }
            Token::RParen | Token::RBracket | Token::RBrace if nested => {
                let held = open.pop().map(|inner| inner.held).unwrap_or_default();
                if let Some(first) = held.first() {
                    out.push(added(first, Token::Whitespace(Whitespace::Space)));
                }
                out.extend(held);
            }
            Token::Word(_) if is_word(token, "SELECT") || is_word(token, "FROM") => inner.is_query = true,
            Token::Word(_)
                if is_word(token, "HAVING")
                    && !inner.is_query
                    && next().is_some_and(|(_, next)| is_word(next, "MAX") || is_word(next, "MIN")) =>
            {
                inner.having = Some(out.len());
            }
            Token::Word(_) if is_word(token, "ORDER") || is_word(token, "LIMIT") => {
                if let Some(start) = inner.having.take() {
                    inner.held = out.split_off(start);
                }
            }
            _ => {}
        }
        out.push(token.clone());
    }
    out
}

/// Rewrites `WITH(name AS value, ...)`. In such a list, and nowhere else, `AS` stands behind the first word of an item.
fn with_expressions(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let begins = |(at, token): (usize, &TokenWithSpan)| {
        is_word(token, "WITH") && next(&tokens, at + 1).is_some_and(|(_, bracket)| bracket.token == Token::LParen)
    };
    if !tokens.iter().enumerate().any(begins) {
        return tokens;
    }
    // The brackets around a token: whether they are those of a WITH, and how many words its item has so far.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut before: Option<usize> = None;
    for at in 0..tokens.len() {
        let Some(token) = tokens.get(at) else { break };
        if is_blank(token) {
            continue;
        }
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                let with = before.filter(|place| tokens.get(*place).is_some_and(|token| is_word(token, "WITH")));
                let with = with.filter(|_| tokens.get(at).is_some_and(|token| token.token == Token::LParen));
                if let Some(token) = with.and_then(|place| tokens.get_mut(place)) {
                    token.token = marker(WITH);
                }
                if let Some(Some(words)) = open.last_mut() {
                    *words += 1;
                }
                open.push(with.map(|_| 0));
            }
            Token::RParen | Token::RBracket | Token::RBrace => drop(open.pop()),
            Token::Comma => {
                if let Some(Some(words)) = open.last_mut() {
                    *words = 0;
                }
            }
            _ => {
                let is_as = is_word(token, "AS");
                if let Some(Some(words)) = open.last_mut() {
                    if *words == 1
                        && is_as
                        && let Some(token) = tokens.get_mut(at)
                    {
                        token.token = Token::RArrow;
                    }
                    *words += 1;
                }
            }
        }
        before = Some(at);
    }
    tokens
}

/// Words behind which a bracket is no call.
const NO_FUNCTIONS: [&str; 26] = [
    "AND", "OR", "NOT", "IN", "LIKE", "ILIKE", "ANY", "ALL", "SOME", "BETWEEN", "IS", "CASE", "WHEN", "THEN", "ELSE",
    "SELECT", "DISTINCT", "WHERE", "HAVING", "QUALIFY", "BY", "ON", "FROM", "AS", "LIMIT", "INTERVAL",
];

/// Rewrites calls behind what is in brackets, or behind other calls.
fn chained(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    // Most texts have none.
    let mut after_bracket = false;
    let has_any = tokens.iter().filter(|token| !is_blank(token)).any(|token| {
        let after = std::mem::replace(&mut after_bracket, token.token == Token::RParen);
        after && token.token == Token::Period
    });
    if !has_any {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // Where each open bracket stands in `out`, and where what it belongs to begins; for a chained call its own first token.
    let mut open: Vec<usize> = Vec::new();
    // What is put before a token of `out`: the innermost call comes first.
    let mut calls: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
    // Where what ends with the last token begins, if that is a bracket.
    let mut ended: Option<usize> = None;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        if is_blank(token) {
            out.push(token.clone());
            continue;
        }
        match &token.token {
            Token::Period if let Some(start) = ended.take() => {
                if let Some((name, bracket)) = called(&tokens, at)
                    && let Some(opened) = tokens.get(bracket)
                {
                    let mut call = name;
                    call.push(opened.clone());
                    calls.push((start, call));
                    open.push(start);
                    at = bracket + 1;
                    // Arguments follow the first one.
                    if next(&tokens, at).is_some_and(|(_, next)| next.token != Token::RParen) {
                        out.push(added(token, Token::Comma));
                    }
                    continue;
                }
            }
            Token::LParen => open.push(beginning(&out)),
            Token::LBracket | Token::LBrace => open.push(out.len()),
            Token::RParen => ended = open.pop(),
            Token::RBracket | Token::RBrace => {
                open.pop();
                ended = None;
            }
            _ => ended = None,
        }
        if token.token == Token::LParen {
            ended = None;
        }
        out.push(token.clone());
    }
    if calls.is_empty() {
        return out;
    }
    // Of calls that begin at one place the last one is the outermost.
    calls.reverse();
    calls.sort_by_key(|(place, _)| *place);
    let mut calls = calls.into_iter().peekable();
    let mut all = Vec::with_capacity(out.len());
    for (place, token) in out.into_iter().enumerate() {
        while let Some((_, call)) = calls.next_if(|(start, _)| *start == place) {
            all.extend(call);
        }
        all.push(token);
    }
    all
}

/// The name of a function behind a period, and where the bracket of its arguments is: `upper(`, or `(safe.sqrt)(`.
fn called(tokens: &[TokenWithSpan], from: usize) -> Option<(Vec<TokenWithSpan>, usize)> {
    let (first, token) = next(tokens, from)?;
    let (name, after) = match &token.token {
        Token::Word(_) => (vec![token.clone()], first + 1),
        Token::LParen => {
            let (name, end) = dotted_name(tokens, first + 1)?;
            let (end, _) = next(tokens, end).filter(|(_, token)| token.token == Token::RParen)?;
            (name, end + 1)
        }
        _ => return None,
    };
    let (bracket, token) = next(tokens, after)?;
    (token.token == Token::LParen).then_some((name, bracket))
}

/// Where what the next bracket belongs to begins: at the name of a function, or at the bracket itself.
fn beginning(out: &[TokenWithSpan]) -> usize {
    let mut start = out.len();
    loop {
        let is_name = |at: usize| {
            out.get(at).is_some_and(|token| {
                matches!(token.token, Token::Word(_)) && !NO_FUNCTIONS.iter().any(|word| is_word(token, word))
            })
        };
        let Some(name) = start.checked_sub(1).filter(|name| is_name(*name)) else { return start };
        match name.checked_sub(1) {
            Some(dot) if out.get(dot).is_some_and(|token| token.token == Token::Period) => start = dot,
            _ => return name,
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_model::TextLimits;

    fn read(sql: &str) -> Result<String, String> {
        let query = crate::text::parse(sql, &TextLimits::default()).map_err(|failure| failure.message)?;
        Ok(query.to_string())
    }

    #[test]
    fn chained_calls_are_nested_ones() {
        for (chained, nested) in [
            ("select (a).upper()", "select upper((a))"),
            ("select (a).upper().substr(1, 2)", "select substr(upper((a)), 1, 2)"),
            ("select abs(a).sqrt().sqrt() + 1", "select sqrt(sqrt(abs(a))) + 1"),
            ("select (a).f((b).g(c), d)", "select f((a), g((b), c), d)"),
            ("select (a).(safe.sqrt)()", "select safe.sqrt((a))"),
            ("select (a).( safe . hll_count . extract ) ()", "select safe.hll_count.extract((a))"),
            ("select (a).(hll_count.extract)()", "select hll_count . extract ((a))"),
            (
                "select safe . hll_count . extract (a), hll_count.init(a)",
                "select safe.hll_count.extract(a), hll_count.init(a)",
            ),
            ("select x in (a).f()", "select x in f((a))"),
            ("select t.f(a) . g ( b )", "select g(t.f(a), b)"),
            ("select (a).b, f(x).y.z", "select (a).b, f(x).y.z"),
        ] {
            assert_eq!(read(chained), read(nested), "{chained}");
        }
        let long = format!("select (a){}", ".f()".repeat(5_000));
        assert!(read(&long).is_err());
    }
}
