//! What a condition of a query demands of texts, in a form that an index of substrings can answer.
//!
//! The layer that knows SQL makes it of the conditions of a scan; the store, which knows no SQL, skips by it what cannot
//! have a matching row. It may demand less than the condition does, and never more.

/// The column of a source's messages.
const MESSAGE: &str = "event_message";

/// The name in a [`TextCondition`] of the text at a path: the keys of its records and its own. `None` if no store has an index
/// of it. It is the name of the column for the messages, and the JSON pointer for a text in a record.
pub fn indexed_text(path: &[impl AsRef<str>]) -> Option<String> {
    match path {
        [] => None,
        [column] => (column.as_ref() == MESSAGE).then(|| MESSAGE.to_owned()),
        keys => {
            Some(keys.iter().map(|key| format!("/{}", key.as_ref().replace('~', "~0").replace('/', "~1"))).collect())
        }
    }
}

/// A necessary condition: where it does not hold for a row, the query's condition is not true for this row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextCondition {
    /// All of these hold.
    All(Vec<TextCondition>),
    /// At least one of these holds. Without any, none does.
    Any(Vec<TextCondition>),
    /// The text of a column contains this part; upper and lower case of ASCII letters are the same.
    Contains {
        /// The name of the text, as [`indexed_text`] makes it.
        column: String,
        /// The part.
        part: String,
    },
}

impl TextCondition {
    /// The condition that all of these hold, as far as they are known; `None` if none is.
    pub fn all(conditions: impl IntoIterator<Item = Option<TextCondition>>) -> Option<TextCondition> {
        let mut known: Vec<TextCondition> = conditions.into_iter().flatten().collect();
        if known.len() > 1 { Some(TextCondition::All(known)) } else { known.pop() }
    }

    /// The condition that one of these holds; `None` if one of them is not known.
    pub fn any(conditions: impl IntoIterator<Item = Option<TextCondition>>) -> Option<TextCondition> {
        conditions.into_iter().collect::<Option<Vec<_>>>().map(TextCondition::Any)
    }

    /// The number of parts in it.
    pub fn parts(&self) -> usize {
        match self {
            TextCondition::All(conditions) | TextCondition::Any(conditions) => {
                conditions.iter().map(TextCondition::parts).sum()
            }
            TextCondition::Contains { .. } => 1,
        }
    }
}
