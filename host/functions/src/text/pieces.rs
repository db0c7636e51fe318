//! Kernels of text: case, pieces, padding, replacing, splitting. Positions count characters.

use crate::kernel::Kernel;
use crate::rows::{Body, Items, Out, Row, RowError, RowResult};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows(
        "lower_text",
        1..=1,
        Body::Text(|row, out| mapped(row.text(0), out, str::make_ascii_lowercase, char::to_lowercase)),
    ),
    Kernel::rows(
        "upper_text",
        1..=1,
        Body::Text(|row, out| mapped(row.text(0), out, str::make_ascii_uppercase, char::to_uppercase)),
    ),
    Kernel::rows(
        "folded_text",
        1..=1,
        Body::Text(|row, out| mapped(row.text(0), out, str::make_ascii_lowercase, folded)),
    ),
    Kernel::rows("reverse_text", 1..=1, Body::Text(reverse)),
    Kernel::rows("title_text", 1..=2, Body::Text(title)),
    // A text of no more characters than the second argument says.
    Kernel::rows(
        "bounded_text",
        2..=2,
        Body::Text(|row, out| {
            let (text, most) = (row.text(0), length(row, 1)?);
            if text.len() > most && text.chars().count() > most {
                return Err(format!("a STRING({most}) has no more characters; SAFE_CAST gives NULL instead").into());
            }
            out.text(text).map(Some)
        }),
    ),
    Kernel::rows(
        "joined_text",
        1..=usize::MAX,
        Body::Text(|row, out| {
            (0..row.count()).try_for_each(|i| out.text(row.text(i)))?;
            Ok(Some(()))
        }),
    ),
    Kernel::rows(
        "joined_bytes",
        1..=usize::MAX,
        Body::Bytes(|row, out| {
            (0..row.count()).try_for_each(|i| out.bytes(row.bytes(i)))?;
            Ok(Some(()))
        }),
    ),
    Kernel::rows("piece", 2..=3, Body::Text(piece)),
    Kernel::rows("bytes_piece", 2..=3, Body::Bytes(bytes_piece)),
    Kernel::rows(
        "left_text",
        2..=2,
        Body::Text(|row, out| {
            let end = boundary(row.text(0), length(row, 1)?);
            copied(row.text(0).get(..end), out)
        }),
    ),
    Kernel::rows(
        "right_text",
        2..=2,
        Body::Text(|row, out| {
            let (text, count) = (row.text(0), length(row, 1)?);
            let start = boundary(text, text.chars().count().saturating_sub(count));
            copied(text.get(start..), out)
        }),
    ),
    Kernel::rows(
        "repeat_text",
        2..=2,
        Body::Text(|row, out| {
            out.repeated(row.text(0), length(row, 1)?)?;
            Ok(Some(()))
        }),
    ),
    Kernel::rows("pad_left", 2..=3, Body::Text(|row, out| pad(row, out, true))),
    Kernel::rows("pad_right", 2..=3, Body::Text(|row, out| pad(row, out, false))),
    Kernel::rows("replace_text", 3..=3, Body::Text(replace)),
    Kernel::rows("translate_text", 3..=3, Body::Text(translate)),
    Kernel::rows("trim_text", 1..=2, Body::Text(|row, out| trim(row, out, true, true))),
    Kernel::rows("trim_left", 1..=2, Body::Text(|row, out| trim(row, out, true, false))),
    Kernel::rows("trim_right", 1..=2, Body::Text(|row, out| trim(row, out, false, true))),
    Kernel::rows("split_text", 2..=2, Body::Texts(split)),
];

fn copied(text: Option<&str>, out: &mut Out) -> RowResult<()> {
    out.text(text.unwrap_or_default())?;
    Ok(Some(()))
}

fn mapped<I: Iterator<Item = char>>(
    text: &str,
    out: &mut Out,
    ascii: fn(&mut str),
    other: fn(char) -> I,
) -> RowResult<()> {
    if text.is_ascii() {
        out.room(text.len())?;
        let mut text = text.to_owned();
        ascii(&mut text);
        out.text(&text)?;
    } else {
        text.chars().flat_map(other).try_for_each(|c| out.char(c))?;
    }
    Ok(Some(()))
}

/// The full case folding of Unicode (CaseFolding.txt): small letters of the large ones of the small ones, but for the
/// dotless i, which is another letter, and those of Cherokee, whose small letters are the younger ones.
fn folded(c: char) -> impl Iterator<Item = char> {
    let kept = match c {
        'ı' | '\u{13a0}'..='\u{13f5}' => Some(c),
        '\u{ab70}'..='\u{abbf}' | '\u{13f8}'..='\u{13fd}' => c.to_uppercase().next(),
        _ => None,
    };
    let others = kept.is_none().then(|| c.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase));
    kept.into_iter().chain(others.into_iter().flatten())
}

fn reverse(row: &Row, out: &mut Out) -> RowResult<()> {
    row.text(0).chars().rev().try_for_each(|c| out.char(c))?;
    Ok(Some(()))
}

/// The characters after which a word begins, where no delimiters are given.
const DELIMITERS: &str = "[](){}/|<>!?@\"^#$&~_,.:;*%+-";

fn title(row: &Row, out: &mut Out) -> RowResult<()> {
    let own = (row.count() > 1).then(|| row.text(1));
    let mut begins = true;
    for c in row.text(0).chars() {
        let delimits = match own {
            Some(own) => own.contains(c),
            None => c.is_whitespace() || DELIMITERS.contains(c),
        };
        if delimits {
            out.char(c)?;
        } else if begins {
            c.to_uppercase().try_for_each(|c| out.char(c))?;
        } else {
            c.to_lowercase().try_for_each(|c| out.char(c))?;
        }
        begins = delimits;
    }
    Ok(Some(()))
}

