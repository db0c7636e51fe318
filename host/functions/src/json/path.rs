//! JSON paths: `$.a.b`, `$['a']`, `$.list[0]`.

use std::borrow::Cow;
use std::sync::Arc;

use crate::rows::{Row, RowError};

/// One step of a JSON path.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// A field of an object.
    Key(String),
    /// An element of an array, counted from 0.
    Index(usize),
}

/// The most steps of a path: JSON_SET makes a value that is as deep, and a value deeper than [`MAX_DEPTH`] cannot be
/// read.
const MAX_STEPS: usize = 100;

/// The most levels of objects and arrays that the parser reads.
pub(super) const MAX_DEPTH: usize = 127;

/// The steps of a path.
///
/// # Errors
/// Why the text is no path, as a message for the caller.
pub fn steps(path: &str) -> Result<Vec<Step>, String> {
    match split(path) {
        Some(steps) if steps.len() <= MAX_STEPS => Ok(steps),
        Some(_) => Err(format!("'{}' has more steps than the {MAX_STEPS} that a JSON path may have", short(path))),
        None => Err(format!("'{}' is no JSON path; write e.g. '$.a.b' or '$.list[0]'", short(path))),
    }
}

/// The beginning of a path, for a message.
fn short(path: &str) -> Cow<'_, str> {
    const SHOWN: usize = 60;
    match path.char_indices().nth(SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}...", path.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(path),
    }
}

/// `$.a.b`, `$['a']`, `$."a.b"`, `$.list[0]`; stops after one step more than is allowed.
fn split(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.trim().strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() && steps.len() <= MAX_STEPS {
        if let Some(after) = rest.strip_prefix('.') {
            if let Some(quoted) = after.strip_prefix('"') {
                let (key, tail) = quoted.split_once('"')?;
                steps.push(Step::Key(key.to_owned()));
                rest = tail;
            } else {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (key, tail) = after.split_at(end);
                if key.is_empty() {
                    return None;
                }
                steps.push(Step::Key(key.to_owned()));
                rest = tail;
            }
        } else {
            let (inside, tail) = rest.strip_prefix('[')?.split_once(']')?;
            let inside = inside.trim();
            let quoted = ['\'', '"'].iter().find_map(|q| inside.strip_prefix(*q)?.strip_suffix(*q));
            steps.push(match quoted {
                Some(key) => Step::Key(key.to_owned()),
                None => Step::Index(inside.parse().ok()?),
            });
            rest = tail;
        }
    }
    Some(steps)
}

/// An argument as a path, kept for the next rows.
pub(super) fn read_path(row: &Row, i: usize) -> Result<Arc<Vec<Step>>, RowError> {
    row.remember(i, |path| steps(path).map_err(RowError::from))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn paths_are_read_or_refused() {
        let key = |text: &str| Step::Key(text.to_owned());
        assert_eq!(steps("$").unwrap(), []);
        assert_eq!(
            steps("$.a.b[2]['c d'].\"e.f\"").unwrap(),
            [key("a"), key("b"), Step::Index(2), key("c d"), key("e.f")]
        );
        for bad in ["", "a.b", "$.", "$[", "$[x]", "$..a"] {
            assert!(steps(bad).unwrap_err().contains("is no JSON path"), "{bad}");
        }
        for step in [".a", "[0]", "['a']"] {
            assert_eq!(steps(&format!("${}", step.repeat(MAX_STEPS))).unwrap().len(), MAX_STEPS);
            let refused = steps(&format!("${}", step.repeat(MAX_STEPS + 1))).unwrap_err();
            assert!(refused.contains("more steps than the 100") && refused.len() < 150, "{refused}");
        }
    }

    #[test]
    fn as_deep_as_may_be_is_read() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(serde_json::from_str::<Value>(&nested(MAX_DEPTH)).is_ok());
        assert!(serde_json::from_str::<Value>(&nested(MAX_DEPTH + 1)).is_err());
    }
}
