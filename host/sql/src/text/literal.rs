//! Unescapes literals, and joins those that adjoin.
//!
//! The parser's own unescaping differs from BigQuery's: it drops the backslash of an unknown escape, and people type
//! such escapes in search boxes. So literals are tokenized raw and unescaped here.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::markers::added;
use super::tokens::next;
use crate::fail::{Result, invalid, place_of};

/// Joins literals with nothing but blanks between them, which are one.
///
/// # Errors
/// If one is of STRING and the next one of BYTES.
pub(super) fn joined(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let following =
        |at: usize| next(&tokens, at).filter(|(place, token)| *place > at && literal(&token.token).is_some());
    let adjoins = |(at, token): (usize, &TokenWithSpan)| literal(&token.token).is_some() && following(at + 1).is_some();
    if !tokens.iter().enumerate().any(adjoins) {
        return Ok(tokens);
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let mut whole: Option<String> = None;
        if let Some((first, of_bytes)) = literal(&token.token) {
            while let Some((place, after)) = following(at)
                && let Some((more, of_bytes_too)) = literal(&after.token)
            {
                if of_bytes != of_bytes_too {
                    let message =
                        "literals of STRING and of BYTES that follow each other are not one; write || between them";
                    return Err(invalid(message, place_of(after.span)));
                }
                whole.get_or_insert_with(|| first.to_owned()).push_str(more);
                at = place + 1;
            }
            if let Some(text) = whole {
                let of = if of_bytes { Token::SingleQuotedByteStringLiteral } else { Token::SingleQuotedString };
                out.push(added(token, of(text)));
                continue;
            }
        }
        out.push(token.clone());
    }
    Ok(out)
}

/// The text of a literal, and whether it is of BYTES.
pub(super) fn literal(token: &Token) -> Option<(&str, bool)> {
    match token {
        Token::SingleQuotedString(text)
        | Token::DoubleQuotedString(text)
        | Token::TripleSingleQuotedString(text)
        | Token::TripleDoubleQuotedString(text)
        | Token::SingleQuotedRawStringLiteral(text)
        | Token::DoubleQuotedRawStringLiteral(text)
        | Token::TripleSingleQuotedRawStringLiteral(text)
        | Token::TripleDoubleQuotedRawStringLiteral(text) => Some((text, false)),
        Token::SingleQuotedByteStringLiteral(text)
        | Token::DoubleQuotedByteStringLiteral(text)
        | Token::TripleSingleQuotedByteStringLiteral(text)
        | Token::TripleDoubleQuotedByteStringLiteral(text) => Some((text, true)),
        _ => None,
    }
}

/// Unescapes the raw text of a literal as BigQuery does, with two extensions that clients need: `''` inside single
/// quotes is a quote, and an unknown escape keeps its backslash.
pub(super) fn unescape_token(token: &mut TokenWithSpan) {
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
    pieces(raw, quote, |piece| {
        let c = match piece {
            Piece::Written(c) => Some(c),
            Piece::Byte(byte) => Some(char::from(byte)),
            Piece::Point(code) => char::from_u32(code),
        };
        text.extend(c);
        c.is_some()
    });
    text
}

/// The bytes of a bytes literal. `\xHH` is a single byte of any value.
pub(crate) fn unescape_bytes(raw: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(raw.len());
    pieces(raw, None, |piece| match piece {
        Piece::Written(c) => {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            true
        }
        Piece::Byte(byte) => {
            bytes.push(byte);
            true
        }
        Piece::Point(_) => false,
    });
    bytes
}

/// One element of a literal.
enum Piece {
    /// A plain character, or an escape that stands for a character.
    Written(char),
    /// The value of `\xHH`, or of an octal escape.
    Byte(u8),
    /// The value of `\uHHHH` or `\UHHHHHHHH`, a code point.
    Point(u32),
}

