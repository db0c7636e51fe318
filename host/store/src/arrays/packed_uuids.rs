//! UUIDs as 16 bytes: how segments keep a column of texts all of which are UUIDs.
//!
//! Ids are random. As texts of 36 characters they are compressed to 19 bytes each, which a reader has to decompress; as
//! 16 bytes they are copied. Readers see texts: [`schema_evolution`](super::schema_evolution) makes one of each value that is
//! read. Only texts in the one form that is made again are packed: with hyphens and small letters.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, FixedSizeBinaryArray, FixedSizeBinaryBuilder, StringViewArray, StringViewBuilder},
        datatypes::{DataType, Field},
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
    let there = values.len() - values.null_count();
    let block = u32::try_from(there.max(1) * Hyphenated::LENGTH).unwrap_or(u32::MAX);
    let mut out = StringViewBuilder::with_capacity(values.len()).with_fixed_block_size(block);
    let mut text = [0; Hyphenated::LENGTH];
    for value in values {
        match value {
            None => out.append_null(),
            Some(value) => {
                let uuid = Uuid::from_slice(value).map_err(|error| ArrowError::CastError(error.to_string()))?;
                out.try_append_value(uuid.as_hyphenated().encode_lower(&mut text))?;
            }
        }
    }
    Ok(Arc::new(out.finish()))
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
