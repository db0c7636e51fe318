//! The text of literals.
//!
//! The parser's own unescaping is not BigQuery's (it drops the backslash of an unknown escape,
//! which people type in search boxes), so literals are tokenized raw and unescaped here.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Unescapes a literal's raw text as BigQuery does, with two leniences that clients need:
/// `''` inside single quotes is a quote, and an unknown escape keeps its backslash.
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
            ("\\", "\\"),
        ] {
            assert_eq!(unescape(raw, Some('\'')), expected, "{raw}");
        }
    }
}
