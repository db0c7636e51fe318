//! The pipe syntax, respelled so that the parser reads it.
//!
//! - A query that begins with FROM gets a select list, which is a marker.
//! - The parser's own SELECT, EXTEND, AGGREGATE and DROP take less than the language, and it has no DISTINCT, WINDOW and
//!   WITH. These become a UNION of queries that begin with a marker and hold what the operator holds:
//!   `|> EXTEND a + 1 AS b` is read as `|> UNION ALL (SELECT marker), (SELECT a + 1 AS b)`, and
//!   `|> AGGREGATE SUM(n) AS s DESC GROUP BY k` as `|> UNION ALL (SELECT marker, SUM(n) AS s, marker), (SELECT marker, k)`.
//! - ASSERT becomes a CALL of a marker.
//! - A comma at the end of a list is left out.
//!
//! Each token keeps its position, so mistakes in piped text are shown where they are.

use sqlparser::ast::{ObjectNamePart, TableFactor};
use sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use tidegate_model::{Code, nearest};

use super::markers::{added, marker, marker_name};
use super::tokens::{BLANK, is_blank, is_word, next};
use crate::fail::{Result, fail, place_of, unsupported};

/// The marker in the place of the select list of a query that begins with FROM.
pub(crate) const FROM: &str = "from";
/// The markers of pipe operators.
pub(crate) const SELECT: &str = "select";
pub(crate) const EXTEND: &str = "extend";
pub(crate) const WINDOW: &str = "window";
pub(crate) const DISTINCT: &str = "distinct";
pub(crate) const WITH: &str = "with";
pub(crate) const DROP: &str = "drop";
/// The marker of PIVOT and UNPIVOT, and the table that they are of.
pub(crate) const PIVOT: &str = "pivot";
pub(crate) const INPUT: &str = "input";
pub(crate) const ASSERT: &str = "assert";
pub(crate) const AGGREGATE: &str = "aggregate";
/// The marker before the keys of an AGGREGATE, and before those that order as well.
pub(crate) const GROUP: &str = "group";
pub(crate) const GROUP_AND_ORDER: &str = "group and order";
/// What a marker after an item of an AGGREGATE begins with that says how the item orders, such as `order desc nulls last`.
pub(crate) const ORDER: &str = "order";

/// Operators that the parser reads as they are.
const PLAIN: [&str; 15] = [
    "WHERE",
    "LIMIT",
    "ORDER",
    "SET",
    "RENAME",
    "AS",
    "JOIN",
    "INNER",
    "LEFT",
    "RIGHT",
    "FULL",
    "CROSS",
    "UNION",
    "INTERSECT",
    "EXCEPT",
];
/// Operators that are respelled.
const RESPELLED: [&str; 10] =
    ["SELECT", "EXTEND", "WINDOW", "DISTINCT", "DROP", "WITH", "AGGREGATE", "ASSERT", "PIVOT", "UNPIVOT"];
/// Operators that are not there, and what to write instead.
const MISSING: [(&str, Option<&str>); 15] = [
    ("CALL", Some("there are no table functions; name a CTE of WITH in FROM")),
    ("TABLESAMPLE", Some("write |> WHERE RAND() < 0.1")),
    ("RECURSIVE", Some("UNNEST(GENERATE_ARRAY(1, 10)) AS n makes rows")),
    ("MATCH_RECOGNIZE", Some("write window functions: |> EXTEND LAG(x) OVER (ORDER BY timestamp) AS before")),
    ("DESCRIBE", Some("the answer has the names and types of its columns")),
    ("STATIC_DESCRIBE", Some("the answer has the names and types of its columns")),
    ("LOG", None),
    ("IF", Some("write the operators that are meant")),
    ("FORK", Some("send a query for each result")),
    ("TEE", Some("send a query for each result")),
    ("FINISH", None),
    ("CREATE", Some("only queries are allowed")),
    ("EXPORT", Some("only queries are allowed")),
    ("INSERT", Some("only queries are allowed")),
    ("NATURAL", Some("name the columns with USING (...)")),
];

/// The tokens within one pair of brackets, or outside of all.
struct Frame {
    /// Whether the first token is still to come.
    fresh: bool,
    /// Whether a FROM would begin a query: no SELECT has come, and nothing else but a WITH.
    awaits: bool,
    /// Whether it begins with a query in parentheses.
    parenthesised: bool,
    /// What ends the operator that stands here, if one does.
    operator: Option<Vec<Token>>,
    /// Whether that is AGGREGATE.
    aggregates: bool,
}

impl Frame {
    fn new() -> Self {
        Self { fresh: true, awaits: true, parenthesised: false, operator: None, aggregates: false }
    }
}

