//! The structured data of a syslog message (RFC 5424).
//!
//! It is read without a copy first, so that little is computed of a message before its sender is known: who sends it stands
//! in an element. Every byte is looked at once in each reading.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::unreadable::Unreadable;

/// The most elements of a message.
const MOST_ELEMENTS: usize = 100;
/// The id of the element with the token, before `@` and the number of an organisation.
const OWN: &str = "tidegate";

/// The whole elements `[ID NAME="VALUE" ...]` of a message, as their text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StructuredData<'m>(&'m str);

/// One element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element<'m> {
    id: &'m str,
    /// The text of its parameters, each with the blank before it.
    parameters: &'m str,
}

impl<'m> StructuredData<'m> {
    /// The elements at the beginning of a text, and what follows them. An element that is not well formed, and all behind
    /// it, is text. Elements without any value are text, too: many programs begin their lines with `[info]`.
    ///
    /// # Errors
    /// There are too many elements. What would be text begins with an element that may have a token.
    pub(crate) fn read(text: &'m str) -> Result<(Self, &'m str), Unreadable> {
        let (mut rest, mut number, mut has_values) = (text, 0, false);
        while let Some((element, after)) = element(rest) {
            number += 1;
            if number > MOST_ELEMENTS {
                return Err(Unreadable::TooManyElements);
            }
            has_values |= !element.parameters.is_empty();
            rest = after;
        }
        if begins_own(rest) {
            return Err(Unreadable::BrokenCredentials);
        }
        if !has_values {
            return Ok((Self::default(), text));
        }
        let length = text.len().saturating_sub(rest.len());
        Ok((Self(text.get(..length).unwrap_or_default()), rest.trim_start_matches(' ')))
    }

    /// The elements.
    pub(crate) fn elements(self) -> impl Iterator<Item = Element<'m>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (element, after) = element(rest)?;
            rest = after;
            Some(element)
        })
    }

    /// The parameters of each element that passes `keep`, by its id. None if there is no such element.
    pub(crate) fn values(self, keep: impl Fn(Element<'m>) -> bool) -> Option<Value> {
        let elements = self.elements().filter(|element| keep(*element));
        let all: Map<String, Value> =
            elements.map(|element| (element.id.to_owned(), element.values().into())).collect();
        (!all.is_empty()).then_some(Value::Object(all))
    }
}

impl<'m> Element<'m> {
    /// Whether it says who sends the message.
    pub(crate) fn is_own(self) -> bool {
        self.id.strip_prefix(OWN).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
    }

    /// The first value of this name that is not empty.
    pub(crate) fn value(self, name: &str) -> Option<Cow<'m, str>> {
        self.sent(name).map(unescaped)
    }

    /// The same as it was sent.
    pub(crate) fn sent(self, name: &str) -> Option<&'m str> {
        let value = self.pairs().find(|(known, value)| *known == name && !value.is_empty());
        value.map(|(_, value)| value)
    }

    /// The text of its parameters.
    pub(crate) fn parameters(self) -> &'m str {
        self.parameters
    }

    /// The names of the parameters with their values as they were sent.
    fn pairs(self) -> impl Iterator<Item = (&'m str, &'m str)> {
        let mut rest = self.parameters;
        std::iter::from_fn(move || {
            let (name, value, after) = parameter(rest)?;
            rest = after;
            Some((name, value))
        })
    }

    fn values(self) -> Map<String, Value> {
        self.pairs().map(|(name, value)| (name.to_owned(), unescaped(value).into())).collect()
    }
}

/// Whether a text begins as an element with a token does, and may have one: it has more than the id.
pub(crate) fn begins_own(text: &str) -> bool {
    text.strip_prefix('[').and_then(|text| text.strip_prefix(OWN)).is_some_and(|rest| {
        let next = rest.chars().next();
        next.is_some_and(|next| next != ']' && !next.is_alphanumeric() && !matches!(next, '-' | '_' | '.' | ':' | '/'))
    })
}

/// Whether there is anywhere in a text what may be an element with a token. Each byte is looked at twice at most.
pub(crate) fn has_own(text: &str) -> bool {
    let mut places = text.match_indices('[').filter_map(|(place, _)| text.get(place..));
    places.find(|rest| begins_own(rest)).is_some_and(|rest| rest.contains("token"))
}

