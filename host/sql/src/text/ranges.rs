//! The type RANGE, of which the parser knows only the word: `RANGE<DATE>` becomes one word, the name of a type, and the
//! literal `RANGE<DATE> '[...)'` the same as `CAST('[...)' AS RANGE<DATE>)`. Each token keeps its position.

use sqlparser::ast::{DataType, ObjectNamePart};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::literal::literal;
use super::markers::added;
use super::tokens::{BLANK, is_blank, is_word, next};
use crate::fail::{Result, place_of, unsupported};

const PREFIX: &str = "RANGE<";

/// What to write instead of the table function RANGE_SESSIONIZE.
const SESSIONS: &str = "a session begins where RANGE_START(r) is after MAX(RANGE_END(r)) OVER (ORDER BY r ROWS BETWEEN \
                        UNBOUNDED PRECEDING AND 1 PRECEDING)";

/// # Errors
/// For RANGE_SESSIONIZE, whose arguments the parser does not read.
pub(super) fn respelled(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut before = None;
    for token in tokens.iter().filter(|token| !is_blank(token)) {
        if let (Some(at), Token::LParen) = (before, &token.token) {
            return Err(unsupported("RANGE_SESSIONIZE", Some(SESSIONS), at));
        }
        before = is_word(token, "RANGE_SESSIONIZE").then(|| place_of(token.span));
    }
    if !tokens.iter().any(|token| is_word(token, "RANGE")) {
        return Ok(tokens);
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let next = |from: usize| next(&tokens, from);
    let (mut at, mut after_dot) = (0, false);
    while let Some(token) = tokens.get(at) {
        at += 1;
        // A field that is called so is compared.
        let found = if !after_dot && is_word(token, "RANGE") { named(next, at) } else { None };
        after_dot = token.token == Token::Period || after_dot && is_blank(token);
        let Some((name, end)) = found else {
            out.push(token.clone());
            continue;
        };
        at = end + 1;
        let name = Word { value: name, quote_style: None, keyword: Keyword::NoKeyword };
        let name = added(token, Token::Word(name));
        match next(at) {
            _ if tokens.get(end).is_some_and(|last| last.token == Token::ShiftRight) => {
                out.extend([name, added(token, Token::Gt)]);
            }
            Some((place, text)) if matches!(literal(&text.token), Some((_, false))) => {
                out.extend([Token::make_keyword("CAST"), Token::LParen].map(|word| added(token, word)));
                out.extend([text.clone(), added(text, BLANK), added(text, Token::make_keyword("AS"))]);
                out.extend([added(text, BLANK), name, added(text, Token::RParen)]);
                at = place + 1;
            }
            _ => out.push(name),
        }
    }
    Ok(out)
}

/// The name of the RANGE whose `<` is at `from`, with the place of its `>`, which may be one of two.
fn named<'a>(next: impl Fn(usize) -> Option<(usize, &'a TokenWithSpan)>, from: usize) -> Option<(String, usize)> {
    let (at, _) = next(from).filter(|(_, token)| token.token == Token::Lt)?;
    let (at, of) = next(at + 1)?;
    let Token::Word(of) = &of.token else { return None };
    let (end, _) = next(at + 1).filter(|(_, token)| matches!(token.token, Token::Gt | Token::ShiftRight))?;
    of.quote_style.is_none().then(|| (format!("{PREFIX}{}>", of.value.to_uppercase()), end))
}

/// What the RANGE is of that a type names.
pub(crate) fn range_of(data_type: &DataType) -> Option<&str> {
    let DataType::Custom(name, _) = data_type else { return None };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
    let of = name.value.strip_prefix(PREFIX)?.strip_suffix('>');
    of.filter(|_| name.quote_style.is_none())
}
