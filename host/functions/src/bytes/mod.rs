//! Kernels of bytes: hashes, and bytes as text.

mod digests;
pub(crate) mod formats;
pub(crate) mod pieces;

use std::borrow::Cow;

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
use base64::{Engine, alphabet};

use crate::kernel::Kernel;
use crate::rows::{Body, Out, Row, RowError, RowResult};

/// Base64 is read whatever bits follow the last byte.
const READER_CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);

/// With all of its padding.
const PADDED: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, READER_CONFIG);

/// Without any.
const UNPADDED: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, READER_CONFIG.with_decode_padding_mode(DecodePaddingMode::RequireNone));

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows("md5_bytes", 1..=1, Body::Bytes(|row, out| digest(out, &digests::md5(row.bytes(0))))),
    Kernel::rows("sha1_bytes", 1..=1, Body::Bytes(|row, out| digest(out, &digests::sha1(row.bytes(0))))),
    Kernel::rows("sha256_bytes", 1..=1, Body::Bytes(|row, out| digest(out, &digests::sha256(row.bytes(0))))),
    Kernel::rows("sha512_bytes", 1..=1, Body::Bytes(|row, out| digest(out, &digests::sha512(row.bytes(0))))),
    Kernel::rows("farm_fingerprint", 1..=1, Body::Int(|row| Ok(Some(digests::farm(row.bytes(0)).cast_signed())))),
    Kernel::rows("byte_count", 1..=1, Body::Int(|row| Ok(i64::try_from(row.bytes(0).len()).ok()))),
    Kernel::rows("to_hex", 1..=1, Body::Text(to_hex)),
    // BYTES of no more bytes than the second argument says.
    Kernel::rows(
        "bounded_bytes",
        2..=2,
        Body::Bytes(|row, out| {
            let (bytes, most) = (row.bytes(0), row.int(1));
            if i64::try_from(bytes.len()).is_ok_and(|length| length > most) {
                return Err(format!("a BYTES({most}) has no more bytes; SAFE_CAST gives NULL instead").into());
            }
            out.bytes(bytes).map(Some)
        }),
    ),
    Kernel::rows("from_hex", 1..=1, Body::Bytes(from_hex)),
    Kernel::rows("to_base64", 1..=1, Body::Text(to_base64)),
    Kernel::rows("from_base64", 1..=1, Body::Bytes(from_base64)),
    Kernel::rows("to_base32", 1..=1, Body::Text(to_base32)),
    Kernel::rows("from_base32", 1..=1, Body::Bytes(from_base32)),
    Kernel::rows(
        "lossy_text",
        1..=1,
        Body::Text(|row, out| {
            for chunk in row.bytes(0).utf8_chunks() {
                out.text(chunk.valid())?;
                if !chunk.invalid().is_empty() {
                    out.char('\u{fffd}')?;
                }
            }
            Ok(Some(()))
        }),
    ),
    Kernel::rows(
        "text_bytes",
        1..=1,
        Body::Bytes(|row, out| {
            out.bytes(row.bytes(0))?;
            Ok(Some(()))
        }),
    ),
    Kernel::rows(
        "bytes_text",
        1..=1,
        Body::Text(|row, out| {
            let text = std::str::from_utf8(row.bytes(0))
                .map_err(|_| "the bytes are no UTF-8 text; SAFE_CONVERT_BYTES_TO_STRING replaces what is none")?;
            out.text(text)?;
            Ok(Some(()))
        }),
    ),
];

fn digest(out: &mut Out, bytes: &[u8]) -> RowResult<()> {
    out.bytes(bytes)?;
    Ok(Some(()))
}

fn to_hex(row: &Row, out: &mut Out) -> RowResult<()> {
    let bytes = row.bytes(0);
    out.room(bytes.len().saturating_mul(2))?;
    let digit = |n: u8| if n < 10 { b'0' + n } else { b'a' + n - 10 };
    let text: Vec<u8> = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    out.bytes(&text)?;
    Ok(Some(()))
}

