//! Questions about tokens, for the rewriting of spellings that the parser does not read.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

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

/// The name of a function that begins at `start`, of one or several parts, and the place behind it. One that begins with SAFE,
/// or ends with what is a keyword elsewhere (`HLL_COUNT.EXTRACT`), is one word.
pub(super) fn dotted_name(tokens: &[TokenWithSpan], start: usize) -> Option<(Vec<TokenWithSpan>, usize)> {
    let part = |from: usize| next(tokens, from).filter(|(_, token)| matches!(token.token, Token::Word(_)));
    let (at, first) = part(start)?;
    let (mut name, mut end) = (vec![first.clone()], at + 1);
    while let Some((at, dot)) = next(tokens, end).filter(|(_, token)| token.token == Token::Period)
        && let Some((at, word)) = part(at + 1)
    {
        name.extend([dot.clone(), word.clone()]);
        end = at + 1;
    }
    if let [first, .., last] = name.as_slice()
        && (is_word(first, "SAFE") || is_word(last, "EXTRACT"))
    {
        let words = name.iter().map(|token| match &token.token {
            Token::Word(Word { value, quote_style: None, .. }) => Some(value.as_str()),
            Token::Period => Some("."),
            _ => None,
        });
        if let Some(value) = words.collect() {
            let word = Word { value, quote_style: None, keyword: Keyword::NoKeyword };
            name = vec![TokenWithSpan { token: Token::Word(word), span: last.span }];
        }
    }
    Some((name, end))
}
