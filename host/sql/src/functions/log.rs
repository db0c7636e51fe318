//! Kernels that read what log records keep as JSON: fields without a column, and values of paths that hold
//! several kinds.
//!
//! What they give is text: a text is itself, everything else its JSON. So a field reads the same whether it
//! has a column or not, and one kind of value can be compared with another.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use datafusion::arrow::array::{StringViewArray, StringViewBuilder};
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

/// A value that was kept as JSON, as text; nothing for null.
pub(super) fn kept_text(json: &str) -> Option<String> {
    serde_json::from_str::<&RawValue>(json).ok().and_then(text).map(Cow::into_owned)
}

/// Objects that were kept as JSON, taken apart: some of their fields, and the rest of each.
#[derive(Default)]
pub(super) struct Kept {
    fields: HashMap<String, StringViewBuilder>,
    rest: StringViewBuilder,
    there: Vec<Option<bool>>,
}

impl Kept {
    /// Takes the fields of these names out of the objects; what is no object has none, and no rest.
    pub(super) fn of<'a>(objects: &StringViewArray, names: impl Iterator<Item = &'a str>) -> Self {
        let mut kept =
            Self { fields: names.map(|name| (name.to_owned(), StringViewBuilder::new())).collect(), ..Self::default() };
        for json in objects {
            let parsed = json.and_then(object);
            kept.there.push(parsed.as_ref().map(|_| true));
            let mut left = parsed.unwrap_or_default();
            let all = left.len();
            for (name, values) in &mut kept.fields {
                values.append_option(left.remove(name.as_str()).map(RawValue::get).filter(|json| *json != "null"));
            }
            if left.len() == all {
                // Nothing was taken: as it stands.
                kept.rest.append_option(json.filter(|_| all > 0));
                continue;
            }
            let left: BTreeMap<Cow<'_, str>, &RawValue> = left.into_iter().collect();
            kept.rest.append_option((!left.is_empty()).then(|| serde_json::to_string(&left).ok()).flatten());
        }
        kept
    }

    /// The values of a field as JSON, once.
    pub(super) fn take(&mut self, name: &str) -> Option<StringViewArray> {
        self.fields.remove(name).map(|mut values| values.finish())
    }

    /// What is left of the objects.
    pub(super) fn rest(&mut self) -> StringViewArray {
        self.rest.finish()
    }

    /// Where there is an object.
    pub(super) fn there(&self) -> Vec<Option<bool>> {
        self.there.clone()
    }

    /// Of the same values, those that are no object, and not null.
    pub(super) fn unlike(&self, values: &StringViewArray) -> StringViewArray {
        let unlike = |(json, there): (Option<&'_ str>, &Option<bool>)| match there {
            None => json.filter(|json| *json != "null").map(str::to_owned),
            Some(_) => None,
        };
        values.iter().zip(&self.there).map(unlike).collect()
    }
}

/// A value as text; nothing for null.
fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    match value.get() {
        "null" => None,
        quoted if quoted.starts_with('"') => serde_json::from_str(quoted).ok().map(Cow::Owned),
        json => Some(Cow::Borrowed(json)),
    }
}
