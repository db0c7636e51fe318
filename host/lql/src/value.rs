//! The values of filters on fields, in the order of the grammar: a date, a number, `NULL`, a quoted text, a bare text.
//! The first form that matches is taken, and the rest of the word with it: an address, an identifier or a host name is one
//! value. (The original implementation of the language takes what follows for the next clause: `prod` and not `a` of
//! `prod-a`.)

use std::borrow::Cow;

use crate::cursor::{Cursor, is_ident, is_value};
use crate::error::{ErrorKind, Fault, excerpt};
use crate::moment::{self, Instant, Origin};
use crate::shorthand::Shorthand;

/// A value as written.
#[derive(Debug, Clone)]
pub(crate) enum Written<'a> {
    Null,
    One(Cow<'a, str>, Quotes),
    Range(&'a str, &'a str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quotes {
    Bare,
    Quoted,
}

/// Parses the value of a filter on `path`, which must be there.
pub(crate) fn value<'a>(c: &mut Cursor<'a>, path: &str) -> Result<Written<'a>, Fault> {
    let mut ahead = *c;
    let found = first_form(&mut ahead, path)?;
    // A text in quotes has an end, and so has NULL.
    let is_whole = matches!(found, Written::Null | Written::One(_, Quotes::Quoted))
        || matches!(ahead.peek(), None | Some(' ' | '\n' | '('))
        || ahead.rest().starts_with("..");
    if is_whole {
        *c = ahead;
        return Ok(found);
    }
    let mut word = *c;
    let text = word.run(is_value);
    if text.contains("..") || !matches!(word.peek(), None | Some(' ' | '\n' | '(')) {
        return Err(missing(c, path));
    }
    *c = word;
    Ok(Written::One(Cow::Borrowed(text), Quotes::Bare))
}

/// The value that the first form finds which matches the beginning.
fn first_form<'a>(c: &mut Cursor<'a>, path: &str) -> Result<Written<'a>, Fault> {
    if let Some(first) = iso(c)? {
        let mut ahead = *c;
        if ahead.eat("..")
            && let Some(last) = iso(&mut ahead)?
        {
            *c = ahead;
            return Ok(Written::Range(first, last));
        }
        return Ok(Written::One(Cow::Borrowed(first), Quotes::Bare));
    }
    if let Some(first) = number(c) {
        let last = c.attempt(|c| c.eat("..").then(|| number(c))?);
        return Ok(match last {
            Some(last) => Written::Range(first, last),
            None => Written::One(Cow::Borrowed(first), Quotes::Bare),
        });
    }
    if c.eat("NULL") {
        return Ok(Written::Null);
    }
    if let Some((text, _)) = quoted(c) {
        return Ok(Written::One(text, Quotes::Quoted));
    }
    if let Some(text) = c.attempt(parenthesised) {
        return Ok(Written::One(Cow::Borrowed(text), Quotes::Quoted));
    }
    if let Some(text) = c.some(is_ident) {
        return Ok(Written::One(Cow::Borrowed(text), Quotes::Bare));
    }
    Err(missing(c, path))
}

fn missing(c: &Cursor<'_>, path: &str) -> Fault {
    let path = excerpt(path);
    let allowed = "a number, a date, a word, NULL, \"quoted text\", or a range a..b of numbers or dates";
    let message = match c.peek() {
        None | Some(' ' | '\n') => format!("`{path}:` has no value; allowed are {allowed}"),
        Some('"' | '(') => {
            format!("the quote or parenthesis after `{path}:` is not closed: `{}`", excerpt(c.rest()))
        }
        Some(_) => {
            let word = c.rest().split([' ', '\n']).next().unwrap_or_default();
            let text = excerpt(word);
            let close = if word.contains(['"', '\\', '…']) { "\"…\"" } else { &format!("\"{text}\"") };
            format!(
                "`{text}` is no value for `{path}`; allowed are {allowed}. \
                 A text with other characters goes in quotes: {path}:{close}"
            )
        }
    };
    Fault::new(ErrorKind::InvalidValue, message, c.offset())
}

