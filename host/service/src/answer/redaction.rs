//! Masks personal data in values, once for all formats.
//!
//! Columns are masked as arrays, before they are encoded. Only texts are masked: values that are texts, at any depth,
//! and texts within JSON that is stored as text. Numbers, names of columns and fields, and BYTES are not changed.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray, StringViewBuilder, StructArray};
use datafusion::arrow::buffer::{OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field as ArrowField};
use datafusion::arrow::error::ArrowError;
use serde::de::IgnoredAny;
use tidegate_model::Failure;
use tidegate_sql::{Field, Type};

use crate::redact::redact_text;

/// The array with its texts masked; the same array if there is nothing to mask. `ty` is the type of its values in the
/// dialect, as for the encoders.
///
/// # Errors
/// The array cannot hold values of the type.
pub(super) fn redact_array(array: &ArrayRef, ty: &Type) -> Result<ArrayRef, ArrowError> {
    if !holds_text(ty) || *array.data_type() == DataType::Null {
        return Ok(Arc::clone(array));
    }
    match ty {
        Type::String => redact_texts(array, redact_text),
        Type::Json => redact_texts(array, redact_json_text),
        Type::Struct { fields, .. } | Type::Record(fields) => redact_struct(array, fields),
        Type::Array(item) => redact_list(array, item),
        _ => Ok(Arc::clone(array)),
    }
}

fn holds_text(ty: &Type) -> bool {
    match ty {
        Type::String | Type::Json => true,
        Type::Struct { fields, .. } | Type::Record(fields) => fields.iter().any(|field| holds_text(&field.ty)),
        Type::Array(item) => holds_text(item),
        _ => false,
    }
}

fn redact_texts(array: &ArrayRef, mask: impl Fn(&str) -> Cow<'_, str>) -> Result<ArrayRef, ArrowError> {
    let texts = cast(array, &DataType::Utf8View)?;
    let texts: &StringViewArray = texts.as_string_view();
    // Most columns have nothing to mask. So a new array is built only from the first text that is masked.
    let first = texts.iter().position(|text| text.is_some_and(|text| matches!(mask(text), Cow::Owned(_))));
    let Some(first) = first else { return Ok(Arc::clone(array)) };
    let mut masked = StringViewBuilder::with_capacity(texts.len());
    for (row, text) in texts.iter().enumerate() {
        match text {
            Some(text) if row < first => masked.append_value(text),
            Some(text) => masked.append_value(mask(text)),
            None => masked.append_null(),
        }
    }
    Ok(Arc::new(masked.finish()))
}

fn redact_struct(array: &ArrayRef, fields: &[Field]) -> Result<ArrayRef, ArrowError> {
    let Some(parts) = array.as_struct_opt() else { return Err(mismatch(array)) };
    let mut kept = Vec::with_capacity(parts.num_columns());
    let mut columns = Vec::with_capacity(parts.num_columns());
    for (field, column) in parts.fields().iter().zip(parts.columns()) {
        let known = fields.iter().find(|known| known.name == *field.name());
        let column = known.map_or_else(|| Ok(Arc::clone(column)), |known| redact_array(column, &known.ty))?;
        kept.push(ArrowField::new(field.name(), column.data_type().clone(), true));
        columns.push(column);
    }
    let masked = StructArray::try_new_with_length(kept.into(), columns, parts.nulls().cloned(), array.len())?;
    Ok(Arc::new(masked))
}

fn redact_list(array: &ArrayRef, item: &Type) -> Result<ArrayRef, ArrowError> {
    let list = match array.data_type() {
        DataType::List(_) => Arc::clone(array),
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => cast(array, &DataType::List(item.clone()))?,
        _ => return Err(mismatch(array)),
    };
    let list: &ListArray = list.as_list::<i32>();
    // A slice of a list array keeps the values of the whole array. Only the values of the slice are read.
    let first = list.offsets().first().copied().unwrap_or_default();
    let last = list.offsets().last().copied().unwrap_or_default();
    let (start, length) = (usize::try_from(first).unwrap_or_default(), usize::try_from(last - first));
    let values = redact_array(&list.values().slice(start, length.unwrap_or_default()), item)?;
    let offsets: ScalarBuffer<i32> = list.offsets().iter().map(|offset| offset - first).collect();
    let field = Arc::new(ArrowField::new("item", values.data_type().clone(), true));
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::new(offsets), values, list.nulls().cloned())?))
}

fn mismatch(array: &ArrayRef) -> ArrowError {
    ArrowError::CastError(format!("{} does not hold what its column's type says", array.data_type()))
}

/// The JSON text with the texts of its values masked. Everything else stays as it is written: numbers keep their
/// digits. A text that is not JSON is shown as a text, so it is masked as one.
pub(super) fn redact_json_text(json: &str) -> Cow<'_, str> {
    if serde_json::from_str::<IgnoredAny>(json).is_err() {
        return redact_text(json);
    }
    let bytes = json.as_bytes();
    let (mut masked, mut done, mut at) = (String::new(), 0, 0);
    while let Some(&byte) = bytes.get(at) {
        if byte != b'"' {
            at += 1;
            continue;
        }
        let (end, escaped) = end_of_text(bytes, at);
        let is_key = bytes.iter().skip(end).find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
        let raw = json.get(at..end).unwrap_or_default();
        if !is_key && let Some(text) = redact_quoted(raw, escaped) {
            masked.push_str(json.get(done..at).unwrap_or_default());
            masked.push_str(&text);
            done = end;
        }
        at = end;
    }
    if done == 0 {
        return Cow::Borrowed(json);
    }
    masked.push_str(json.get(done..).unwrap_or_default());
    Cow::Owned(masked)
}

