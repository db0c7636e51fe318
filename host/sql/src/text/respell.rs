//! Three spellings of BigQuery that the parser does not read, written as it does: before parsing,
//! on the tokens, each of which keeps its place.
//!
//! - `SAFE.SUBSTR(...)`: a keyword after `SAFE.` is a function's name like any other.
//! - `rb'\d'`, `br'\d'`: bytes whose backslashes stand for themselves.
//! - `ARRAY<INT64>[1, 2]`: the same as `CAST([1, 2] AS ARRAY<INT64>)`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

pub(super) fn respell(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    typed_arrays(safe_calls(tokens))
}

/// Before literals are unescaped, because these are not.
pub(super) fn raw_bytes(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let adjoins = |before: &TokenWithSpan| {
            (is_word(before, "rb") || is_word(before, "br")) && before.span.end == token.span.start
        };
        let escaped = |text: &String| text.replace('\\', r"\\");
        let bytes = match &token.token {
            Token::SingleQuotedString(text) => Some(Token::SingleQuotedByteStringLiteral(escaped(text))),
            Token::DoubleQuotedString(text) => Some(Token::DoubleQuotedByteStringLiteral(escaped(text))),
            Token::TripleSingleQuotedString(text) => Some(Token::TripleSingleQuotedByteStringLiteral(escaped(text))),
            Token::TripleDoubleQuotedString(text) => Some(Token::TripleDoubleQuotedByteStringLiteral(escaped(text))),
            _ => None,
        };
        match (bytes, out.last_mut()) {
            (Some(bytes), Some(before)) if adjoins(before) => before.token = bytes,
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

fn typed_arrays(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    // Where each typed array has its type and its elements; inner ones come out first.
    let Some(typed) = (0..tokens.len()).rev().find_map(|start| typed_array(&tokens, start)) else { return tokens };
    let TypedArray { start, list, end } = typed;
    let (Some(before), Some(ty), Some(elements), Some(after)) =
        (tokens.get(..start), tokens.get(start..list), tokens.get(list..=end), tokens.get(end + 1..))
    else {
        return tokens;
    };
    let span = ty.first().map_or_else(sqlparser::tokenizer::Span::empty, |token| token.span);
    let added = |token: Token| TokenWithSpan { token, span };
    let blank = || added(Token::Whitespace(sqlparser::tokenizer::Whitespace::Space));
    let mut out = before.to_vec();
    out.extend([added(Token::make_keyword("CAST")), added(Token::LParen)]);
    out.extend_from_slice(elements);
    out.extend([blank(), added(Token::make_keyword("AS")), blank()]);
    out.extend_from_slice(ty);
    out.push(added(Token::RParen));
    out.extend_from_slice(after);
    typed_arrays(out)
}

struct TypedArray {
    start: usize,
    /// Where `[` and `]` stand.
    list: usize,
    end: usize,
}

/// `ARRAY<...>[...]` beginning at a token.
fn typed_array(tokens: &[TokenWithSpan], start: usize) -> Option<TypedArray> {
    if !tokens.get(start).is_some_and(|token| is_word(token, "ARRAY")) {
        return None;
    }
    let significant = |from: usize| {
        let rest = tokens.get(from..)?.iter();
        rest.enumerate()
            .find(|(_, token)| !matches!(token.token, Token::Whitespace(_)))
            .map(|(i, token)| (from + i, token))
    };
    let (mut at, _) = significant(start + 1).filter(|(_, token)| token.token == Token::Lt)?;
    let mut depth = 0_i32;
    // Types are short; nothing else is searched for the end of one.
    for (i, token) in tokens.iter().enumerate().skip(at).take(256) {
        depth += match token.token {
            Token::Lt => 1,
            Token::Gt => -1,
            Token::ShiftRight => -2,
            _ => 0,
        };
        at = i;
        if depth <= 0 {
            break;
        }
    }
    let (list, _) = significant(at + 1).filter(|(_, token)| depth == 0 && token.token == Token::LBracket)?;
    let mut depth = 0_i32;
    for (end, token) in tokens.iter().enumerate().skip(list) {
        match token.token {
            Token::LBracket => depth += 1,
            Token::RBracket => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(TypedArray { start, list, end });
        }
    }
    None
}

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}
