//! Kernels of text that search and compare: INSTR, EDIT_DISTANCE, SOUNDEX. Positions count characters.

use super::pieces::boundary;
use crate::kernel::Kernel;
use crate::rows::{Body, Out, Row, RowResult};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows("find_text", 2..=4, Body::Int(find)),
    Kernel::rows("edit_distance", 2..=3, Body::Int(edit_distance)),
    Kernel::rows("soundex", 1..=1, Body::Text(soundex)),
];

/// INSTR: occurrences may overlap; a negative position searches backwards from there.
fn find(row: &Row) -> RowResult<i64> {
    let (text, part) = (row.text(0), row.text(1));
    let position = if row.count() > 2 { row.int(2) } else { 1 };
    let occurrence = if row.count() > 3 { row.int(3) } else { 1 };
    if position == 0 {
        return Err("a position of INSTR counts from 1, or from -1 at the end; it cannot be 0".into());
    }
    if occurrence < 1 {
        return Err("an occurrence of INSTR counts from 1".into());
    }
    let skip = usize::try_from(occurrence - 1).unwrap_or(usize::MAX);
    let found = if position > 0 {
        let before = usize::try_from(position - 1).unwrap_or(usize::MAX);
        // Behind the end there is nothing, not even an empty part.
        if part.is_empty() && before > text.chars().count() {
            return Ok(Some(0));
        }
        let mut from = boundary(text, before);
        std::iter::from_fn(|| {
            let at = from + text.get(from..)?.find(part)?;
            from = at + text.get(at..)?.chars().next().map_or(1, char::len_utf8);
            Some(at)
        })
        .nth(skip)
    } else {
        let size = text.chars().count();
        let back = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
        let Some(last) = size.checked_sub(back) else { return Ok(Some(0)) };
        let mut end = (boundary(text, last) + part.len()).min(text.len());
        if part.is_empty() {
            end = boundary(text, last + 1);
        }
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut until = Some(end);
        std::iter::from_fn(|| {
            let at = text.get(..until?)?.rfind(part)?;
            // The next one ends a character earlier.
            until = text.get(..at + part.len())?.char_indices().next_back().map(|(before, _)| before);
            Some(at)
        })
        .nth(skip)
    };
    let position = found.map_or(0, |at| text.get(..at).unwrap_or_default().chars().count() + 1);
    Ok(Some(i64::try_from(position).unwrap_or(i64::MAX)))
}

fn edit_distance(row: &Row) -> RowResult<i64> {
    row.hold(row.text(0).len().saturating_mul(4).saturating_add(row.text(1).len().saturating_mul(12)))?;
    let (a, b): (Vec<char>, Vec<char>) = (row.text(0).chars().collect(), row.text(1).chars().collect());
    row.work((a.len() as u64).saturating_mul(b.len() as u64))?;
    let mut costs: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let (mut diagonal, mut previous) = (i, i + 1);
        if let Some(first) = costs.first_mut() {
            *first = previous;
        }
        for (cost, right) in costs.iter_mut().skip(1).zip(&b) {
            let substituted = diagonal + usize::from(left != right);
            diagonal = *cost;
            *cost = substituted.min(previous + 1).min(*cost + 1);
            previous = *cost;
        }
    }
    let distance = costs.last().and_then(|cost| i64::try_from(*cost).ok()).unwrap_or_default();
    match row.int(2) {
        most if most < 0 => Err(format!("the most that EDIT_DISTANCE gives cannot be {most}").into()),
        most if row.count() > 2 => Ok(Some(distance.min(most))),
        _ => Ok(Some(distance)),
    }
}

fn soundex(row: &Row, out: &mut Out) -> RowResult<()> {
    let code = |c: char| match c.to_ascii_uppercase() {
        'B' | 'F' | 'P' | 'V' => Some('1'),
        'C' | 'G' | 'J' | 'K' | 'Q' | 'S' | 'X' | 'Z' => Some('2'),
        'D' | 'T' => Some('3'),
        'L' => Some('4'),
        'M' | 'N' => Some('5'),
        'R' => Some('6'),
        _ => None,
    };
    let mut letters = row.text(0).chars().filter(char::is_ascii_alphabetic);
    let Some(first) = letters.next() else { return Ok(Some(())) };
    out.char(first.to_ascii_uppercase())?;
    let mut last = code(first);
    for c in letters {
        if out.len() == 4 {
            break;
        }
        let next = code(c);
        if let Some(digit) = next
            && next != last
        {
            out.char(digit)?;
        }
        // Equal codes count once if H or W is between them, twice if a vowel is.
        if !matches!(c, 'h' | 'H' | 'w' | 'W') {
            last = next;
        }
    }
    while out.len() < 4 {
        out.char('0')?;
    }
    Ok(Some(()))
}
