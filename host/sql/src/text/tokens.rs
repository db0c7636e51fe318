//! Questions about tokens, for the rewriting of spellings that the parser does not read.

use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

pub(super) const BLANK: Token = Token::Whitespace(Whitespace::Space);

pub(super) fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Whether a token is this word, in any case and without quotes.
pub(super) fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// The next token from `start` on that is no white space, and its place.
pub(super) fn next(tokens: &[TokenWithSpan], start: usize) -> Option<(usize, &TokenWithSpan)> {
    tokens.iter().enumerate().skip(start).find(|(_, token)| !is_blank(token))
}