/// An ISO literal as written. It must exist in the calendar.
fn iso<'a>(c: &mut Cursor<'a>) -> Result<Option<&'a str>, Fault> {
    let start = c.offset();
    let Some(parts) = moment::iso(c) else { return Ok(None) };
    moment::instant(parts, false, start)?;
    Ok(Some(c.since(start)))
}

fn number<'a>(c: &mut Cursor<'a>) -> Option<&'a str> {
    let start = c.offset();
    let digit = |c: char| c.is_ascii_digit();
    c.some(digit)?;
    c.attempt(|c| c.eat(".").then(|| c.some(digit))?);
    Some(c.since(start))
}

fn parenthesised<'a>(c: &mut Cursor<'a>) -> Option<&'a str> {
    if !c.eat("(") {
        return None;
    }
    let text = c.run(|c| c != ')');
    c.eat(")").then_some(text)
}

/// The content of a text in double quotes, and whether a `~` stood before it.
pub(crate) fn quoted<'a>(c: &mut Cursor<'a>) -> Option<(Cow<'a, str>, bool)> {
    c.attempt(|c| {
        let tilde = c.eat("~");
        if !c.eat("\"") {
            return None;
        }
        let mut text = Cow::Borrowed(c.run(is_plain));
        loop {
            if c.eat("\"") {
                return Some((text, tilde));
            }
            // An escape, or a single backslash.
            let escaped = c.eat_one(&[("\\\"", "\""), ("\\\\", "\\"), ("\\", "\\")])?;
            let text = text.to_mut();
            text.push_str(escaped);
            text.push_str(c.run(is_plain));
        }
    })
}

fn is_plain(c: char) -> bool {
    c != '"' && c != '\\'
}

/// The value of a `t:` filter.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Time {
    One(Instant),
    Range(Instant, Instant, Option<Origin>),
    Relative(Shorthand),
}

/// Parses the value of a `t:` filter, which must be there.
pub(crate) fn time(c: &mut Cursor<'_>) -> Result<Time, Fault> {
    let start = c.offset();
    let mut ahead = *c;
    let first = literal(&mut ahead)?;
    let after_first = ahead;
    if let Some(first) = first
        && ahead.eat("..")
        && let Some(last) = literal(&mut ahead)?
    {
        *c = ahead;
        return range(first, last, start);
    }
    if let Some((low, high)) = moment::braced(c) {
        let low = moment::instant(low, true, start)?;
        let high = moment::instant(high, true, start)?;
        return Ok(if low == high { Time::One(low) } else { Time::Range(low, high, Some(low.origin())) });
    }
    if let Some(first) = first {
        *c = after_first;
        return Ok(Time::One(first));
    }
    if let Some(shorthand) = Shorthand::read(c) {
        return Ok(Time::Relative(shorthand));
    }
    let word = c.rest().split([' ', '\n']).next().unwrap_or_default();
    let found = if word.is_empty() { "nothing".to_owned() } else { format!("`{}`", excerpt(word)) };
    let message = format!(
        "a time was expected after `t:`, found {found}; allowed are 2024-05-01, 2024-05-01T08:00:00Z, \
         a range a..b, 2024-05-{{01..07}}, unix time of 10, 13 or 16 digits, now, today, yesterday, \
         this@ minute to year, and last@ with up to four digits and a unit (s m h d w mm y)"
    );
    Err(Fault::new(ErrorKind::InvalidTimestamp, message, start))
}

fn literal(c: &mut Cursor<'_>) -> Result<Option<Instant>, Fault> {
    let start = c.offset();
    match moment::iso(c) {
        Some(parts) => moment::instant(parts, false, start).map(Some),
        None => Ok(moment::unix(c)),
    }
}

fn range(first: Instant, last: Instant, offset: usize) -> Result<Time, Fault> {
    if let (Instant::Date(_), Instant::Date(_)) = (first, last) {
        return Ok(Time::Range(first, last, None));
    }
    if first.origin() != last.origin() {
        let message = "one end of this range is in UTC and the other in the viewer's zone; \
                       write both with an offset (Z or +02:00) or both without";
        return Err(Fault::new(ErrorKind::MixedTimestampOrigin, message, offset));
    }
    Ok(Time::Range(first, last, Some(first.origin())))
}
