//! Regular expressions over BYTES. BYTES are searched as text that has the character of its number for each byte; here their
//! patterns become patterns over such text. Without that a pattern would know the characters as letters: over BYTES only
//! those of ASCII have a case, and a class has no other members than bytes.

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Capture, Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition};

use crate::re2::translated;

/// The longest pattern: parsing takes a hundred times as much memory.
const MAX_PATTERN: usize = 64 << 10;

/// The pattern over characters for one over bytes.
///
/// # Errors
/// A message, if it is no pattern.
pub fn pattern_of_bytes(pattern: &[u8]) -> Result<String, String> {
    if pattern.is_empty() {
        return Ok(String::new());
    }
    let text: String = pattern.iter().take(MAX_PATTERN + 1).copied().map(char::from).collect();
    made(&text).map_err(|reason| {
        let start = pattern.get(..60).unwrap_or(pattern).escape_ascii();
        format!("'{start}' is not a valid regular expression over BYTES: {reason}")
    })
}

fn made(pattern: &str) -> Result<String, String> {
    let reason = |error: regex_syntax::Error| {
        let text = error.to_string();
        text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
    };
    let pattern = in_ascii(&translated(pattern))?;
    if pattern.len() > MAX_PATTERN {
        return Err("it is too long".to_owned());
    }
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(&pattern).map_err(reason)?;
    Ok(over_characters(&parsed)?.to_string())
}

/// A pattern in the syntax of the regex crate with every byte beyond ASCII as its escape.
fn in_ascii(pattern: &str) -> Result<String, String> {
    let (mut made, mut rest, mut classes) =
        (String::with_capacity(pattern.len() + 16), pattern.chars().peekable(), 0_usize);
    while let Some(c) = rest.next().filter(|_| made.len() <= MAX_PATTERN) {
        match c {
            '\\' => escape(&mut rest, &mut made)?,
            '[' => classes += 1,
            ']' => classes = classes.saturating_sub(1),
            // RE2 has no such flag. Off it is anyway.
            '(' if classes == 0 && rest.peek() == Some(&'?') => {
                let flags: String = rest.clone().skip(1).take_while(char::is_ascii_alphabetic).collect();
                if flags.contains('u') {
                    return Err("there is no flag u".to_owned());
                }
            }
            _ => {}
        }
        match c {
            '\\' => {}
            c if c.is_ascii() => made.push(c),
            c => push_byte(&mut made, c)?,
        }
    }
    Ok(made)
}

fn push_byte(made: &mut String, c: char) -> Result<(), String> {
    let byte = u8::try_from(c).map_err(|_| format!("the character {} is no byte", c.escape_unicode()))?;
    write!(made, "\\x{byte:02x}").map_err(|error| error.to_string())
}

/// The escape behind a backslash.
fn escape(rest: &mut Peekable<Chars<'_>>, made: &mut String) -> Result<(), String> {
    let unknown = || "an escape is unknown".to_owned();
    let braced = |rest: &mut Peekable<Chars<'_>>, length: usize| -> String {
        match rest.next_if_eq(&'{') {
            Some(_) => rest.take_while(|c| *c != '}').collect(),
            None => rest.take(length).collect(),
        }
    };
    match rest.next().ok_or_else(unknown)? {
        c @ ('p' | 'P') => made.push_str(&members(&format!("\\{c}{{{}}}", braced(rest, 1)))?),
        'x' => {
            let c = u32::from_str_radix(&braced(rest, 2), 16).ok().and_then(char::from_u32);
            push_byte(made, c.ok_or_else(unknown)?)?;
        }
        'u' | 'U' => return Err(unknown()),
        c if c.is_ascii() => made.extend(['\\', c]),
        _ => return Err(unknown()),
    }
    Ok(())
}

/// The class of the bytes that have a property.
fn members(property: &str) -> Result<String, String> {
    let parsed = regex_syntax::parse(property).map_err(|_| format!("the class {property} is unknown"))?;
    let HirKind::Class(Class::Unicode(class)) = parsed.kind() else {
        return Err(format!("the class {property} is unknown"));
    };
    let mut class = class.clone();
    class.intersect(&ClassUnicode::new([ClassUnicodeRange::new('\0', '\u{ff}')]));
    if class.ranges().is_empty() {
        return Ok("[a&&b]".to_owned());
    }
    let mut made = "[".to_owned();
    for range in class.ranges() {
        push_byte(&mut made, range.start())?;
        made.push('-');
        push_byte(&mut made, range.end())?;
    }
    made.push(']');
    Ok(made)
}

/// An expression over bytes, as one over the characters of their numbers. It is as deep as the parser allows.
fn over_characters(hir: &Hir) -> Result<Hir, String> {
    let inner = |sub: &Hir| over_characters(sub).map(Box::new);
    let all = |subs: &[Hir]| subs.iter().map(over_characters).collect::<Result<Vec<_>, _>>();
    Ok(match hir.kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => {
            let text: String = literal.0.iter().copied().map(char::from).collect();
            Hir::literal(text.into_bytes())
        }
        HirKind::Class(Class::Bytes(class)) if class.ranges().is_empty() => nothing(),
        HirKind::Class(Class::Bytes(class)) => {
            let ranges = class.ranges().iter();
            let ranges = ranges.map(|range| ClassUnicodeRange::new(range.start().into(), range.end().into()));
            Hir::class(Class::Unicode(ClassUnicode::new(ranges)))
        }
        HirKind::Class(Class::Unicode(_)) => return Err("it has a class of characters".to_owned()),
        HirKind::Look(look) => Hir::look(*look),
        HirKind::Repetition(of) => Hir::repetition(Repetition { sub: inner(&of.sub)?, ..of.clone() }),
        HirKind::Capture(of) => Hir::capture(Capture { sub: inner(&of.sub)?, ..of.clone() }),
        HirKind::Concat(subs) => Hir::concat(all(subs)?),
        HirKind::Alternation(subs) => Hir::alternation(all(subs)?),
    })
}

