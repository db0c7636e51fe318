//! Text -> syntax tree: exactly one query, read in the BigQuery dialect, under limits.
//!
//! The resolver and the engine walk the tree by recursion. So the tree that leaves this module is
//! shallow: nesting and chains of operators are bounded, and the one chain that is long in practice,
//! of ANDs or ORs, is balanced. The text is read on a stack that the worst text within the limits
//! cannot overflow.

mod chained;
mod dialect;
mod foreign;
mod formats;
mod grouping;
mod literal;
mod markers;
mod names;
pub(crate) mod pipes;
mod plain;
mod ranges;
mod respell;
mod set_matching;
mod shape;
mod tokens;

use sqlparser::ast::{Query, Statement};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use tidegate_model::{Code, Failure, Position, TextLimits};

use crate::fail::{Result, fail, place_of};
pub(crate) use chained::WITH;
use dialect::TidegateDialect;
pub(crate) use foreign::foreign_operator;
pub(crate) use formats::FORMATTED;
pub(crate) use grouping::{GroupingCall, grouping_call, keys_of_set};
pub(crate) use literal::unescape_bytes;
pub(crate) use markers::{marked_items, marked_number, marked_query, marker_name, spelled, spelled_failure};
pub(crate) use names::written;
pub(crate) use plain::plain_query;
pub(crate) use ranges::range_of;
pub(crate) use respell::{LIKE_ALL, LIKE_ANY};
pub(crate) use set_matching::{Matching, MatchingMode, matching_of};

/// The stack on which a text is read, in bytes, and how much of it must be there.
const STACK: usize = 64 << 20;
const STACK_LEFT: usize = 32 << 20;
/// How often the parser may begin an expression, for each token of the text.
const WORK: usize = 32;

/// Reads the one query of `sql`.
///
/// # Errors
/// Syntax errors with their place, texts over the limits, several statements, and statements
/// that are no query.
pub(crate) fn parse(sql: &str, limits: &TextLimits) -> Result<Box<Query>> {
    if sql.len() > limits.bytes {
        let message = format!("the statement is {} bytes long; at most {} are allowed", sql.len(), limits.bytes);
        return Err(Failure::new(Code::TooLarge, message));
    }
    stacker::maybe_grow(STACK_LEFT, STACK, || read(sql, limits)).map_err(spelled_failure)
}

fn read(sql: &str, limits: &TextLimits) -> Result<Box<Query>> {
    let dialect = TidegateDialect::new(usize::MAX, limits.nesting);
    let spelled = names::doubled(sql);
    let tokens = Tokenizer::new(&dialect, &spelled).with_unescape(false).tokenize_with_location().map_err(|error| {
        let at = Position { line: error.location.line, column: error.location.column };
        fail(Code::Syntax, sentence(&error.message), Some(at))
    })?;
    if tokens.len() > limits.tokens {
        let message = format!("the statement has {} tokens; at most {} are allowed", tokens.len(), limits.tokens);
        return Err(Failure::new(Code::TooLarge, message));
    }
    foreign::refuse_hidden(&tokens)?;
    let second = second_statement(&tokens);
    let mut tokens = respell::raw_bytes(tokens);
    for token in &mut tokens {
        literal::unescape_token(token);
        names::unescape_token(token);
    }
    let tokens = ranges::respelled(literal::joined(tokens)?)?;
    if brackets(&tokens) > limits.nesting {
        return Err(too_deep(limits));
    }
    let tokens = chained::respelled(grouping::respelled(formats::respelled(respell::respell(tokens))));
    let tokens = pipes::respelled(set_matching::respelled(tokens)?)?;
    let work = (tokens.len() + sql.len() / dialect::STEP).saturating_mul(WORK).max(1024);
    let dialect = TidegateDialect::new(work, limits.nesting);
    let mut parser = Parser::new(&dialect).with_recursion_limit(limits.nesting).with_tokens_with_locations(tokens);
    let statements = parser.parse_statements().map_err(|error| match error {
        _ if dialect.is_exhausted() => too_complicated(),
        error => {
            let dialect = TidegateDialect::new(usize::MAX, limits.nesting);
            let written = Tokenizer::new(&dialect, &spelled).tokenize_with_location().unwrap_or_default();
            foreign::at_operator(syntax(error, sql, limits), &written)
        }
    })?;
    let mut statements = statements.into_iter();
    match (statements.next(), statements.next()) {
        (Some(_), Some(_)) => Err(fail(Code::Unsupported, "only one statement is allowed", second)),
        (Some(Statement::Query(mut query)), None) => {
            shape::shallow(&mut query, limits)?;
            Ok(query)
        }
        (Some(other), None) => {
            let text = other.to_string();
            let verb: String = text.split_whitespace().next().unwrap_or("this").to_uppercase();
            Err(fail(Code::Unsupported, format!("{verb} is not allowed; only SELECT queries are"), first_place(sql)))
        }
        (None, _) => Err(Failure::new(Code::Syntax, "the query is empty")),
    }
}

