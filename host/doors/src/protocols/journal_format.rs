//! The export format of systemd's journal: fields of an entry, one on each line, and a blank line at its end. A value that has a line
//! break is written with its length: `NAME`, a line break, eight bytes of length, the value, a line break.

use tidegate_model::{Code, Failure};

use crate::body_parts::Cutter;

/// Where the reader is.
#[derive(Debug, Clone, Copy, Default)]
enum Place {
    /// At the beginning of a line.
    #[default]
    Line,
    /// In the name of a field.
    Name,
    /// In a value that ends with its line.
    Value,
    /// In the length of a value, of which so many bytes have come.
    Length { read: u32, length: u64 },
    /// In a value of which so many bytes are to come.
    Bytes(u64),
    /// Behind such a value.
    After,
}

/// Finds the ends of entries, also where an entry comes in pieces.
#[derive(Debug, Default)]
pub(super) struct EntryCutter(Place);

fn position(bytes: &[u8], is: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| is(*byte)).unwrap_or(bytes.len())
}

impl Cutter for EntryCutter {
    fn advance(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        let mut at = 0;
        while let Some((first, _)) = bytes.get(at..).and_then(<[u8]>::split_first) {
            let rest = bytes.get(at..).unwrap_or_default();
            match self.0 {
                Place::Line if *first == b'\n' => return Ok((at + 1, true)),
                Place::Line => self.0 = Place::Name,
                Place::Name => {
                    let end = position(rest, |byte| byte == b'=' || byte == b'\n');
                    at += end + 1;
                    match rest.get(end) {
                        Some(b'=') => self.0 = Place::Value,
                        Some(_) => self.0 = Place::Length { read: 0, length: 0 },
                        None => {}
                    }
                }
                Place::Value => {
                    let end = position(rest, |byte| byte == b'\n');
                    at += end + 1;
                    if end < rest.len() {
                        self.0 = Place::Line;
                    }
                }
                Place::Length { read, length } => {
                    let length = length | u64::from(*first) << (8 * read);
                    at += 1;
                    self.0 = if read == 7 { Place::Bytes(length) } else { Place::Length { read: read + 1, length } };
                }
                Place::Bytes(0) => self.0 = Place::After,
                Place::Bytes(left) => {
                    let here = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                    at += here;
                    self.0 = Place::Bytes(left.saturating_sub(here as u64));
                }
                Place::After if *first == b'\n' => {
                    at += 1;
                    self.0 = Place::Line;
                }
                Place::After => {
                    let message = "the body is not in the export format of the journal: a value is longer than it says";
                    return Err(Failure::new(Code::InvalidBody, message));
                }
            }
        }
        Ok((bytes.len(), false))
    }
}

/// A field: its name and its value.
pub(super) type Field<'e> = (&'e [u8], &'e [u8]);

/// The fields of a whole entry, in their order.
///
/// # Errors
/// Why it is none.
pub(super) fn entry_fields(entry: &[u8]) -> Result<Vec<Field<'_>>, String> {
    let bad = || "the entry has a field that cannot be read".to_owned();
    let mut fields = Vec::new();
    let mut rest = entry;
    while let Some((first, later)) = rest.split_first() {
        if *first == b'\n' {
            rest = later;
            continue;
        }
        let (name, value) = rest.split_at(position(rest, |byte| byte == b'=' || byte == b'\n'));
        if name.is_empty() {
            return Err("the entry has a field without a name".to_owned());
        }
        let (value, later) = match value.split_first().ok_or_else(bad)? {
            (b'=', value) => value.split_at(position(value, |byte| byte == b'\n')),
            (_, value) => {
                let (length, value) = value.split_first_chunk::<8>().ok_or_else(bad)?;
                let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| bad())?;
                value.split_at_checked(length).ok_or_else(bad)?
            }
        };
        fields.push((name, value));
        rest = later;
    }
    Ok(fields)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn ends_are_found_however_the_bytes_come() {
        let body = b"A=1\nB\n\x04\0\0\0\0\0\0\0\n\n=\n\n\nA=2\n\nC\n\0\0\0\0\0\0\0\0\n\n";
        for size in 1..body.len() {
            let (mut cutter, mut ends, mut gone) = (EntryCutter::default(), Vec::new(), 0);
            for chunk in body.chunks(size) {
                let mut rest = chunk;
                while !rest.is_empty() {
                    let (length, is_end) = cutter.advance(rest).unwrap();
                    rest = &rest[length..];
                    gone += length;
                    if is_end {
                        ends.push(gone);
                    }
                }
            }
            assert_eq!(ends, [20, 25, body.len()], "{size}");
        }
        let fields = entry_fields(&body[..20]).unwrap();
        assert_eq!(fields, [(&b"A"[..], &b"1"[..]), (b"B", b"\n\n=\n")]);
        assert_eq!(entry_fields(&body[25..]).unwrap(), [(&b"C"[..], &b""[..])]);
    }
}
