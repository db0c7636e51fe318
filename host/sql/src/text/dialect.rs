//! The SQL dialect for the parser, and a limit on the work that the parser may do for one text.

use std::cell::Cell;

use sqlparser::ast::{BinaryOperator, Expr, Statement, UnaryOperator};
use sqlparser::dialect::{BigQueryDialect, Dialect, Precedence};
use sqlparser::keywords::{Keyword, RESERVED_FOR_IDENTIFIER};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// The number of copied bytes that cost about as much as the start of one expression.
pub(super) const STEP: usize = 256;

/// How strongly comparisons bind, all of them alike. The parser has levels among them, as Postgres does.
const COMPARISON: u8 = 20;
/// How strongly `<<` and `>>` bind: less than `+`, more than `&`.
const SHIFT: u8 = 28;

/// BigQuery's dialect, extended by spellings of other dialects whose meaning is clear.
///
/// In some places the parser tries several alternatives, and parses again from the start of the alternative when one
/// fails. This happens at every level of nesting, so the time is exponential: a mistake inside thirty casts would be
/// parsed a billion times. So the expressions that the parser begins are counted. Beyond a number that no reasonable
/// text reaches, parsing fails.
#[derive(Debug)]
pub(super) struct TidegateDialect {
    base: BigQueryDialect,
    left: Cell<usize>,
    /// The limit on the nesting of expressions; `depth` is the current nesting. The parser has a limit of its own, but
    /// it misses some recursion (such as INTERVAL INTERVAL ...).
    nesting: usize,
    depth: Cell<usize>,
    entered: Cell<bool>,
    /// Whether the interval that is being parsed must have a date part.
    qualified: Cell<bool>,
}

impl TidegateDialect {
    /// A dialect for one text, in which the parser may begin `work` expressions.
    pub(super) fn new(work: usize, nesting: usize) -> Self {
        let (left, depth, entered, qualified) = (Cell::new(work), Cell::new(0), Cell::new(false), Cell::new(false));
        Self { base: BigQueryDialect, left, nesting, depth, entered, qualified }
    }

    /// Parses `INTERVAL n * 5 MINUTE` as in BigQuery: any expression with a date part. If that fails, it may be
    /// `INTERVAL '1 hour'` as in Postgres: a text alone.
    fn interval(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if !parser.peek_keyword(Keyword::INTERVAL) {
            return None;
        }
        let before = self.qualified.replace(true);
        let read = parser.maybe_parse(|parser| {
            parser.expect_keyword(Keyword::INTERVAL)?;
            parser.parse_interval()
        });
        self.qualified.set(false);
        let read = match read {
            Ok(None) => {
                self.entered.set(true);
                Some(parser.parse_prefix())
            }
            Ok(Some(expr)) => Some(Ok(expr)),
            Err(error) => Some(Err(error)),
        };
        self.qualified.set(before);
        read
    }

    /// Parses `~x`, which binds more strongly than every operator between two values.
    fn bitwise_not(&self, parser: &mut Parser) -> Result<Expr, ParserError> {
        parser.expect_token(&Token::Tilde)?;
        let expr = Box::new(parser.parse_subexpr(self.prec_value(Precedence::MulDivModOp))?);
        Ok(Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr })
    }

    /// Whether the parser was stopped because it had used up its work.
    pub(super) fn is_exhausted(&self) -> bool {
        self.left.get() == 0
    }
}

/// `x IN ((SELECT ...), 1)`: the parser takes the first value for the query that the rows come from.
fn in_list(parser: &mut Parser, left: &Expr) -> Option<Result<Expr, ParserError>> {
    let is_word = |token: &Token, keyword: Keyword| matches!(token, Token::Word(word) if word.keyword == keyword);
    let negated = is_word(&parser.peek_nth_token_ref(0).token, Keyword::NOT);
    let at = usize::from(negated);
    if !is_word(&parser.peek_nth_token_ref(at).token, Keyword::IN)
        || (at + 1..at + 3).any(|at| parser.peek_nth_token_ref(at).token != Token::LParen)
    {
        return None;
    }
    let list = parser.maybe_parse(|parser| {
        for _ in 0..at + 2 {
            parser.next_token();
        }
        let list = parser.parse_comma_separated(Parser::parse_expr)?;
        parser.expect_token(&Token::RParen)?;
        if list.len() == 1 { Err(ParserError::ParserError("one query".to_owned())) } else { Ok(list) }
    });
    let of = |list| Expr::InList { expr: Box::new(left.clone()), list, negated };
    list.transpose().map(|list| list.map(of))
}

