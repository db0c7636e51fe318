//! Kernels of BYTES that take them apart, as those of text do. Positions count bytes.

use memchr::memmem;

use crate::kernel::Kernel;
use crate::rows::{Body, Out, Row, RowResult};
use crate::text::pieces::length;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows(
        "left_bytes",
        2..=2,
        Body::Bytes(|row, out| {
            let bytes = row.bytes(0);
            copied(bytes.get(..length(row, 1)?).unwrap_or(bytes), out)
        }),
    ),
    Kernel::rows(
        "right_bytes",
        2..=2,
        Body::Bytes(|row, out| {
            let bytes = row.bytes(0);
            copied(bytes.get(bytes.len().saturating_sub(length(row, 1)?)..).unwrap_or_default(), out)
        }),
    ),
    Kernel::rows("reverse_bytes", 1..=1, Body::Bytes(reverse)),
    Kernel::rows("replace_bytes", 3..=3, Body::Bytes(replace)),
    Kernel::rows("bytes_start", 2..=2, Body::Bool(|row| Ok(Some(row.bytes(0).starts_with(row.bytes(1)))))),
    Kernel::rows("bytes_end", 2..=2, Body::Bool(|row| Ok(Some(row.bytes(0).ends_with(row.bytes(1)))))),
    Kernel::rows("escaped_bytes", 1..=1, Body::Text(escaped)),
    Kernel::rows("bytes_as_characters", 1..=1, Body::Text(characters)),
    Kernel::rows("characters_as_bytes", 1..=1, Body::Bytes(of_characters)),
];

fn copied(bytes: &[u8], out: &mut Out) -> RowResult<()> {
    out.bytes(bytes)?;
    Ok(Some(()))
}

/// A text with a character for each byte, that of its number: positions in it are those in the bytes.
fn characters(row: &Row, out: &mut Out) -> RowResult<()> {
    for byte in row.bytes(0) {
        out.char(char::from(*byte))?;
    }
    Ok(Some(()))
}

/// The BYTES of which [`characters`] makes such a text.
fn of_characters(row: &Row, out: &mut Out) -> RowResult<()> {
    for c in row.text(0).chars() {
        out.bytes(&[u8::try_from(u32::from(c)).map_err(|_| "a character is no byte")?])?;
    }
    Ok(Some(()))
}

fn reverse(row: &Row, out: &mut Out) -> RowResult<()> {
    let bytes = row.bytes(0);
    out.room(bytes.len())?;
    let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
    copied(&reversed, out)
}

fn replace(row: &Row, out: &mut Out) -> RowResult<()> {
    let (bytes, from, to) = (row.bytes(0), row.bytes(1), row.bytes(2));
    if from.is_empty() {
        return copied(bytes, out);
    }
    let mut rest = 0;
    for at in memmem::find_iter(bytes, from) {
        out.bytes(bytes.get(rest..at).unwrap_or_default())?;
        out.bytes(to)?;
        rest = at + from.len();
    }
    copied(bytes.get(rest..).unwrap_or_default(), out)
}

/// The content of a literal of the bytes, of which quotes stay as they are.
fn escaped(row: &Row, out: &mut Out) -> RowResult<()> {
    let digit = |n: u8| char::from_digit(n.into(), 16).unwrap_or('0');
    for byte in row.bytes(0) {
        match byte {
            b'\\' => out.text("\\\\")?,
            b'\n' => out.text("\\n")?,
            b'\r' => out.text("\\r")?,
            b'\t' => out.text("\\t")?,
            b' '..=b'~' => out.char(char::from(*byte))?,
            _ => {
                out.text("\\x")?;
                out.char(digit(byte >> 4))?;
                out.char(digit(byte & 15))?;
            }
        }
    }
    Ok(Some(()))
}