fn first_place(sql: &str) -> Option<Position> {
    sql.chars().any(|c| !c.is_whitespace()).then_some(Position { line: 1, column: 1 })
}

/// How deep brackets nest. The parser counts most of them, but not those of types.
fn brackets(tokens: &[TokenWithSpan]) -> usize {
    let (mut deepest, mut round, mut angular) = (0, 0_usize, 0_usize);
    let mut of_type = false;
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => round += 1,
            Token::RParen | Token::RBracket | Token::RBrace => round = round.saturating_sub(1),
            Token::Lt if of_type => angular += 1,
            Token::Gt => angular = angular.saturating_sub(1),
            Token::ShiftRight => angular = angular.saturating_sub(2),
            Token::Whitespace(_) => continue,
            _ => {}
        }
        of_type = matches!(&token.token, Token::Word(word) if matches!(word.keyword, Keyword::ARRAY | Keyword::STRUCT));
        deepest = deepest.max(round + angular);
    }
    deepest
}

/// Where a second statement begins, if there is one.
fn second_statement(tokens: &[TokenWithSpan]) -> Option<Position> {
    let mut after_semicolon = false;
    for token in tokens {
        match &token.token {
            Token::SemiColon => after_semicolon = true,
            Token::Whitespace(_) | Token::EOF => {}
            _ if after_semicolon => return place_of(token.span),
            _ => {}
        }
    }
    None
}

/// The parser writes its place into its text: take it out again.
fn syntax(error: ParserError, sql: &str, limits: &TextLimits) -> Failure {
    let text = match error {
        ParserError::RecursionLimitExceeded => {
            return too_deep(limits);
        }
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => text,
    };
    let (message, at) = match text.rsplit_once(" at Line: ") {
        Some((message, place)) => {
            let mut numbers = place.split(", Column: ").filter_map(|number| number.trim().parse().ok());
            let at = match (numbers.next(), numbers.next()) {
                (Some(line), Some(column)) => Some(Position { line, column }),
                _ => None,
            };
            (message.to_owned(), at)
        }
        // The end has no place in the parser's eyes.
        None if text.ends_with("found: EOF") => (text, Some(end(sql))),
        None => (text, None),
    };
    fail(Code::Syntax, sentence(&message), at)
}

/// The place behind the last character that is not white space.
fn end(sql: &str) -> Position {
    let text = sql.trim_end();
    let (before, last) = text.rsplit_once('\n').unwrap_or(("", text));
    let line = if before.len() < text.len() - last.len() { before.matches('\n').count() + 2 } else { 1 };
    Position { line: line as u64, column: last.chars().count() as u64 + 1 }
}

fn too_complicated() -> Failure {
    let message = "the statement cannot be read in reasonable time: it has a mistake inside deep nesting";
    Failure::new(Code::TooLarge, message)
}

fn too_deep(limits: &TextLimits) -> Failure {
    Failure::new(Code::TooLarge, format!("the statement nests deeper than {} levels", limits.nesting))
}

