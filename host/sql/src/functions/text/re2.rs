//! Regular expressions as BigQuery reads them: RE2's syntax, in that of the crate that runs them.
//!
//! The two are nearly one. What is written here otherwise: a `{` that counts nothing is a brace (log
//! viewers search for the beginnings of JSON), `[` is itself in a class, `&&`, `--` and `~~` are no
//! operations on classes, `\<` and `\>` are no bounds of words, `\Q...\E` quotes, and `\d`, `\s`, `\w` and
//! `\b` know ASCII only.

use std::borrow::Cow;

/// The pattern in the crate's syntax.
pub(in crate::functions) fn translated(pattern: &str) -> Cow<'_, str> {
    let differs = |c: char| matches!(c, '\\' | '{' | '[');
    if !pattern.contains(differs) {
        return Cow::Borrowed(pattern);
    }
    let mut made = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = match c {
            '\\' => escape(rest, false, &mut made),
            '[' => class(rest, &mut made),
            '{' => {
                // Named characters and scripts have their braces behind a backslash: see `escape`.
                let counts = count(rest);
                if counts.is_none() {
                    made.push('\\');
                }
                let (head, tail) = rest.split_at(counts.unwrap_or(1));
                made.push_str(head);
                tail
            }
            c => {
                made.push(c);
                after(rest, c)
            }
        };
    }
    Cow::Owned(made)
}

fn after(text: &str, c: char) -> &str {
    text.get(c.len_utf8()..).unwrap_or_default()
}

/// The length of `{2}`, `{2,}` or `{2,5}` at the beginning of a text.
fn count(text: &str) -> Option<usize> {
    let (inner, _) = text.strip_prefix('{')?.split_once('}')?;
    let (low, high) = inner.split_once(',').unwrap_or((inner, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (!low.is_empty() && digits(low) && digits(high)).then_some(inner.len() + 2)
}

/// What a backslash begins, outside or inside of a class; what comes after it.
fn escape<'t>(text: &'t str, in_class: bool, made: &mut String) -> &'t str {
    let behind = after(text, '\\');
    let Some(c) = behind.chars().next() else {
        made.push('\\');
        return behind;
    };
    let rest = after(behind, c);
    let ascii = match c {
        'd' => "0-9",
        's' => r"\t\n\f\r ",
        'w' => "0-9A-Za-z_",
        'D' => "^0-9",
        'S' => r"^\t\n\f\r ",
        'W' => "^0-9A-Za-z_",
        'b' if !in_class => {
            made.push_str(r"(?-u:\b)");
            return rest;
        }
        '<' | '>' => {
            made.push(c);
            return rest;
        }
        'Q' if !in_class => {
            let (quoted, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
            made.push_str(&regex::escape(quoted));
            return rest;
        }
        'p' | 'P' | 'x' if rest.starts_with('{') => {
            let end = rest.find('}').map_or(rest.len(), |end| end + 1);
            let (name, rest) = rest.split_at(end);
            made.extend(['\\', c]);
            made.push_str(name);
            return rest;
        }
        c => {
            made.extend(['\\', c]);
            return rest;
        }
    };
    if in_class && !ascii.starts_with('^') {
        made.push_str(ascii);
    } else {
        made.push('[');
        made.push_str(ascii);
        made.push(']');
    }
    rest
}

/// A class: `[` up to its `]`; what comes after it.
fn class<'t>(text: &'t str, made: &mut String) -> &'t str {
    made.push('[');
    let mut rest = after(text, '[');
    if let Some(negated) = rest.strip_prefix('^') {
        made.push('^');
        rest = negated;
    }
    // The first is a member even if it is the bracket that closes.
    if let Some(first) = rest.strip_prefix(']') {
        made.push_str(r"\]");
        rest = first;
    }
    let mut before = None;
    while let Some(c) = rest.chars().next() {
        rest = match c {
            ']' => {
                made.push(']');
                return after(rest, c);
            }
            '\\' => escape(rest, true, made),
            '[' => match rest.strip_prefix("[:").and_then(|inner| inner.split_once(":]")) {
                Some((name, tail)) if name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'^') => {
                    made.push_str("[:");
                    made.push_str(name);
                    made.push_str(":]");
                    tail
                }
                _ => {
                    made.push_str(r"\[");
                    after(rest, c)
                }
            },
            '&' | '~' if before == Some(c) => {
                made.extend(['\\', c]);
                after(rest, c)
            }
            '-' if before == Some(c) => {
                made.push_str(r"\-");
                after(rest, c)
            }
            c => {
                made.push(c);
                after(rest, c)
            }
        };
        before = Some(c);
    }
    // Not closed: the crate says so.
    rest
}

#[cfg(test)]
mod tests {
    use super::translated;

    #[test]
    fn what_the_two_write_alike_stays() {
        for pattern in [
            "abc",
            "a{2}b{2,}c{2,5}",
            "[a-z]+",
            "[^]]",
            "(?i)x|y$",
            r"\.\*\\",
            r"\p{Greek}\x{41}\pL",
            "[[:alpha:]_]",
            r"a\{b",
            "[.*+?{}]",
            "(?P<name>x)",
            "",
            r"\z\A",
            "x}",
            "[a-]",
            "[-a]",
        ] {
            let wanted = pattern.replace("[^]]", r"[^\]]");
            assert_eq!(translated(pattern), wanted);
        }
    }

    #[test]
    fn every_difference_matches_as_there() {
        for (pattern, text, expected) in [
            ("^{", "{\"a\": 1}", true),
            ("{\"component\"", "x {\"component\": 1}", true),
            (r#"{"a": (\d+)}"#, "{\"a\": 12}", true),
            ("x{y", "x{y", true),
            ("a{,3}", "a{,3}", true),
            ("a{,3}", "aaa", false),
            ("a{2}", "aa", true),
            (r"[[\]]", "]", true),
            ("[[]", "[", true),
            ("[]a]", "]", true),
            (r"\Qa.b\E.", "a.bc", true),
            (r"\Qa.b\E.", "axbc", false),
            (r"\Qa.b", "a.b", true),
            ("^[a&&b]+$", "a&b", true),
            ("^[a~~b]+$", "a~b", true),
            ("^[+--]+$", "+,-", true),
            (r"a\<b\>", "a<b>", true),
            (r"^\w$", "é", false),
            (r"^\W$", "é", true),
            (r"^[\w]$", "é", false),
            (r"^[\Wx]$", "é", true),
            (r"^[^\w]$", "é", true),
            (r"\d", "٣", false),
            (r"\s", "\u{a0}", false),
            (r"\bx\b", "éx", true),
            (r"[\d\s]{2}", "1 ", true),
            ("[[:digit:]]", "7", true),
            ("[[:^digit:]]", "7", false),
            ("[[:x]", ":", true),
        ] {
            let made = translated(pattern);
            let matches = regex::Regex::new(&made).map(|regex| regex.is_match(text));
            assert_eq!(matches, Ok(expected), "{pattern} as {made} in {text}");
        }
    }

    #[test]
    fn what_is_wrong_stays_wrong() {
        for pattern in ["(", "[a", "[[:alpha:]", "a{3,2}", "*", r"\", r"\p{Nothing}", r"\p{Greek", "[z-a]"] {
            assert!(regex::Regex::new(&translated(pattern)).is_err(), "{pattern}");
        }
    }
}
