//! Translating regular expressions from the syntax of RE2, which BigQuery has, to that of the regex crate.
//!
//! The two differ in few places. In RE2: a `{` that is no repetition is a brace (log viewers search for the beginnings of
//! JSON); `[` is itself in a class; `&&`, `--` and `~~` are no operations on classes; a `-` after `\w` and the like is
//! itself; `\<` and `\>` are no word boundaries; `\Q...\E` quotes; `\d`, `\s`, `\w`, `\b` and `\B` are ASCII only.

use std::borrow::Cow;

/// The pattern in the crate's syntax.
pub fn translated(pattern: &str) -> Cow<'_, str> {
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

/// Translates an escape, outside or inside of a class. Returns the rest of the pattern.
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
        'b' | 'B' if !in_class => {
            made.push_str(if c == 'b' { r"(?-u:\b)" } else { r"(?-u:\B)" });
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
        'p' | 'P' | 'x' => {
            // `\pL` and `\x2d` are one, of which a class may have a range.
            let len = if c == 'x' { 2 } else { 1 };
            let end = rest.char_indices().nth(len).map_or(rest.len(), |(end, _)| end);
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
    // A nested class: a `-` after it makes no range of its last character.
    made.push('[');
    made.push_str(ascii);
    made.push(']');
    rest
}

/// Whether a text begins with the escape of a set, which is no bound of a range.
fn is_set(text: &str) -> bool {
    text.strip_prefix('\\').is_some_and(|behind| behind.starts_with(['d', 's', 'w', 'D', 'S', 'W', 'p', 'P']))
}

/// Translates a class, `[` up to its `]`. Returns the rest of the pattern.
fn class<'t>(text: &'t str, made: &mut String) -> &'t str {
    made.push('[');
    let mut rest = after(text, '[');
    if let Some(negated) = rest.strip_prefix('^') {
        made.push('^');
        rest = negated;
    }
    let mut first = true;
    while let Some(c) = rest.chars().next() {
        // A bracket at the beginning is a member, also a closing one.
        if c == ']' && !first {
            made.push(']');
            return after(rest, c);
        }
        let set = rest.strip_prefix("[:").and_then(|inner| inner.split_once(":]"));
        rest = match set {
            Some((name, tail)) if name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'^') => {
                made.push_str("[:");
                made.push_str(name);
                made.push_str(":]");
                tail
            }
            _ if is_set(rest) => escape(rest, true, made),
            _ => members(rest, first, made),
        };
        first = false;
    }
    // Not closed: the regex crate refuses it.
    rest
}

/// Translates a character of a class, or a range. Returns the rest of the pattern.
fn members<'t>(text: &'t str, first: bool, made: &mut String) -> &'t str {
    // The end of the range, if it is one: a `-` before the end of the class is itself.
    let high = |rest: &'t str| rest.strip_prefix('-').filter(|high| !high.is_empty() && !high.starts_with(']'));
    if let Some(rest) = text.strip_prefix('-')
        && high(rest).is_none()
        && (first || rest.starts_with(']'))
    {
        // Both syntaxes read it as itself.
        made.push('-');
        return rest;
    }
    let rest = member(text, made);
    let Some(high) = high(rest) else { return rest };
    made.push('-');
    if is_set(high) {
        // RE2 refuses it. The regex crate does so too if it stays an escape.
        made.push('\\');
        return after(high, '\\');
    }
    member(high, made)
}

/// Translates one character of a class, so that it is no operator. Returns the rest of the pattern.
fn member<'t>(text: &'t str, made: &mut String) -> &'t str {
    match text.chars().next() {
        Some('\\') => escape(text, true, made),
        Some(c) => {
            // The operators `&&` and `~~` are of two.
            let twice = matches!(c, '&' | '~') && made.ends_with(c);
            if twice || matches!(c, '-' | '[' | ']') {
                made.push('\\');
            }
            made.push(c);
            after(text, c)
        }
        None => text,
    }
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
            "[^-a]",
            "[a-z-]",
            r"[\x41-\x5a\-.]",
            r"[\p{Greek}\pL]",
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
            (r"^\B.\B", "éé", true),
            (r"é\B", "éx", false),
            (r"[\d\s]{2}", "1 ", true),
            ("[[:digit:]]", "7", true),
            ("[[:^digit:]]", "7", false),
            ("[[:x]", ":", true),
            (r"[\s-_]", "c", false),
            (r"[\s-_]", "A", false),
            (r"^[\s-_]{3}$", " -_", true),
            (r"[\w-~]", "{", false),
            (r"^[\w-~]{3}$", "a-~", true),
            (r"^[\w-.]+$", "a-b.c", true),
            (r"[\w-.]", "+", false),
            (r"^[\w-]+$", "a-b", true),
            (r"^[\w--]+$", "a-b", true),
            (r"^[\w--/]+$", "a-./", true),
            (r"^[^\w-.]+$", "+ ", true),
            (r"[^\w-.]", "a-.", false),
            (r"^[\D-9]+$", "-9x", true),
            (r"[\D-9]", "5", false),
            (r"^[\pL-Z]+$", "é-Z", true),
            (r"^[\p{Greek}-z]+$", "α-z", true),
            (r"[\p{Greek}-z]", "a", false),
            ("^[[:digit:]-z]+$", "1-z", true),
            ("[[:digit:]-z]", "a", false),
            ("^[--/]+$", "-./", true),
            ("[--/]", "0", false),
            ("^[^--/]$", ".", false),
            ("^[---]+$", "-", true),
            ("^[--]+$", "-", true),
            ("^[-]+$", "-", true),
            ("^[a-c-e]+$", "b-e", true),
            ("[a-c-e]", "d", false),
            ("^[+--a]+$", ",-a", true),
            ("^[%-&&]+$", "%&", true),
            ("^[]-a]+$", "]^_`a", true),
            ("^[+-[]+$", "+A[", true),
            (r"^[\x2d-\x2f]+$", "-./", true),
            (r"^[,-\-]+$", ",-", true),
            (r"^[\--/]+$", "-./", true),
        ] {
            let made = translated(pattern);
            let matches = regex::Regex::new(&made).map(|regex| regex.is_match(text));
            assert_eq!(matches, Ok(expected), "{pattern} as {made} in {text}");
        }
    }

    #[test]
    fn what_is_wrong_stays_wrong() {
        for pattern in [
            "(",
            "[a",
            "[[:alpha:]",
            "a{3,2}",
            "*",
            r"\",
            r"\p{Nothing}",
            r"\p{Greek",
            "[z-a]",
            "[a--]",
            "[a-",
            r"[+-\d]",
            r"[+-\pL]",
            r"[\",
            "[]",
            r"[\w-",
            "[a--z]",
        ] {
            assert!(regex::Regex::new(&translated(pattern)).is_err(), "{pattern}");
        }
    }
}
