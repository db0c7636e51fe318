//! Rewrites six spellings of BigQuery that the parser does not accept. This is done on the tokens, before parsing,
//! and each token keeps its position.
//!
//! - `SAFE.SUBSTR(...)`, `HLL_COUNT.EXTRACT(...)`: a keyword there is the name of a function like any other.
//! - `rb'\d'`, `br'\d'`: bytes in which backslashes are not escapes.
//! - `ARRAY<INT64>[1, 2]`: the same as `CAST([1, 2] AS ARRAY<INT64>)`.
//! - `WITH OFFSET JOIN`: the offset has the name `offset`; and `t.tags AS tag WITH OFFSET` is of `UNNEST(t.tags)`.
//! - `PIVOT(... FOR (a > 1) IN ...)`, `UNPIVOT(... AS 1)`: what the parser takes only in more parentheses, or not.
//! - `LIKE ALL UNNEST(list)`, `LIKE ANY (SELECT ...)`: a call of a marker with the list, or with `ARRAY(SELECT ...)`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::markers::{added, marker, number};
use super::tokens::{BLANK, dotted_name, is_blank, is_word, next};

pub(super) fn respell(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    quantified_likes(offsets(numbered(pivoted(typed_arrays(named_calls(single_blanks(tokens)))))))
}

/// Rewrites `PIVOT(... FOR (a > 1) IN ...)`: without the parentheses the parser reads names only.
fn pivoted(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "PIVOT")) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let (mut open, mut after_for) = (Vec::new(), false);
    for token in tokens {
        match token.token {
            Token::LParen => {
                open.push(after_for);
                if after_for {
                    out.push(token.clone());
                }
            }
            Token::RParen if open.pop() == Some(true) => out.push(token.clone()),
            _ => {}
        }
        after_for = is_word(&token, "FOR") || after_for && is_blank(&token);
        out.push(token);
    }
    out
}

/// Rewrites `AS 1`, which UNPIVOT takes within its parentheses.
fn numbered(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "UNPIVOT")) {
        return tokens;
    }
    let (mut depth, mut after_unpivot, mut after_as) = (0_usize, false, false);
    for token in tokens.iter_mut().filter(|token| !is_blank(token)) {
        match &token.token {
            Token::LParen if depth > 0 || after_unpivot => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Number(text, _) if depth > 0 && after_as => token.token = number(text),
            _ => {}
        }
        after_as = is_word(token, "AS");
        // Between the word and its parentheses may stand INCLUDE NULLS.
        let between = ["INCLUDE", "EXCLUDE", "NULLS"].iter().any(|word| is_word(token, word));
        after_unpivot = is_word(token, "UNPIVOT") || after_unpivot && between;
    }
    tokens
}

/// Words that are no name of an offset, but begin what follows.
const AFTER_OFFSET: [&str; 20] = [
    "JOIN",
    "INNER",
    "LEFT",
    "RIGHT",
    "FULL",
    "CROSS",
    "NATURAL",
    "ON",
    "USING",
    "WHERE",
    "GROUP",
    "HAVING",
    "QUALIFY",
    "WINDOW",
    "ORDER",
    "LIMIT",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "TABLESAMPLE",
];

fn offsets(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "OFFSET")) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let next = |from: usize| next(&tokens, from);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let offset = next(at).filter(|(_, word)| is_word(token, "WITH") && is_word(word, "OFFSET"));
        let Some((place, offset)) = offset else {
            out.push(token.clone());
            continue;
        };
        unnested_path(&mut out);
        out.extend([token.clone(), added(token, BLANK), offset.clone()]);
        at = place + 1;
        let reserved = |word: &TokenWithSpan| AFTER_OFFSET.iter().any(|reserved| is_word(word, reserved));
        if next(at).is_some_and(|(_, word)| reserved(word)) {
            let name = Word { value: "offset".to_owned(), quote_style: None, keyword: Keyword::NoKeyword };
            out.extend([BLANK, Token::make_keyword("AS"), BLANK, Token::Word(name)].map(|word| added(offset, word)));
        }
    }
    out
}

