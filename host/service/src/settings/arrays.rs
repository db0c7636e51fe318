//! Parts of the configuration of which there may be several: an array of tables in the file, such as `[[issuer]]`.
//!
//! A section has one value for each setting, so the environment can name it. Of these there are as many as the file has, each
//! with tables within it. So they stand only in the file, are read as a whole, and are printed as a whole. What is unknown or
//! out of bounds is refused as elsewhere: their plain settings are rows of the same kind of table.

use serde_json::{Map, Value};
use tidegate_model::{Access, Setting, SettingError, nearest};

use crate::options::Options;

/// A part of the configuration of which there may be several.
#[derive(Debug)]
pub struct TableArray {
    /// Its name in double brackets.
    pub name: &'static str,
    /// What each of them is.
    pub what: &'static str,
    /// Reads all tables of a file, in their order. TOML's values come as those of JSON, its times as texts.
    pub read: fn(&mut Options, &[Value]) -> Result<(), SettingError>,
    /// All of them, as TOML that [`TableArray::read`] takes.
    pub toml: fn(&Options) -> String,
    /// The settings: where each stands, and what it determines.
    pub settings: fn() -> Vec<(String, String)>,
    /// An example, as TOML.
    pub example: &'static str,
}

/// Sets a setting of a table from a value of the file.
pub(super) fn set<T>(
    settings: &'static [Setting<T>],
    holder: &mut T,
    name: &str,
    value: &Value,
) -> Result<(), SettingError> {
    let setting = settings.iter().find(|setting| setting.name == name);
    let setting = setting.ok_or_else(|| contradiction(format!("there is no setting {name}")))?;
    let text = match (value, &setting.access) {
        (Value::Array(items), Access::List { .. }) => joined(items)?,
        (Value::String(text), _) => text.clone(),
        (other, _) => other.to_string(),
    };
    setting.set(holder, &text)
}

/// The failure for a name that a table does not have.
pub(super) fn unknown(name: &str, known: &[&str]) -> SettingError {
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", known.join(", ")),
    };
    contradiction(format!("there is no setting {name}; {hint}"))
}

/// A table within a table.
pub(super) fn table<'v>(name: &str, value: &'v Value) -> Result<&'v Map<String, Value>, SettingError> {
    value.as_object().ok_or_else(|| contradiction(format!("{name} is a table; write {name} = {{ ... }}")))
}

/// A text within a table.
pub(super) fn text<'v>(name: &str, value: &'v Value) -> Result<&'v str, SettingError> {
    value.as_str().ok_or_else(|| contradiction(format!("{name} = {value} is no text")))
}

pub(super) fn contradiction(message: String) -> SettingError {
    SettingError::Contradiction(message)
}

/// The texts of a list with commas between them.
fn joined(items: &[Value]) -> Result<String, SettingError> {
    let text = |item: &Value| match item {
        Value::String(text) if !text.contains(',') => Ok(text.trim().to_owned()),
        Value::String(text) => Err(contradiction(format!("{text:?} has a comma; write each as a text of its own"))),
        other => Err(contradiction(format!("{other} is no text"))),
    };
    Ok(items.iter().map(text).collect::<Result<Vec<_>, _>>()?.join(", "))
}
