//! Kernels of characters as numbers, and of Unicode's normal forms.

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use crate::kernel::Kernel;
use crate::rows::{Body, Item, Items, Out, Row, RowError, RowResult};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows(
        "ascii_code",
        1..=1,
        Body::Int(|row| match row.text(0).chars().next() {
            None => Ok(Some(0)),
            Some(c) if c.is_ascii() => Ok(Some(i64::from(u32::from(c)))),
            Some(c) => {
                Err(format!("ASCII takes text that begins with an ASCII character, not '{c}'; use UNICODE").into())
            }
        }),
    ),
    Kernel::rows(
        "unicode_code",
        1..=1,
        Body::Int(|row| Ok(Some(row.text(0).chars().next().map_or(0, |c| i64::from(u32::from(c)))))),
    ),
    Kernel::rows(
        "code_text",
        1..=1,
        Body::Text(|row, out| {
            code(row.int(0), out)?;
            Ok(Some(()))
        }),
    ),
    Kernel::rows(
        "codes_text",
        1..=1,
        Body::Text(|row, out| {
            for point in row.ints(0) {
                let Some(point) = point else { return Ok(None) };
                code(point, out)?;
            }
            Ok(Some(()))
        }),
    ),
    Kernel::rows(
        "codes_bytes",
        1..=1,
        Body::Bytes(|row, out| {
            for point in row.ints(0) {
                let Some(point) = point else { return Ok(None) };
                let byte = u8::try_from(point)
                    .map_err(|_| RowError::from(format!("{point} is no byte; bytes are 0 to 255")))?;
                out.bytes(&[byte])?;
            }
            Ok(Some(()))
        }),
    ),
    Kernel::rows(
        "text_codes",
        1..=1,
        Body::Ints(|row, items| {
            row.text(0).chars().try_for_each(|c| items.push(Item::Int(i64::from(u32::from(c)))))?;
            Ok(Some(()))
        }),
    ),
    Kernel::rows("bytes_codes", 1..=1, Body::Ints(bytes_codes)),
    Kernel::rows("normalized_text", 2..=2, Body::Text(normalize)),
];

fn code(point: i64, out: &mut Out) -> Result<(), RowError> {
    let c = u32::try_from(point).ok().and_then(char::from_u32);
    out.char(c.ok_or_else(|| RowError::from(format!("{point} is no Unicode code point")))?)
}

fn bytes_codes(row: &Row, items: &mut Items<'_>) -> RowResult<()> {
    row.bytes(0).iter().try_for_each(|byte| items.push(Item::Int(i64::from(*byte))))?;
    Ok(Some(()))
}

fn normalize(row: &Row, out: &mut Out) -> RowResult<()> {
    let text = row.text(0);
    match row.text(1) {
        "NFC" => ComposingNormalizerBorrowed::new_nfc().normalize_to(text, out)?,
        "NFKC" => ComposingNormalizerBorrowed::new_nfkc().normalize_to(text, out)?,
        "NFD" => DecomposingNormalizerBorrowed::new_nfd().normalize_to(text, out)?,
        "NFKD" => DecomposingNormalizerBorrowed::new_nfkd().normalize_to(text, out)?,
        other => return Err(format!("there is no normal form {other}; there are NFC, NFKC, NFD, NFKD").into()),
    }
    Ok(Some(()))
}
