//! UUIDs as 16 bytes: how segments keep a column of texts all of which are UUIDs.
//!
//! Ids are random. As texts of 36 characters they are compressed to 19 bytes each, which a reader has to decompress; as
//! 16 bytes they are copied. Readers see texts: [`schema_evolution`](super::schema_evolution) makes one of each value that is
//! read. Only texts in the one form that is made again are packed: with hyphens and small letters.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, ByteView, FixedSizeBinaryArray, FixedSizeBinaryBuilder, StringViewArray},
        datatypes::{DataType, Field, Fields, Schema},
        error::ArrowError,
    },
    common::exec_err,
    error::Result,
};
use uuid::{Uuid, fmt::Hyphenated};

/// Bytes of a packed UUID.
const BYTES: i32 = 16;

/// The type of packed UUIDs.
pub(crate) const PACKED: DataType = DataType::FixedSizeBinary(BYTES);

/// The key and the value with which Arrow, and so Parquet, tells readers that a field of 16 bytes is a UUID.
const EXTENSION: (&str, &str) = ("ARROW:extension:name", "arrow.uuid");

/// The field with packed UUIDs in the place of texts.
pub(crate) fn packed_field(field: &Field) -> Field {
    let (key, value) = EXTENSION;
    let mut metadata = field.metadata().clone();
    metadata.insert(key.to_owned(), value.to_owned());
    field.clone().with_data_type(PACKED).with_metadata(metadata)
}

/// The field without what says that it is a UUID, if it is of another type.
pub(crate) fn without_extension(mut field: Field) -> Field {
    if *field.data_type() != PACKED {
        field.metadata_mut().remove(EXTENSION.0);
    }
    field
}

/// The 16 bytes of a text that is a UUID in the form that is packed.
pub(crate) fn packed(text: &str) -> Option<[u8; 16]> {
    // Other forms have other lengths.
    let is_form = text.len() == Hyphenated::LENGTH && !text.bytes().any(|byte| byte.is_ascii_uppercase());
    let uuid = if is_form { Uuid::try_parse_ascii(text.as_bytes()).ok()? } else { return None };
    Some(uuid.into_bytes())
}

/// Texts as packed UUIDs.
///
/// # Errors
/// If one of them is none.
pub(crate) fn pack(texts: &StringViewArray) -> Result<ArrayRef> {
    let mut out = FixedSizeBinaryBuilder::with_capacity(texts.len(), BYTES);
    for text in texts {
        match text.map(packed) {
            None => out.append_null(),
            Some(Some(bytes)) => out.append_value(bytes)?,
            Some(None) => return exec_err!("a text that is no UUID cannot be stored as one"),
        }
    }
    Ok(Arc::new(out.finish()))
}

/// Packed UUIDs as texts.
///
/// # Errors
/// If the values have another length.
pub(crate) fn unpack(values: &FixedSizeBinaryArray) -> Result<ArrayRef, ArrowError> {
    let (packed, rest) = values.value_data().as_chunks::<{ BYTES as usize }>();
    if values.value_length() != BYTES || !rest.is_empty() || packed.len() != values.len() {
        return Err(ArrowError::CastError("values of another length are no UUIDs".to_owned()));
    }
    let mut texts = Vec::with_capacity((packed.len() - values.null_count()) * Hyphenated::LENGTH);
    let mut views = Vec::with_capacity(packed.len());
    for (row, value) in packed.iter().enumerate() {
        // A NULL has no text.
        if values.is_null(row) {
            views.push(0);
            continue;
        }
        let text = hyphenated(value);
        let place = u32::try_from(texts.len()).map_err(|_| ArrowError::CastError("too many UUIDs".to_owned()))?;
        let [first, second, third, fourth, ..] = text;
        let view = ByteView {
            length: Hyphenated::LENGTH as u32,
            prefix: u32::from_le_bytes([first, second, third, fourth]),
            buffer_index: 0,
            offset: place,
        };
        views.push(view.as_u128());
        texts.extend_from_slice(&text);
    }
    let buffers = if texts.is_empty() { Vec::new() } else { vec![texts.into()] };
    Ok(Arc::new(StringViewArray::try_new(views.into(), buffers, values.nulls().cloned())?))
}

/// The text of a UUID: all digits alike and without branches, so that the compiler makes many of them at once, and then
/// hyphens between them.
fn hyphenated(value: &[u8; BYTES as usize]) -> [u8; Hyphenated::LENGTH] {
    let digit = |number: u8| number + if number < 10 { b'0' } else { b'a' - 10 };
    let mut digits = [0; 2 * BYTES as usize];
    let (pairs, _) = digits.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(value) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    let mut text = [b'-'; Hyphenated::LENGTH];
    text[..8].copy_from_slice(&digits[..8]);
    text[9..13].copy_from_slice(&digits[8..12]);
    text[14..18].copy_from_slice(&digits[12..16]);
    text[19..23].copy_from_slice(&digits[16..20]);
    text[24..].copy_from_slice(&digits[20..]);
    text
}

/// The paths of the columns of a schema that are packed.
pub(crate) fn packed_paths(schema: &Schema) -> Vec<Vec<String>> {
    fn add(fields: &Fields, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
        for field in fields {
            path.push(field.name().clone());
            match field.data_type() {
                DataType::Struct(inner) => add(inner, path, found),
                data_type if *data_type == PACKED => found.push(path.clone()),
                _ => {}
            }
            path.pop();
        }
    }
    let mut found = Vec::new();
    add(schema.fields(), &mut Vec::new(), &mut found);
    found
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::AsArray;

    use super::*;

    #[test]
    fn texts_come_back_as_they_were() {
        let texts: StringViewArray =
            [Some("00000000-0000-0000-0000-000000000000"), None, Some("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")]
                .into_iter()
                .collect();
        let packed = pack(&texts).unwrap();
        assert_eq!(packed.data_type(), &PACKED);
        assert_eq!(unpack(packed.as_fixed_size_binary()).unwrap().as_string_view(), &texts);
        let none = StringViewArray::new_null(3);
        assert_eq!(unpack(pack(&none).unwrap().as_fixed_size_binary()).unwrap().as_string_view(), &none);
    }

    #[test]
    fn a_part_of_an_array_comes_back_too() {
        let texts: Vec<Option<String>> = (0..200_u128)
            .map(|number| {
                (number % 7 > 0).then(|| Uuid::from_u128(number.wrapping_mul(u128::MAX / 12_345)).to_string())
            })
            .collect();
        let array: StringViewArray = texts.iter().map(Option::as_deref).collect();
        let packed = pack(&array).unwrap().slice(11, 150);
        let unpacked = unpack(packed.as_fixed_size_binary()).unwrap();
        assert_eq!(
            unpacked.as_string_view().iter().collect::<Vec<_>>(),
            array.slice(11, 150).iter().collect::<Vec<_>>()
        );
    }

    #[test]
    fn other_forms_of_uuids_are_other_texts() {
        for text in [
            "",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf",
            "F81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "f81d4fae7dec11d0a76500a0c91e6bf6",
            "{f81d4fae-7dec-11d0-a765-00a0c91e6b}",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bfg",
            "f81d4fae-7dec-11d0-a765_00a0c91e6bf6",
            "f81d4fae-7dec-11d0a-765-00a0c91e6bf6",
            "f81d4fae7dec-11d0-a765--00a0c91e6bf6",
            "\u{e9}81d4fae-7dec-11d0-a765-00a0c91e6bf",
        ] {
            assert!(packed(text).is_none(), "{text}");
            assert!(pack(&[Some(text)].into_iter().collect()).is_err(), "{text}");
        }
    }
}