/// The position after the closing quote of the JSON string that begins at `start`, and whether the string has escapes.
fn end_of_text(bytes: &[u8], start: usize) -> (usize, bool) {
    let (mut at, mut escaped) = (start + 1, false);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => break,
            b'\\' => {
                escaped = true;
                at += 1;
            }
            _ => {}
        }
    }
    (at.min(bytes.len()), escaped)
}

/// Masks a quoted JSON string; `None` if there is nothing to mask.
fn redact_quoted(raw: &str, escaped: bool) -> Option<String> {
    if escaped {
        return match serde_json::from_str::<String>(raw) {
            Ok(text) => match redact_text(&text) {
                Cow::Owned(text) => serde_json::to_string(&text).ok(),
                Cow::Borrowed(_) => None,
            },
            // The string has an unpaired surrogate, so it cannot be decoded.
            Err(_) => owned(redact_text(raw)),
        };
    }
    // A string without escapes equals its raw text, and the mask contains nothing to escape.
    owned(redact_text(raw))
}

fn owned(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    }
}

/// Masks the texts of a failure, because they may quote values.
pub(super) fn redact_failure(mut failure: Failure) -> Failure {
    let mask = |text: &mut String| {
        if let Cow::Owned(masked) = redact_text(text) {
            *text = masked;
        }
    };
    mask(&mut failure.message);
    failure.location.iter_mut().for_each(mask);
    failure.others = failure.others.into_iter().map(redact_failure).collect();
    failure
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;
    use tidegate_model::Code;

    use super::*;
    use crate::redact::redact_json;

    #[test]
    fn json_keeps_all_but_its_texts() {
        for (json, expected) in [
            (r#""192.0.2.17""#, r#""REDACTED""#),
            (r#"{"192.0.2.17" : "192.0.2.17"}"#, r#"{"192.0.2.17" : "REDACTED"}"#),
            (r#"[1.50, 123456789012345678901234567890, "a"]"#, r#"[1.50, 123456789012345678901234567890, "a"]"#),
            (r#"{"a":"\u0031\u00392.0.2.17","b":"x"}"#, r#"{"a":"REDACTED","b":"x"}"#),
            (r#"["say \"192.0.2.17\"", "\\"]"#, r#"["say \"REDACTED\"", "\\"]"#),
            ("192.0.2.17 is no JSON", "REDACTED is no JSON"),
            (r#"["192.0.2.17""#, r#"["REDACTED""#),
            ("", ""),
        ] {
            assert_eq!(redact_json_text(json), expected, "{json}");
        }
        let surrogate = r#"["\ud800 192.0.2.17"]"#;
        assert!(!redact_json_text(surrogate).contains("192"), "{surrogate}");
    }

    #[test]
    fn a_failure_is_masked_in_all_its_texts() {
        let inner = Failure::new(Code::InvalidValue, "'2001:db8::7' is no INT64");
        let mut failure = Failure::new(Code::InvalidValue, "'192.0.2.17' is no INT64").about("192.0.2.17");
        failure.others.push(inner);
        let masked = redact_failure(failure);
        assert_eq!(masked.message, "'REDACTED' is no INT64");
        assert_eq!(masked.location.unwrap(), "REDACTED");
        assert_eq!(masked.others.first().unwrap().message, "'REDACTED' is no INT64");
    }

    #[test]
    fn slices_and_nulls_stay_in_their_places() {
        let texts = StringViewArray::from(vec![Some("192.0.2.1"), None, Some("b"), Some("192.0.2.2"), Some("d")]);
        let field = Arc::new(ArrowField::new("item", DataType::Utf8View, true));
        let list = ListArray::new(field, OffsetBuffer::from_lengths([2, 3]), Arc::new(texts), None);
        let slice: ArrayRef = Arc::new(list.slice(1, 1));
        let masked = redact_array(&slice, &Type::Array(Box::new(Type::String))).unwrap();
        let values = masked.as_list::<i32>().value(0);
        assert_eq!(values.as_string_view().iter().flatten().collect::<Vec<_>>(), ["b", "REDACTED", "d"]);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let text = "[a1.:\\\\\"\n%]{0,3}(192\\.0\\.2\\.[0-9]|2001:db8::[0-9]|x)[ .,\"\\\\]{0,2}";
        let leaf = prop_oneof![text.prop_map(Value::from), any::<i64>().prop_map(Value::from), Just(Value::Null)];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(text, inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn masking_the_text_is_masking_the_value(mut value in any_json()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let masked: Value = serde_json::from_str(&redact_json_text(&pretty)).unwrap();
            redact_json(&mut value);
            prop_assert_eq!(masked, value);
        }
    }
}
