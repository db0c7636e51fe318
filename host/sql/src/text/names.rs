//! Names in backticks that contain a backtick.
//!
//! BigQuery escapes the backtick with a backslash. The tokenizer expects it doubled, and would end the name there. So
//! escaped backticks are doubled before the text is tokenized, which has the same length and so changes no positions.
//! Afterwards the name is unescaped.

use std::borrow::Cow;

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The text in which each escaped backtick of a name is doubled instead.
pub(super) fn doubled(sql: &str) -> Cow<'_, str> {
    if !sql.contains("\\`") {
        return Cow::Borrowed(sql);
    }
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    let mut word = String::new();
    while let Some(c) = rest.chars().next() {
        let piece = match c {
            '`' => name(rest, &mut out),
            '\'' | '"' => {
                // For the tokenizer, backslashes are not escapes in raw strings and bytes.
                let escapes = !matches!(word.as_str(), "r" | "R" | "b" | "B");
                text(rest, c, escapes)
            }
            '#' => line(rest),
            '-' if rest.starts_with("--") => line(rest),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            c => c.len_utf8(),
        };
        let (done, after) = rest.split_at_checked(piece).unwrap_or((rest, ""));
        if c != '`' {
            out.push_str(done);
        }
        match c.is_alphanumeric() || c == '_' {
            true => word.push(c),
            false => word.clear(),
        }
        rest = after;
    }
    Cow::Owned(out)
}

/// The length of the line.
fn line(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

/// The length of a quoted text.
fn text(text: &str, quote: char, escapes: bool) -> usize {
    let triple: String = std::iter::repeat_n(quote, 3).collect();
    let end = if text.starts_with(&triple) { triple } else { quote.to_string() };
    let mut at = end.len();
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(&end) {
            return at + end.len();
        }
        let mut characters = rest.chars();
        let first = characters.next().map_or(1, char::len_utf8);
        let escaped = if escapes && rest.starts_with('\\') { characters.next().map_or(0, char::len_utf8) } else { 0 };
        at += first + escaped;
    }
    text.len()
}

/// The length of a name in backticks. The name is also written to `out`, with doubled backticks.
fn name(text: &str, out: &mut String) -> usize {
    out.push('`');
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        match (c, characters.peek().map(|(_, next)| *next)) {
            ('\\', Some('`')) => out.push_str("``"),
            ('\\', Some('\\')) => out.push_str("\\\\"),
            ('`', Some('`')) => out.push_str("``"),
            ('`', _) => {
                out.push('`');
                return at + 1;
            }
            (c, _) => {
                out.push(c);
                continue;
            }
        }
        characters.next();
    }
    text.len()
}

/// A name as it is written in SQL: in backticks, unless it is a plain identifier.
pub(crate) fn written(name: &str) -> Cow<'_, str> {
    let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`")))
    }
}

/// Unescapes a name in backticks: a doubled backtick is one backtick, and a doubled backslash is one backslash.
pub(super) fn unescape_token(token: &mut TokenWithSpan) {
    if let Token::Word(word) = &mut token.token
        && word.quote_style == Some('`')
        && word.value.contains(['`', '\\'])
    {
        word.value = word.value.replace("``", "`").replace("\\\\", "\\");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_they_are_read() {
        assert_eq!((written("a_1"), written("_")), ("a_1".into(), "_".into()));
        assert_eq!((written("service.name"), written("")), ("`service.name`".into(), "``".into()));
        assert_eq!((written("a`b"), written("1a")), ("`a\\`b`".into(), "`1a`".into()));
    }

    #[test]
    fn escaped_backticks_of_names_are_doubled_and_nothing_else_changes() {
        for (sql, expected) in [
            (r"select `a\`b`", r"select `a``b`"),
            (r"select `a\\`, `\``", r"select `a\\`, ````"),
            (r"select '\`', `x\`y`", r"select '\`', `x``y`"),
            (r"select r'\', `x\`y`", r"select r'\', `x``y`"),
            (r"select '''it's \`''', `x\`y`", r"select '''it's \`''', `x``y`"),
            ("select 1 -- `\\`\n, `x\\`y`", "select 1 -- `\\`\n, `x``y`"),
            (r"select /* ` \` */ `x\`y`", r"select /* ` \` */ `x``y`"),
            (r"select '\'', `ä\`b", r"select '\'', `ä``b"),
        ] {
            assert_eq!(doubled(sql), expected, "{sql}");
        }
    }
}
