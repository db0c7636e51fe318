//! BYTES as text in a format, for `CAST(bytes AS STRING FORMAT 'HEX')` and back.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::kernel::Kernel;
use crate::rows::{Body, Out, Row, RowError, RowResult};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows("bytes_in_format", 2..=2, Body::Text(written)),
    Kernel::rows("bytes_of_format", 2..=2, Body::Bytes(read)),
];

/// The length of a line of BASE64M.
const LINE: usize = 76;

enum Format {
    /// So many bits a digit: 1, 3 or 4.
    Digits(usize),
    Base64 {
        lines: bool,
    },
    Ascii,
    Utf8,
}

fn format(row: &Row) -> Result<Format, RowError> {
    Ok(match row.text(1).to_ascii_uppercase().as_str() {
        "BASE2" => Format::Digits(1),
        "BASE8" => Format::Digits(3),
        "BASE16" | "HEX" => Format::Digits(4),
        "BASE64" => Format::Base64 { lines: false },
        "BASE64M" => Format::Base64 { lines: true },
        "ASCII" => Format::Ascii,
        "UTF8" | "UTF-8" => Format::Utf8,
        _ => {
            let short: String = row.text(1).chars().take(60).collect();
            let known = "BASE2, BASE8, BASE16, HEX, BASE64, BASE64M, ASCII, UTF8";
            return Err(format!("there is no format '{short}' of BYTES; there are {known}").into());
        }
    })
}

/// The bits of bytes, the first one first.
fn bits(bytes: &[u8]) -> impl Iterator<Item = bool> {
    bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1))
}

fn written(row: &Row, out: &mut Out) -> RowResult<()> {
    let bytes = row.bytes(0);
    match format(row)? {
        Format::Digits(size) => {
            let count = (bytes.len() * 8).div_ceil(size);
            out.room(count)?;
            // The first digit has zeros before the bits that it lacks.
            let mut all = std::iter::repeat_n(false, count * size - bytes.len() * 8).chain(bits(bytes));
            for _ in 0..count {
                let digit = all.by_ref().take(size).fold(0, |digit, bit| digit * 2 + u32::from(bit));
                out.char(char::from_digit(digit, 16).unwrap_or('0'))?;
            }
        }
        Format::Base64 { lines } => {
            out.room(bytes.len().saturating_mul(2))?;
            let text = BASE64_STANDARD.encode(bytes);
            for (i, line) in text.as_bytes().chunks(if lines { LINE } else { usize::MAX }).enumerate() {
                if i > 0 {
                    out.char('\n')?;
                }
                out.text(std::str::from_utf8(line).unwrap_or_default())?;
            }
        }
        Format::Ascii if !bytes.is_ascii() => return Err("the BYTES are no ASCII".into()),
        Format::Ascii | Format::Utf8 => {
            out.text(std::str::from_utf8(bytes).map_err(|_| "the BYTES are no UTF-8")?)?;
        }
    }
    Ok(Some(()))
}

fn read(row: &Row, out: &mut Out) -> RowResult<()> {
    let text = row.text(0);
    match format(row)? {
        Format::Digits(size) => {
            let digit = |c: char| {
                let digit = c.to_digit(1 << size);
                digit.ok_or_else(|| RowError::from(format!("'{c}' is no digit of {}", row.text(1))))
            };
            let digits = text.chars().map(digit).collect::<Result<Vec<u32>, _>>()?;
            // Whole bytes from the end on. One digit of BASE8 more than they need may hold no bit of another one, as in GoogleSQL.
            let bytes = if size == 3 { (digits.len() * 3 + 5) / 8 } else { (digits.len() * size).div_ceil(8) };
            let bit = |place: usize| {
                let digit = digits.len().checked_sub(1 + place / size).and_then(|at| digits.get(at));
                digit.is_some_and(|digit| digit >> (place % size) & 1 == 1)
            };
            for byte in (0..bytes).rev() {
                let value = (0..8).fold(0_u8, |value, at| value | u8::from(bit(byte * 8 + at)) << at);
                out.bytes(&[value])?;
            }
        }
        Format::Base64 { .. } => {
            let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            out.bytes(&BASE64_STANDARD.decode(text).map_err(|_| "the text is no BASE64")?)?;
        }
        Format::Ascii if !text.is_ascii() => return Err("the text is no ASCII".into()),
        Format::Ascii | Format::Utf8 => out.bytes(text.as_bytes())?,
    }
    Ok(Some(()))
}
