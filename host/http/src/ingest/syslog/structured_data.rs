//! The structured data of a syslog message (RFC 5424).

use serde_json::{Map, Value};

/// The elements `[ID NAME="VALUE" ...]` at the beginning of a text, by their ids, and what follows them. None if the
/// text does not begin with such elements; then it is the message. Elements without any value are the message, too:
/// many programs begin their lines with `[info]`.
pub(crate) fn structured_data(text: &str) -> Option<(Map<String, Value>, &str)> {
    let mut data = Map::new();
    let mut rest = text;
    while let Some(element) = rest.strip_prefix('[') {
        let end = element.find([' ', ']']).filter(|end| *end > 0)?;
        let (id, mut inner) = element.split_at(end);
        let mut parameters = Map::new();
        while let Some(parameter) = inner.strip_prefix(' ') {
            let (name, value) = parameter.split_once("=\"")?;
            if name.is_empty() || name.contains([' ', ']', '"', '=']) {
                return None;
            }
            let (value, after) = quoted(value)?;
            parameters.insert(name.to_owned(), value.into());
            inner = after;
        }
        rest = inner.strip_prefix(']')?;
        data.insert(id.to_owned(), Value::Object(parameters));
    }
    let has_values = data.values().any(|parameters| parameters.as_object().is_some_and(|all| !all.is_empty()));
    (has_values && (rest.is_empty() || rest.starts_with(' '))).then(|| (data, rest.trim_start_matches(' ')))
}

/// A value up to its closing quote, in which `"`, `\` and `]` follow a backslash, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(place + 1..)?)),
            '\\' => match characters.next()?.1 {
                escaped @ ('"' | '\\' | ']') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            other => value.push(other),
        }
    }
    None
}