/// Respells queries with pipes.
///
/// # Errors
/// Operators that are not there.
pub(super) fn respelled(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    if !is_piped(&tokens) {
        return Ok(tokens);
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut frames = vec![Frame::new()];
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        if is_blank(token) {
            out.push(token.clone());
            continue;
        }
        let Some(frame) = frames.last_mut() else { break };
        let first = std::mem::replace(&mut frame.fresh, false);
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                frame.awaits &= !first;
                frame.parenthesised |= first && token.token == Token::LParen;
                frames.push(Frame::new());
                out.push(token.clone());
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                end_operator(&mut out, frame, token);
                if frames.len() > 1 {
                    frames.pop();
                }
                out.push(token.clone());
                // `(query) AS name |> ...` is `(query) |> AS name |> ...`.
                let of_query = frames.last_mut().is_some_and(|frame| std::mem::take(&mut frame.parenthesised));
                if of_query && let Some(end) = alias_before_pipe(&tokens, at) {
                    out.extend([added(token, BLANK), added(token, Token::VerticalBarRightAngleBracket)]);
                    if !next(&tokens, at).is_some_and(|(_, word)| is_word(word, "AS")) {
                        out.extend([added(token, BLANK), added(token, Token::make_keyword("AS"))]);
                    }
                    out.extend(tokens.get(at..end).unwrap_or_default().iter().cloned());
                    at = end;
                }
            }
            Token::SemiColon | Token::EOF => {
                end_operator(&mut out, frame, token);
                out.push(token.clone());
            }
            Token::VerticalBarRightAngleBracket => {
                end_operator(&mut out, frame, token);
                frame.awaits = false;
                out.push(token.clone());
                at = begin_operator(&tokens, at, &mut out, frame)?;
            }
            Token::Word(word) if word.quote_style.is_none() => {
                match word.keyword {
                    Keyword::FROM if frame.awaits && !is_reserved(tokens.get(at..).unwrap_or_default()) => {
                        frame.awaits = false;
                        let select = [Token::make_keyword("SELECT"), BLANK, marker(FROM), BLANK];
                        out.extend(select.map(|word| added(token, word)));
                    }
                    Keyword::WITH if first => {}
                    Keyword::SELECT | Keyword::DELETE | Keyword::INSERT | Keyword::UPDATE | Keyword::MERGE => {
                        frame.awaits = false
                    }
                    _ if first => frame.awaits = false,
                    Keyword::GROUP if frame.aggregates => {
                        let ordered = words(&tokens, at, &["AND", "ORDER", "BY"]);
                        if let Some(end) = ordered.or_else(|| words(&tokens, at, &["BY"])) {
                            without_comma(&mut out);
                            let name = if ordered.is_some() { GROUP_AND_ORDER } else { GROUP };
                            let keys = [Token::RParen, Token::Comma].into_iter().chain(marked_list(name));
                            out.extend(keys.map(|word| added(token, word)));
                            at = end;
                            continue;
                        }
                    }
                    Keyword::ASC | Keyword::DESC if frame.aggregates => {
                        let mut name = format!("{ORDER} {}", word.value.to_lowercase());
                        for nulls in ["FIRST", "LAST"] {
                            if let Some(end) = words(&tokens, at, &["NULLS", nulls]) {
                                name = format!("{name} nulls {}", nulls.to_lowercase());
                                at = end;
                            }
                        }
                        out.extend([added(token, Token::Comma), added(token, marker(&name))]);
                        continue;
                    }
                    Keyword::WINDOW if frame.operator.is_some() => without_comma(&mut out),
                    _ => {}
                }
                out.push(token.clone());
            }
            _ => {
                if first {
                    frame.awaits = false;
                }
                out.push(token.clone());
            }
        }
    }
    if let (Some(frame), Some(last)) = (frames.first_mut(), tokens.last()) {
        end_operator(&mut out, frame, last);
    }
    Ok(out)
}

/// Whether a text may have pipes or a query that begins with FROM: at its begin, or behind what such a query follows.
fn is_piped(tokens: &[TokenWithSpan]) -> bool {
    let (mut begins, mut with) = (true, false);
    for token in tokens.iter().filter(|token| !is_blank(token)) {
        match &token.token {
            Token::VerticalBarRightAngleBracket => return true,
            Token::Word(_) if begins && is_word(token, "FROM") => return true,
            _ => {}
        }
        with |= is_word(token, "WITH");
        begins = match token.token {
            Token::LParen | Token::LBracket | Token::LBrace | Token::SemiColon => true,
            Token::RParen => with,
            _ => false,
        };
    }
    false
}