/// Passes the elements of a literal to `take`. If `take` refuses a number, the escape is kept as it is written, like an
/// unknown escape.
fn pieces(raw: &str, quote: Option<char>, mut take: impl FnMut(Piece) -> bool) {
    let mut rest = raw.chars();
    while let Some(c) = rest.next() {
        let mut ahead = rest.clone();
        let next = ahead.next();
        if Some(c) == quote && next == Some(c) {
            rest = ahead;
        } else if c == '\\' {
            let plain = match next {
                Some('n') => Some('\n'),
                Some('t') => Some('\t'),
                Some('r') => Some('\r'),
                Some('a') => Some('\u{7}'),
                Some('b') => Some('\u{8}'),
                Some('f') => Some('\u{c}'),
                Some('v') => Some('\u{b}'),
                Some(same @ ('\\' | '\'' | '"' | '`' | '?')) => Some(same),
                _ => None,
            };
            // Three octal digits are one byte.
            let octal: String = ahead.clone().take(2).take_while(|c| matches!(c, '0'..='7')).collect();
            let octal = next
                .filter(|first| matches!(first, '0'..='3') && octal.len() == 2)
                .and_then(|first| u8::from_str_radix(&format!("{first}{octal}"), 8).ok());
            if let Some(byte) = octal
                && take(Piece::Byte(byte))
            {
                rest = ahead;
                rest.nth(1);
                continue;
            }
            let digits = match next {
                Some('x' | 'X') => 2,
                Some('u') => 4,
                Some('U') => 8,
                _ => 0,
            };
            let hex: String = ahead.clone().take(digits).take_while(char::is_ascii_hexdigit).collect();
            let code = match u32::from_str_radix(&hex, 16) {
                Ok(code) if hex.len() == digits => {
                    Some(u8::try_from(code).ok().filter(|_| digits == 2).map_or(Piece::Point(code), Piece::Byte))
                }
                _ => None,
            };
            if let Some(plain) = plain {
                take(Piece::Written(plain));
                rest = ahead;
                continue;
            }
            if code.is_some_and(&mut take) {
                rest = ahead;
                rest.nth(digits - 1);
                continue;
            }
        }
        take(Piece::Written(c));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use tidegate_model::TextLimits;

    use super::*;

    fn read(sql: &str) -> std::result::Result<String, String> {
        let query = crate::text::parse(sql, &TextLimits::default()).map_err(|failure| failure.message)?;
        Ok(query.to_string())
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
            (r"\101\1012 \10 \789", r"AA2 \10 \789"),
            ("\\", "\\"),
        ] {
            assert_eq!(unescape(raw, Some('\'')), expected, "{raw}");
        }
    }

    #[test]
    fn bytes_are_unescaped_to_bytes() {
        for (raw, expected) in [
            (r"\x01\xff\n\377", &b"\x01\xff\n\xff"[..]),
            ("é", "é".as_bytes()),
            (r"\xg1\u00e9\s", br"\xg1\u00e9\s".as_slice()),
        ] {
            assert_eq!(unescape_bytes(raw), expected, "{raw}");
        }
    }

    #[test]
    fn literals_are_joined() {
        for (parts, whole) in [
            ("select 'a' 'b'", "select 'ab'"),
            ("select 'a' -- more\n \"b\" r'\\d'", "select 'ab\\\\d'"),
            ("select date '2024-01' '-02'", "select date '2024-01-02'"),
            ("select b'a' b'\\x41'", "select b'a\\x41'"),
            ("select range<date> '[2020-01-01, ' '2020-02-01)'", "select range<date> '[2020-01-01, 2020-02-01)'"),
        ] {
            assert_eq!(read(parts).unwrap(), read(whole).unwrap(), "{parts}");
        }
        for sql in ["select 'a' b'b'", "select b'a' 'b'", "select b'a' -- and\n\"b\""] {
            assert!(read(sql).unwrap_err().contains("STRING and of BYTES"), "{sql}");
        }
    }
}
