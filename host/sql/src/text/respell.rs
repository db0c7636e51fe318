//! Rewrites three spellings of BigQuery that the parser does not accept. This is done on the tokens, before parsing,
//! and each token keeps its position.
//!
//! - `SAFE.SUBSTR(...)`: a keyword after `SAFE.` is the name of a function like any other.
//! - `rb'\d'`, `br'\d'`: bytes in which backslashes are not escapes.
//! - `ARRAY<INT64>[1, 2]`: the same as `CAST([1, 2] AS ARRAY<INT64>)`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

pub(super) fn respell(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    typed_arrays(safe_calls(single_blanks(tokens)))
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

fn safe_calls(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let after_safe =
            matches!(out.as_slice(), [.., safe, dot] if is_word(safe, "SAFE") && dot.token == Token::Period);
        match &token.token {
            Token::Word(word)
                if after_safe
                    && word.quote_style.is_none()
                    && tokens.peek().is_some_and(|next| next.token == Token::LParen) =>
            {
                let value = format!("SAFE.{}", word.value);
                out.truncate(out.len() - 2);
                let word = Word { value, quote_style: None, keyword: Keyword::NoKeyword };
                out.push(TokenWithSpan { token: Token::Word(word), span: token.span });
            }
            _ => out.push(token),
        }
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

const BLANK: Token = Token::Whitespace(Whitespace::Space);

/// A token that is not in the text, with the position of one that is.
fn added(at: &TokenWithSpan, token: Token) -> TokenWithSpan {
    TokenWithSpan { token, span: at.span }
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
    let significant =
        |from: usize| (from..from + 2).find(|at| tokens.get(*at).is_some_and(|token| !is_blank(&token.token)));
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

fn is_blank(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

/// Merges consecutive whitespace and comments to one token. The parser skips them again each time that it peeks at a
/// token, and needs to know only whether there are any.
fn single_blanks(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut after_blank = false;
    tokens.retain(|token| {
        let blank = is_blank(&token.token);
        !(std::mem::replace(&mut after_blank, blank) && blank)
    });
    tokens
}

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}