/// Respells the begin of an operator, whose pipe is before `at`. Gives the token after that.
fn begin_operator(
    tokens: &[TokenWithSpan],
    at: usize,
    out: &mut Vec<TokenWithSpan>,
    frame: &mut Frame,
) -> Result<usize> {
    frame.operator = Some(Vec::new());
    frame.aggregates = false;
    let Some((place, token)) = next(tokens, at) else { return Ok(at) };
    let Token::Word(word) = &token.token else { return Ok(at) };
    let name = word.value.to_uppercase();
    let union = |name: &str| {
        let marked = [Token::LParen, Token::make_keyword("SELECT"), BLANK, marker(name), Token::RParen];
        [BLANK, Token::make_keyword("UNION"), BLANK, Token::make_keyword("ALL")].into_iter().chain(marked)
    };
    let mut put = |words: &mut dyn Iterator<Item = Token>| out.extend(words.map(|word| added(token, word)));
    let query = || [Token::Comma, Token::LParen, Token::make_keyword("SELECT")].into_iter();
    match name.as_str() {
        "SELECT" => put(&mut union(SELECT).chain(query())),
        "EXTEND" => put(&mut union(EXTEND).chain(query())),
        "WINDOW" => put(&mut union(WINDOW).chain(query())),
        "PIVOT" | "UNPIVOT" => {
            let from = [Token::Comma, Token::LParen, Token::make_keyword("SELECT"), BLANK, marker(FROM), BLANK];
            let table = [Token::make_keyword("FROM"), BLANK, marker(INPUT), BLANK, token.token.clone()];
            put(&mut union(PIVOT).chain(from).chain(table));
        }
        "DROP" => put(&mut union(DROP).chain(query())),
        "AGGREGATE" => {
            put(&mut [BLANK, Token::make_keyword("UNION"), BLANK, Token::make_keyword("ALL")].into_iter());
            put(&mut marked_list(AGGREGATE));
            frame.aggregates = true;
        }
        "DISTINCT" => {
            put(&mut union(DISTINCT));
            return Ok(place + 1);
        }
        "WITH" => {
            put(&mut union(WITH).chain([Token::Comma, Token::LParen, Token::make_keyword("WITH")]));
            let end = [BLANK, Token::make_keyword("SELECT"), BLANK, marker(WITH), Token::RParen];
            frame.operator = Some(end.to_vec());
            return Ok(place + 1);
        }
        "ASSERT" => put(&mut [BLANK, Token::make_keyword("CALL"), BLANK, marker(ASSERT), Token::LParen].into_iter()),
        _ => {
            let known = || PLAIN.iter().chain(&RESPELLED);
            if let Some((_, instead)) = MISSING.iter().find(|(missing, _)| *missing == name) {
                return Err(unsupported(format!("the pipe operator {name}"), *instead, place_of(token.span)));
            }
            if !known().any(|known| *known == name) {
                let near =
                    nearest(&name, known().copied()).map_or(String::new(), |near| format!("; did you mean {near}?"));
                let message = format!("there is no pipe operator {}{near}", word.value);
                return Err(fail(Code::Syntax, message, place_of(token.span)));
            }
            return Ok(at);
        }
    }
    frame.operator = Some(vec![Token::RParen]);
    Ok(place + 1)
}

/// The begin of a query that is a list after a marker.
fn marked_list(name: &str) -> impl Iterator<Item = Token> {
    [Token::LParen, Token::make_keyword("SELECT"), BLANK, marker(name), Token::Comma].into_iter()
}

/// Ends the operator that stands in a frame before `token`.
fn end_operator(out: &mut Vec<TokenWithSpan>, frame: &mut Frame, token: &TokenWithSpan) {
    if let Some(end) = frame.operator.take() {
        frame.aggregates = false;
        without_comma(out);
        out.extend(end.into_iter().map(|word| added(token, word)));
    }
}

/// Takes a comma off the end.
fn without_comma(out: &mut Vec<TokenWithSpan>) {
    if let Some(last) = out.iter().rposition(|token| !is_blank(token))
        && out.get(last).is_some_and(|token| token.token == Token::Comma)
    {
        out.remove(last);
    }
}

/// Where the alias ends that stands at `at`, if a pipe follows it.
fn alias_before_pipe(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let start = words(tokens, at, &["AS"]).unwrap_or(at);
    let (place, _) = next(tokens, start).filter(|(_, token)| matches!(token.token, Token::Word(_)))?;
    let (_, pipe) = next(tokens, place + 1)?;
    (pipe.token == Token::VerticalBarRightAngleBracket).then_some(place + 1)
}

/// The token after these words, if they stand at `at`.
fn words(tokens: &[TokenWithSpan], at: usize, wanted: &[&str]) -> Option<usize> {
    wanted.iter().try_fold(at, |at, wanted| {
        next(tokens, at).filter(|(_, token)| is_word(token, wanted)).map(|(place, _)| place + 1)
    })
}

/// Whether a table is that before an operator.
pub(crate) fn is_input(table: &TableFactor) -> bool {
    let TableFactor::Table { name, .. } = table else { return false };
    matches!(name.0.as_slice(), [ObjectNamePart::Identifier(name)] if marker_name(name) == Some(INPUT))
}

/// Whether tokens begin with a word that is no name: a query does not begin with `FROM FROM`.
fn is_reserved(tokens: &[TokenWithSpan]) -> bool {
    match tokens.iter().find(|token| !is_blank(token)).map(|token| &token.token) {
        Some(Token::Word(word)) => {
            word.quote_style.is_none()
                && (word.keyword == Keyword::FROM || RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword))
        }
        _ => false,
    }
}
