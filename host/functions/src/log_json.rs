//! Kernels that read the JSON that log records keep: fields that have no column of their own, and values of paths that
//! hold several kinds of value.
//!
//! Their result is text: a string is itself, every other value its JSON. So a field reads the same whether it has a
//! column or not, and values of different kinds can be compared.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use datafusion::arrow::array::{StringViewArray, StringViewBuilder};
use serde_json::value::RawValue;

use crate::kernel::Kernel;
use crate::rows::{Body, Item};

pub(crate) const KERNELS: &[Kernel] = &[
    // The field of an object, by its exact name, else without case.
    Kernel::rows(
        "log_field",
        2..=2,
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
    // The elements of an array; any other value is its own only element, as a record is.
    Kernel::rows(
        "log_elements",
        1..=1,
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
    Kernel::rows(
        "log_text",
        1..=1,
        Body::Text(|row, out| {
            let Ok(value) = serde_json::from_str::<&RawValue>(row.text(0)) else { return Ok(None) };
            match text(value) {
                Some(value) => out.text(&value).map(Some),
                None => Ok(None),
            }
        }),
    ),
];

/// The fields of a record: an object, or an array of exactly one object.
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

/// A kept value as text; `None` for null.
pub(crate) fn kept_text(json: &str) -> Option<String> {
    serde_json::from_str::<&RawValue>(json).ok().and_then(text).map(Cow::into_owned)
}

/// Objects of kept JSON, split into some of their fields and the rest of each.
#[derive(Default)]
pub(crate) struct Kept {
    fields: HashMap<String, StringViewBuilder>,
    rest: StringViewBuilder,
    there: Vec<Option<bool>>,
}

impl Kept {
    /// Splits the objects at the fields of these names; a value that is no object has neither fields nor a rest.
    pub(crate) fn of<'a>(objects: &StringViewArray, names: impl Iterator<Item = &'a str>) -> Self {
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
                // No field was taken: the text stays the same.
                kept.rest.append_option(json.filter(|_| all > 0));
                continue;
            }
            let left: BTreeMap<Cow<'_, str>, &RawValue> = left.into_iter().collect();
            kept.rest.append_option((!left.is_empty()).then(|| serde_json::to_string(&left).ok()).flatten());
        }
        kept
    }

    /// The values of a field as JSON; only for the first call.
    pub(crate) fn take(&mut self, name: &str) -> Option<StringViewArray> {
        self.fields.remove(name).map(|mut values| values.finish())
    }

    /// The rest of each object.
    pub(crate) fn rest(&mut self) -> StringViewArray {
        self.rest.finish()
    }

    /// For each value, whether it is an object.
    pub(crate) fn there(&self) -> Vec<Option<bool>> {
        self.there.clone()
    }

    /// The values that are neither objects nor null.
    pub(crate) fn unlike(&self, values: &StringViewArray) -> StringViewArray {
        let unlike = |(json, there): (Option<&'_ str>, &Option<bool>)| match there {
            None => json.filter(|json| *json != "null").map(str::to_owned),
            Some(_) => None,
        };
        values.iter().zip(&self.there).map(unlike).collect()
    }
}

/// A value as text; `None` for null.
fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    match value.get() {
        "null" => None,
        quoted if quoted.starts_with('"') => serde_json::from_str(quoted).ok().map(Cow::Owned),
        json => Some(Cow::Borrowed(json)),
    }
}
