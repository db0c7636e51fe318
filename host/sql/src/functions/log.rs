//! Kernels that read what log records keep as JSON: fields without a column, and values of paths that hold
//! several kinds.
//!
//! What they give is text: a text is itself, everything else its JSON. So a field reads the same whether it
//! has a column or not, and one kind of value can be compared with another.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::kernels::Entry;
use super::rows::{Body, Item};

pub(super) const KERNELS: &[Entry] = &[
    // The field of an object, by its exact name, else without case.
    Entry::new(
        "log_field",
        Body::Text(|row, out| {
            let Some(fields) = object(row.text(0)) else { return Ok(None) };
            let name = row.text(1);
            let found = fields
                .get(name)
                .or_else(|| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value));
            match found.and_then(|value| text(value)) {
                Some(value) => out.text(&value).map(Some),
                None => Ok(None),
            }
        }),
    ),
    // The elements of an array; anything else is its own only element, as a record is.
    Entry::new(
        "log_elements",
        Body::Texts(|row, items| {
            let own = row.text(0);
            match elements(own) {
                Some(values) => {
                    for value in values {
                        match text(value) {
                            Some(value) => items.text(&value)?,
                            None => items.push(Item::Null)?,
                        }
                    }
                }
                None => items.text(own)?,
            }
            Ok(Some(()))
        }),
    ),
    // JSON as text.
    Entry::new(
        "log_text",
        Body::Text(|row, out| {
            let Ok(value) = serde_json::from_str::<&RawValue>(row.text(0)) else { return Ok(None) };
            match text(value) {
                Some(value) => out.text(&value).map(Some),
                None => Ok(None),
            }
        }),
    ),
];

/// The fields of a record: an object, or an array of just one.
fn object(json: &str) -> Option<HashMap<Cow<'_, str>, &RawValue>> {
    match json.trim_start().as_bytes().first()? {
        b'{' => serde_json::from_str(json).ok(),
        b'[' => match elements(json)?.as_slice() {
            [one] if one.get().starts_with('{') => serde_json::from_str(one.get()).ok(),
            _ => None,
        },
        _ => None,
    }
}

fn elements(json: &str) -> Option<Vec<&RawValue>> {
    json.trim_start().starts_with('[').then(|| serde_json::from_str(json).ok())?
}

/// A value as text; nothing for null.
fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    match value.get() {
        "null" => None,
        quoted if quoted.starts_with('"') => serde_json::from_str(quoted).ok().map(Cow::Owned),
        json => Some(Cow::Borrowed(json)),
    }
}
