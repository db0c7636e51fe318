//! What LIKE and regular expressions demand of the texts that they match, for an index of substrings.
//!
//! A demand is necessary, not sufficient: each text that matches has the parts, and others may have them too. In doubt
//! nothing is demanded.

use regex_syntax::hir::{Class, Hir, HirKind};
use tidegate_model::TextCondition;

use super::like;

/// What a text of a column must have to be LIKE a pattern; `None` if it may be any text.
pub fn like_demands(column: &str, pattern: &str, ignore_case: bool) -> Option<TextCondition> {
    TextCondition::all(like::texts(pattern).iter().map(|text| text_demands(column, text, ignore_case)))
}

/// What a text of a column must have to contain another text; `None` if it may be any text.
pub fn text_demands(column: &str, text: &str, ignore_case: bool) -> Option<TextCondition> {
    // Characters with a case outside of ASCII: the sign of Kelvin is a `k`, the long s an `s`, a dotless i an `i`.
    let differs = |c: char| ignore_case && (!c.is_ascii() || matches!(c.to_ascii_lowercase(), 'i' | 'k' | 's'));
    TextCondition::all(text.split(differs).map(|part| contains(column, part)))
}

/// What a text of a column must have for a match of a regular expression in the syntax of the regex crate; `None` if it
/// may be any text, or if this is no regular expression.
pub fn pattern_demands(column: &str, pattern: &str) -> Option<TextCondition> {
    let parsed = regex_syntax::Parser::new().parse(pattern).ok()?;
    demands(column, &parsed)
}

/// No index knows of shorter parts.
const SHORTEST: usize = 3;

fn contains(column: &str, part: &str) -> Option<TextCondition> {
    (part.len() >= SHORTEST).then(|| TextCondition::Contains { column: column.to_owned(), part: part.to_owned() })
}

fn demands(column: &str, hir: &Hir) -> Option<TextCondition> {
    match hir.kind() {
        HirKind::Alternation(options) => TextCondition::any(options.iter().map(|option| demands(column, option))),
        HirKind::Repetition(repetition) if repetition.min > 0 => demands(column, &repetition.sub),
        HirKind::Repetition(_) | HirKind::Empty | HirKind::Look(_) => None,
        _ => {
            let mut text = Vec::new();
            let mut found = Vec::new();
            sequence(column, hir, &mut text, &mut found);
            end(column, &mut text, &mut found);
            TextCondition::all(found)
        }
    }
}

/// Goes through what follows each other in a match. `text` is what stands before, as far as it is known to be one
/// text; `found` are the demands so far.
fn sequence(column: &str, hir: &Hir, text: &mut Vec<u8>, found: &mut Vec<Option<TextCondition>>) {
    match hir.kind() {
        HirKind::Literal(literal) => text.extend_from_slice(&literal.0),
        HirKind::Class(class) => match letter(class) {
            Some(letter) => text.push(letter),
            None => end(column, text, found),
        },
        HirKind::Capture(capture) => sequence(column, &capture.sub, text, found),
        HirKind::Concat(parts) => parts.iter().for_each(|part| sequence(column, part, text, found)),
        // What has no width does not separate.
        HirKind::Look(_) | HirKind::Empty => {}
        HirKind::Alternation(_) | HirKind::Repetition(_) => {
            end(column, text, found);
            found.push(demands(column, hir));
        }
    }
}

/// Ends a text: what follows is not known.
fn end(column: &str, text: &mut Vec<u8>, found: &mut Vec<Option<TextCondition>>) {
    let text = std::mem::take(text);
    found.push(std::str::from_utf8(&text).ok().and_then(|text| contains(column, text)));
}

/// The lower case of an ASCII letter, if a class is this letter in both cases.
fn letter(class: &Class) -> Option<u8> {
    let Class::Unicode(class) = class else { return None };
    let mut letters = class.iter().flat_map(|range| range.start()..=range.end()).take(3);
    let first = letters.next().filter(char::is_ascii)?;
    let second = letters.next()?;
    let is_pair = letters.next().is_none() && first.eq_ignore_ascii_case(&second);
    is_pair.then(|| u8::try_from(first.to_ascii_lowercase()).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A condition in short: parts, `&` for all, `|` for one.
    fn shown(condition: Option<TextCondition>) -> String {
        let joined = |parts: Vec<TextCondition>, with: &str| {
            let parts: Vec<String> = parts.into_iter().map(|part| shown(Some(part))).collect();
            format!("({})", parts.join(with))
        };
        match condition {
            None => "anything".to_owned(),
            Some(TextCondition::All(parts)) => joined(parts, " & "),
            Some(TextCondition::Any(parts)) => joined(parts, " | "),
            Some(TextCondition::Contains { part, .. }) => part,
        }
    }

    #[test]
    fn of_regular_expressions() {
        for (pattern, demanded) in [
            ("timeout", "timeout"),
            ("^GET /rest", "GET /rest"),
            ("trace=zq-[0-9]{4}-(ab|ef)", "trace=zq-"),
            ("(abc)def", "abcdef"),
            ("abc.*def", "(abc & def)"),
            ("abc|defg", "(abc | defg)"),
            ("x(abc|def)y", "(abc | def)"),
            ("(abc|d)e", "anything"),
            ("(abc)+", "abc"),
            ("(abc)*def", "def"),
            ("(abc)?", "anything"),
            ("ab", "anything"),
            ("", "anything"),
            (".", "anything"),
            ("[abc]def", "def"),
            ("(?i)tEr", "ter"),
            ("(?i)task", "anything"),
            ("(?i)Größe", "anything"),
            (r"\bword\b", "word"),
            (r"a\.b\.c", "a.b.c"),
            ("(", "anything"),
            ("äöü", "äöü"),
            ("ab{2,3}cde", "cde"),
            ("(abc){2}", "abc"),
        ] {
            assert_eq!(shown(pattern_demands("m", pattern)), demanded, "{pattern}");
        }
    }

    #[test]
    fn of_like() {
        for (pattern, ignore_case, demanded) in [
            ("%timeout%", false, "timeout"),
            ("GET%_rest/_%", false, "(GET & rest/)"),
            (r"100\%%", false, "100%"),
            ("ab%cd", false, "anything"),
            ("%", false, "anything"),
            ("%Task Force%", true, " Force"),
            ("%database%", true, "databa"),
            ("%größe%", true, "anything"),
            ("%größe%", false, "größe"),
        ] {
            assert_eq!(shown(like_demands("m", pattern, ignore_case)), demanded, "{pattern}");
        }
    }
}