/// What matches nothing, in a form that both syntaxes have.
fn nothing() -> Hir {
    Hir::concat(vec![Hir::look(Look::End), Hir::literal(*b"x")])
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use regex::Regex;

    use super::*;

    fn regex(pattern: &[u8]) -> Regex {
        Regex::new(&translated(&pattern_of_bytes(pattern).unwrap())).unwrap()
    }

    fn text(bytes: &[u8]) -> String {
        bytes.iter().copied().map(char::from).collect()
    }

    /// Which single bytes match all of a pattern.
    fn bytes_of(pattern: &str) -> Vec<u8> {
        let regex = regex(format!("^(?:{pattern})$").as_bytes());
        (0..=u8::MAX).filter(|byte| regex.is_match(&text(&[*byte]))).collect()
    }

    #[test]
    fn classes_are_of_bytes_and_case_is_of_ascii() {
        let not = |bytes: &[u8]| (0..=u8::MAX).filter(|byte| !bytes.contains(byte)).collect::<Vec<_>>();
        let range = |from: u8, to: u8| (from..=to).collect::<Vec<_>>();
        let latin = |is: fn(char) -> bool| (0..=u8::MAX).filter(|byte| is(char::from(*byte))).collect::<Vec<_>>();
        for (pattern, expected) in [
            (r"(?i)\xe9", vec![0xe9]),
            (r"(?i)[\xe0-\xe9]", range(0xe0, 0xe9)),
            (r"(?i)[\x7f-\xff]", range(0x7f, 0xff)),
            (r"(?i)k", b"Kk".to_vec()),
            (r"(?i)[k-s]", [range(b'K', b'S'), range(b'k', b's')].concat()),
            (r"(?i)\xb5|\xff|\xdf", vec![0xb5, 0xdf, 0xff]),
            (".", not(b"\n")),
            ("(?s).", range(0, 0xff)),
            ("[^a]", not(b"a")),
            (r"\x{e9}", vec![0xe9]),
            (r"\D", not(b"0123456789")),
            (r"\s", b"\t\n\x0c\r ".to_vec()),
            (
                r"[\w\xe9]",
                [b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".as_slice(), &[0xe9]].concat(),
            ),
            (r"\pL", latin(char::is_alphabetic)),
            (r"[^\pL]", latin(|c| !c.is_alphabetic())),
            (r"\p{Lu}", latin(char::is_uppercase)),
            (r"(?i)\p{Lu}", [range(b'A', b'Z'), range(b'a', b'z'), latin(|c| c.is_uppercase() && c > 'z')].concat()),
            (r"\p{Greek}", Vec::new()),
            (r"[\p{Greek}x]", b"x".to_vec()),
            (r"[^\x00-\xff]", Vec::new()),
            (r"[(?u]", b"(?u".to_vec()),
            (r"\Q[\E", b"[".to_vec()),
            (r"[]-]", b"-]".to_vec()),
            (r"[[:alpha:]]", [range(b'A', b'Z'), range(b'a', b'z')].concat()),
        ] {
            let mut expected = expected;
            expected.sort_unstable();
            assert_eq!(bytes_of(pattern), expected, "{pattern}");
        }
        for (byte, expected) in [(0xe9, true), (0xc9, false), (b'a', false)] {
            assert_eq!(regex(b"(?i)^\xe9$").is_match(&text(&[byte])), expected, "{byte}");
        }
    }

    #[test]
    fn what_is_no_class_stays() {
        for (pattern, bytes, expected) in [
            (r"^(a|bc){2,3}?$", b"abca".as_slice(), true),
            (r"^a+b*c?$", b"aab", true),
            (r"\bx\b", b"\xe9x\xe9", true),
            (r"^\B.\B.", b"\xe9\xe9", true),
            (r"(?m)^b$", b"a\nb", true),
            (r"^b$", b"a\nb", false),
            (r"a{", b"a{", true),
            (r"\.\*\\\[", b".*\\[", true),
            (r"(?P<n>x)y", b"xy", true),
            ("", b"", true),
        ] {
            assert_eq!(regex(pattern.as_bytes()).is_match(&text(bytes)), expected, "{pattern}");
        }
        assert_eq!(regex(br"((a)|b)(?:c)").captures_len(), 3);
    }

    #[test]
    fn what_is_no_pattern_over_bytes_is_refused() {
        for pattern in [
            r"\x{100}",
            r"[a-\x{10ffff}]",
            "(",
            "[a",
            r"\",
            r"\u00e9",
            "(?u:é)",
            "(?iu)a",
            r"\p{Nothing}",
            r"\p",
            r"\x",
            r"\xg0",
        ] {
            assert!(pattern_of_bytes(pattern.as_bytes()).is_err(), "{pattern}");
        }
        assert!(pattern_of_bytes(&b"(".repeat(10_000)).is_err());
        assert!(pattern_of_bytes(&b"a".repeat(MAX_PATTERN + 1)).is_err());
    }
}