/// Sets UNNEST around a path at the end, before its alias, where it stands as a table.
fn unnested_path(out: &mut Vec<TokenWithSpan>) {
    let before = |at: usize| out.get(..at).unwrap_or_default().iter().rposition(|token| !is_blank(token));
    let is_name = |at: usize| out.get(at).is_some_and(|token| matches!(token.token, Token::Word(_)));
    let begins = |at: usize| {
        let of =
            |token: &TokenWithSpan| token.token == Token::Comma || is_word(token, "FROM") || is_word(token, "JOIN");
        out.get(at).is_some_and(of)
    };
    // The path that ends with the name at `end`: where it begins, if it has several parts and is a table.
    let path = |end: usize| {
        let (mut start, mut parts) = (end, 1);
        while let Some(dot) = before(start)
            && out.get(dot).is_some_and(|token| token.token == Token::Period)
            && let Some(name) = before(dot).filter(|name| is_name(*name))
        {
            (start, parts) = (name, parts + 1);
        }
        before(start).filter(|keyword| parts > 1 && begins(*keyword)).map(|_| start)
    };
    let Some(last) = before(out.len()).filter(|last| is_name(*last)) else { return };
    // The last name is the end of the path, or an alias behind it.
    let alias = before(last)
        .map(|at| if out.get(at).is_some_and(|token| is_word(token, "AS")) { before(at) } else { Some(at) });
    let found = match path(last) {
        Some(start) => Some((start, last, true)),
        None => alias.flatten().filter(|end| is_name(*end)).and_then(|end| Some((path(end)?, end, false))),
    };
    let Some((start, end, unnamed)) = found else { return };
    let Some(name) = out.get(end).cloned() else { return };
    let mut after = vec![added(&name, Token::RParen)];
    if unnamed {
        after.extend([added(&name, BLANK), added(&name, Token::make_keyword("AS")), added(&name, BLANK), name.clone()]);
    }
    out.splice(end + 1..end + 1, after);
    let unnest = [Token::make_keyword("UNNEST"), Token::LParen].map(|word| added(&name, word));
    out.splice(start..start, unnest);
}

/// The markers that LIKE of any, or of all, elements of an array becomes a call of.
pub(crate) const LIKE_ANY: &str = "like any";
pub(crate) const LIKE_ALL: &str = "like all";

fn quantified_likes(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "LIKE") || is_word(token, "ILIKE")) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // The parentheses that are open, each with whether one more is to be closed with it.
    let mut open: Vec<bool> = Vec::new();
    let mut at = 0;
    let next = |from: usize| next(&tokens, from);
    while let Some(token) = tokens.get(at) {
        at += 1;
        out.push(token.clone());
        match &token.token {
            Token::LParen => open.push(false),
            Token::RParen if open.pop() == Some(true) => out.push(token.clone()),
            Token::Word(_) if is_word(token, "LIKE") || is_word(token, "ILIKE") => {
                let Some((place, quantifier)) = next(at) else { continue };
                let name = match () {
                    () if is_word(quantifier, "ALL") => LIKE_ALL,
                    () if is_word(quantifier, "ANY") || is_word(quantifier, "SOME") => LIKE_ANY,
                    () => continue,
                };
                let Some((after, what)) = next(place + 1) else { continue };
                if is_word(what, "UNNEST") {
                    out.extend([added(token, BLANK), added(quantifier, marker(name))]);
                    at = after + 1;
                } else if what.token == Token::LParen
                    && let Some((_, first)) = next(after + 1)
                    && ["SELECT", "WITH", "FROM"].iter().any(|word| is_word(first, word))
                {
                    out.extend([added(token, BLANK), added(quantifier, marker(name))]);
                    out.extend([added(what, Token::LParen), added(what, Token::make_keyword("ARRAY")), what.clone()]);
                    open.push(true);
                    at = after + 1;
                }
            }
            _ => {}
        }
    }
    out
}

/// Rewrites raw bytes literals. This runs before literals are unescaped, because raw ones must not be unescaped.
pub(super) fn raw_bytes(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let adjoins = |before: &TokenWithSpan| {
            (is_word(before, "rb") || is_word(before, "br")) && before.span.end == token.span.start
        };
        let escaped = |text: &String| text.replace('\\', r"\\");
        let bytes = match &token.token {
            _ if !out.last().is_some_and(adjoins) => None,
            Token::SingleQuotedString(text) => Some(Token::SingleQuotedByteStringLiteral(escaped(text))),
            Token::DoubleQuotedString(text) => Some(Token::DoubleQuotedByteStringLiteral(escaped(text))),
            Token::TripleSingleQuotedString(text) => Some(Token::TripleSingleQuotedByteStringLiteral(escaped(text))),
            Token::TripleDoubleQuotedString(text) => Some(Token::TripleDoubleQuotedByteStringLiteral(escaped(text))),
            _ => None,
        };
        match (bytes, out.last_mut()) {
            (Some(bytes), Some(before)) => before.token = bytes,
            _ => out.push(token),
        }
    }
    out
}