fn from_hex(row: &Row, out: &mut Out) -> RowResult<()> {
    let text = row.text(0);
    let digit = |c: u8| {
        char::from(c).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).ok_or_else(|| {
            RowError::from(format!("'{}' is no hexadecimal text", text.chars().take(60).collect::<String>()))
        })
    };
    // A missing first digit is 0.
    let (first, rest) = text.as_bytes().split_at(text.len() % 2);
    for byte in first {
        out.bytes(&[digit(*byte)?])?;
    }
    for pair in rest.chunks(2) {
        if let [high, low] = pair {
            out.bytes(&[digit(*high)? << 4 | digit(*low)?])?;
        }
    }
    Ok(Some(()))
}

fn to_base64(row: &Row, out: &mut Out) -> RowResult<()> {
    out.room(row.bytes(0).len().div_ceil(3).saturating_mul(4))?;
    out.text(&BASE64_STANDARD.encode(row.bytes(0)))?;
    Ok(Some(()))
}

fn from_base64(row: &Row, out: &mut Out) -> RowResult<()> {
    let text = row.text(0);
    out.room(text.len() / 4 * 3)?;
    let bytes = base64_bytes(text)
        .ok_or_else(|| RowError::from(format!("'{}' is no Base64 text", text.chars().take(60).collect::<String>())))?;
    out.bytes(&bytes)?;
    Ok(Some(()))
}

/// The fingerprint of bytes, which stays the same in all versions.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    digests::farm(bytes)
}

/// What a text of Base64 says: without white space, with all of its padding or none, as GoogleSQL reads it.
fn base64_bytes(text: &str) -> Option<Vec<u8>> {
    let text = match text.contains(|c: char| c.is_ascii_whitespace()) {
        true => Cow::Owned(text.split_ascii_whitespace().collect::<String>()),
        false => Cow::Borrowed(text),
    };
    let reader = if text.ends_with('=') { PADDED } else { UNPADDED };
    reader.decode(text.as_bytes()).ok()
}

fn to_base32(row: &Row, out: &mut Out) -> RowResult<()> {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    out.room(row.bytes(0).len().div_ceil(5).saturating_mul(8))?;
    for chunk in row.bytes(0).chunks(5) {
        let word = chunk.iter().fold(0_u64, |word, byte| word << 8 | u64::from(*byte)) << (8 * (5 - chunk.len()));
        let letters = (chunk.len() * 8).div_ceil(5);
        for i in 0..8 {
            let letter = LETTERS.get((word >> (35 - 5 * i) & 31) as usize).copied().unwrap_or(b'A');
            out.char(if i < letters { char::from(letter) } else { '=' })?;
        }
    }
    Ok(Some(()))
}

fn from_base32(row: &Row, out: &mut Out) -> RowResult<()> {
    let text = row.text(0);
    let bad = || RowError::from(format!("'{}' is no Base32 text", text.chars().take(60).collect::<String>()));
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(8) || !matches!(text.len() - digits.len(), 0 | 1 | 3 | 4 | 6) {
        return Err(bad());
    }
    let (mut word, mut bits) = (0_u32, 0_u32);
    for c in digits.bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'2'..=b'7' => c - b'2' + 26,
            _ => return Err(bad()),
        };
        word = (word << 5 | u32::from(value)) & 0xffff;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            out.bytes(&[u8::try_from(word >> bits & 0xff).unwrap_or_default()])?;
        }
    }
    Ok(Some(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_with_all_of_its_padding_or_none() {
        for (text, bytes) in [
            ("", Some("")),
            ("Zg==", Some("f")),
            ("Zh==", Some("f")),
            ("Zm8=", Some("fo")),
            ("Zm9vYmFy", Some("foobar")),
            ("Zg", Some("f")),
            ("Zm8", Some("fo")),
            (" Z g\n= =", Some("f")),
            (" ", Some("")),
            ("Z", None),
            ("Zg=", None),
            ("Zm9v=", None),
            ("Z===", None),
            ("Zg==Zg==", None),
            ("Zm9v====", None),
            ("Zm-_", None),
        ] {
            assert_eq!(base64_bytes(text), bytes.map(|bytes| bytes.as_bytes().to_vec()), "{text}");
        }
    }
}