fn sentence(message: &str) -> String {
    format!(
        "syntax error: {}",
        message
            .replacen("Expected: ", "expected ", 1)
            .replace("an SQL statement", "a SELECT query")
            .replace("found: EOF", "found the end")
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn parse(sql: &str) -> Result<Box<Query>> {
        super::parse(sql, &TextLimits::default())
    }

    #[test]
    fn only_one_query_is_taken() {
        assert!(parse("select 1;").is_ok());
        assert!(parse("-- a comment\nselect 1 -- more\n;\n").is_ok());
        for (sql, code) in [
            ("select 1; select 2", Code::Unsupported),
            ("drop table x", Code::Unsupported),
            ("explain select 1", Code::Unsupported),
            ("", Code::Syntax),
            ("  -- nothing\n", Code::Syntax),
            ("select from where", Code::Syntax),
        ] {
            assert_eq!(parse(sql).unwrap_err().code, code, "{sql}");
        }
    }

    #[test]
    fn a_syntax_error_has_its_place() {
        let failure = parse("select a\nfrom t where )").unwrap_err();
        assert_eq!(failure.position.map(|at| at.line), Some(2), "{failure}");
        assert!(!failure.message.contains("Line:"), "{failure}");
    }

    #[test]
    fn deep_nesting_is_refused_not_overflowed() {
        let nested = |open: &str, close: &str| format!("select {}1{}", open.repeat(5000), close.repeat(5000));
        for sql in [
            nested("(", ")"),
            nested("- ", ""),
            nested("not ", ""),
            nested("cast(", " as int64)"),
            nested("[", "]"),
            nested("case when true then ", " end"),
            nested("abs(", ")"),
            nested("interval ", " day"),
            nested("struct(", ")"),
        ] {
            assert_eq!(parse(&sql).unwrap_err().code, Code::TooLarge);
        }
    }

    #[test]
    fn types_and_tables_nest_without_harm() {
        for depth in [60, 5_000] {
            let nested =
                |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
            for sql in [
                format!("select cast(1 as {})", nested("array<", "int64", ">")),
                format!("select cast(1 as {})", nested("array<", "int64", " >")),
                format!("select cast(1 as {})", nested("struct<a ", "int64", " >")),
                format!("select cast(1 as {})", nested("struct<a range<date>, b range<date>, c ", "int64", ">")),
                format!("select {} '[null, null)'", nested("range<", "date", ">")),
                format!("select {}(1)", nested("struct<a ", "int64", " >")),
                format!("select 1 from {}", nested("(", "t join u on true", ")")),
                format!("select 1 from {}", nested("(", "t", ")")),
                format!("select 1 from {}", nested("(select 1 from ", "t", ")")),
                format!("select 1 from t {}", nested("join (u ", "", ")")),
                format!("select 1 from t {}", nested("join u ", "", "on true ")),
                format!("select a{}", nested("[a", "", "]")),
                format!("select {}", nested("x -> ", "1", "")),
                format!("select a {}", nested("between a and ", "1", "")),
                format!("select a {}", nested("like a escape ", "'b'", "")),
                nested("(", "select 1", ")"),
                nested("with a as (", "select 1", ") select 1"),
                nested("explain ", "select 1", ""),
                nested("begin ", "select 1", "end"),
                nested("if true then ", "select 1;", " end if;"),
                nested("create table a as ", "select 1", ""),
            ] {
                let _ = parse(&sql);
            }
        }
    }

    #[test]
    fn a_mistake_inside_nesting_is_found_in_time() {
        let began = std::time::Instant::now();
        for (open, close) in [
            ("cast(", " as int64)"),
            ("not (", ")"),
            ("case when ", " end"),
            ("exists(select ", ")"),
            ("array(select ", ")"),
            ("struct(", ")"),
            ("interval ", " day"),
            ("safe_cast(", " as int64)"),
            ("trim(", ")"),
            ("substring(", ")"),
            ("ceil(", ")"),
            ("extract(", ")"),
            ("f(", ")"),
            ("(select * from (", ")"),
            ("(select * from ((", "))"),
            ("x in ((", "))"),
            ("x in (select ", ")"),
            ("convert(", ")"),
            ("position(", ")"),
            ("overlay(", ")"),
        ] {
            for mistake in ["1 1", "from from", ")", "'"] {
                let sql = format!("select {}{mistake}{}", open.repeat(28), close.repeat(28));
                assert!(parse(&sql).is_err(), "{sql}");
            }
        }
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }

    #[test]
    fn a_text_that_ends_too_early_has_a_place() {
        for (sql, line, column) in
            [("select 1 +", 1, 11), ("select (1", 1, 10), ("select a\nfrom  \n ", 2, 5), ("\n\nselect 'é' +", 3, 13)]
        {
            let failure = parse(sql).unwrap_err();
            assert_eq!(failure.position, Some(Position { line, column }), "{sql}: {failure}");
            assert!(failure.message.contains("found the end"), "{sql}: {failure}");
        }
    }
}