/// An argument that is a number of characters or times.
pub(crate) fn length(row: &Row, i: usize) -> Result<usize, RowError> {
    usize::try_from(row.int(i)).map_err(|_| RowError::from(format!("a length of {} is negative", row.int(i))))
}

/// Where character `n` begins, in bytes.
pub(super) fn boundary(text: &str, n: usize) -> usize {
    if text.is_ascii() {
        return n.min(text.len());
    }
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

/// How many characters are skipped: positions count from 1, negative ones from the end; 0 and positions before the text
/// are its beginning.
fn skipped(position: i64, size: impl FnOnce() -> usize) -> usize {
    if position > 0 {
        return usize::try_from(position - 1).unwrap_or(usize::MAX);
    }
    if position == 0 {
        return 0;
    }
    let back = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
    let size = size();
    size.saturating_sub(back)
}

fn piece(row: &Row, out: &mut Out) -> RowResult<()> {
    let text = row.text(0);
    let start = boundary(text, skipped(row.int(1), || text.chars().count()));
    let rest = text.get(start..).unwrap_or_default();
    let end = if row.count() > 2 { boundary(rest, length(row, 2)?) } else { rest.len() };
    copied(rest.get(..end), out)
}

fn bytes_piece(row: &Row, out: &mut Out) -> RowResult<()> {
    let bytes = row.bytes(0);
    let rest = bytes.get(skipped(row.int(1), || bytes.len())..).unwrap_or_default();
    let end = if row.count() > 2 { length(row, 2)?.min(rest.len()) } else { rest.len() };
    out.bytes(rest.get(..end).unwrap_or_default())?;
    Ok(Some(()))
}

fn pad(row: &Row, out: &mut Out, left: bool) -> RowResult<()> {
    let (text, wanted) = (row.text(0), length(row, 1)?);
    let pattern = if row.count() > 2 { row.text(2) } else { " " };
    let size = text.chars().count();
    if wanted <= size {
        return copied(text.get(..boundary(text, wanted)), out);
    }
    if pattern.is_empty() {
        return Err("the pattern of a pad is empty".into());
    }
    // A character has at least one byte.
    out.room(wanted)?;
    if !left {
        out.text(text)?;
    }
    let (missing, whole) = (wanted - size, pattern.chars().count());
    out.repeated(pattern, missing / whole)?;
    out.text(pattern.get(..boundary(pattern, missing % whole)).unwrap_or_default())?;
    if left {
        out.text(text)?;
    }
    Ok(Some(()))
}

fn replace(row: &Row, out: &mut Out) -> RowResult<()> {
    let (text, from, to) = (row.text(0), row.text(1), row.text(2));
    if from.is_empty() {
        return copied(Some(text), out);
    }
    for (i, part) in text.split(from).enumerate() {
        if i > 0 {
            out.text(to)?;
        }
        out.text(part)?;
    }
    Ok(Some(()))
}

fn translate(row: &Row, out: &mut Out) -> RowResult<()> {
    let places = row.remember(1, |from| {
        row.hold(from.len().saturating_mul(size_of::<(char, usize)>()))?;
        let mut places: Vec<(char, usize)> = from.chars().enumerate().map(|(n, c)| (c, n)).collect();
        places.sort_unstable();
        match places.windows(2).find(|pair| pair.first().map(|p| p.0) == pair.last().map(|p| p.0)) {
            Some(pair) => {
                let twice = pair.first().map(|p| p.0).unwrap_or_default();
                Err(format!("TRANSLATE has the character '{twice}' twice in '{from}'").into())
            }
            None => Ok(places),
        }
    })?;
    let place = |c: char| places.binary_search_by_key(&c, |(c, _)| *c).ok().and_then(|n| places.get(n));
    row.hold(row.text(2).len().saturating_mul(4))?;
    let to: Vec<char> = row.text(2).chars().collect();
    let mut rest = row.text(0);
    while let Some((at, c)) = rest.char_indices().find(|(_, c)| place(*c).is_some()) {
        out.text(rest.get(..at).unwrap_or_default())?;
        rest = rest.get(at + c.len_utf8()..).unwrap_or_default();
        if let Some(c) = place(c).and_then(|(_, n)| to.get(*n)) {
            out.char(*c)?;
        }
    }
    out.text(rest)?;
    Ok(Some(()))
}

fn trim(row: &Row, out: &mut Out, left: bool, right: bool) -> RowResult<()> {
    let mut text = row.text(0);
    let set = (row.count() > 1).then(|| row.text(1));
    let goes = |c: char| match set {
        Some(set) => set.contains(c),
        None => c.is_whitespace(),
    };
    if left {
        text = text.trim_start_matches(goes);
    }
    if right {
        text = text.trim_end_matches(goes);
    }
    copied(Some(text), out)
}

fn split(row: &Row, items: &mut Items<'_>) -> RowResult<()> {
    let (text, separator) = (row.text(0), row.text(1));
    if separator.is_empty() && !text.is_empty() {
        let mut buffer = [0; 4];
        text.chars().try_for_each(|c| items.text(c.encode_utf8(&mut buffer)))?;
    } else if separator.is_empty() {
        items.text("")?;
    } else {
        text.split(separator).try_for_each(|part| items.text(part))?;
    }
    Ok(Some(()))
}