impl Dialect for TidegateDialect {
    fn dialect(&self) -> std::any::TypeId {
        // The parser checks the type of the dialect in many places. This makes all of them treat it as BigQuery.
        self.base.dialect()
    }
    fn parse_statement(&self, parser: &mut Parser) -> Option<Result<Statement, ParserError>> {
        self.base.parse_statement(parser)
    }
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if self.entered.replace(false) {
            return None;
        }
        // The parser copies the token that it peeks at, which may be a long text.
        let copied = match &parser.peek_token_ref().token {
            Token::SingleQuotedString(text)
            | Token::DoubleQuotedString(text)
            | Token::TripleSingleQuotedString(text)
            | Token::TripleDoubleQuotedString(text) => text.len(),
            Token::Word(word) => word.value.len(),
            _ => 0,
        };
        self.left.set(self.left.get().saturating_sub(1 + copied / STEP));
        if self.is_exhausted() || self.depth.get() >= self.nesting {
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        self.depth.update(|depth| depth + 1);
        let expr = match parser.peek_token_ref().token {
            Token::Tilde => self.bitwise_not(parser),
            _ => self.interval(parser).unwrap_or_else(|| {
                self.entered.set(true);
                parser.parse_prefix()
            }),
        };
        self.depth.update(|depth| depth - 1);
        Some(expr)
    }
    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            Precedence::Eq | Precedence::Between | Precedence::Like | Precedence::Is => COMPARISON,
            other => self.base.prec_value(other),
        }
    }
    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        matches!(parser.peek_token_ref().token, Token::ShiftLeft | Token::ShiftRight).then_some(Ok(SHIFT))
    }
    fn parse_infix(&self, parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        if precedence != COMPARISON {
            return None;
        }
        if is_comparison(left) {
            let place = parser.peek_token_ref().span.start;
            return Some(Err(ParserError::ParserError(format!(
                "a comparison of a comparison needs parentheses, such as (a = b) = c{place}"
            ))));
        }
        if let Some(list) = in_list(parser, left) {
            return Some(list);
        }
        // The parser takes all that follows for the second value, AND and OR too.
        let distinct = [Keyword::IS, Keyword::DISTINCT, Keyword::FROM];
        let not_distinct = [Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM];
        let is_not = parser.parse_keywords(&not_distinct);
        if !is_not && !parser.parse_keywords(&distinct) {
            return None;
        }
        let left = Box::new(left.clone());
        let of = if is_not { Expr::IsNotDistinctFrom } else { Expr::IsDistinctFrom };
        Some(parser.parse_subexpr(precedence).map(|right| of(left, Box::new(right))))
    }
    fn require_interval_qualifier(&self) -> bool {
        self.qualified.get()
    }
    /// Keywords that BigQuery reserves. The parser does not retry them as names when the text after them is invalid.
    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        RESERVED_FOR_IDENTIFIER.contains(&keyword)
            || matches!(keyword, Keyword::NOT | Keyword::CASE | Keyword::CAST | Keyword::EXTRACT)
    }
    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        self.base.is_delimited_identifier_start(ch)
    }
    fn is_identifier_start(&self, ch: char) -> bool {
        self.base.is_identifier_start(ch)
    }
    fn is_identifier_part(&self, ch: char) -> bool {
        self.base.is_identifier_part(ch)
    }
    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }
    /// Accepted by the parser so that a later step can refuse it and say what to write instead.
    fn supports_limit_comma(&self) -> bool {
        true
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
        // A named window may follow a select list without FROM, after a pipe.
        *keyword != Keyword::WINDOW && self.base.is_column_alias(keyword, parser)
    }
    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }
}

/// Whether an expression is a comparison without parentheses. Comparisons do not chain in the language.
fn is_comparison(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { op, .. } => matches!(
            op,
            BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq
        ),
        Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::InUnnest { .. }
        | Expr::Between { .. }
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..) => true,
        _ => false,
    }
}
