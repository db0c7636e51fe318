//! How a path to a field is written: names with dots between them.
//!
//! A name that has other signs than letters, digits and `_` stands in backticks, as in SQL: attributes of OpenTelemetry,
//! headers and labels are called `service.name` or `x-request-id`.

use std::borrow::Cow;

use crate::cursor::{Cursor, is_ident, is_path};

/// Reads a path. Backticks that a name does not need are left out.
pub(crate) fn read<'a>(c: &mut Cursor<'a>) -> Option<Cow<'a, str>> {
    let start = c.offset();
    let first = c.run(is_path);
    if c.peek() != Some('`') {
        return Some(Cow::Borrowed(first)).filter(|path| !path.is_empty());
    }
    c.attempt(|c| {
        let mut path = first.to_owned();
        while c.eat("`") {
            let name = c.run(|sign| sign != '`' && sign != '\n');
            let is_alone = path.is_empty() || path.ends_with('.');
            if !is_alone || name.is_empty() || !c.eat("`") {
                return None;
            }
            path.push_str(&quoted(name));
            if c.peek() == Some('.') {
                path.push_str(c.run(is_path));
            }
        }
        (c.offset() > start).then_some(Cow::Owned(path))
    })
}

/// A name as it stands in a path.
#[must_use]
pub fn quoted(name: &str) -> Cow<'_, str> {
    if !name.is_empty() && name.chars().all(is_ident) { Cow::Borrowed(name) } else { Cow::Owned(format!("`{name}`")) }
}

/// The names of a path, without backticks, each with the path up to and including it.
pub fn steps(path: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut start = Some(0);
    std::iter::from_fn(move || {
        let from = start?;
        let rest = path.get(from..)?;
        let mut is_quoted = false;
        let end = rest.find(|sign| {
            is_quoted ^= sign == '`';
            sign == '.' && !is_quoted
        });
        let part = rest.get(..end.unwrap_or(rest.len()))?;
        start = end.map(|end| from + end + 1);
        let name = part.strip_prefix('`').and_then(|name| name.strip_suffix('`')).unwrap_or(part);
        Some((name, path.get(..from + part.len())?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_name_by_name() {
        for (text, path, names) in [
            ("a.b:1", "a.b", &["a", "b"][..]),
            ("m.`service.name`:x", "m.`service.name`", &["m", "service.name"]),
            ("`a b`.c.`d/e`.f:1", "`a b`.c.`d/e`.f", &["a b", "c", "d/e", "f"]),
            ("m.`level`:x", "m.level", &["m", "level"]),
            ("a.", "a.", &["a", ""]),
        ] {
            let read = read(&mut Cursor::new(text, 0)).unwrap();
            assert_eq!(read, path, "{text}");
            assert_eq!(steps(&read).map(|(name, _)| name).collect::<Vec<_>>(), names, "{text}");
            let paths: Vec<&str> = steps(&read).map(|(_, so_far)| so_far).collect();
            assert!(paths.iter().all(|so_far| read.starts_with(so_far)) && paths.last() == Some(&path), "{paths:?}");
        }
        for text in ["`open", "``:1", "a`b`:1", "`a``b`:1", "`a\nb`:1", ""] {
            assert_eq!(read(&mut Cursor::new(text, 0)), None, "{text}");
        }
    }
}
