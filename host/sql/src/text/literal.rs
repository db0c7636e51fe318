//! Unescapes literals.
//!
//! The parser's own unescaping differs from BigQuery's: it drops the backslash of an unknown escape, and people type
//! such escapes in search boxes. So literals are tokenized raw and unescaped here.

use sqlparser::tokenizer::{Token, TokenWithSpan};

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
mod tests {
    use super::*;

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
}