/// The element at the beginning of a text, and what follows it.
fn element(text: &str) -> Option<(Element<'_>, &str)> {
    let text = text.strip_prefix('[')?;
    let (id, parameters) = text.split_at(text.find([' ', ']']).filter(|end| *end > 0)?);
    if id.contains(['"', '=']) {
        return None;
    }
    let mut rest = parameters;
    while let Some((_, _, after)) = parameter(rest) {
        rest = after;
    }
    let length = parameters.len().saturating_sub(rest.len());
    Some((Element { id, parameters: parameters.get(..length)? }, rest.strip_prefix(']')?))
}

/// The name and the value of the parameter at the beginning of a text, and what follows it.
fn parameter(text: &str) -> Option<(&str, &str, &str)> {
    let (name, value) = text.strip_prefix(' ')?.split_once("=\"")?;
    if name.is_empty() || name.contains([' ', ']', '"', '=']) {
        return None;
    }
    let (value, after) = quoted(value)?;
    Some((name, value, after))
}

/// A value up to its closing quote, as it was sent, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let rest = text.get(from..)?;
        let place = from + rest.find(['"', '\\'])?;
        if text.get(place..)?.starts_with('"') {
            return Some((text.get(..place)?, text.get(place + 1..)?));
        }
        let escaped = text.get(place + 1..)?.chars().next()?;
        from = place + 1 + escaped.len_utf8();
    }
}

/// A value in which `"`, `\` and `]` follow a backslash.
fn unescaped(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return Cow::Borrowed(value);
    }
    let (mut plain, mut characters) = (String::with_capacity(value.len()), value.chars());
    while let Some(character) = characters.next() {
        match (character, characters.clone().next()) {
            ('\\', Some(escaped @ ('"' | '\\' | ']'))) => {
                plain.push(escaped);
                characters.next();
            }
            _ => plain.push(character),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use serde_json::json;

    fn read(text: &str) -> (Value, &str) {
        let (data, rest) = StructuredData::read(text).unwrap();
        (data.values(|_| true).unwrap_or_default(), rest)
    }

    #[test]
    fn it_ends_with_the_last_whole_element() {
        let first = json!({"a": {"x": "1"}});
        for (text, rest) in [
            ("[a x=\"1\"][b y=\"2] text", "[b y=\"2] text"),
            ("[a x=\"1\"][b y=2] text", "[b y=2] text"),
            ("[a x=\"1\"][", "["),
            ("[a x=\"1\"]text", "text"),
            ("[a x=\"1\"][b=\"c\"] text", "[b=\"c\"] text"),
            ("[a x=\"1\"] [b y=\"2\"] text", "[b y=\"2\"] text"),
        ] {
            assert_eq!(read(text), (first.clone(), rest), "{text}");
        }
        for text in ["[b y=\"2] text", "[info][debug] text", "[=\"x\"] text", "[a x=\"\\", "[a x=\"\u{e9}\\\u{e9}"] {
            assert_eq!(read(text), (Value::Null, text));
        }
        assert_eq!(read("[a x=\"\\\"\\\\\\]\\n\u{e9}\"]"), (json!({"a": {"x": "\"\\]\\n\u{e9}"}}), ""));
    }

    #[test]
    fn what_may_have_a_token_is_no_text() {
        for text in [
            "[tidegate@1 token=\"t",
            "[tidegate@1 token=t] text",
            "[tidegate token=\"t\"",
            "[tidegate@1token=\"t\"] text",
            "[tidegate=\"t\"] text",
            "[tidegate\"t\"] text",
            "[a x=\"1\"][tidegate@1 token=\"t\" source=s] text",
            "[info][tidegate@1 token=\"t\\\"] text",
        ] {
            assert_eq!(StructuredData::read(text), Err(Unreadable::BrokenCredentials), "{text}");
        }
        for text in ["[tidegate] text", "[tidegate-worker started", "[tidegate", "[tidegates x", "[other token=\"t"] {
            assert_eq!(read(text), (Value::Null, text));
        }
    }

    #[test]
    fn elements_are_bounded_and_cost_little() {
        let of = |number: usize| (0..number).map(|n| format!("[tidegate@{n:x} a=\"b\"]")).collect::<String>();
        let good = of(MOST_ELEMENTS);
        assert_eq!(read(&good).0.as_object().unwrap().len(), MOST_ELEMENTS);
        let began = Instant::now();
        for text in [of(MOST_ELEMENTS + 1), of(45_000), "[a]".repeat(300_000)] {
            assert_eq!(StructuredData::read(&text), Err(Unreadable::TooManyElements));
        }
        for unit in [" a=\"b\"", " a", "=\"", " a=\"\\\"", "[", "\\", "]"] {
            let text = format!("[x{}] text", unit.repeat((1 << 20) / unit.len()));
            let (data, _) = StructuredData::read(&text).unwrap();
            data.values(|_| true);
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}
