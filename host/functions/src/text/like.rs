//! LIKE with a computed or a long pattern.
//!
//! The engine compiles a regular expression of such a pattern for every row, which takes seconds for a batch. This kernel
//! searches the pieces between the `%` one after the other.

use crate::kernel::Kernel;
use crate::rows::{Body, Row, RowError, RowResult};

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 64 << 10;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows("like_text", 2..=2, Body::Bool(|row| like(row, row.text(0), &row.remember(1, pieces)?))),
    Kernel::rows(
        "like_text_without_case",
        2..=2,
        Body::Bool(|row| {
            let pattern = row.remember(1, |pattern| pieces(&pattern.chars().map(caseless).collect::<String>()))?;
            like(row, &row.text(0).chars().map(caseless).collect::<String>(), &pattern)
        }),
    ),
];

/// A character that is the same for all of its cases. Characters whose other case is several characters stay as they
/// are, so that `_` stays one character.
fn caseless(c: char) -> char {
    fn single(mut cases: impl Iterator<Item = char>) -> Option<char> {
        cases.next().filter(|_| cases.next().is_none())
    }
    let upper = single(c.to_uppercase()).unwrap_or(c);
    single(upper.to_lowercase()).unwrap_or(upper)
}

/// The texts between the wildcards of a pattern. None if the pattern is too long.
pub(super) fn texts(pattern: &str) -> Vec<String> {
    let parts = pieces(pattern).unwrap_or_default().into_iter().flatten();
    parts.filter_map(|part| if let Part::Text(text) = part { Some(text) } else { None }).collect()
}

/// A part of a piece of a pattern, between its `%`.
#[derive(Debug, PartialEq)]
enum Part {
    Text(String),
    /// So many `_`: any characters.
    Any(usize),
}

fn like(row: &Row, text: &str, pieces: &[Vec<Part>]) -> RowResult<bool> {
    // There is always one piece: that of a pattern without `%`, which must match the whole text.
    let Some((first, others)) = pieces.split_first() else { return Ok(Some(text.is_empty())) };
    let Some(mut rest) = after(text, first) else { return Ok(Some(false)) };
    let Some((last, middle)) = others.split_last() else { return Ok(Some(rest.is_empty())) };
    for piece in middle {
        match found(row, rest, piece)? {
            Some(behind) => rest = behind,
            None => return Ok(Some(false)),
        }
    }
    let size = last.iter().map(Part::characters).sum::<usize>();
    let start = match size.checked_sub(1) {
        None => Some(rest.len()),
        Some(before) => rest.char_indices().rev().nth(before).map(|(at, _)| at),
    };
    let end = start.and_then(|start| rest.get(start..)).and_then(|end| after(end, last));
    Ok(Some(end.is_some_and(str::is_empty)))
}

/// The pieces of a pattern: before, between and after its `%`.
fn pieces(pattern: &str) -> Result<Vec<Vec<Part>>, RowError> {
    if pattern.len() > MAX_PATTERN {
        return Err(RowError::Limit(format!("a LIKE pattern has at most {} KiB", MAX_PATTERN >> 10)));
    }
    let mut pieces: Vec<Vec<Part>> = vec![Vec::new()];
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        let escaped = match c {
            '%' => {
                // Several `%` are as one.
                if pieces.len() == 1 || pieces.last().is_some_and(|piece| !piece.is_empty()) {
                    pieces.push(Vec::new());
                }
                continue;
            }
            '\\' => Some(characters.next().unwrap_or('\\')),
            _ => None,
        };
        let Some(piece) = pieces.last_mut() else { continue };
        match (escaped.unwrap_or(c), piece.last_mut()) {
            ('_', Some(Part::Any(count))) if escaped.is_none() => *count += 1,
            ('_', _) if escaped.is_none() => piece.push(Part::Any(1)),
            (c, Some(Part::Text(text))) => text.push(c),
            (c, _) => piece.push(Part::Text(c.to_string())),
        }
    }
    Ok(pieces)
}

impl Part {
    fn characters(&self) -> usize {
        match self {
            Self::Text(text) => text.chars().count(),
            Self::Any(count) => *count,
        }
    }
}

/// The rest of a text that begins with a piece.
fn after<'a>(text: &'a str, piece: &[Part]) -> Option<&'a str> {
    piece.iter().try_fold(text, |text, part| match part {
        Part::Text(part) => text.strip_prefix(part.as_str()),
        Part::Any(count) => {
            let mut rest = text.chars();
            rest.nth(count.checked_sub(1)?)?;
            Some(rest.as_str())
        }
    })
}

/// The rest of a text after the first match of a piece.
fn found<'a>(row: &Row, text: &'a str, piece: &[Part]) -> Result<Option<&'a str>, RowError> {
    /// Bytes that are compared in the time of one step.
    const STEP: usize = 8;
    let size = piece.iter().map(|part| match part {
        Part::Text(text) => text.len(),
        Part::Any(count) => count.saturating_mul(STEP),
    });
    let size = size.sum::<usize>();
    let mut from = text;
    loop {
        row.work((1 + size / STEP) as u64)?;
        let start = match piece.first() {
            None => return Ok(Some(from)),
            Some(Part::Text(part)) => from.find(part.as_str()),
            Some(Part::Any(_)) => Some(0),
        };
        let Some(candidate) = start.and_then(|start| from.get(start..)) else { return Ok(None) };
        if let Some(behind) = after(candidate, piece) {
            return Ok(Some(behind));
        }
        let mut next = candidate.chars();
        if next.next().is_none() {
            return Ok(None);
        }
        from = next.as_str();
    }
}