/// Rewrites calls whose names are not read as names.
fn named_calls(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let begins = |token: &TokenWithSpan| is_word(token, "SAFE") || is_word(token, "HLL_COUNT");
    if !tokens.iter().any(begins) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let (mut at, mut after_dot) = (0, false);
    while let Some(token) = tokens.get(at) {
        if !after_dot
            && begins(token)
            && let Some((name, end)) = dotted_name(&tokens, at)
            && next(&tokens, end).is_some_and(|(_, bracket)| bracket.token == Token::LParen)
        {
            out.extend(name);
            at = end;
            continue;
        }
        after_dot = token.token == Token::Period || after_dot && is_blank(token);
        out.push(token.clone());
        at += 1;
    }
    out
}

/// Rewrites typed arrays in a single pass over the tokens: a text may have thousands of typed arrays, nested or in
/// sequence.
fn typed_arrays(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let closing = closing_brackets(&tokens);
    let mut out = Vec::with_capacity(tokens.len());
    // The typed arrays that contain the current token. Each has the position of its end, and the tokens of its type.
    let mut open: Vec<(usize, &[TokenWithSpan])> = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if let Some(list) = list_of_typed_array(&tokens, at)
            && let Some(Some(end)) = closing.get(list)
            && let Some(ty) = tokens.get(at..list)
        {
            out.extend([added(token, Token::make_keyword("CAST")), added(token, Token::LParen)]);
            open.push((*end, ty));
            at = list;
            continue;
        }
        out.push(token.clone());
        while let Some((_, ty)) = open.pop_if(|(end, _)| *end == at) {
            let Some(first) = ty.first() else { continue };
            out.extend([added(first, BLANK), added(first, Token::make_keyword("AS")), added(first, BLANK)]);
            out.extend_from_slice(ty);
            out.push(added(first, Token::RParen));
        }
        at += 1;
    }
    out
}

/// For each `[` the index of the matching `]`, if there is one.
fn closing_brackets(tokens: &[TokenWithSpan]) -> Vec<Option<usize>> {
    let (mut closing, mut open) = (vec![None; tokens.len()], Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LBracket => open.push(at),
            Token::RBracket => {
                if let Some(place) = open.pop().and_then(|opened: usize| closing.get_mut(opened)) {
                    *place = Some(at);
                }
            }
            _ => {}
        }
    }
    closing
}

/// The index of the `[` of an `ARRAY<...>[...]` that begins at `start`.
fn list_of_typed_array(tokens: &[TokenWithSpan], start: usize) -> Option<usize> {
    /// The limit on the tokens of a type. Types are short, so the search for their end stops here.
    const LONGEST_TYPE: usize = 256;
    if !tokens.get(start).is_some_and(|token| is_word(token, "ARRAY")) {
        return None;
    }
    // Consecutive whitespace tokens were merged before, so at most one is skipped.
    let significant = |from: usize| (from..from + 2).find(|at| tokens.get(*at).is_some_and(|token| !is_blank(token)));
    let from = significant(start + 1).filter(|at| tokens.get(*at).is_some_and(|token| token.token == Token::Lt))?;
    let mut depth = 0_i32;
    for (at, token) in tokens.iter().enumerate().skip(from).take(LONGEST_TYPE) {
        depth += match token.token {
            Token::Lt => 1,
            Token::Gt => -1,
            Token::ShiftRight => -2,
            _ => 0,
        };
        if depth <= 0 {
            let list = significant(at + 1).filter(|_| depth == 0)?;
            return tokens.get(list).is_some_and(|token| token.token == Token::LBracket).then_some(list);
        }
    }
    None
}

/// Merges consecutive whitespace and comments to one token. The parser skips them again each time that it peeks at a
/// token, and needs to know only whether there are any.
fn single_blanks(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut after_blank = false;
    tokens.retain(|token| {
        let blank = is_blank(token);
        !(std::mem::replace(&mut after_blank, blank) && blank)
    });
    tokens
}
