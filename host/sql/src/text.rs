//! Text -> syntax tree: exactly one query, read in the BigQuery dialect, under limits.
//!
//! The parser's own unescaping of literals is not BigQuery's (it drops the backslash of an
//! unknown escape, which people type in search boxes), so literals are tokenized raw and
//! unescaped here.

use sqlparser::ast::{Query, Statement};
use sqlparser::dialect::{BigQueryDialect, Dialect};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use tidegate_model::{Code, Failure, Position, TextLimits};

use crate::fail::{Result, fail, place_of};

/// BigQuery's dialect and the spellings of others whose meaning is clear.
#[derive(Debug)]
struct TidegateDialect(BigQueryDialect);

impl Dialect for TidegateDialect {
    fn dialect(&self) -> std::any::TypeId {
        // The parser asks for the dialect by type in many places; to all of them this is BigQuery.
        self.0.dialect()
    }
    fn parse_statement(&self, parser: &mut Parser) -> Option<std::result::Result<Statement, ParserError>> {
        self.0.parse_statement(parser)
    }
    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        self.0.is_delimited_identifier_start(ch)
    }
    fn is_identifier_start(&self, ch: char) -> bool {
        self.0.is_identifier_start(ch)
    }
    fn is_identifier_part(&self, ch: char) -> bool {
        self.0.is_identifier_part(ch)
    }
    fn supports_projection_trailing_commas(&self) -> bool {
        true
    }
    fn supports_triple_quoted_string(&self) -> bool {
        true
    }
    fn supports_window_function_null_treatment_arg(&self) -> bool {
        true
    }
    fn supports_string_literal_backslash_escape(&self) -> bool {
        true
    }
    fn supports_window_clause_named_window_reference(&self) -> bool {
        true
    }
    fn supports_select_wildcard_except(&self) -> bool {
        true
    }
    fn supports_select_wildcard_replace(&self) -> bool {
        true
    }
    fn supports_struct_literal(&self) -> bool {
        true
    }
    fn supports_select_expr_star(&self) -> bool {
        true
    }
    fn supports_table_versioning(&self) -> bool {
        true
    }
    fn supports_group_by_expr(&self) -> bool {
        true
    }
    fn supports_comma_separated_trim(&self) -> bool {
        true
    }
    fn supports_pipe_operator(&self) -> bool {
        true
    }
    fn is_column_alias(&self, keyword: &Keyword, parser: &mut Parser) -> bool {
        self.0.is_column_alias(keyword, parser)
    }
    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }
}

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
    let dialect = TidegateDialect(BigQueryDialect);
    let mut tokens = Tokenizer::new(&dialect, sql).with_unescape(false).tokenize_with_location().map_err(|error| {
        let at = Position { line: error.location.line, column: error.location.column };
        fail(Code::Syntax, sentence(&error.message), Some(at))
    })?;
    if tokens.len() > limits.tokens {
        let message = format!("the statement has {} tokens; at most {} are allowed", tokens.len(), limits.tokens);
        return Err(Failure::new(Code::TooLarge, message));
    }
    let second = second_statement(&tokens);
    for token in &mut tokens {
        unescape_token(token);
    }
    let mut parser = Parser::new(&dialect).with_recursion_limit(limits.nesting).with_tokens_with_locations(tokens);
    let statements = parser.parse_statements().map_err(|error| syntax(error, limits))?;
    let mut statements = statements.into_iter();
    match (statements.next(), statements.next()) {
        (Some(_), Some(_)) => Err(fail(Code::Unsupported, "only one statement is allowed", second)),
        (Some(Statement::Query(query)), None) => Ok(query),
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
fn syntax(error: ParserError, limits: &TextLimits) -> Failure {
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
        None => (text, None),
    };
    fail(Code::Syntax, sentence(&message), at)
}

fn too_deep(limits: &TextLimits) -> Failure {
    Failure::new(Code::TooLarge, format!("the statement nests deeper than {} levels", limits.nesting))
}

fn sentence(message: &str) -> String {
    format!(
        "syntax error: {}",
        message.replacen("Expected: ", "expected ", 1).replace("an SQL statement", "a SELECT query")
    )
}

/// Unescapes a literal's raw text as BigQuery does, with two leniences that clients need:
/// `''` inside single quotes is a quote, and an unknown escape keeps its backslash.
fn unescape_token(token: &mut TokenWithSpan) {
    let quote = match &token.token {
        Token::SingleQuotedString(_) => Some('\''),
        Token::DoubleQuotedString(_) => Some('"'),
        _ => None,
    };
    match &mut token.token {
        Token::SingleQuotedString(text)
        | Token::DoubleQuotedString(text)
        | Token::TripleSingleQuotedString(text)
        | Token::TripleDoubleQuotedString(text) => *text = unescape(text, quote),
        _ => {}
    }
}

fn unescape(raw: &str, quote: Option<char>) -> String {
    if !raw.contains('\\') && quote.is_none_or(|quote| !raw.contains(quote)) {
        return raw.to_owned();
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw.chars().peekable();
    while let Some(c) = rest.next() {
        if Some(c) == quote && rest.peek() == Some(&c) {
            rest.next();
            text.push(c);
            continue;
        }
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.peek().copied() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('a') => text.push('\u{7}'),
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('v') => text.push('\u{b}'),
            Some(same @ ('\\' | '\'' | '"' | '`' | '?')) => text.push(same),
            Some(kind @ ('x' | 'X' | 'u' | 'U')) => {
                let digits = match kind {
                    'u' => 4,
                    'U' => 8,
                    _ => 2,
                };
                let hex: String = rest.clone().skip(1).take(digits).collect();
                let code = (hex.chars().count() == digits).then(|| u32::from_str_radix(&hex, 16).ok()).flatten();
                match code.and_then(char::from_u32) {
                    Some(decoded) => {
                        text.push(decoded);
                        for _ in 0..digits {
                            rest.next();
                        }
                    }
                    None => {
                        text.push('\\');
                        continue;
                    }
                }
            }
            _ => {
                text.push('\\');
                continue;
            }
        }
        rest.next();
    }
    text
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn parse(sql: &str) -> Result<Box<Query>> {
        super::parse(sql, &TextLimits::default())
    }

    #[test]
    fn literals_are_unescaped_as_clients_mean_them() {
        for (raw, expected) in [
            ("it''s", "it's"),
            (r"it\'s", "it's"),
            (r"\\s+", r"\s+"),
            (r"\s+ \. \d", r"\s+ \. \d"),
            (r"tab\tline\n", "tab\tline\n"),
            (r"\x41\u00e9", "Aé"),
            (r"\u12", r"\u12"),
            ("\\", "\\"),
        ] {
            assert_eq!(unescape(raw, Some('\'')), expected, "{raw}");
        }
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
        for sql in
            [format!("select {}1{}", "(".repeat(5000), ")".repeat(5000)), format!("select {}1", "- ".repeat(20_000))]
        {
            assert!(parse(&sql).is_err());
        }
    }
}
