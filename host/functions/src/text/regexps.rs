//! Kernels of regular expressions.
//!
//! A match is found in a time that grows with the text only. But a pattern may look at all of the text that is left for each
//! of its matches (`a*[^a]|a` in a text of many `a`), so whoever goes from match to match asks now and then whether the
//! result is still wanted ([`Pace`]).

use regex::{Match, Regex};

use super::pieces::boundary;
use crate::context::Compiled;
use crate::kernel::{Fallibility, Kernel};
use crate::re2_bytes::pattern_of_bytes;
use crate::rows::{Body, Items, Out, Row, RowError, RowResult};

pub(crate) const KERNELS: &[Kernel] = &[
    // A literal pattern is compiled when the call is built.
    Kernel::rows("regexp_contains", 2..=2, Body::Bool(|row| Ok(Some(row.regex(1)?.regex.is_match(row.text(0))))))
        .with_fallibility(Fallibility::FallibleUnlessLiterals),
    Kernel::rows("regexp_extract", 2..=4, Body::Text(extract)),
    Kernel::rows("regexp_extract_all", 2..=2, Body::Texts(extract_all)),
    Kernel::rows("regexp_find", 2..=5, Body::Int(find)),
    Kernel::rows("regexp_replace_all", 3..=3, Body::Text(replace)),
    Kernel::rows("pattern_of_bytes", 1..=1, Body::Text(pattern)),
];

/// The pattern over text for one over BYTES.
fn pattern(row: &Row, out: &mut Out) -> RowResult<()> {
    row.running()?;
    out.text(&pattern_of_bytes(row.bytes(0))?).map(Some)
}

/// Counts how much text the matches of a row may have looked at.
#[derive(Default)]
struct Pace {
    bytes: usize,
}

impl Pace {
    /// A millisecond or so.
    const BETWEEN_CHECKS: usize = 1 << 20;

    /// Counts one more match, with so much text behind the one before.
    fn searched(&mut self, row: &Row, bytes: usize) -> Result<(), RowError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes < Self::BETWEEN_CHECKS {
            return Ok(());
        }
        self.bytes = 0;
        row.running()
    }
}

/// The result of the first match from `at`, and where to search for the next match. The result is the first group if the
/// pattern has one, else the whole match.
fn next<'t>(regex: &Regex, text: &'t str, at: usize) -> Option<(Option<Match<'t>>, usize)> {
    if at > text.len() {
        return None;
    }
    let (whole, wanted) = if regex.captures_len() > 1 {
        let captures = regex.captures_at(text, at)?;
        (captures.get(0)?, captures.get(1))
    } else {
        // To find groups takes several times as long as to find a match.
        let whole = regex.find_at(text, at)?;
        (whole, Some(whole))
    };
    // After an empty match the search goes on behind the next character.
    let step = if whole.is_empty() {
        text.get(whole.end()..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
    } else {
        0
    };
    // Where all of the text is looked at there is no further match, not even an empty one.
    let next = whole.end() + step;
    Some((wanted, if next >= text.len() { usize::MAX } else { next }))
}

/// Match number `occurrence` at or after character `position`, both counted from 1.
fn occurrence<'t>(row: &'t Row, pattern: &Compiled, first: usize) -> Result<Option<Match<'t>>, RowError> {
    let number = |i: usize, name: &str| {
        let number = if row.count() > i { row.int(i) } else { 1 };
        usize::try_from(number.saturating_sub(1))
            .map_err(|_| RowError::from(format!("the {name} of a match counts from 1, not {number}")))
    };
    let text = row.text(0);
    let (position, mut skip) = (number(first, "position")?, number(first + 1, "occurrence")?);
    let mut at = boundary(text, position);
    if position > 0 && at >= text.len() {
        return Ok(None);
    }
    let mut pace = Pace::default();
    while let Some((wanted, next)) = next(&pattern.regex, text, at) {
        pace.searched(row, text.len() - at.min(text.len()))?;
        if skip == 0 {
            return Ok(wanted);
        }
        skip -= 1;
        at = next;
    }
    Ok(None)
}

fn extract(row: &Row, out: &mut Out) -> RowResult<()> {
    match occurrence(row, row.regex(1)?.as_ref(), 2)? {
        Some(found) => out.text(found.as_str()).map(Some),
        None => Ok(None),
    }
}

fn extract_all(row: &Row, items: &mut Items<'_>) -> RowResult<()> {
    let (regex, text, mut at, mut pace) = (row.regex(1)?, row.text(0), 0, Pace::default());
    while let Some((wanted, next)) = next(&regex.regex, text, at) {
        pace.searched(row, text.len() - at.min(text.len()))?;
        items.text(wanted.map_or("", |found| found.as_str()))?;
        at = next;
    }
    Ok(Some(()))
}

fn find(row: &Row) -> RowResult<i64> {
    let end = match row.int(4) {
        0 => false,
        1 => true,
        other => return Err(format!("the last argument of REGEXP_INSTR is 0 or 1, not {other}").into()),
    };
    let found =
        occurrence(row, row.regex(1)?.as_ref(), 2)?.filter(|_| !row.text(0).is_empty() && !row.text(1).is_empty());
    if row.regex(1)?.regex.captures_len() > 2 {
        return Err("REGEXP_INSTR takes a pattern of no more than one group".into());
    }
    let text = row.text(0);
    let position = found.map_or(0, |found| {
        let mut at = if end { found.end() } else { found.start() };
        // As in BigQuery, an empty match is where the search goes on.
        if found.is_empty() && row.regex(1).is_ok_and(|pattern| pattern.regex.captures_len() == 1) {
            at += text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        }
        text.get(..at).unwrap_or_default().chars().count() + 1
    });
    Ok(Some(i64::try_from(position).unwrap_or(i64::MAX)))
}

/// A piece of a replacement.
enum Piece {
    Text(String),
    Group(usize),
}

/// `\0` to `\9` are groups, two backslashes are one.
fn pieces(by: &str) -> Vec<Piece> {
    let (mut pieces, mut text) = (Vec::new(), String::new());
    let mut rest = by.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.next() {
            Some(digit @ '0'..='9') => {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
                pieces.push(Piece::Group(digit.to_digit(10).map_or(0, |n| n as usize)));
            }
            Some('\\') | None => text.push('\\'),
            Some(other) => text.extend(['\\', other]),
        }
    }
    pieces.push(Piece::Text(text));
    pieces
}

fn replace(row: &Row, out: &mut Out) -> RowResult<()> {
    let (compiled, text) = (row.regex(1)?, row.text(0));
    let regex = &compiled.regex;
    let by = row.remember(2, |by| Ok(pieces(by)))?;
    let (mut copied, mut pace) = (0, Pace::default());
    for captures in regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        pace.searched(row, text.len() - copied)?;
        out.text(text.get(copied..whole.start()).unwrap_or_default())?;
        copied = whole.end();
        for piece in by.iter() {
            match piece {
                Piece::Text(text) => out.text(text)?,
                Piece::Group(group) if *group < regex.captures_len() => {
                    out.text(captures.get(*group).map_or("", |found| found.as_str()))?;
                }
                Piece::Group(group) => {
                    return Err(format!("the replacement names the group \\{group}, which the pattern lacks").into());
                }
            }
        }
    }
    out.text(text.get(copied..).unwrap_or_default())?;
    Ok(Some(()))
}
